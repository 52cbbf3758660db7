"""From running servers to answers through the proxy, in three commands, as docs/init.md writes them."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from nvml.stub import environment
from ollama_sim.homelab import small_house

from litellm_registry_hook import load_registry
from tests.host.proxy import clean_env, free_port
from tests.start.init_kit import Stand, ollama_routes

ROOT = Path(__file__).resolve().parents[2]
KEY = "sk-init-master-key-000001"
THREE = re.search(r"```sh\n(litellm-registry init --ollama .*?)```", (ROOT / "docs/init.md").read_text(), re.DOTALL)


def openai_routes() -> dict[str, Any]:
    """A vLLM with a chat model and a TEI-like embedding model beside it."""

    def chat(body: Any) -> Any:
        message = {"role": "assistant", "content": "from vllm"}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
        return {
            "id": "1",
            "object": "chat.completion",
            "created": 1,
            "model": body["model"],
            "choices": [choice],
            "usage": usage,
        }

    listed = {"object": "list", "data": [{"id": "Qwen/Qwen3-32B", "object": "model", "max_model_len": 32768}]}
    return {"/v1/models": listed, "/v1/chat/completions": chat}


def tei_embedder_routes() -> dict[str, Any]:
    """A TEI with an embedding model."""

    def embed(body: Any) -> Any:
        texts = body["input"] if isinstance(body["input"], list) else [body["input"]]
        data = [{"object": "embedding", "index": n, "embedding": [0.5] * 384} for n, _ in enumerate(texts)]
        return {
            "object": "list",
            "data": data,
            "model": body["model"],
            "usage": {"prompt_tokens": 1, "total_tokens": 1},
        }

    told = {
        "model_id": "BAAI/bge-small-en-v1.5",
        "model_type": {"embedding": {"pooling": "cls"}},
        "max_input_length": 512,
    }
    return {"/info": told, "/health": b"", "/v1/embeddings": embed}


@contextlib.contextmanager
def serving(command: str, folder: Path, env: dict[str, str], port: int) -> Iterator[str]:
    """Run a command line that ends in a proxy, until it answers; then its address."""
    log = folder / "proxy.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            ["sh", "-c", command], cwd=folder, env=env, stdout=out, stderr=out, start_new_session=True
        )
    url = f"http://127.0.0.1:{port}"
    try:
        end = time.monotonic() + 180
        while True:
            assert process.poll() is None and time.monotonic() < end, log.read_text(errors="replace")[-4000:]
            with contextlib.suppress(httpx.HTTPError):
                if httpx.get(f"{url}/health/liveliness", timeout=2).status_code == 200:
                    break
            time.sleep(0.1)
        yield url
    finally:
        for sig in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(process.pid, sig)
                process.wait(10)


def test_three_commands_make_a_proxy_that_answers_in_every_tier(tmp_path: Path, library: Path) -> None:
    """init looks and loads nothing; generate and serve follow; each proposed tier answers, the paid one only refuses."""
    assert THREE is not None
    folder = tmp_path / "empty"
    folder.mkdir()
    cloud = ollama_routes({"gpt-oss:120b-cloud": {"remote": True, "size": 0, "digest": "cc"}})
    with (
        small_house(tmp_path) as house,
        Stand(cloud) as paid,
        Stand(openai_routes()) as vllm,
        Stand(tei_embedder_routes()) as tei,
    ):
        port = free_port()
        here = {
            "http://gpu-box:11434": house.ollama.url,
            "http://gpu-box:8080": house.tei.url,
            "http://gpu-box:8000": vllm.url,
        }
        block = THREE[1]
        for there, url in here.items():
            assert there in block
            block = block.replace(there, url)
        one, two, three = (line for line in block.replace("\\\n", " ").splitlines() if line.strip())
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        env = clean_env() | environment(library, house.nvml.path)
        env |= {"PATH": path, "LITELLM_MASTER_KEY": KEY, "HOME": str(tmp_path)}
        env["LITELLM_REGISTRY_STATE"] = f"sqlite:///{tmp_path}/state.sqlite"

        more = f" --ollama {paid.url} --tei {tei.url}"
        done = subprocess.run(
            ["sh", "-c", one + more], cwd=folder, env=env, capture_output=True, text=True, timeout=120
        )
        assert (done.returncode, done.stderr) == (0, "")

        # Looking loaded nothing, used nothing and paid nothing.
        assert house.ollama.uses == [] and house.ollama.look(lambda sim: sim.names()) == []
        assert {call.path for call in house.ollama.calls} == {"/api/version", "/api/tags", "/api/ps", "/api/show"}
        assert paid.calls == ["GET /api/version", "GET /api/tags", "GET /api/ps"]
        assert [call for call in vllm.calls + tei.calls if call.startswith("POST")] == []
        assert house.tei.reranks == []

        registry = load_registry(folder / "model-registry.yaml")
        assert dict(registry.routing.tiers) == {
            "large": ("Qwen/Qwen3-32B",),
            "small": ("qwen:4b", "gemma3:4b"),
            "embed": ("bge-m3",),
            "rerank": ("BAAI/bge-reranker-v2-m3",),
            "paid": ("gpt-oss:120b-cloud",),
            "embed-BAAI/bge-small-en-v1.5": ("BAAI/bge-small-en-v1.5",),
        }
        assert registry.gpu_residency_policy.never_evict_ids == ("bge-m3", "BAAI/bge-reranker-v2-m3")
        assert {key: size.total_mb for key, size in registry.gpu_residency_policy.gpus.items()} == {
            "GPU-stub-1070": 8192
        }

        done = subprocess.run(["sh", "-c", two], cwd=folder, env=env, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        config = yaml.safe_load((folder / "litellm-config.yaml").read_text())
        assert sorted(entry["model_name"] for entry in config["model_list"]) == sorted(registry.by_id)

        with (
            serving(f"exec {three.strip()} --port {port}", folder, env, port) as url,
            httpx.Client(
                base_url=url, headers={"Authorization": f"Bearer {KEY}", "x-registry-wait": "20"}, timeout=60
            ) as client,
        ):
            said = [{"role": "user", "content": "hi"}]
            large = client.post("/v1/chat/completions", json={"model": "large", "messages": said})
            embed = client.post("/v1/embeddings", json={"model": "embed", "input": "hi"})
            other = client.post("/v1/embeddings", json={"model": "embed-BAAI/bge-small-en-v1.5", "input": "hi"})
            rerank = client.post("/v1/rerank", json={"model": "rerank", "query": "q", "documents": ["a", "b"]})
            small = client.post("/v1/chat/completions", json={"model": "small", "messages": said})
            cloudy = client.post("/v1/chat/completions", json={"model": "paid", "messages": said})
            got = [
                (answer.status_code, answer.headers.get("x-registry-model"))
                for answer in (large, embed, other, rerank, small)
            ]
            log = (folder / "proxy.log").read_text(errors="replace")[-3000:]
            assert got == [
                (200, "Qwen/Qwen3-32B"),
                (200, "bge-m3"),
                (200, "BAAI/bge-small-en-v1.5"),
                (200, "BAAI/bge-reranker-v2-m3"),
                (200, small.headers.get("x-registry-model")),
            ], [large.text, embed.text, other.text, rerank.text, small.text, log]
            assert small.headers["x-registry-model"] in ("qwen:4b", "gemma3:4b")
            assert (cloudy.status_code, cloudy.json()["error"]["code"]) == (403, "metered_consent_missing")
            assert (len(embed.json()["data"][0]["embedding"]), len(other.json()["data"][0]["embedding"])) == (1024, 384)
            assert house.tei.reranks[0]["texts"] == ["a", "b"]
            assert "bge-m3:latest" in house.ollama.look(lambda sim: sim.names())
            assert [call for call in paid.calls if call.startswith("POST")] == []


@pytest.mark.parametrize("more", ["", " --gpu-total 8192"])
def test_without_nvml_the_proxy_answers_as_well(more: str, tmp_path: Path) -> None:
    """Nobody knows the GPU's size, or a person tells it: cold models are loaded and answer."""
    folder = tmp_path / "empty"
    folder.mkdir()
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = clean_env() | {"PATH": path, "LITELLM_MASTER_KEY": KEY, "HOME": str(tmp_path)}
    env["LITELLM_REGISTRY_STATE"] = f"sqlite:///{tmp_path}/state.sqlite"
    with small_house(tmp_path) as house:
        port = free_port()
        command = f"litellm-registry init --yes --ollama {house.ollama.url} --tei {house.tei.url}{more}"
        command += f" && generate-litellm-config && exec litellm-registry serve --port {port}"
        headers = {"Authorization": f"Bearer {KEY}", "x-registry-wait": "20"}
        with (
            serving(command, folder, env, port) as url,
            httpx.Client(base_url=url, headers=headers, timeout=60) as client,
        ):
            said = [{"role": "user", "content": "hi"}]
            answers = [
                client.post("/v1/embeddings", json={"model": "embed", "input": "hi"}),
                client.post("/v1/rerank", json={"model": "rerank", "query": "q", "documents": ["a", "b"]}),
                client.post("/v1/chat/completions", json={"model": "large", "messages": said}),
                client.post("/v1/chat/completions", json={"model": "small", "messages": said}),
            ]
            assert [answer.status_code for answer in answers] == [200] * 4, [answer.text for answer in answers]
            assert [answer.headers["x-registry-tier"] for answer in answers] == ["embed", "rerank", "large", "small"]
        stay = load_registry(folder / "model-registry.yaml").gpu_residency_policy.never_evict_ids
        assert stay == (("bge-m3", "BAAI/bge-reranker-v2-m3") if more else ())
