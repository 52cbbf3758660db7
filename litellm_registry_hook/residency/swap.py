"""Making room: victims are closed in every worker, unloaded, waited for, and only then the newcomer is loaded.

All of it under the machine's lock and with the newcomer booked. A worker that has a request at a victim says so, and
the swap is called off: a model is never taken from under a request.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal

from litellm_registry_hook.core.gpu.facts import Slot
from litellm_registry_hook.core.gpu.verdict import Admit, No, Swap, Want
from litellm_registry_hook.residency.board import Board, Starter, named
from litellm_registry_hook.residency.loads import Loads
from litellm_registry_hook.residency.records import FENCE, LIFE_S, RENEW_S, key_of

log = logging.getLogger("litellm_registry_hook")
# More than two looks of a worker whose servers do not answer.
ACK_S: Final = 8.0
RECOVERY_S: Final = 6.0
POLL_S: Final = 0.25
BUSY_RETRY_S: Final = 5.0
MAX_ROUNDS: Final = 3


@dataclass(slots=True)
class Swapping:
    """One swap.

    Attributes:
        want: the newcomer. machine: whose lock is held. victims: what is being unloaded. why: the numbers.
        closed: the victims under all their names.
        phase: closing (other workers are asked), unloading, recovering (until the memory is back).
        since: when the phase began. looked, renewed: moments of the last look and sign of life.
        left: unloads that have not been answered. failed: why one was not accepted. rounds: victims were chosen anew.

    """

    want: Want
    machine: str
    victims: tuple[Slot, ...]
    why: str
    since: float
    closed: tuple[Slot, ...] = ()
    phase: Literal["closing", "unloading", "recovering"] = "closing"
    looked: float = 0.0
    renewed: float = 0.0
    left: set[Slot] = field(default_factory=set)
    failed: str | None = None
    rounds: int = 1


class Swaps:
    """The swaps of this worker, one a machine."""

    def __init__(
        self, board: Board, loads: Loads, starter: Starter, post: Callable[[Callable[[], None]], None]
    ) -> None:
        self.board = board
        self.loads = loads
        self.starter = starter
        self.post = post
        self.running: dict[str, Swapping] = {}
        self.called_off: Callable[[Slot, No], None] = lambda _slot, _no: None

    def begin(self, want: Want, machine: str, verdict: Swap) -> bool:
        """Book the newcomer and close its victims; the machine's lock must be held, and is kept."""
        mb = want.model.gpu_residency.vram_mb if want.model and want.model.gpu_residency else 0
        if not self.loads.book(want, mb, ""):
            return False
        swap = Swapping(want, machine, verdict.victims, verdict.reason, self.board.clock())
        self.running[machine] = swap
        self._close(swap)
        self.step()
        return True

    def _close(self, swap: Swapping) -> None:
        swap.closed = tuple(dict.fromkeys(one for slot in swap.victims for one in self.board.alike(slot)))
        for slot in swap.closed:
            self.board.view.closed.add(slot)
            self.board.take(FENCE, key_of(slot), LIFE_S)
        swap.renewed = self.board.clock()
        # A worker that came meanwhile either is in what is read now, or has read the fences itself.
        self.board.read_shared()

    def step(self) -> None:
        """Carry each swap on as far as it goes."""
        for swap in list(self.running.values()):
            self._step(swap)

    def _step(self, swap: Swapping) -> None:
        now = self.board.clock()
        if now - swap.renewed >= RENEW_S:
            self._renew(swap)
        if swap.phase == "closing":
            self._closing(swap, now)
        if swap.phase == "recovering":
            self._recovering(swap, now)

    def _renew(self, swap: Swapping) -> None:
        swap.renewed = self.board.clock()
        held = self.board.lock(swap.machine)
        for slot in swap.closed:
            self.board.take(FENCE, key_of(slot), LIFE_S)
        if not held and swap.phase == "closing":
            self._call_off(swap, "the lock of the machine was lost")

    def _closing(self, swap: Swapping, now: float) -> None:
        busy = self.board.view.busy()
        others = self.board.shared.workers - {self.board.worker}
        acks = self.board.shared.acks
        for slot in swap.closed:
            count = busy.get(slot, 0) + sum(acks.get((slot, worker), 0) for worker in others)
            if count:
                self._call_off(swap, f"{named(slot)} would have to go and has {count} requests in flight")
                return
        if all((slot, worker) in acks for slot in swap.closed for worker in others):
            self._unload(swap, now)
        elif now - swap.since >= ACK_S:
            self._call_off(swap, "another worker did not say whether the models that would have to go are in use")

    def _unload(self, swap: Swapping, now: float) -> None:
        swap.phase, swap.since, swap.left = "unloading", now, set(swap.victims)
        for slot in swap.victims:
            self.board.count("swaps")
            log.info("unloading %s for %s: %s", named(slot), named(swap.want.slot), swap.why)
            self.starter.unload(self.board.want_at(slot), self._unloaded(swap, slot))

    def _unloaded(self, swap: Swapping, slot: Slot) -> Callable[[str | None], None]:
        def done(error: str | None) -> None:
            swap.failed = error or swap.failed
            swap.left.discard(slot)
            if not swap.left:
                swap.phase, swap.since, swap.looked = "recovering", self.board.clock(), 0.0

        return lambda error: self.post(lambda: done(error))

    def _recovering(self, swap: Swapping, now: float) -> None:
        if now - swap.looked < POLL_S:
            return
        swap.looked = now
        self.board.look(self.board.bases_of(swap.machine))
        slot = swap.want.slot
        here = [one for one in swap.victims if self.board.in_ps(one)]
        verdict = self.board.decide(swap.want, may_swap=True, without=slot) if not here else None
        if isinstance(verdict, Admit):
            # By declared sizes the memory counts as free at once, while Ollama still sees it taken and would make room.
            if verdict.measured or not self.board.is_returning(swap.machine):
                self._admit(swap, verdict)
            return
        late = now - swap.since >= RECOVERY_S
        if isinstance(verdict, Swap) and late and swap.rounds < MAX_ROUNDS:
            swap.rounds, swap.phase, swap.since = swap.rounds + 1, "closing", now
            swap.victims, swap.why = tuple(dict.fromkeys((*swap.victims, *verdict.victims))), verdict.reason
            self._close(swap)
        elif late:
            why = f"; {verdict.reason}" if isinstance(verdict, No) else ""
            gone = ", ".join(named(one) for one in swap.victims)
            self._call_off(swap, f"{gone} was unloaded and its memory did not come back in {RECOVERY_S:g} s{why}")

    def _admit(self, swap: Swapping, verdict: Admit) -> None:
        self._open(swap)
        self.loads.start(swap.want.slot, f"{swap.why}; {verdict.reason}")

    def _call_off(self, swap: Swapping, why: str) -> None:
        self._open(swap)
        self.loads.release(swap.want.slot)
        mb = swap.want.model.gpu_residency.vram_mb if swap.want.model and swap.want.model.gpu_residency else None
        name = swap.want.model.id if swap.want.model is not None else named(swap.want.slot)
        reason = f"{name} needs {mb} MB of GPU memory: {why}; wait with x-registry-wait, or try again"
        self.called_off(swap.want.slot, No("gpu_no_headroom", reason, BUSY_RETRY_S, needed_mb=mb))

    def _open(self, swap: Swapping) -> None:
        self.running.pop(swap.machine, None)
        for slot in swap.closed:
            self.board.drop(FENCE, key_of(slot))
            self.board.view.closed.discard(slot)
        self.board.unlock(swap.machine)
