"""The desk: takes requests whose model is not known to stay loaded, and sees each through to a grant or a no.

A state machine: `step` does what can be done now and says when it wants to be called again. It blocks for looks at the
machines and for the ledger, never for a load.
"""

from __future__ import annotations

import logging
import queue
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from litellm_registry_hook.core.gpu.facts import Slot
from litellm_registry_hook.core.gpu.verdict import Admit, Join, No, Open, Resident, Swap, Verdict, Want
from litellm_registry_hook.residency.board import LOOK_EVERY_S, RETURN_S, Board, Starter
from litellm_registry_hook.residency.fences import Fences
from litellm_registry_hook.residency.loads import FAILED_S, Loads
from litellm_registry_hook.residency.queueing import Line
from litellm_registry_hook.residency.records import LIFE_S, WORKER, worker_data
from litellm_registry_hook.residency.swap import Swaps
from litellm_registry_hook.residency.ticket import TURN_S, Granted, Ticket

log = logging.getLogger("litellm_registry_hook")
BEAT_S: Final = 0.25
TELL_S: Final = 1.0
RETRY_S: Final = 0.5
LOCK_RETRY_S: Final = 0.05
ESTIMATE_S: Final = 10.0
IDLE_S: Final = 1.0
SOON_S: Final = 2.0
PREPARED: Final = "another load is being prepared on its machine"


