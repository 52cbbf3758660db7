"""The line of requests that wait for room, over all workers: first come, first served, bounded in length and time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from litellm_registry_hook.core.gpu.ports import Ledger
from litellm_registry_hook.residency.board import Board
from litellm_registry_hook.residency.records import LIFE_S, RENEW_S, WAITING
from litellm_registry_hook.residency.ticket import Ticket

MAX_WAITING: Final = 100


class Line:
    """The line of each machine.

    Who stands first may make others go (a swap); who stands behind is let in only where there is room as it is.
    """

    def __init__(self, board: Board) -> None:
        self.board = board
        self._where: dict[int, str] = {}
        self._renewed = 0.0

    def join(self, ticket: Ticket, machine: str) -> bool:
        """Stand in the line; False where it is full."""
        got = False

        def joining(ledger: Ledger) -> None:
            nonlocal got
            got = ledger.take(WAITING + machine, self._key(ticket), self.board.worker, LIFE_S, limit=MAX_WAITING)

        if not self.board.use(joining) or not got:
            return False
        ticket.queued = True
        self._where[ticket.number] = machine
        return True

    def leave(self, ticket: Ticket) -> None:
        """Leave the line."""
        machine = self._where.pop(ticket.number, None)
        if machine is not None:
            self.board.drop(WAITING + machine, self._key(ticket))

    def renew(self, tickets: Iterable[Ticket]) -> None:
        """Give a sign of life for each that stands in line."""
        now = self.board.clock()
        if now - self._renewed < RENEW_S:
            return
        self._renewed = now
        for ticket in tickets:
            machine = self._where.get(ticket.number)
            if machine is not None:
                self.board.take(WAITING + machine, self._key(ticket))

    def may_swap(self, ticket: Ticket, machine: str) -> bool:
        """Say whether a ticket may make others go: nobody stands before it."""
        first: str | None = None

        def reading(ledger: Ledger) -> None:
            nonlocal first
            rows = ledger.rows(WAITING + machine)
            first = rows[0].key if rows else None

        if not self.board.use(reading):
            return False
        return first is None or first == self._key(ticket)

    @staticmethod
    def sorted(tickets: Iterable[Ticket]) -> list[Ticket]:
        """Return tickets in order of arrival."""
        return sorted(tickets, key=lambda ticket: (ticket.came, ticket.number))

    def _key(self, ticket: Ticket) -> str:
        return f"{self.board.worker}#{ticket.number}"
