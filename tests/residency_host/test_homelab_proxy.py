"""The shipped registry and a second chat model on the 8 GB card, through a real proxy."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from ollama_sim.homelab import QWEN, TEI_MB, House, small_house

from litellm_registry_hook.edges.store.place import open_state
from tests.host.proxy import PLAIN, Proxy
from tests.residency_host.house_kit import (
    PATIENCE_S,
    answer,
    body,
    embed,
    emptied,
    gathering,
    headers,
    message,
    noticed,
    proxy_for,
    real_calls,
    shipped,
    streaming,
    within,
)

Home = tuple[House, Proxy]
CHAT = {"num_ctx": 4096, "num_batch": 512}
PULLS = {
    "keep_alive 0": {"keep_alive": 0},
    "in options": {"options": {"keep_alive": 0, "num_ctx": 8192, "num_gpu": 0}},
    "in extra_body": {"extra_body": {"keep_alive": "5m", "options": {"num_ctx": 1024}}, "num_ctx": 100, "num_batch": 7},
}
ROUTES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": body("small"),
    "/v1/completions": {"model": "small", "prompt": "hi"},
    "/v1/messages": body("small", max_tokens=10),
    "/v1/responses": {"model": "small", "input": "hi"},
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, library: Path) -> Iterator[Home]:
    folder = tmp_path_factory.mktemp("homelab")
    with small_house(folder) as house:
        registry = shipped(house)
        registry["routing"]["trust_custom_auth"] = True
        with proxy_for(folder / "proxy", house, library, registry) as proxy:
            yield house, proxy


@pytest.fixture
def calm(home: Home) -> Iterator[Home]:
    """bge-m3 is loaded; at the end Ollama has decided nothing by itself and the reranker is there."""
    house, _ = home
    house.ollama.wait(lambda sim: "bge-m3:latest" in sim.names(), PATIENCE_S)
    before = house.ollama.look(lambda sim: len(sim.events))
    yield home
    decided = house.ollama.look(lambda sim: [one for one in sim.events[before:] if one.kind in {"evict", "oom"}])
    assert (decided, house.card.uses["tei"]) == ([], TEI_MB)


@pytest.fixture
def kept(calm: Home) -> Iterator[Home]:
    """And bge-m3 was never gone."""
    house, _ = calm
    before = house.ollama.look(lambda sim: len(sim.left("bge-m3")))
    yield calm
    assert house.ollama.look(lambda sim: sim.left("bge-m3")[before:]) == []


@pytest.fixture
def empty(kept: Home) -> Home:
    """And no chat model is loaded."""
    emptied(kept[0], ("gemma3:4b", "qwen:4b"), 5192)
    return kept


def loads_since(house: House, before: int) -> list[str]:
    loads = house.ollama.look(lambda sim: sim.loads[before:])
    assert [load.ok for load in loads] == [True] * len(loads)
    return [load.model for load in loads]


def test_each_of_the_three_is_served(empty: Home) -> None:
    """Embedding, chat and rerank are served side by side on the card of the shipped figures."""
    house, proxy = empty
    before = house.ollama.look(lambda sim: len(sim.loads))
    answers = [embed(proxy), proxy.chat("small"), proxy.post(
        "/v1/rerank", {"model": "rerank", "query": "a", "documents": ["x", "y"]}
    )]  # fmt: skip
    assert [(one.status_code, headers(one)) for one in answers] == [
        (200, {"x-registry-tier": "embed", "x-registry-model": "bge-m3"}),
        (200, {"x-registry-tier": "small", "x-registry-model": "local-small"}),
        (200, {"x-registry-tier": "rerank", "x-registry-model": "tei-reranker"}),
    ]
    assert loads_since(house, before) == ["gemma3:4b"]
    assert house.tei is not None
    assert [call["texts"] for call in house.tei.reranks] == [["x", "y"]]


@pytest.mark.parametrize("how", ["expired", "unloaded by hand"])
def test_a_chat_model_that_left_is_loaded_again(empty: Home, how: str) -> None:
    """gemma3:4b that has expired, or was stopped by hand, is loaded again beside bge-m3."""
    house, proxy = empty
    before = house.ollama.look(lambda sim: len(sim.loads))
    assert answer(proxy.chat("small")) == (200, "local-small")
    if how == "expired":
        asked = {"model": "gemma3:4b", "keep_alive": "4s", "options": CHAT, "stream": False}
        assert httpx.post(f"{house.ollama.url}/api/generate", json=asked, timeout=10).json()["done_reason"] == "load"
        noticed(house)
    else:
        emptied(house, ("gemma3:4b",), 5192)
    house.ollama.wait(lambda sim: sim.names() == ["bge-m3:latest"] and sim.cards[0].free_mb == 5192)
    again = proxy.chat("small")
    assert (again.status_code, headers(again)) == (
        200, {"x-registry-tier": "small", "x-registry-model": "local-small"},
    )  # fmt: skip
    assert loads_since(house, before) == ["gemma3:4b", "gemma3:4b"]


def test_two_chat_models_take_turns_by_our_swaps(empty: Home) -> None:
    """Alternating chat models are all served: each swap is an unload of ours, and nothing else leaves."""
    house, proxy = empty
    before = house.ollama.look(lambda sim: len(sim.loads))
    started = len(house.ollama.calls)
    turns = ["local-small", "second-chat"] * 3
    assert [answer(proxy.chat(model)) for model in turns] == [(200, model) for model in turns]
    assert loads_since(house, before) == ["gemma3:4b", "qwen:4b"] * 3
    unloads = [call.model for call in house.ollama.calls[started:] if call.empty and call.keep_alive == 0]
    assert unloads == ["gemma3:4b", "qwen:4b", "gemma3:4b", "qwen:4b", "gemma3:4b"]
    embedded = [embed(proxy).status_code for _ in range(3)]
    assert embedded == [200, 200, 200]


def test_a_stream_keeps_its_model_until_it_ends(kept: Home) -> None:
    """A model with a stream in flight is no victim: 503 with the numbers; afterwards it goes."""
    house, proxy = kept
    before = house.ollama.look(lambda sim: len(sim.loads))
    with contextlib.ExitStack() as stack:
        stack.enter_context(house.ollama.held("gemma3:4b"))
        stack.enter_context(streaming(proxy, "small"))
        refused = proxy.chat("second-chat")
        assert (refused.status_code, headers(refused), refused.json()["error"]["code"]) == (
            503,
            {"x-registry-skipped": "second-chat=gpu_no_headroom", "retry-after": "5", "x-should-retry": "false"},
            "gpu_no_headroom",
        )
        assert message(refused) == (
            "model 'second-chat': second-chat does not fit GPU-stub-1070 on "
            f"{socket.gethostname()} (NVML): 3400 MB needed, 1892 MB free - 300 reserve - 0 never-evict not resident - 0 "
            "loads in flight = 1592 MB; in use and not unloaded: local-small (1 in flight); wait for them"
        )
        began = time.monotonic()
        waited = proxy.chat("second-chat", headers={"x-registry-wait": "1"})
        assert (waited.status_code, headers(waited), time.monotonic() - began >= 1) == (
            503, {"x-registry-skipped": "second-chat=gpu_no_headroom", "retry-after": "5"}, True,
        )  # fmt: skip
        assert message(waited) == message(refused)
        assert house.ollama.look(lambda sim: "gemma3:4b" in sim.names())
    served = proxy.chat("second-chat", headers={"x-registry-wait": "20"})
    assert answer(served) == (200, "second-chat")
    assert loads_since(house, before)[-1:] == ["qwen:4b"]


@pytest.mark.parametrize("pull", PULLS)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("route", ROUTES)
def test_a_chat_call_carries_the_registrys_options(kept: Home, route: str, stream: bool, pull: str) -> None:
    """On every route keep_alive and the runner options are the registry's, whatever the client sends."""
    house, proxy = kept
    assert answer(proxy.chat("small")) == (200, "local-small")
    before, started = house.ollama.look(lambda sim: len(sim.loads)), len(house.ollama.calls)
    more = {"stream": True} if stream else {}
    response = proxy.post(route, {**ROUTES[route], **more, **PULLS[pull]})
    assert (response.status_code, headers(response)) == (
        200, {"x-registry-tier": "small", "x-registry-model": "local-small"},
    )  # fmt: skip
    options = {"num_predict": 10, **CHAT} if route == "/v1/messages" else CHAT
    sent = [
        (call.path, call.model, call.keep_alive, call.options) for call in house.ollama.calls[started:] if call.uses
    ]
    assert sent == [("/api/chat", "gemma3:4b", "5m", options)]
    assert loads_since(house, before) == []