class Desk:
    """One worker's desk."""

    def __init__(self, board: Board, starter: Starter) -> None:
        self.board = board
        self.loads = Loads(board, starter, self.post)
        self.swaps = Swaps(board, self.loads, starter, self.post)
        self.fences = Fences(board)
        self.line = Line(board)
        self.tickets: list[Ticket] = []
        self.wake: Callable[[], None] = lambda: None
        self.loads.ended = self._load_ended
        self.swaps.called_off = self._called_off
        self._last_no = No("gpu_no_headroom", "", ESTIMATE_S)
        self._inbox: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._next = {"look": 0.0, "beat": 0.0, "tell": 0.0}

    # -- from other threads -------------------------------------------------------------------------------------------

    def post(self, event: Callable[[], None]) -> None:
        """Have something done on the desk's thread."""
        self._inbox.put(event)
        self.wake()

    def submit(self, ticket: Ticket) -> None:
        """Hand in a request."""
        self.post(lambda: self.tickets.append(ticket))

    def cancel(self, ticket: Ticket) -> None:
        """Take a request back; a load that it has started goes on."""

        def gone() -> None:
            ticket.cancelled = True

        self.post(gone)

    # -- on the desk's thread -----------------------------------------------------------------------------------------

    def step(self) -> float:
        """Do what can be done now; return the seconds until there may be more."""
        while not self._inbox.empty():
            self._inbox.get()()
        if not self.tickets and not self.board.wants():
            # A registry without Ollama: nothing to mind until it is edited.
            return IDLE_S
        now = self.board.clock()
        if self._due("tell", now, TELL_S):
            self._tell()
        if self._due("beat", now, BEAT_S):
            self.board.read_shared()
            self.fences.mind()
            self.loads.renew()
            self.line.renew(self.tickets)
        if self._due("look", now, LOOK_EVERY_S):
            self.board.look()
        self.swaps.step()
        self._serve()
        return self._pause()

    def _due(self, what: str, now: float, every_s: float) -> bool:
        if now < self._next[what]:
            return False
        self._next[what] = now + every_s
        return True

    def _tell(self) -> None:
        board = self.board
        data = worker_data(board.view.busy(), board.view.last_used, {use.slot for use in list(board.view.resident)})
        board.take(WORKER, board.worker, LIFE_S, data)

    def _pause(self) -> float:
        if not self._inbox.empty():
            return 0.0
        now = self.board.clock()
        soonest = min(self._next.values())
        pending = [ticket for ticket in self.tickets if ticket.joined is None]
        if pending:
            soonest = min(soonest, *(ticket.tried_at for ticket in pending))
        return max(0.0, min(soonest - now, BEAT_S))

    def _serve(self) -> None:
        for ticket in list(self.tickets):
            if ticket.cancelled:
                self._close(ticket)
        trying = [ticket for ticket in self.tickets if not self._settled(ticket)]
        if not trying:
            return
        turn = Turn(self.board, self.swaps)
        try:
            for ticket in self.line.sorted(trying):
                self._try_safely(ticket, turn)
        finally:
            turn.end()

    def _settled(self, ticket: Ticket) -> bool:
        """Say whether a ticket needs no decision now."""
        now = self.board.clock()
        for number, want in enumerate(ticket.wants):
            if self.grant(ticket, number, want):
                return True
        if ticket.joined is not None and self._loading(ticket.joined):
            if now >= ticket.deadline:
                self.refuse(ticket, (self._too_slow(ticket),) * len(ticket.wants))
            return True
        if ticket.joined is not None:
            ticket.joined, ticket.tried_at = None, -1.0
        if ticket.wait_until is not None and now >= ticket.wait_until and now - ticket.came >= ticket.patience_s:
            # Without a no where its turn never came: another one held the machine all the time.
            self.refuse(ticket, ticket.nos or tuple(_not_now(want, PREPARED) for want in ticket.wants))
            return True
        return now < ticket.tried_at

    def _loading(self, slot: Slot) -> bool:
        return slot in self.loads.running or any(one.slot == slot for one in self.board.shared.claims)

    def _too_slow(self, ticket: Ticket) -> No:
        took = self.board.clock() - ticket.came
        return No("gpu_no_headroom", f"{_name(ticket.wants[0])} is still being loaded after {took:.0f} s", ESTIMATE_S)

    def _try_safely(self, ticket: Ticket, turn: Turn) -> None:
        """Refuse what cannot be decided for a bug of ours, so that nobody behind it waits for ever."""
        try:
            self._try(ticket, turn)
        except Exception:
            log.exception("deciding about %s failed", _name(ticket.wants[0]))
            reason = f"{_name(ticket.wants[0])} is not loaded: the gate failed and lets nothing through; see the log"
            self.refuse(ticket, (No("gpu_state_unknown", reason, ESTIMATE_S),) * len(ticket.wants))

    def _try(self, ticket: Ticket, turn: Turn) -> None:
        """Ask for each of what would do, in order, under the lock of its machine."""
        now = self.board.clock()
        nos: list[No] = []
        for number, want in enumerate(ticket.wants):
            if self.grant(ticket, number, want):
                return
            if self._loading(want.slot):
                ticket.joined = want.slot
                return
            answer = self._ask(want, ticket, turn)
            if answer is None:
                # Not our turn yet; a request that does not wait for room does not wait long for that either.
                if now - ticket.came < ticket.patience_s or ticket.wait_until is not None:
                    ticket.tried_at = now + (LOCK_RETRY_S if ticket.patience_s == TURN_S else RETRY_S)
                    return
                answer = _not_now(want, PREPARED)
            if isinstance(answer, (Resident, Open)):
                self.board.view.resident.setdefault(want.use, now + 1.0)
                if self.grant(ticket, number, want):
                    return
                answer = _not_now(want, "it is about to be unloaded for another model")
            if isinstance(answer, Join):
                ticket.joined = answer.claim.slot
                return
            assert isinstance(answer, No)
            nos.append(answer)
        self._no(ticket, tuple(nos))

    def _ask(self, want: Want, ticket: Ticket, turn: Turn) -> Verdict | None:
        """Decide one want and act on a yes; None where it is not our turn on that machine."""
        board = self.board
        if want.slot in board.view.closed:
            return None
        if board.ledger is None or not board.state_ok:
            reason = f"{_name(want)} is not loaded, and nothing is loaded without the state; see the proxy's log"
            if board.ledger is None or not board.read_shared():
                return No("gpu_state_unknown", reason, ESTIMATE_S)
        failed = board.shared.failed.get(want.slot)
        if failed is not None:
            why, until = failed
            left = max(1.0, until - board.clock())
            reason = f"{_name(want)} could not be loaded: {why}; not tried again for {left:.0f} s"
            return No("model_unavailable", reason, left)
        machine = board.machine(want.slot)
        if not turn.take(machine):
            return None
        verdict = board.decide(want, may_swap=self.line.may_swap(ticket, machine))
        if isinstance(verdict, Admit):
            if not verdict.measured and board.is_returning(machine):
                # Ollama still sees the memory of a runner that has just left as taken, and would make room itself.
                ticket.patience_s = RETURN_S + TURN_S
                return None
            if not self.loads.book(want, verdict.mb, verdict.gpu):
                return None
            self.loads.start(want.slot, verdict.reason)
        elif isinstance(verdict, Swap):
            if not self.swaps.begin(want, machine, verdict):
                return None
            turn.handed_over(machine)
            if not self._loading(want.slot):
                # Called off at once; `_called_off` has answered those who joined, this one has not yet.
                return self._last_no
        else:
            return verdict
        return Join(next(one for one in board.shared.claims if one.slot == want.slot))

    def _no(self, ticket: Ticket, nos: tuple[No, ...]) -> None:
        ticket.nos = nos
        can_wait = ticket.wait_until is not None and self.board.clock() < ticket.wait_until
        if not can_wait or not any(no.transient for no in nos):
            self.refuse(ticket, nos)
            return
        machine = self.board.machine(ticket.wants[0].slot)
        if not ticket.queued and not self.line.join(ticket, machine):
            reason = f"{nos[0].reason}; and the queue of waiting requests is full"
            self.refuse(ticket, (replace(nos[0], reason=reason), *nos[1:]))
            return
        ticket.tried_at = self.board.clock() + RETRY_S

    def grant(self, ticket: Ticket, number: int, want: Want) -> bool:
        """Let a ticket go where its model stays loaded."""
        view, now, slot = self.board.view, self.board.clock(), want.slot
        if slot in view.closed or view.resident.get(want.use, 0.0) <= now:
            return False
        view.grant(slot)
        self._close(ticket)
        ticket.answer(Granted(number, slot))
        return True

    def refuse(self, ticket: Ticket, nos: tuple[No, ...]) -> None:
        """Send a ticket away."""
        self._close(ticket)
        if ticket.purpose == "request":
            self.board.count("refused")
        ticket.answer(nos)

    def _close(self, ticket: Ticket) -> None:
        if ticket in self.tickets:
            self.tickets.remove(ticket)
        self.line.leave(ticket)

    def _load_ended(self, slot: Slot, error: str | None) -> None:
        for ticket in [one for one in self.tickets if one.joined == slot]:
            ticket.joined, ticket.tried_at = None, -1.0
            if error is None or len(ticket.wants) > 1:
                continue
            reason = f"{_name(ticket.wants[0])} could not be loaded: {error}"
            self.refuse(ticket, (No("model_unavailable", reason, FAILED_S),))

    def _called_off(self, slot: Slot, no: No) -> None:
        self._last_no = no
        for ticket in [one for one in self.tickets if one.joined == slot]:
            ticket.joined = None
            self._no(ticket, (no,) * len(ticket.wants))


