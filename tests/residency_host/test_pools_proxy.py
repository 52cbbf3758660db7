"""Pools with a remote member, several endpoints, and deployments that the registry does not know, on the 8 GB card."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from ollama_sim.homelab import QUICK, House, small_house
from ollama_sim.scheduler import Sim
from ollama_sim.server import OllamaServer
from ollama_sim.things import SimModel

from tests.host.proxy import Proxy
from tests.host.shapes import chat_model
from tests.residency_host.house_kit import (
    PATIENCE_S,
    answer,
    chat_on,
    emptied,
    headers,
    load_calls,
    message,
    noticed,
    proxy_for,
    real_calls,
    shipped,
    streaming,
)
from tests.upstreams import Upstream

TWIN = SimModel("twin:1b", file_mb=200, vram_mb=300)
STRAY = SimModel("stray:1b", file_mb=200, vram_mb=300)
OPTIONS = {"num_ctx": 4096, "num_batch": 512}
MAX_WAIT_S = 2
HERE = socket.gethostname()


class Home(NamedTuple):
    """A proxy with three Ollama servers.

    Attributes:
        second: shares the card with the house's own. bare: has no GPU. far: a remote member.

    """

    house: House
    second: OllamaServer
    bare: OllamaServer
    far: Upstream
    proxy: Proxy


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory, library: Path) -> Iterator[Home]:
    folder = tmp_path_factory.mktemp("pools")
    with contextlib.ExitStack() as stack:
        house = stack.enter_context(small_house(folder))
        for model in (TWIN, STRAY):
            house.ollama.do(lambda sim, model=model: sim.put(model))
        shared = Sim("0.33.0", [house.card], [TWIN], time.time, QUICK)
        second = stack.enter_context(OllamaServer(shared, thread=house.ollama._thread))
        bare = stack.enter_context(OllamaServer(Sim("0.33.0", [], [TWIN], time.time, QUICK)))
        far = stack.enter_context(Upstream("far"))
        registry = shipped(house)
        twin = chat_on(house.ollama.url, "twin", TWIN.name, 300)
        twin["endpoints"].append({"api_base": second.url})
        ungated = chat_on(bare.url, "ungated", TWIN.name, 300)
        ungated["endpoints"][0]["gpu"] = "none"
        registry["models"] += [twin, ungated, chat_model("far", far.openai_base)]
        registry["routing"]["tiers"]["pool"] = ["second-chat", "far"]
        registry["routing"] |= {"trust_custom_auth": True, "unlisted_models": "allow", "max_wait_s": MAX_WAIT_S}
        foreign = [
            foreign_entry("by-hand", f"ollama_chat/{STRAY.name}", house.ollama.url),
            foreign_entry("side-door", f"openai/{STRAY.name}", f"{house.ollama.url}/v1"),
        ]
        with proxy_for(folder / "proxy", house, library, registry, foreign=foreign) as proxy:
            yield Home(house, second, bare, far, proxy)


def foreign_entry(name: str, model: str, base: str) -> dict[str, Any]:
    return {"model_name": name, "litellm_params": {"model": model, "api_base": base, "api_key": "none"}}


@pytest.fixture
def home(started: Home) -> Iterator[Home]:
    """Only bge-m3 is loaded; at the end Ollama has decided nothing by itself."""
    for server in (started.second, started.bare):
        server.do(lambda sim: sim.unload(TWIN.name))
    started.house.ollama.wait(lambda sim: "bge-m3:latest" in sim.names(), PATIENCE_S)
    emptied(started.house, ("gemma3:4b", "qwen:4b", TWIN.name, STRAY.name), 5192)
    started.far.reset()
    yield started
    for server in (started.house.ollama, started.second):
        assert server.look(lambda sim: (sim.evictions, sim.ooms)) == ([], 0)
    assert started.house.ollama.look(lambda sim: sim.left("bge-m3")) == []


def by_hand(home: Home, server: OllamaServer, name: str) -> None:
    """Load a model past the proxy, as the registry would have it, and wait until the proxy knows."""
    asked = {"model": name, "keep_alive": "1h", "options": OPTIONS, "stream": False}
    assert httpx.post(f"{server.url}/api/generate", json=asked, timeout=10).json()["done_reason"] == "load"
    noticed(home.house)


def test_a_remote_member_serves_while_there_is_no_room(home: Home) -> None:
    """The local member's GPU is in use: the next member serves, and the answer says why the first did not."""
    with home.house.ollama.held("gemma3:4b"), streaming(home.proxy, "local-small"):
        response = home.proxy.chat("pool")
    assert (response.status_code, headers(response)) == (
        200,
        {
            "x-registry-tier": "pool",
            "x-registry-model": "far",
            "x-registry-skipped": "second-chat=gpu_no_headroom",
        },
    )
    assert [call.model for call in home.far.generating_calls] == ["far-up"]
    assert home.house.ollama.look(lambda sim: "qwen:4b" in sim.names()) is False


