"""Any order of requests, hang-ups, deaths, restarts and foreign use of the card: what must hold whatever happens."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ollama_sim.homelab import small_home
from residency.test_homelab import QWEN, shipped
from residency.world import Request, World, claims, reason

from litellm_registry_hook.residency.ticket import Granted

SNAPSHOT_S = 6.0
MODELS = ["local-small", "second-chat", "bge-m3", "long-small"]
FITS = ["local-small", "second-chat", "bge-m3"]
OPS = ["ask", "ask", "ask", "ask", "wait", "finish", "finish", "hang_up", "pause", "long_pause",
       "foreign", "unload", "restart", "kill", "stall", "probe"]  # fmt: skip


def registry() -> dict[str, Any]:
    """The shipped one, a second chat model, and gemma3:4b with more context than fits beside bge-m3 (S18)."""
    found = shipped()
    long = copy.deepcopy(QWEN)
    long.update(id="long-small", litellm={"model": "ollama_chat/gemma3:4b"})
    long["gpu_residency"] = {"vram_mb": 3500, "num_ctx": 8192}
    found["models"].append(long)
    return found


class Chaos:
    """Plays a sequence of steps against a world and checks after each."""

    def __init__(self, workers: int = 2) -> None:
        self.world = World(registry(), small_home(), workers)
        self.open: list[Request] = []
        self.asked = 0
        self.world.run(10)

    def play(self, op: str, a: int, b: int) -> None:
        getattr(self, op)(a, b)
        self.tidy()
        self.check()

    def tidy(self) -> None:
        """Requests that have been refused or whose server broke are over."""
        for request in list(self.open):
            call_over = request.call is not None and request.call.state in ("failed", "cancelled", "done")
            if isinstance(request.answer, tuple) or call_over:
                self.world.finish(request) if call_over else None
                self.open.remove(request)

    def check(self) -> None:
        sim = self.world.sim
        assert sim.ooms == 0, sim.events[-12:]
        assert sim.evictions == [], sim.evictions
        assert self.world.cold == [], [(one.worker.name, one.want.use, one.fast) for one in self.world.cold]
        # Others may ask for its unload, we never do; nothing else may make it leave.
        assert [event for event in sim.left("bge-m3") if event.why != "asked"] == []
        assert not any("bge-m3:latest" in worker.starter.unloaded for worker in self.world.workers)

    # -- steps --------------------------------------------------------------------------------------------------------

    def ask(self, a: int, b: int, wait_s: float = 0.0) -> None:
        alive = [n for n, worker in enumerate(self.world.workers) if worker.alive]
        self.open.append(self.world.ask(MODELS[a % len(MODELS)], worker=alive[b % len(alive)], wait_s=wait_s))
        self.asked += 1

    def wait(self, a: int, b: int) -> None:
        self.ask(a, b, wait_s=5.0 + b % 20)

    def finish(self, a: int, b: int) -> None:
        running = [one for one in self.open if one.call is not None]
        if running:
            self.world.finish(running[a % len(running)])
            self.open = [one for one in self.open if not one.ended]

    def hang_up(self, a: int, b: int) -> None:
        if self.open:
            self.world.hang_up(self.open[a % len(self.open)])
            self.open = [one for one in self.open if not one.ended]

    def pause(self, a: int, b: int) -> None:
        self.world.run(0.05 + (a % 40) / 20)

    def long_pause(self, a: int, b: int) -> None:
        self.world.run(20 + a % 400)

    def _quiet(self) -> bool:
        """Nothing is being loaded; what others do then is seen before the next load is decided."""
        return self.world.sim._job is None and not self.world.sim._queue and not claims(self.world)

    def foreign(self, a: int, b: int) -> None:
        if self._quiet():
            card = self.world.sim.cards[0]
            free = card.free_mb + card.uses.get("foreign", 0)
            self.world.sim.foreign(0, [0, min(free, 300 + a % 2000)][b % 2])
            self.world.run(SNAPSHOT_S)

    def unload(self, a: int, b: int) -> None:
        """Somebody behind the proxy unloads a model."""
        if self._quiet():
            name = ["gemma3:4b", "bge-m3", "qwen:4b"][a % 3]
            self.world.sim.unload(name)
            self.world.run(SNAPSHOT_S)

    def restart(self, a: int, b: int) -> None:
        self.world.sim.restart()
        self.world.run(SNAPSHOT_S)

    def kill(self, a: int, b: int) -> None:
        alive = [worker for worker in self.world.workers if worker.alive]
        self.world.kill(alive[a % len(alive)])
        self.open = [one for one in self.open if one.worker.alive]
        self.world.spawn()

    def stall(self, a: int, b: int) -> None:
        self.world.sim.stall(self.world.clock() + a % 8)

    def probe(self, a: int, b: int) -> None:
        """Once everything is quiet and the card is ours, whatever fits is served."""
        for request in self.open:
            self.world.hang_up(request)
        self.open.clear()
        self.world.sim.foreign(0, 0)
        self.world.run(30 + SNAPSHOT_S)
        worker = max(n for n, one in enumerate(self.world.workers) if one.alive)
        request = self.world.serve(FITS[a % len(FITS)], worker=worker)
        assert isinstance(request.answer, Granted), reason(request)

    def end(self) -> None:
        """No claim, no place in a line and no use outlives its cause; the never-evict model is there."""
        self.probe(0, 0)
        self.world.run(30)
        assert claims(self.world) == []
        assert [row for row in self.world.ledger.rows("gpu-wait:localhost", "gpu-fence", "gpu-lock")] == []
        assert [dict(worker.view.busy()) for worker in self.world.workers if worker.alive] == [{}, {}]
        assert "bge-m3:latest" in self.world.sim.names()


@pytest.mark.parametrize("seed", range(3))
def test_a_thousand_random_steps_never_push_out_the_embedder(seed: int) -> None:
    """1,000 steps: no eviction by the server, no load out of memory, bge-m3 leaves only when others unload it."""
    dice = random.Random(seed)
    chaos = Chaos()
    for _ in range(1000):
        chaos.play(dice.choice(OPS), dice.randrange(1000), dice.randrange(1000))
    chaos.end()
    assert chaos.asked > 200


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(st.sampled_from(OPS), st.integers(0, 999), st.integers(0, 999)), max_size=40))
def test_any_short_sequence_keeps_the_rules(steps: list[tuple[str, int, int]]) -> None:
    """The same for short sequences, which a failure is reduced to."""
    chaos = Chaos()
    for op, a, b in steps:
        chaos.play(op, a, b)
    chaos.end()
