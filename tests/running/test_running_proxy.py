"""The command against a real LiteLLM proxy: what was edited since its start, and what it was never told."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from running_kit import run, write

from litellm_registry_hook.edges.registry_file import digest_of
from tests.host.proxy import CALLBACK, MASTER, Proxy
from tests.host.shapes import shipped

pytestmark = pytest.mark.host
SETTLE_S = 10
KIMI_KEY = "sk-kimi-0123456789abcdef"
ENV = {"KIMI_API_KEY": KIMI_KEY, "PAID_API_KEY": "sk-paid-0123456789abcdef"}


def prepare(folder: Path, registry: dict[str, Any]) -> Path:
    """Write the shipped registry's shape and its config, by the generator itself."""
    write(folder, registry)
    assert run(folder).returncode == 0
    return folder


def checked(proxy: Proxy, *words: str, env: dict[str, str] | None = None) -> tuple[int, list[str], str]:
    """Run the check; its lines without the proxy's address."""
    key = {"LITELLM_MASTER_KEY": MASTER}
    done = run(proxy.folder, "--check", "--running", proxy.url, *words, env=key | (env or {}))
    assert KIMI_KEY not in done.stdout + done.stderr
    return done.returncode, [line.replace(f"{proxy.url}: ", "") for line in done.stdout.splitlines()], done.stderr


def settled(proxy: Proxy) -> tuple[int, list[str], str]:
    """Check until the edit of the registry is in force."""
    end = time.monotonic() + SETTLE_S
    while True:
        answer = checked(proxy)
        if not any("registry_older" in line for line in answer[1]) or time.monotonic() > end:
            return answer
        time.sleep(0.1)


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    with Proxy(prepare(tmp_path_factory.mktemp("running"), shipped()), env=ENV) as one:
        yield one


@pytest.fixture(autouse=True)
def as_shipped(proxy: Proxy) -> Iterator[None]:
    yield
    prepare(proxy.folder, shipped())


def unseen(lines: list[str]) -> str:
    return lines[-1].partition(" (")[0]


HIDDEN = "not compared: model_list[kimi@0].litellm_params.api_key, model_list[paid-fallback@0].litellm_params.api_key"


def test_up_to_date(proxy: Proxy) -> None:
    """Nothing differs on the shipped registry, with the keys told as not compared."""
    code, lines, err = settled(proxy)
    digest = digest_of(proxy.folder / "model-registry.yaml")
    assert (code, lines[:-1], err) == (
        0, ["litellm-config.yaml: up to date", f"up to date: 5 deployments, registry {digest}"], "",
    )  # fmt: skip
    assert unseen(lines) == HIDDEN


def test_edited_but_not_restarted(proxy: Proxy) -> None:
    """A new address, a model more and a model less, generated, wait for the restart; the registry itself is in force."""
    registry = shipped()
    kimi = registry["models"][0]
    kimi["litellm"]["api_base"] = "https://kimi.example/v1"
    kimi["timeout_s"] = 9
    registry["models"].append({**kimi, "id": "kimi-2"})
    registry["models"] = [model for model in registry["models"] if model["id"] != "tei-reranker"]
    del registry["routing"]["tiers"]["rerank"]
    registry["gpu_residency_policy"]["never_evict_ids"].remove("tei-reranker")
    registry["gpu_residency_policy"]["co_residency_groups"][0]["ids"].remove("tei-reranker")
    registry["gpu_residency_policy"]["baseline"]["ids"].remove("tei-reranker")
    prepare(proxy.folder, registry)
    code, lines, _ = settled(proxy)
    params = "changed: model_list[kimi@0].litellm_params"
    was = shipped()["models"][0]["litellm"]["api_base"]
    assert (code, lines[:-1]) == (
        1,
        [
            "litellm-config.yaml: up to date",
            f'{params}.api_base: "{was}" -> "https://kimi.example/v1"',
            f"{params}.timeout: (missing) -> 9",
            "not_loaded: the proxy has no deployment kimi-2@0",
            "not_in_registry: the proxy still has deployment tei-reranker@0",
            "4 things not as the registry says; the config is up to date: restart the proxy",
        ],
    )


def test_edited_but_not_generated(proxy: Proxy) -> None:
    """Where the config does not follow the registry either, both steps are named."""
    registry = shipped()
    registry["models"][0]["litellm"]["api_base"] = "https://kimi.example/v1"
    write(proxy.folder, registry)
    code, lines, _ = settled(proxy)
    assert code == 1
    assert lines[-2] == "1 thing not as the registry says; run generate-litellm-config, then restart the proxy"


def test_a_broken_edit_elsewhere(proxy: Proxy, tmp_path: Path) -> None:
    """The proxy's file is broken, the one here is good: what the proxy refuses is told."""
    good = write(tmp_path, shipped()) / "model-registry.yaml"
    path = proxy.folder / "model-registry.yaml"
    path.write_text(path.read_text().replace("version: 1", "version: one"))
    end = time.monotonic() + SETTLE_S
    answer = checked(proxy, "--registry", str(good))
    while not any("registry_refused" in line for line in answer[1]):
        assert time.monotonic() < end, answer
        time.sleep(0.1)
        answer = checked(proxy, "--registry", str(good))
    assert answer[0] == 1
    [line] = [line for line in answer[1] if line.startswith("registry_refused")]
    assert line.startswith(f"registry_refused: the proxy refuses {path} as it stands and goes on with ")
    assert line.endswith(" (mend the file; it is read again at once)")


def test_a_wrong_key(proxy: Proxy) -> None:
    """LiteLLM's own refusal of a key is exit 2 with the fix."""
    code, lines, err = checked(proxy, env={"LITELLM_MASTER_KEY": "sk-wrong-key-0000000001"})
    message = f"the proxy {proxy.url} refuses the key in LITELLM_MASTER_KEY (400)"
    assert (code, lines, err) == (2, [], f"error: {message}: set it to the proxy's master key or an admin's key\n")


def test_a_proxy_without_the_plugin(tmp_path: Path) -> None:
    """A hand-made config: no plugin, a changed address, a model too many and models too few, each told."""
    prepare(tmp_path, shipped())
    config = yaml.safe_load((tmp_path / "litellm-config.yaml").read_text())
    config["litellm_settings"]["callbacks"].remove(CALLBACK)
    config["model_list"] = config["model_list"][:1]
    config["model_list"][0]["litellm_params"]["api_base"] = "http://127.0.0.1:9/v1"
    config["model_list"].append({"model_name": "hand", "litellm_params": {"model": "openai/h", "api_key": KIMI_KEY}})
    proxy = Proxy(tmp_path, env=ENV, args=())
    kept = (tmp_path / "litellm-config.yaml").read_text()
    (tmp_path / "litellm-config.yaml").write_text(yaml.safe_dump(config))
    with proxy:
        (tmp_path / "litellm-config.yaml").write_text(kept)
        code, lines, _ = checked(proxy)
    was = shipped()["models"][0]["litellm"]["api_base"]
    assert code == 1
    assert lines[0] == "litellm-config.yaml: up to date"
    assert lines[1].startswith("plugin_missing: the plugin is not loaded there: tiers are unknown models (400)")
    assert lines[2:-1] == [
        f'changed: model_list[kimi@0].litellm_params.api_base: "http://127.0.0.1:9/v1" -> "{was}"',
        *(f"not_loaded: the proxy has no deployment {name}@0" for name in
          ("local-small", "bge-m3", "tei-reranker", "paid-fallback")),
        "not_in_config: the proxy still has model 'hand', which no config file here lists",
        "7 things not as the registry says; the config is up to date: restart the proxy",
    ]  # fmt: skip
