"""What one worker knows of the machines and of the other workers, and how it asks: the facts on the desk's wall."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from litellm_registry_hook.core.gpu.decide import decide
from litellm_registry_hook.core.gpu.facts import Claim, Slot, Snapshot, Usage
from litellm_registry_hook.core.gpu.names import short_name
from litellm_registry_hook.core.gpu.place import machine_of
from litellm_registry_hook.core.gpu.ports import Eyes, Ledger
from litellm_registry_hook.core.gpu.resident import residency, same_runner
from litellm_registry_hook.core.gpu.verdict import Use, Verdict, Want
from litellm_registry_hook.core.registry import Registry
from litellm_registry_hook.errors import StateError
from litellm_registry_hook.residency import records
from litellm_registry_hook.residency.records import LIFE_S, LOCK, Shared
from litellm_registry_hook.residency.view import FOREVER, MARGIN_S, View

log = logging.getLogger("litellm_registry_hook")
LOOK_EVERY_S: Final = 1.0
# Ollama itself waits no longer than this until the memory of a runner that has left is back.
RETURN_S: Final = 5.0


class Starter(Protocol):
    """Starts what takes long; `done` is called from any thread, with None or the reason why it failed."""

    def load(self, want: Want, done: Callable[[str | None], None]) -> None:
        """Start a load."""

    def unload(self, want: Want, done: Callable[[str | None], None]) -> None:
        """Start an unload."""


@dataclass(frozen=True, slots=True)
class Sources:
    """Where the facts come from.

    Attributes:
        registry: gives the registry in force.
        wants: gives every runner of the registry on an Ollama server that has a GPU to mind, to what it is.
        eyes: reads the machines. ledger: what the workers share; None where there is no state.

    """

    registry: Callable[[], Registry]
    wants: Callable[[], Mapping[Use, Want]]
    eyes: Eyes
    ledger: Ledger | None


class Board:
    """Facts, and the questions that are asked of them.

    Attributes:
        snapshot: the last look. shared: the last reading of the ledger.
        state_ok: whether the ledger could be used the last time.
        counts: what happened, by name, for metrics. loaded: finished loads, model and seconds, for whoever takes them.

    """

    def __init__(self, sources: Sources, view: View, worker: str) -> None:
        self.registry = sources.registry
        self.wants = sources.wants
        self.eyes = sources.eyes
        self.ledger = sources.ledger
        self.view = view
        self.worker = worker
        self.clock = view.clock
        self.snapshot = Snapshot(at=0.0)
        self.shared = Shared()
        self.state_ok = self.ledger is not None
        self.counts: dict[str, int] = {}
        self.loaded: deque[tuple[str, float]] = deque(maxlen=1000)
        self.twins: dict[Slot, tuple[Slot, ...]] = {}
        self._machines: dict[str, str] = {}
        self._departed: dict[str, float] = {}

    # -- facts --------------------------------------------------------------------------------------------------------

    def look(self, bases: Sequence[str] | None = None) -> None:
        """Read the machines anew and tell the requests who is resident."""
        before, self.snapshot = self.snapshot, self.eyes.look(bases)
        now = self.clock()
        self._note_departures(before, now)
        registry, wants = self.registry(), self.wants()
        found: dict[Use, float] = {}
        for use, want in {**self._loaded(), **wants}.items():
            if use.slot in self.view.closed or use.slot in self.shared.fences:
                continue
            seen = residency(registry, self.snapshot, want, now)
            if seen is not None:
                found[use] = FOREVER if seen.until is None else seen.until - MARGIN_S
        self.view.resident = found
        self.view.read_at = self.snapshot.at
        self._find_twins()

    def _note_departures(self, before: Snapshot, now: float) -> None:
        for base, server in before.servers.items():
            after = self.snapshot.servers.get(base)
            if after is not None and {one.name for one in server.loaded} - {one.name for one in after.loaded}:
                self._departed[self.machine(Slot(base, ""))] = now

    def is_returning(self, machine: str) -> bool:
        """Say whether memory may be on its way back: a runner of this machine has left a moment ago."""
        return self.clock() - self._departed.get(machine, -RETURN_S) < RETURN_S

    def _find_twins(self) -> None:
        """Find names that share a runner: what is done to one is done to all of them."""
        self.twins = {}
        for server in self.snapshot.servers.values():
            names = {one.name for one in server.loaded}
            names |= {use.slot.name for use in self.wants() if use.slot.api_base == server.api_base}
            for one in server.loaded:
                alike = [name for name in names if same_runner(server, name, one.name, one.digest)]
                if len(alike) > 1:
                    slots = tuple(Slot(server.api_base, name) for name in sorted(alike))
                    self.twins.update(dict.fromkeys(slots, slots))

    def alike(self, slot: Slot) -> tuple[Slot, ...]:
        """Return every name of a runner, this one included."""
        return self.twins.get(slot, (slot,))

    def _loaded(self) -> dict[Use, Want]:
        servers = self.snapshot.servers.values()
        wants = (Want(None, Slot(server.api_base, one.name)) for server in servers for one in server.loaded)
        return {want.use: want for want in wants}

    def want_at(self, slot: Slot) -> Want:
        """Return an entry of the registry that a runner serves, for its name and the server's credentials."""
        return next((want for use, want in self.wants().items() if use.slot == slot), Want(None, slot))

    def in_ps(self, slot: Slot) -> bool:
        """Say whether a server lists a runner, whatever it says of it."""
        server = self.snapshot.servers.get(slot.api_base)
        return server is not None and any(one.name == slot.name for one in server.loaded)

    def machine(self, slot: Slot) -> str:
        """Return the machine of a slot."""
        found = self._machines.get(slot.api_base)
        if found is None:
            found = self._machines[slot.api_base] = machine_of(slot.api_base, self.snapshot.machine)
        return found

    def bases_of(self, machine: str) -> list[str]:
        """Return the Ollama servers of a machine."""
        return sorted({use.slot.api_base for use in self.wants() if self.machine(use.slot) == machine})

    def usage(self) -> Usage:
        """Return what all workers have in flight and used last."""
        busy: dict[Slot, int] = {}
        used: dict[Slot, float] = {}
        for counts in (self.view.busy(), self.shared.busy):
            for slot, count in counts.items():
                for one in self.alike(slot):
                    busy[one] = busy.get(one, 0) + count
        for moments in (dict(self.view.last_used), self.shared.last_used):
            for slot, moment in moments.items():
                for one in self.alike(slot):
                    used[one] = max(moment, used.get(one, 0.0))
        return Usage(busy, used)

    def decide(self, want: Want, *, may_swap: bool, without: Slot | None = None) -> Verdict:
        """Ask the core; `without` leaves out the claim of a slot (one's own)."""
        claims: tuple[Claim, ...] = tuple(one for one in self.shared.claims if one.slot != without)
        return decide(self.registry(), self.snapshot, claims, self.usage(), want, self.clock(), may_swap=may_swap)

    def note_claim(self, slot: Slot, claim: Claim | None) -> None:
        """Note a booking of ours at once, before the ledger is read again."""
        others = tuple(one for one in self.shared.claims if one.slot != slot)
        self.shared = replace(self.shared, claims=others if claim is None else (*others, claim))

    def count(self, name: str) -> None:
        """Count something that happened."""
        self.counts[name] = self.counts.get(name, 0) + 1

    # -- the ledger ---------------------------------------------------------------------------------------------------

    def read_shared(self) -> bool:
        """Read what the workers have written; False where the state cannot be read."""

        def reading(ledger: Ledger) -> None:
            self.shared = records.read(ledger, self.worker)

        return self.use(reading)

    def use(self, work: Callable[[Ledger], Any]) -> bool:
        """Do something with the ledger; False where there is none or it fails. One log line per change."""
        if self.ledger is None:
            return False
        try:
            work(self.ledger)
        except StateError as error:
            if self.state_ok:
                log.error("%s; nothing new is loaded until it is back", error)  # noqa: TRY400  the sentence says it all
            self.state_ok = False
            return False
        if not self.state_ok:
            log.info("the state is back, models are loaded again")
        self.state_ok = True
        return True

    def take(self, kind: str, key: str, ttl_s: float = LIFE_S, data: Mapping[str, Any] | None = None) -> bool:
        """Take or renew a row of ours; False where somebody else has it or the state is gone."""
        got = False

        def taking(ledger: Ledger) -> None:
            nonlocal got
            got = ledger.take(kind, key, self.worker, ttl_s, data=data)

        return self.use(taking) and got

    def drop(self, kind: str, key: str) -> None:
        """Remove a row of ours."""
        self.use(lambda ledger: ledger.drop(kind, key, self.worker))

    def lock(self, machine: str) -> bool:
        """Take the lock of a machine, or renew it."""
        return self.take(LOCK, machine)

    def unlock(self, machine: str) -> None:
        """Give the lock of a machine back."""
        self.drop(LOCK, machine)


def named(slot: Slot) -> str:
    """Name a runner for people."""
    return f"{short_name(slot.name)} at {slot.api_base}"