@pytest.mark.parametrize("pull", PULLS)
def test_an_embedding_call_keeps_the_pin(kept: Home, pull: str) -> None:
    """A client's keep_alive does not reach bge-m3: every call pins it again."""
    house, proxy = kept
    started = len(house.ollama.calls)
    response = embed(proxy, **PULLS[pull])
    assert (response.status_code, headers(response)) == (
        200, {"x-registry-tier": "embed", "x-registry-model": "bge-m3"},
    )  # fmt: skip
    sent = [
        (call.path, call.model, call.keep_alive, call.options) for call in house.ollama.calls[started:] if call.uses
    ]
    assert sent == [("/api/embed", "bge-m3", -1, {"num_batch": 512})]


def test_a_pin_that_somebody_took_off_is_set_again(kept: Home) -> None:
    """A program that talks to Ollama directly and un-pins bge-m3: the background pins it again, and says so."""
    house, proxy = kept

    def until(sim: Any) -> float:
        return next(one.expires_at for one in sim.ps() if one.name == "bge-m3:latest")

    said = proxy.log.count("is loaded without a pin")
    asked = {"model": "bge-m3", "input": "x", "keep_alive": "5m", "options": {"num_batch": 512}}
    assert httpx.post(f"{house.ollama.url}/api/embed", json=asked, timeout=10).status_code == 200
    soon = time.time() + 3600
    assert house.ollama.look(lambda sim: until(sim) < soon)
    assert within(lambda: house.ollama.look(lambda sim: until(sim) > soon))
    line = f"never-evict model bge-m3:latest at {house.ollama.url} is loaded without a pin; keep_alive -1 is set"
    assert within(lambda: proxy.log.count(line) == said + 1)
    assert real_calls(house.ollama, "bge-m3")[-1].keep_alive == "5m"


