"""Fifty requests at once for two 9 GB models on the 16 GB card, with several workers, and with two hosts on one Redis."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from ollama_sim.homelab import BIG_A, BIG_B, House, large_house

from litellm_registry_hook.edges.store.place import open_state
from tests.host.proxy import Proxy
from tests.residency_host.house_kit import (
    PATIENCE_S,
    answer,
    at_once,
    children,
    emptied,
    gathering,
    headers,
    load_calls,
    message,
    one_at_a_time,
    proxy_for,
    real_calls,
    two_big,
    within,
)
from tests.state.valkey import Valkey

MIXED = ["big-a", "big-b"] * 25
BIG = {"big-a": BIG_A.name, "big-b": BIG_B.name}
CLAIM_LIFE_S = 10
SIZED = re.compile(r"9000 MB")
# Every way to say no to the second model, each with its size: in use, on its way, about to be, or not our turn.
WHY = (
    "in use and not unloaded: ",
    " waits for a load in flight, ",
    " would have to go and has ",
    "wait for the loads in flight",
)


class Crowd(NamedTuple):
    """A house and the proxies in front of it."""

    house: House
    proxies: list[Proxy]
    state: str


@pytest.fixture(scope="module")
def crowd(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, library: Path) -> Iterator[Crowd]:
    folder = tmp_path_factory.mktemp("crowd")
    with contextlib.ExitStack() as stack:
        house = stack.enter_context(large_house(folder))
        if request.param == "redis":
            state, workers = stack.enter_context(Valkey(folder)).url, [1, 1]
        else:
            state, workers = f"sqlite:///{folder}/state.sqlite", [request.param]
        proxies = [
            proxy_for(folder / str(n), house, library, two_big(house), workers=count, env={"LITELLM_REGISTRY_STATE": state})
            for n, count in enumerate(workers)
        ]  # fmt: skip
        for proxy in proxies:
            proxy.start()
            stack.callback(proxy.stop)
        for proxy in proxies:
            patiently(proxy)
        house.ollama.wait(lambda sim: sim.names() == ["bge-m3:latest"], PATIENCE_S)
        yield Crowd(house, proxies, state)


def patiently(proxy: Proxy) -> None:
    """Wait for its start; four workers that import LiteLLM at once may need twice the time that one gets."""
    try:
        proxy.wait()
    except AssertionError:
        if proxy.process is None or proxy.process.poll() is not None:
            raise
        proxy.wait()


@pytest.fixture
def alone(crowd: Crowd) -> Iterator[Crowd]:
    """Only bge-m3 is loaded; at the end it never left, Ollama has decided nothing, and nothing is booked any more."""
    ollama = crowd.house.ollama
    emptied(crowd.house, tuple(BIG.values()), 16384 - 1200, by_all=True)
    yield crowd
    assert ollama.look(lambda sim: (sim.evictions, sim.ooms, sim.left("bge-m3"))) == ([], 0, [])
    assert within(lambda: rows(crowd) == []), rows(crowd)


def rows(crowd: Crowd) -> list[Any]:
    """Loads, fences and waiting requests in the state."""
    state = open_state({}, crowd.state)
    try:
        kinds = ("gpu-claim", "gpu-fence", f"gpu-wait:{socket.gethostname()}")
        return [row for kind in kinds for row in state.ledger.rows(kind)]
    finally:
        state.close()


def big_loads(crowd: Crowd, before: int) -> list[str]:
    loads = crowd.house.ollama.look(lambda sim: sim.loads[before:])
    assert [load.ok for load in loads] == [True] * len(loads)
    return [load.model for load in loads]


@pytest.mark.parametrize("crowd", [1, 2, 4, "redis"], indirect=True)
def test_nobody_waits_so_one_model_is_loaded_once(alone: Crowd) -> None:
    """While one model is in use the other is refused with the numbers; all 25 requests for the first join one load."""
    ollama = alone.house.ollama
    before, started = ollama.look(lambda sim: len(sim.loads)), len(ollama.calls)
    with contextlib.ExitStack() as held:
        for name in BIG.values():
            held.enter_context(ollama.held(name))
        with gathering(alone.proxies, MIXED) as futures:
            assert within(lambda: sum(future.done() for future in futures) >= 25)
            held.close()
            answers = [future.result() for future in futures]
    first = next(model for model, one in zip(MIXED, answers, strict=True) if one.status_code == 200)
    other = "big-b" if first == "big-a" else "big-a"
    assert Counter(map(answer, answers)) == {(200, first): 25, (503, "gpu_no_headroom"): 25}
    refused = [one for one in answers if one.status_code == 503]
    assert all(headers(one)["x-registry-skipped"] == f"{other}=gpu_no_headroom" for one in refused)
    assert all(headers(one)["x-should-retry"] == "false" for one in refused)
    assert all(1 <= int(headers(one)["retry-after"]) <= 20 for one in refused)
    said = [message(one) for one in refused]
    assert [text for text in said if not (SIZED.search(text) and any(why in text for why in WHY))] == []
    assert big_loads(alone, before) == [BIG[first]]
    assert (len(load_calls(ollama)[before:]), len(real_calls(ollama, BIG[first])) >= 25) == (1, True)
    assert [call.path for call in ollama.calls[started:] if call.uses and call.model == BIG[other]] == []


@pytest.mark.parametrize("crowd", [1, 2, 4, "redis"], indirect=True)
def test_everybody_waits_so_all_are_served(alone: Crowd) -> None:
    """With x-registry-wait all fifty are served, one load at a time, and no model is loaded again and again."""
    ollama = alone.house.ollama
    before = ollama.look(lambda sim: len(sim.loads))
    answers = at_once(alone.proxies, MIXED, wait_s=30)
    assert Counter(map(answer, answers)) == {(200, "big-a"): 25, (200, "big-b"): 25}
    assert [set(headers(one)) for one in answers] == [{"x-registry-model"}] * 50
    loaded = big_loads(alone, before)
    assert set(loaded) == set(BIG.values())
    assert 2 <= len(loaded) <= 4
    assert one_at_a_time(ollama)


@pytest.mark.parametrize("crowd", [2], indirect=True)
def test_a_worker_that_dies_in_a_load_blocks_nobody_for_long(alone: Crowd) -> None:
    """Killed in the middle of its load, a worker leaves a booking: it lapses after ten seconds and the next loads."""
    ollama, [proxy] = alone.house.ollama, alone.proxies
    before = ollama.look(lambda sim: len(sim.loads))
    ollama.do(lambda sim: sim.put(replace(BIG_A, load_s=3)))
    try:
        with gathering(alone.proxies, ["big-a"]) as [doomed]:
            ollama.wait(lambda sim: len(sim.loads) == before + 1)
            [claim] = rows(alone)
            assert proxy.process is not None
            victim = int(claim.owner.removeprefix(f"{os.uname().nodename}-").partition("-")[0])
            assert victim in children(proxy.process.pid)
            os.kill(victim, signal.SIGKILL)
            with pytest.raises(Exception, match="(?i)disconnect|reset|closed"):
                doomed.result(PATIENCE_S)
        began = time.monotonic()
        ollama.wait(lambda sim: sim.loads[-1].ok is False)
        served = within(lambda: ask_again(proxy))
        took = time.monotonic() - began
    finally:
        ollama.do(lambda sim: sim.put(BIG_A))
    assert answer(served) == (200, "big-a")
    # The machine is shared: half as much again.
    assert took < (CLAIM_LIFE_S + 3) * 1.5, took
    loads = ollama.look(lambda sim: [(load.model, load.ok) for load in sim.loads[before:]])
    assert loads == [("big-a:14b", False), ("big-a:14b", True)]


def ask_again(proxy: Proxy) -> Any:
    """One request; None where it fell into the dead worker's socket."""
    with contextlib.suppress(httpx.HTTPError):
        return proxy.chat("big-a")
    return None
