"""What a request may know at once: which runners stay loaded, and which are in use. No I/O and no lock.

Two threads share it, and each number has one writer: `entered` belongs to the event loop, `granted` to the desk. The
order of the steps keeps them safe from each other: a request counts itself in *before* it looks whether the runner is
closed, the desk closes a runner *before* it looks whether anybody is counted in.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Final

from litellm_registry_hook.core.gpu.facts import Slot
from litellm_registry_hook.core.gpu.verdict import Use

FRESH_S: Final = 5.0
# A model that would leave within this time is not counted on.
MARGIN_S: Final = 15.0
FOREVER: Final = float("inf")


class View:
    """The residency of one worker.

    Attributes:
        resident: what stays loaded as an entry wants it, to the moment it may leave less a margin; replaced as a whole
            by the desk.
        open: runners that need no check.
        closed: runners about to be unloaded; no request enters.
        read_at: moment of the snapshot behind `resident`.
        last_used: when a request last entered or left a runner.

    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.resident: dict[Use, float] = {}
        self.open: frozenset[Slot] = frozenset()
        self.closed: set[Slot] = set()
        self.read_at = 0.0
        self.last_used: dict[Slot, float] = {}
        self._entered: Counter[Slot] = Counter()
        self._granted: Counter[Slot] = Counter()
        self._handed: deque[Slot] = deque()

    def enter(self, use: Use) -> bool:
        """Let a request in where its model stays loaded; else it must ask the desk. Called on the event loop."""
        slot = use.slot
        if slot in self.open:
            self._entered[slot] += 1
            return True
        now = self.clock()
        self._entered[slot] += 1
        if slot not in self.closed and now - self.read_at <= FRESH_S and self.resident.get(use, 0.0) > now:
            self.last_used[slot] = now
            return True
        self._entered[slot] -= 1
        return False

    def leave(self, use: Use, stays_s: float | None) -> None:
        """Let a request out; it has given the model `stays_s` more seconds (None: for ever). On the event loop."""
        now, slot = self.clock(), use.slot
        self._entered[slot] -= 1
        self.last_used[slot] = now
        # The desk may replace the mapping meanwhile: what is written goes where it was read.
        resident = self.resident
        known = resident.get(use)
        if known is not None and slot not in self.closed:
            resident[use] = FOREVER if stays_s is None else max(known, now + stays_s - MARGIN_S)

    def take_over(self, slot: Slot, *, wanted: bool) -> None:
        """Turn a grant of the desk into an entry, or give it back where its request has gone. On the event loop."""
        if wanted:
            self._entered[slot] += 1
            self.last_used[slot] = self.clock()
        self._handed.append(slot)

    def grant(self, slot: Slot) -> None:
        """Count a request in on its way to the event loop. On the desk's thread."""
        self._granted[slot] += 1

    def forget(self, slot: Slot) -> None:
        """Count on a runner no longer, whoever wants it. On the desk's thread."""
        for use in [one for one in list(self.resident) if one.slot == slot]:
            self.resident.pop(use, None)

    def settle(self) -> None:
        """Forget grants that have arrived. On the desk's thread."""
        while self._handed:
            self._granted[self._handed.popleft()] -= 1

    def busy(self) -> Mapping[Slot, int]:
        """Return the requests in flight by runner. On the desk's thread."""
        self.settle()
        found: dict[Slot, int] = {}
        for counts in (self._entered, self._granted):
            for slot, count in list(counts.items()):
                if count > 0:
                    found[slot] = found.get(slot, 0) + count
        return found
