"""Keeps the never-evict set loaded: what is missing is loaded when it fits, what has lost its pin is pinned again.

One worker of a machine does it, under a lease. It asks at the desk like everybody else, so nothing is pushed out for it
that may not be.
"""

from __future__ import annotations

import logging
from typing import Final

from litellm_registry_hook.core.gpu.facts import Loaded, Slot
from litellm_registry_hook.core.gpu.verdict import Want
from litellm_registry_hook.residency.board import Board, Starter, named
from litellm_registry_hook.residency.desk import Desk
from litellm_registry_hook.residency.records import KEEPER, LIFE_S
from litellm_registry_hook.residency.ticket import Answer, Granted, Ticket
from litellm_registry_hook.residency.view import FRESH_S

log = logging.getLogger("litellm_registry_hook")
EVERY_S: Final = 2.0
FIRST_RETRY_S: Final = 5.0
LAST_RETRY_S: Final = 60.0
LOAD_S: Final = 600.0


class Keeper:
    """The keeper of one worker.

    Attributes:
        missing: never-evict models that are not loaded, by slot, to the reason of the last try; for status and metrics.

    """

    def __init__(self, board: Board, desk: Desk, starter: Starter) -> None:
        self.board = board
        self.desk = desk
        self.starter = starter
        self.missing: dict[Slot, str] = {}
        self._asked: dict[Slot, Ticket] = {}
        self._next: dict[Slot, float] = {}
        self._pause: dict[Slot, float] = {}
        self._pinning: set[Slot] = set()
        self._at = 0.0

    def step(self) -> None:
        """Look after the set, every other second."""
        now = self.board.clock()
        if now - self._at < EVERY_S or not self.board.state_ok:
            return
        self._at = now
        keep = {want.slot: want for want in self.board.wants().values() if want.model and want.model.never_evict}
        for machine in {self.board.machine(slot) for slot in keep}:
            if self.board.take(KEEPER, machine, LIFE_S):
                for slot, want in keep.items():
                    if self.board.machine(slot) == machine:
                        self._mind(slot, want, now)
        for slot in [one for one in self.missing if one not in keep]:
            del self.missing[slot]

    def _mind(self, slot: Slot, want: Want, now: float) -> None:
        server = self.board.snapshot.servers.get(slot.api_base)
        if server is None or server.state != "up" or now - server.read_at > FRESH_S:
            return
        found = next((one for one in server.loaded if one.name == slot.name), None)
        if want.use in self.board.view.resident:
            if self.missing.pop(slot, None) is not None:
                log.info("never-evict model %s is loaded again", named(slot))
            self._next.pop(slot, None)
            self._pause.pop(slot, None)
            self._pin(slot, want, found)
            return
        if slot not in self.missing:
            self.board.count("never_evict_missing")
            log.warning("never-evict model %s is not loaded; it is loaded as soon as it fits", named(slot))
            self.missing[slot] = "not tried yet"
        if slot not in self._asked and now >= self._next.get(slot, 0.0):
            self._ask(slot, want, now)

    def _ask(self, slot: Slot, want: Want, now: float) -> None:
        def answered(answer: Answer) -> None:
            self._asked.pop(slot, None)
            if isinstance(answer, Granted):
                self.board.view.take_over(slot, wanted=False)
                return
            pause = self._pause[slot] = min(LAST_RETRY_S, self._pause.get(slot, FIRST_RETRY_S / 2) * 2)
            self._next[slot] = self.board.clock() + pause
            if self.missing.get(slot) != answer[0].reason:
                log.warning("never-evict model %s cannot be loaded: %s", named(slot), answer[0].reason)
                self.missing[slot] = answer[0].reason

        ticket = self._asked[slot] = Ticket((want,), answered, came=now, deadline=now + LOAD_S, purpose="keep")
        self.desk.submit(ticket)

    def _pin(self, slot: Slot, want: Want, found: Loaded | None) -> None:
        if found is None or found.expires_at is None or slot in self._pinning or slot in self.board.view.closed:
            return
        self._pinning.add(slot)
        self.board.count("pinned_again")
        log.warning("never-evict model %s is loaded without a pin; keep_alive -1 is set", named(slot))

        def done(_error: str | None) -> None:
            self.desk.post(lambda: self._pinning.discard(slot))

        self.starter.load(want, done)