class Turn:
    """The locks of one round of decisions: each machine's is taken once, looked at once, and given back at the end."""

    def __init__(self, board: Board, swaps: Swaps) -> None:
        self.board = board
        self.swaps = swaps
        self._held: dict[str, bool] = {}

    def take(self, machine: str) -> bool:
        """Take the lock and look anew; False where somebody else decides there now."""
        if machine in self.swaps.running:
            return False
        if machine not in self._held:
            self._held[machine] = self.board.lock(machine)
            if self._held[machine]:
                self.board.read_shared()
                self.board.look(self.board.bases_of(machine))
        return self._held[machine]

    def handed_over(self, machine: str) -> None:
        """Leave the lock to a swap."""
        self._held.pop(machine, None)

    def end(self) -> None:
        """Give the locks back."""
        for machine, held in self._held.items():
            if held:
                self.board.unlock(machine)


def _not_now(want: Want, why: str) -> No:
    size = want.model.gpu_residency if want.model is not None else None
    needed = float(size.vram_mb) if size is not None else None
    takes = f" ({needed:.0f} MB)" if needed is not None else ""
    reason = f"{_name(want)}{takes} has to wait: {why}; send x-registry-wait, or try again"
    return No("gpu_no_headroom", reason, SOON_S, needed_mb=needed)


def _name(want: Want) -> str:
    return want.model.id if want.model is not None else want.slot.name
