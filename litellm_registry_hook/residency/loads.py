"""Loads in flight of this worker: booked before they start, kept alive while they run, released however they end."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from litellm_registry_hook.core.gpu.facts import Claim, Slot
from litellm_registry_hook.core.gpu.resident import is_partial
from litellm_registry_hook.core.gpu.verdict import Want
from litellm_registry_hook.residency.board import Board, Starter, named
from litellm_registry_hook.residency.records import CLAIM, FAILED, LIFE_S, RENEW_S, claim_data, key_of

log = logging.getLogger("litellm_registry_hook")
# After a load that failed; the server may have thrown everything out for it, so it is not repeated at once.
FAILED_S: Final = 5.0
OUT_OF_MEMORY_S: Final = 30.0
ANSWER_S: Final = 15.0
OUT_OF_MEMORY: Final = re.compile(r"out of memory|\boom\b|insufficient memory|more system memory", re.IGNORECASE)


@dataclass(slots=True)
class Load:
    """One load.

    Attributes:
        want: what is loaded. claim: its booking. renewed: moment of the last sign of life.
        answered: when the server took it, while /api/ps does not answer.

    """

    want: Want
    claim: Claim
    renewed: float = 0.0
    answered: float | None = None


class Loads:
    """The loads of this worker, by slot."""

    def __init__(self, board: Board, starter: Starter, post: Callable[[Callable[[], None]], None]) -> None:
        self.board = board
        self.starter = starter
        self.post = post
        self.running: dict[Slot, Load] = {}
        self.ended: Callable[[Slot, str | None], None] = lambda _slot, _error: None

    def book(self, want: Want, mb: float, gpu: str) -> bool:
        """Book a load in the ledger; False where another worker has booked it or the state is gone."""
        now = self.board.clock()
        name = want.model.id if want.model is not None else want.slot.name
        claim = Claim(want.slot, name, mb, gpu, self.board.worker, now, now + LIFE_S)
        if not self.board.take(CLAIM, key_of(want.slot), LIFE_S, claim_data(claim)):
            return False
        self.running[want.slot] = Load(want, claim, renewed=now)
        self.board.note_claim(want.slot, claim)
        return True

    def start(self, slot: Slot, why: str) -> None:
        """Ask the server to load what is booked."""
        load = self.running[slot]
        self.board.count("loads")
        log.info("loading %s: %s", named(slot), why)
        self.starter.load(load.want, lambda error: self.post(lambda: self._done(slot, error)))

    def _done(self, slot: Slot, error: str | None) -> None:
        load = self.running.get(slot)
        if load is None:
            return
        self.board.look([slot.api_base])
        if error is None and self._stalls(slot):
            # It waits for another runner's end, say: what it answers then counts, and the booking stands until then.
            load.answered = self.board.clock()
            return
        self._judge(slot, load, error)

    def _stalls(self, slot: Slot) -> bool:
        server = self.board.snapshot.servers.get(slot.api_base)
        return server is not None and server.state == "stalled"

    def _judge(self, slot: Slot, load: Load, error: str | None) -> None:
        seconds = self.board.clock() - load.claim.began
        if error is None and not self.board.view.resident.get(load.want.use):
            error = self._why_not_resident(load.want)
        if error is None:
            # Not the oldest of all: those who waited for it come next, here and in the other workers.
            self.board.view.last_used[slot] = self.board.clock()
            self.board.loaded.append((load.claim.model, seconds))
            log.info("%s is loaded after %.1f s", named(slot), seconds)
            self._warn_of_part(load.want)
        else:
            self.board.count("failed_loads")
            log.warning("%s was not loaded: %s", named(slot), error)
            memory = OUT_OF_MEMORY.search(error) is not None
            self.board.take(FAILED, key_of(slot), OUT_OF_MEMORY_S if memory else FAILED_S, {"why": error})
        self.release(slot)
        self.ended(slot, error)

    def _warn_of_part(self, want: Want) -> None:
        """Say what `partial_offload: warn` asks for: the model is served, partly from main memory."""
        if self.board.registry().gpu_residency_policy.partial_offload != "warn":
            return
        server = self.board.snapshot.servers.get(want.slot.api_base)
        found = next((one for one in server.loaded if one.name == want.slot.name), None) if server else None
        if found is not None and is_partial(found):
            log.warning("%s has only %.0f of its %.0f MB on the GPU", named(want.slot), found.vram_mb, found.size_mb)

    def _why_not_resident(self, want: Want) -> str:
        server = self.board.snapshot.servers.get(want.slot.api_base)
        found = next((one for one in server.loaded if one.name == want.slot.name), None) if server else None
        if found is not None and found.vram_mb < found.size_mb:
            self.starter.unload(want, lambda _error: None)
            on_cpu = "; where Ollama runs on the CPU, write gpu: none at the endpoint" if not found.vram_mb else ""
            return (
                f"only {found.vram_mb:.0f} of its {found.size_mb:.0f} MB went onto the GPU "
                f"(gpu_residency_policy.partial_offload is refuse{on_cpu})"
            )
        if self._stalls(want.slot):
            return f"the server took the load, but has not answered /api/ps for {ANSWER_S:g} s"
        return "the server took the load, but /api/ps does not show the model as loaded as asked"

    def release(self, slot: Slot) -> None:
        """Take a booking back."""
        if self.running.pop(slot, None) is not None:
            self.board.drop(CLAIM, key_of(slot))
            self.board.note_claim(slot, None)

    def renew(self) -> None:
        """Give a sign of life for each load, and end those whose server answers again."""
        now = self.board.clock()
        for slot, load in list(self.running.items()):
            if now - load.renewed >= RENEW_S:
                load.renewed = now
                self.board.take(CLAIM, key_of(slot), LIFE_S, claim_data(load.claim))
            if load.answered is not None and (not self._stalls(slot) or now - load.answered >= ANSWER_S):
                self._judge(slot, load, None)
