"""Asks each probe when it is due: one worker of the fleet, one at a time a probe, each in a thread of its own."""

from __future__ import annotations

import queue
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from litellm_registry_hook.core.availability.facts import Health, HealthWord, Reading
from litellm_registry_hook.core.availability.judge import threshold_of
from litellm_registry_hook.core.availability.learn import reopened
from litellm_registry_hook.core.availability.parse import failed, merged, readings_of
from litellm_registry_hook.core.availability.probes import (
    LONGEST_RETRY_AFTER_S,
    TIMEOUT_S,
    Answer,
    Probe,
    pause_after,
    probes_of,
)
from litellm_registry_hook.core.registry import Registry
from litellm_registry_hook.errors import StateError
from litellm_registry_hook.watch.board import Board
from litellm_registry_hook.watch.rows import CLOSURE, FLEET, LEASE, PLAN, READING

LEASE_S: Final = 15.0
# A probe that has not come back by then is not waited for: its reading has failed, and another worker may ask.
LOST_S: Final = 2 * TIMEOUT_S
_KEPT_S: Final = 2 * LONGEST_RETRY_AFTER_S

Ask = Callable[[Probe], Answer]
Start = Callable[[str, Callable[[], None]], None]


@dataclass(slots=True)
class Clockwork:
    """When a probe was and is asked, as this worker knows it.

    Attributes:
        probe: the probe. next_at: when it is due. fails: how often it failed in a row.
        asked_at: when the one under way was asked; None while there is none. lost: whether it was given up.
        held_until: when this worker's lease ends.
        not_before: no edit of the registry makes it asked earlier: the floor of its kind, its address's Retry-After.

    """

    probe: Probe
    next_at: float = 0.0
    fails: int = 0
    asked_at: float | None = None
    lost: bool = False
    held_until: float = 0.0
    not_before: float = 0.0