def test_the_first_member_serves_where_there_is_room(home: Home) -> None:
    """With room the local member is loaded and serves; the remote one is not called."""
    response = home.proxy.chat("pool")
    assert (response.status_code, headers(response)) == (
        200, {"x-registry-tier": "pool", "x-registry-model": "second-chat"},
    )  # fmt: skip
    assert home.far.generating_calls == []


@pytest.mark.parametrize("where", ["first", "second"])
def test_the_endpoint_where_it_is_loaded_comes_first(home: Home, where: str) -> None:
    """Of two endpoints of one model the one where it is loaded is called, whichever stands first."""
    servers = {"first": home.house.ollama, "second": home.second}
    by_hand(home, servers[where], TWIN.name)
    before = {name: len(real_calls(server, TWIN.name)) for name, server in servers.items()}
    loads = {name: server.look(lambda sim: len(sim.loads)) for name, server in servers.items()}
    answers = [home.proxy.chat("twin") for _ in range(3)]
    assert [(one.status_code, headers(one)) for one in answers] == [(200, {"x-registry-model": "twin"})] * 3
    called = {name: len(real_calls(server, TWIN.name)) - before[name] for name, server in servers.items()}
    assert called == {name: 3 if name == where else 0 for name in servers}
    assert loads == {name: server.look(lambda sim: len(sim.loads)) for name, server in servers.items()}


def test_a_wait_beyond_the_limit_is_cut(home: Home) -> None:
    """x-registry-wait of ten minutes waits for routing.max_wait_s; who waited may repeat, so x-should-retry is absent."""
    with home.house.ollama.held("gemma3:4b"), streaming(home.proxy, "local-small"):
        began = time.monotonic()
        response = home.proxy.chat("second-chat", headers={"x-registry-wait": "600"})
        took = time.monotonic() - began
    assert (response.status_code, headers(response)) == (
        503, {"x-registry-skipped": "second-chat=gpu_no_headroom", "retry-after": "5"},
    )  # fmt: skip
    assert MAX_WAIT_S <= took < MAX_WAIT_S + 10, took


def test_a_deployment_that_the_registry_does_not_know_is_never_loaded(home: Home) -> None:
    """A hand-written entry at the registry's Ollama: its size is not known, so it is refused until somebody loads it."""
    refused = home.proxy.chat("by-hand", keep_alive=0, options={"num_ctx": 100})
    assert (refused.status_code, headers(refused), refused.json()["error"]["code"], message(refused)) == (
        503,
        {"x-registry-skipped": "ollama_chat/stray:1b=gpu_no_headroom", "retry-after": "30", "x-should-retry": "false"},
        "gpu_no_headroom",
        "model 'ollama_chat/stray:1b': stray:1b is not in the registry, so its size is not known: "
        "add gpu_residency.vram_mb, or load it by hand",
    )
    assert real_calls(home.house.ollama, STRAY.name) == []
    by_hand(home, home.house.ollama, STRAY.name)
    loads = home.house.ollama.look(lambda sim: len(sim.loads))
    served = home.proxy.chat(
        "by-hand", keep_alive=0, options={"num_ctx": 100}, num_ctx=100, extra_body={"keep_alive": 0}
    )
    assert served.status_code == 200, served.text
    [call] = real_calls(home.house.ollama, STRAY.name)
    assert (call.path, call.keep_alive, call.options) == ("/api/chat", None, {})
    home.house.ollama.wait(lambda sim: sim.runner(STRAY.name).refs == 0)
    assert home.house.ollama.look(lambda sim: (STRAY.name in sim.names(), len(sim.loads))) == (True, loads)


def test_another_provider_at_the_same_server_is_no_way_round(home: Home) -> None:
    """An `openai/` entry whose api_base is the Ollama server's /v1 loads models there too: the same gate."""
    calls = len(home.house.ollama.calls)
    refused = home.proxy.chat("side-door")
    assert (refused.status_code, headers(refused), refused.json()["error"]["code"], message(refused)) == (
        503,
        {"x-registry-skipped": "openai/stray:1b=gpu_no_headroom", "retry-after": "30", "x-should-retry": "false"},
        "gpu_no_headroom",
        "model 'openai/stray:1b': stray:1b is not in the registry, so its size is not known: "
        "add gpu_residency.vram_mb, or load it by hand",
    )
    assert [call.path for call in home.house.ollama.calls[calls:] if call.path.startswith("/v1")] == []


def test_an_endpoint_without_a_gpu_has_no_gate(home: Home) -> None:
    """`gpu: none`: the request itself loads the model, with the registry's options; nothing is asked before."""
    started = len(home.bare.calls)
    loads = home.bare.look(lambda sim: len(sim.loads))
    response = home.proxy.chat("ungated", keep_alive=0)
    assert (response.status_code, headers(response)) == (200, {"x-registry-model": "ungated"})
    sent = [(call.path, call.keep_alive, call.options) for call in home.bare.calls[started:] if call.uses]
    assert sent == [("/api/chat", "5m", OPTIONS)]
    assert (load_calls(home.bare), home.bare.look(lambda sim: len(sim.loads) - loads)) == ([], 1)
