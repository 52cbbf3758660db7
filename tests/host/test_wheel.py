"""The wheel works from outside the source tree."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest
import yaml

from tests.host.proxy import MASTER, ROOT, Proxy, clean_env
from tests.host.shapes import registry_for
from tests.upstreams import Upstream


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A venv with the wheel in it, on top of this venv's other packages; yields its bin folder."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder / "dist"), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    [wheel] = (folder / "dist").iterdir()
    venv.create(folder / "venv", with_pip=True)
    binaries = folder / "venv" / "bin"
    # The packages beside us, without the .pth of the source tree: a .pth inside an added folder is not read.
    [site] = (folder / "venv" / "lib").glob("python*/site-packages")
    (site / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    subprocess.run([binaries / "python", "-m", "pip", "install", "-q", "--no-deps", str(wheel)], check=True)
    script = binaries / "litellm"
    script.write_text(f"#!{binaries / 'python'}\nimport sys\nfrom litellm import run_server\nsys.exit(run_server())\n")
    script.chmod(0o755)
    return binaries


def test_proxy_in_a_folder_with_two_files(installed: Path, ups: dict[str, Upstream], tmp_path: Path) -> None:
    """From a registry alone the installed generator writes the config, and the proxy serves its tiers."""
    registry = registry_for(ups)
    (tmp_path / "model-registry.yaml").write_text(yaml.safe_dump(registry, sort_keys=False))

    made = subprocess.run(
        [installed / "generate-litellm-config"], cwd=tmp_path, env=clean_env(), capture_output=True, text=True
    )
    assert made.returncode == 0, made.stderr
    assert sorted(one.name for one in tmp_path.iterdir()) == ["litellm-config.yaml", "model-registry.yaml"]
    home = subprocess.run(
        [installed / "python", "-c", "import litellm_registry_hook as r; print(r.__file__)"],
        cwd=tmp_path, env=clean_env(), capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert str(installed.parent) in home

    with Proxy(tmp_path, python=str(installed / "python")) as proxy:
        chat = proxy.chat("large", key=MASTER)
        small = proxy.chat("small", key=MASTER, keep_alive=0, num_ctx=99999)
        embed = proxy.post("/v1/embeddings", {"model": "embedder", "input": "x"}, key=MASTER)
        rerank = proxy.post("/v1/rerank", {"model": "rerank", "query": "a", "documents": ["a"]}, key=MASTER)
        paid = proxy.chat("paid-fallback", key=MASTER, headers={"x-registry-allow-metered": "true"})
        health = proxy.get("/health", key=MASTER).json()

    assert [one.headers.get("x-registry-model") for one in (chat, small, embed, rerank)] == [
        "kimi", "local-small", "bge-m3", "tei-reranker",
    ]  # fmt: skip
    assert (paid.status_code, paid.json()["error"]["code"]) == (403, "metered_key_not_opted_in")
    # The registry's runner options reach Ollama, whatever the client sent; a never-evict model stays.
    [said, embedded] = ups["ollama"].generating_calls
    assert (said.json["keep_alive"], said.json["options"]) == ("5m", {"num_ctx": 4096, "num_batch": 512})
    assert (embedded.json["keep_alive"], embedded.json["options"]["num_batch"]) == (-1, 512)
    # /health may ask the two free models that are on anyway, and loads nothing.
    assert sorted(one["model"] for one in health["healthy_endpoints"]) == ["openai/kimi-up", "openai/mid-up"]
    assert [len(ups[name].generating_calls) for name in ("kimi", "mid", "tei")] == [2, 1, 1]