class Prober:
    """The probes of one worker.

    Attributes:
        works: by key of the probe.

    """

    def __init__(
        self,
        board: Board,
        registry: Callable[[], Registry],
        ask: Ask,
        *,
        start: Start,
        chance: Callable[[], float],
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        self.board = board
        self.works: dict[str, Clockwork] = {}
        self._registry = registry
        self._seen: Registry | None = None
        self._ask = ask
        self._start = start
        self._chance = chance
        self._wake = wake
        self._answers: queue.SimpleQueue[tuple[Clockwork, float, Answer]] = queue.SimpleQueue()

    def step(self) -> None:
        """Take in what has come back, and ask what is due. For the watch's thread."""
        registry = self._registry()
        if registry is not self._seen:
            self._follow(registry)
        self._take_all(registry)
        now = self.board.clock()
        for work in self.works.values():
            self._mind(registry, work, now)
        self._take_all(registry)

    def _follow(self, registry: Registry) -> None:
        before, self.works = self.works, {}
        for key, probe in probes_of(registry).items():
            work = before.get(key)
            if work is None:
                work = Clockwork(probe)
            elif work.probe != probe or self._reads_anew(registry, probe):
                same = (work.probe.kind, work.probe.what) == (probe.kind, probe.what)
                work = Clockwork(probe, held_until=work.held_until, not_before=work.not_before if same else 0.0)
            self.works[key] = work
        self.board.known = frozenset(model.id for model in registry.models)
        self._seen = registry

    def _reads_anew(self, registry: Registry, probe: Probe) -> bool:
        """Say whether its answer is read in another way than before: other windows, another limit."""
        before = self._seen.by_id.get(probe.model) if self._seen is not None else None
        return before is not None and before.quota != registry.by_id[probe.model].quota and probe.kind != "health"

    def _mind(self, registry: Registry, work: Clockwork, now: float) -> None:
        if work.asked_at is not None:
            if not work.lost and not 0 <= now - work.asked_at <= LOST_S:
                work.lost = True
                self._failed(registry, work, Answer(error=f"it has not ended for {LOST_S:g} s"), now)
            if work.lost:
                return
        if not self._holds(work, now) or work.asked_at is not None:
            return
        if work.next_at - now > LONGEST_RETRY_AFTER_S + work.probe.interval_s * 2:
            work.next_at = now  # the clock was set back
        if work.not_before - now > LONGEST_RETRY_AFTER_S:
            work.not_before = now
        if now >= max(work.next_at, work.not_before):
            work.asked_at, work.not_before = now, now + work.probe.floor_s
            self._start(f"probe-{work.probe.key}", lambda: self._run(work, now))

    def _holds(self, work: Clockwork, now: float) -> bool:
        """Say whether this worker is the one that asks; without a state every worker does."""
        board, key = self.board, work.probe.key
        if board.ledger is None or not board.state_ok:
            return True
        if now < work.held_until - LEASE_S / 2 and work.held_until <= now + LEASE_S:
            return True
        row = board.leases.get(key)
        if row is not None and row.owner != board.worker:
            work.held_until = 0.0
            return False
        fresh = work.held_until <= now
        try:
            if not board.ledger.take(LEASE, key, board.worker, LEASE_S):
                work.held_until = 0.0
                return False
        except StateError:
            return True
        work.held_until = now + LEASE_S
        plan = board.plans.get(key)
        if fresh and plan is not None and plan.data.get("what") == work.probe.what:
            work.next_at = max(work.next_at, float(plan.data.get("next_at", 0.0)))
            work.fails = max(work.fails, int(plan.data.get("fails", 0)))
        return True

    def _run(self, work: Clockwork, now: float) -> None:
        try:
            answer = self._ask(work.probe)
        except Exception as error:  # noqa: BLE001  whatever a probe does, it harms nobody
            answer = Answer(error=type(error).__name__, detail=str(error))
        self._answers.put((work, now, answer))
        self._wake()

    def _take_all(self, registry: Registry) -> None:
        while not self._answers.empty():
            self._take_in(registry, *self._answers.get())

    def _take_in(self, registry: Registry, work: Clockwork, asked_at: float, answer: Answer) -> None:
        probe, now_minded = work.probe, self.works.get(work.probe.key)
        if now_minded is not work:
            # The registry has changed: it is asked anew, but an address not earlier than it says.
            if now_minded is not None and now_minded.probe.what == probe.what:
                asked = min(LONGEST_RETRY_AFTER_S, answer.retry_after_s or 0.0)
                now_minded.not_before = max(now_minded.not_before, self.board.clock() + asked)
            return
        work.asked_at, work.lost = None, False
        now = self.board.clock()
        if answer.error and probe.kind != "health":
            self._failed(registry, work, answer, now)
            return
        model = registry.by_id[probe.model]
        if probe.kind == "health":
            state: HealthWord = "up" if answer.text == "up" else "gone" if answer.text == "gone" else "unknown"
            self.board.put(Health(model.id, probe.api_base, state, asked_at, answer.error))
            self._plan(work, now, failed_now=False, answer=answer)
            return
        found = readings_of(model, answer.text, answer.read_at if answer.read_at is not None else asked_at, now)
        self._store(registry, probe, found)
        self._plan(work, now, failed_now=any(one.error for one in found), answer=answer)

    def _failed(self, registry: Registry, work: Clockwork, answer: Answer, now: float) -> None:
        if work.probe.kind == "health":
            self.board.put(Health(work.probe.model, work.probe.api_base, "unknown", now, answer.error))
        else:
            self._store(
                registry, work.probe, failed(registry.by_id[work.probe.model], answer.error, now, answer.detail)
            )
        self._plan(work, now, failed_now=True, answer=answer)

    def _store(self, registry: Registry, probe: Probe, found: tuple[Reading, ...]) -> None:
        board, model = self.board, registry.by_id[probe.model]
        kept = []
        for reading in found:
            before = board.get((READING, f"{reading.model}|{reading.window}"))
            kept.append(merged(before if isinstance(before, Reading) else None, reading))
        board.put(*kept)
        # One window that was renamed in the registry must not close the model for ever.
        names = {one.window for one in kept}
        stale = [name for name in board.facts.readings.get(model.id, {}) if name not in names]
        board.drop(*((READING, f"{model.id}|{name}") for name in stale))
        closure = board.facts.closures.get(model.id)
        if closure is not None:
            after = reopened(closure, {one.window: one for one in kept}, threshold_of(model))
            if after is None:
                board.drop((CLOSURE, model.id))
            elif after != closure:
                board.swap(closure, after)

    def _plan(self, work: Clockwork, now: float, *, failed_now: bool, answer: Answer) -> None:
        work.fails = work.fails + 1 if failed_now else 0
        work.next_at = now + pause_after(work.probe, work.fails, answer.retry_after_s, self._chance())
        asked = min(LONGEST_RETRY_AFTER_S, answer.retry_after_s or 0.0)
        work.not_before = max(work.not_before, now + asked)
        ledger = self.board.ledger
        if ledger is None or not self.board.state_ok or work.probe.kind == "health":
            return
        # A worker that takes over, or starts anew, asks no earlier: so it must find the reading before it finds that.
        self.board.sync()
        data = {"next_at": work.next_at, "fails": work.fails, "what": work.probe.what}
        try:
            ledger.take(PLAN, work.probe.key, FLEET, _KEPT_S, data=data)
        except StateError:
            return
