"""A proxy in front of the Ollama stand-in over HTTP, with the NVML stub that follows its card."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import yaml
from nvml.stub import environment
from ollama_sim.homelab import BIG_A, BIG_B, House
from ollama_sim.server import Arrived, OllamaServer

from litellm_registry_hook.residency.view import FRESH_S
from tests.host.proxy import PLAIN, ROOT, Proxy, write_folder
from tests.host.shapes import config_for

# What a promise of seconds may take on a machine that does other things as well.
PATIENCE_S = 60.0
OURS = ("x-registry-tier", "x-registry-model", "x-registry-skipped", "retry-after", "x-should-retry")


def shipped(house: House) -> dict[str, Any]:
    """The shipped registry at a house's servers, with a second chat model."""
    registry = yaml.safe_load((ROOT / "model-registry.yaml").read_text())
    registry["models"].append(
        {
            "id": "second-chat", "role": "chat", "lifecycle": "on-demand", "metered": False,
            "litellm": {"model": "ollama_chat/qwen:4b"}, "endpoints": [{"api_base": house.ollama.url}],
            "gpu_residency": {"vram_mb": 3400, "num_ctx": 4096},
        }
    )  # fmt: skip
    for model in registry["models"]:
        if model["id"] in {"local-small", "bge-m3"}:
            model["endpoints"] = [{"api_base": house.ollama.url}]
        if model["id"] == "tei-reranker":
            assert house.tei is not None
            model["endpoints"] = [{"api_base": house.tei.url, "health_url": f"{house.tei.url}/health"}]
    registry["routing"]["tiers"]["chat"] = ["local-small", "second-chat"]
    return registry


def chat_on(url: str, id: str, name: str, mb: int, **more: Any) -> dict[str, Any]:
    """A chat model of the registry at an Ollama server."""
    return {
        "id": id, "role": "chat", "lifecycle": "on-demand", "metered": False,
        "litellm": {"model": f"ollama_chat/{name}"}, "endpoints": [{"api_base": url}],
        "gpu_residency": {"vram_mb": mb, "num_ctx": 4096}, **more,
    }  # fmt: skip


def embedder_on(url: str) -> dict[str, Any]:
    """bge-m3, pinned."""
    return {
        "id": "bge-m3", "role": "embedder", "lifecycle": "always-on", "metered": False, "dimensions": 1024,
        "litellm": {"model": "ollama/bge-m3"}, "endpoints": [{"api_base": url}],
        "gpu_residency": {"vram_mb": 1200, "never_evict": True},
    }  # fmt: skip


def two_big(house: House, **routing: Any) -> dict[str, Any]:
    """Two 9 GB models and the pinned embedder on the 16 GB card."""
    url = house.ollama.url
    return {
        "version": 1,
        "models": [
            chat_on(url, "big-a", BIG_A.name, 9000), chat_on(url, "big-b", BIG_B.name, 9000), embedder_on(url),
        ],
        "routing": {"tiers": {"a": ["big-a"], "b": ["big-b"], "embed": ["bge-m3"]}, "trust_custom_auth": True, **routing},
        "gpu_residency_policy": {"never_evict_ids": ["bge-m3"]},
    }  # fmt: skip


def proxy_for(
    folder: Path, house: House, library: Path, registry: dict[str, Any], *, foreign: list[dict[str, Any]] | None = None,
    workers: int = 1, env: dict[str, str] | None = None,
) -> Proxy:  # fmt: skip
    """A proxy, not started yet, that sees the house's card through NVML."""
    write_folder(folder, registry, config_for(registry, foreign=foreign))
    return Proxy(folder, workers=workers, env=environment(library, house.nvml.path) | (env or {}))


def within(check: Callable[[], Any], seconds: float = PATIENCE_S) -> Any:
    """Ask until the answer is true, and return it; the last answer where it never is."""
    end = time.monotonic() + seconds
    while not (found := check()) and time.monotonic() < end:
        time.sleep(0.05)
    return found


def answer(response: httpx.Response) -> tuple[int, str]:
    """Status, and who served or why nobody did."""
    if response.status_code < 400:
        return response.status_code, response.headers["x-registry-model"]
    return response.status_code, response.json()["error"]["code"]


def headers(response: httpx.Response) -> dict[str, str]:
    """Our headers on an answer."""
    return {name: response.headers[name] for name in OURS if name in response.headers}