def test_a_never_evict_model_that_was_unloaded_comes_back(calm: Home) -> None:
    """A program that unloads bge-m3: the background loads it again without a request, pinned, and says so."""
    house, proxy = calm
    before = house.ollama.look(lambda sim: len(sim.loads))
    house.ollama.do(lambda sim: sim.unload("bge-m3"))
    assert house.ollama.look(lambda sim: "bge-m3:latest" in sim.names()) is False
    assert within(lambda: house.ollama.look(lambda sim: "bge-m3:latest" in sim.names()))
    assert loads_since(house, before) == ["bge-m3:latest"]
    assert house.ollama.look(lambda sim: sim.ps()[0].expires_at > time.time() + 1e9)
    where = f"never-evict model bge-m3:latest at {house.ollama.url}"
    for line in (f"{where} is not loaded; it is loaded as soon as it fits", f"{where} is loaded again"):
        assert within(lambda line=line: line in proxy.log), line
    assert answer(embed(proxy)) == (200, "bge-m3")


@pytest.fixture
def slow(empty: Home) -> Iterator[Home]:
    """And a load of qwen:4b takes two seconds."""
    empty[0].ollama.do(lambda sim: sim.put(replace(QWEN, load_s=2)))
    yield empty
    empty[0].ollama.do(lambda sim: sim.put(QWEN))


def hanging(proxy: Proxy, model: str, extra: str = "") -> socket.socket:
    """Send a chat request and return its connection, which the caller closes when it likes."""
    text = json.dumps(body(model))
    connection = socket.create_connection(("127.0.0.1", proxy.port), timeout=30)
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {PLAIN}\r\n{extra}"
    lengths = f"Content-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n"
    connection.sendall((head + lengths + text).encode())
    return connection


def waiting(proxy: Proxy) -> list[Any]:
    """Requests that stand in line for the card."""
    state = open_state({}, proxy.env["LITELLM_REGISTRY_STATE"])
    try:
        return state.ledger.rows(f"gpu-wait:{socket.gethostname()}")
    finally:
        state.close()


@pytest.mark.parametrize("others", [0, 2], ids=["alone", "with others"])
def test_a_client_that_hangs_up_in_a_load_does_not_abort_it(slow: Home, others: int) -> None:
    """The load that a gone client's request began ends well, for those who joined it and those who come after."""
    house, proxy = slow
    before = house.ollama.look(lambda sim: len(sim.loads))
    first = hanging(proxy, "second-chat")
    house.ollama.wait(lambda sim: len(sim.loads) == before + 1, PATIENCE_S)
    with gathering([proxy], ["second-chat"] * others) as joined:
        first.close()
        answers = [answer(future.result()) for future in joined]
    house.ollama.wait(lambda sim: sim.loads[-1].ok is not None)
    assert answers == [(200, "second-chat")] * others
    assert answer(proxy.chat("second-chat")) == (200, "second-chat")
    assert loads_since(house, before) == ["qwen:4b"]


def test_a_request_whose_client_has_gone_starts_no_load(empty: Home) -> None:
    """A request that waited for room leaves the line when its client hangs up: nothing is unloaded or loaded for it."""
    house, proxy = empty
    assert answer(proxy.chat("small")) == (200, "local-small")
    before = house.ollama.look(lambda sim: len(sim.events))
    with house.ollama.held("gemma3:4b"), streaming(proxy, "small"):
        with hanging(proxy, "second-chat", "x-registry-wait: 30\r\n"):
            assert len(within(lambda: waiting(proxy))) == 1
        assert within(lambda: waiting(proxy) == [], 20)
    noticed(house)
    assert answer(proxy.chat("small")) == (200, "local-small")
    kinds = house.ollama.look(lambda sim: [one.kind for one in sim.events[before:]])
    assert set(kinds) == {"use", "finish"}
    assert answer(proxy.chat("second-chat")) == (200, "second-chat")
