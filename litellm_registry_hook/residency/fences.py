"""The other side of a swap: this worker closes what another one is about to unload, and says what it has in flight."""

from __future__ import annotations

from litellm_registry_hook.core.gpu.facts import Slot
from litellm_registry_hook.residency.board import Board
from litellm_registry_hook.residency.records import ACK, LIFE_S, key_of


class Fences:
    """The fences of others that this worker minds."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self.minded: set[Slot] = set()

    def mind(self) -> None:
        """Close what is fenced and answer; open again what is not any more."""
        board = self.board
        fenced = {slot for slot, owner in board.shared.fences.items() if owner != board.worker}
        for slot in fenced:
            # Closed first, counted after: see view.py.
            board.view.closed.add(slot)
            count = board.view.busy().get(slot, 0)
            if board.shared.acks.get((slot, board.worker)) != count:
                said = {"busy": count, "fence": board.shared.fence_ids[slot]}
                board.take(ACK, f"{key_of(slot)}#{board.worker}", LIFE_S, said)
        for slot in self.minded - fenced:
            # It may be gone by now: only a look after this moment says that it is there. The answer is taken back
            # before the runner opens, so that no later swap can take it for one of its own.
            board.view.forget(slot)
            board.drop(ACK, f"{key_of(slot)}#{board.worker}")
            board.view.closed.discard(slot)
        self.minded = fenced