def message(response: httpx.Response) -> str:
    """What a refusal says."""
    return response.json()["error"]["message"]


def body(model: str, **more: Any) -> dict[str, Any]:
    """A chat request."""
    return {"model": model, "messages": [{"role": "user", "content": "hi"}], **more}


def embed(proxy: Proxy, **more: Any) -> httpx.Response:
    """One embedding through the tier."""
    return proxy.post("/v1/embeddings", {"model": "embed", "input": "hello", **more})


@contextlib.contextmanager
def streaming(proxy: Proxy, model: str, **more: Any) -> Iterator[httpx.Response]:
    """A chat stream whose first chunk has come; leaving hangs up."""
    asked = body(model, stream=True, **more)
    auth = {"Authorization": f"Bearer {PLAIN}"}
    with httpx.stream("POST", f"{proxy.url}/v1/chat/completions", json=asked, headers=auth, timeout=60) as one:
        assert one.status_code == 200, one.read()
        yield one


def at_once(proxies: list[Proxy], models: list[str], *, wait_s: float = 0) -> list[httpx.Response]:
    """Ask for all of these at the same time, over the proxies in turn."""
    with gathering(proxies, models, wait_s=wait_s) as futures:
        return [future.result() for future in futures]


@contextlib.contextmanager
def gathering(proxies: list[Proxy], models: list[str], *, wait_s: float = 0) -> Iterator[list[Any]]:
    """As `at_once`, for those who want to look meanwhile."""
    sent = {"Authorization": f"Bearer {PLAIN}"} | ({"x-registry-wait": str(wait_s)} if wait_s else {})
    with httpx.Client(limits=httpx.Limits(max_connections=None), timeout=120) as client, ThreadPoolExecutor(64) as pool:

        def ask(number: int) -> httpx.Response:
            url = proxies[number % len(proxies)].url
            return client.post(f"{url}/v1/chat/completions", json=body(models[number]), headers=sent)

        yield [pool.submit(ask, number) for number in range(len(models))]


def real_calls(ollama: OllamaServer, model: str) -> list[Arrived]:
    """Calls that used a model, without those that only load or unload it."""
    return [call for call in ollama.uses if call.model.removesuffix(":latest") == model and not call.empty]


def load_calls(ollama: OllamaServer) -> list[Arrived]:
    """Calls that only load."""
    return [call for call in ollama.uses if call.empty and call.keep_alive != 0]


def one_at_a_time(ollama: OllamaServer) -> bool:
    """Whether each load was asked for when the one before had ended."""
    loads = ollama.look(lambda sim: [load for load in sim.loads])
    asked = [call.at for call in load_calls(ollama)]
    return all(
        sum(load.begin < at and (load.end is None or load.end > at + 0.001) for load in loads) == 0 for at in asked
    )


def noticed(house: House, *, by_all: bool = False) -> None:
    """Wait until the proxy has seen the servers as they are now.

    One worker: a look that began after this moment has ended. Several (`by_all`): who looks cannot be told apart, so
    until whatever was read before this moment is too old to be counted on.
    """
    now = time.time()

    def looks(_: Any) -> bool:
        if by_all:
            return time.time() > now + FRESH_S
        return sum(call.path == "/api/ps" and call.at > now for call in house.ollama.calls) >= 2

    house.ollama.wait(looks, PATIENCE_S)


def emptied(house: House, names: tuple[str, ...], free_mb: float, *, by_all: bool = False) -> None:
    """Unload by hand, and wait until the memory is back and the proxy knows."""
    before = house.ollama.look(lambda sim: (sim.names(), sim.cards[0].free_mb))
    for name in names:
        house.ollama.do(lambda sim, name=name: sim.unload(name))
    if before != (["bge-m3:latest"], free_mb):
        house.ollama.wait(lambda sim: sim.names() == ["bge-m3:latest"] and sim.cards[0].free_mb == free_mb)
        noticed(house, by_all=by_all)


def children(pid: int) -> list[int]:
    """Pids of the processes below one, the nearest first."""
    found: list[int] = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                stat = Path(f"/proc/{entry}/stat").read_text()
                if int(stat.rpartition(")")[2].split()[1]) == pid:
                    found.append(int(entry))
    return found + [further for child in found for further in children(child)]
