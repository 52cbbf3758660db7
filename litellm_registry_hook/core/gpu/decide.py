"""May this model be loaded now? A pure function of the registry, what was read, loads in flight and our own traffic.

Never-evict models stay because no load that would push one out is ever started: Ollama's keep_alive -1 does not
protect them. The decision may be asked speculatively and any number of times; it changes nothing and logs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from litellm_registry_hook.core.gpu import describe, refusals
from litellm_registry_hook.core.gpu.facts import Claim, Server, Snapshot, Usage
from litellm_registry_hook.core.gpu.place import NONE, Card, Home, Room, room_of, server_key
from litellm_registry_hook.core.gpu.predict import context_of, on_cpu, predict
from litellm_registry_hook.core.gpu.resident import fault_of, residency
from litellm_registry_hook.core.gpu.rules import Case, Gone, Numbers
from litellm_registry_hook.core.gpu.swap import victims
from litellm_registry_hook.core.gpu.table import Runner, Table
from litellm_registry_hook.core.gpu.verdict import Admit, Join, No, Open, Swap, Verdict, Want
from litellm_registry_hook.core.registry import GpuResidency, Model, Registry

# A look takes seconds where a server stalls; what is older than this says nothing about free memory.
MAX_LOOK_AGE_S: Final = 30.0


def decide(  # noqa: PLR0917 - the facts of one moment, in the order they are gathered
    registry: Registry,
    snapshot: Snapshot,
    claims: Iterable[Claim],
    usage: Usage,
    want: Want,
    now: float,
    *,
    may_swap: bool = True,
) -> Verdict:
    """Decide about one use of one model at one endpoint.

    Args:
        registry: with its addresses resolved (`resolve_addresses`).
        snapshot: a fresh look.
        claims: loads in flight in all workers.
        usage: requests in flight and last uses, of all workers.
        want: the model and its runner.
        now: the moment, on the clock of snapshot and claims.
        may_swap: False where others wait before this one: nothing is unloaded for it.

    Returns:
        Open, Resident, Join, Admit, Swap or No. The only never-evict model among the victims of a Swap can be the
        wanted one itself, where it is loaded otherwise than the registry says and nobody uses it.

    """
    live = tuple(claim for claim in claims if claim.until > now)
    table = Table(registry, snapshot, live, usage, now)
    home = _home_of(table, want)
    if _is_open(table, want, home):
        return Open()
    return residency(registry, snapshot, want, now) or _Question(table, want, home, may_swap).answer()


def _home_of(table: Table, want: Want) -> Home | None:
    """Return the registry's place of what is wanted; of a model that it does not know, any place at that server."""
    here = table.at_server.get(server_key(want.slot.api_base), [])
    mine = [home for home in here if want.model is not None and home.model.id == want.model.id]
    return next(iter(mine or here), None)


def _is_open(table: Table, want: Want, home: Home | None) -> bool:
    key = server_key(want.slot.api_base)
    if want.model is not None and not want.model.on_ollama and key not in table.at_server and key not in table.servers:
        return True
    if home is not None and home.gpu == NONE:
        return True
    server = table.servers.get(key)
    file = server.files.get(want.slot.name) if server is not None else None
    if file is not None:
        return file.remote
    # A cloud model that was not pulled yet says so in its tag.
    tag = want.slot.name.rpartition(":")[2]
    return tag == "cloud" or tag.endswith("-cloud")


@dataclass(frozen=True)
class _Question:
    """One model that is not resident.

    Attributes:
        table: the moment. want: the model. home: its place in the registry. may_swap: whether it is its turn.

    """

    table: Table
    want: Want
    home: Home | None
    may_swap: bool

    def answer(self) -> Verdict:
        key = server_key(self.want.slot.api_base)
        server = self.table.servers.get(key)
        if server is not None and server.state == "gone":
            return refusals.gone(self.want, server)
        claim = self.table.claim_at(key, self.want.slot.name)
        if claim is not None and self._same_load(claim, server):
            return Join(claim)
        model = self.want.model
        if model is None or model.gpu_residency is None:
            return refusals.no_size(self.want)
        other = claim or next((one for one in self.table.claims if server_key(one.slot.api_base) == key), None)
        room, why = self._room(server)
        if room is None and other is not None:
            return refusals.in_flight(self.want, other, float(model.gpu_residency.vram_mb), None, self.table.now)
        if room is None:
            return refusals.unknown(self.want, why)
        return self._by_room(model, model.gpu_residency, server, room, other)

    def _same_load(self, claim: Claim, server: Server | None) -> bool:
        """Say whether a load in flight of the same runner serves this one as well: it has the same context."""
        mine = self.want.model
        theirs = self.table.registry.by_id.get(claim.model)
        if mine is None or theirs is None or mine.id == theirs.id:
            return True
        file = server.files.get(self.want.slot.name) if server is not None else None
        shape = file.shape if file is not None else None
        return context_of(mine, shape) in {None, context_of(theirs, shape)}

    def _room(self, server: Server | None) -> tuple[Room | None, str]:
        """Return the memory to judge by; None and why where it is not known.

        Under `on_unknown.vram: allow` what is not known is taken from the declared sizes, else it is no limit.
        """
        policy = self.table.registry.gpu_residency_policy
        gpu = self.home.gpu if self.home is not None else "auto"
        room = room_of(policy, self.table.snapshot, self.want.slot.api_base, gpu)
        doubt = self._doubt(server) or (room.reason if room.mode == "unknown" else self._unread(room))
        if not doubt:
            return room, ""
        if self.table.registry.routing.on_unknown.vram != "allow":
            return None, doubt
        if room.mode != "unknown":
            return room, ""
        if room.fallback is not None:
            return replace(room, mode="declared", cards=(room.fallback,), others=()), ""
        return replace(room, cards=(Card(room.key, math.inf, math.inf),)), ""

    def _doubt(self, server: Server | None) -> str:
        """Return why what is loaded or free is not known; empty where it is."""
        age = self.table.now - self.table.snapshot.at
        base = self.want.slot.api_base
        if age > MAX_LOOK_AGE_S:
            return f"the last reading is {age:.0f} s old"
        if server is None or (server.state == "up" and server.read_at <= 0):
            return f"Ollama at {base} has not been read yet"
        if server.state == "stalled":
            return f"Ollama at {base} answers too late ({server.reason or 'timeout'})"
        return ""

    def _unread(self, room: Room) -> str:
        """Return which Ollama of a declared GPU was never read: what it holds is not known, nor is what is free."""
        if room.mode != "declared":
            return ""
        for key, homes in self.table.at_server.items():
            server = self.table.servers.get(key)
            if server is not None and (server.state == "gone" or server.read_at > 0):
                continue
            for home in homes:
                if self.table.is_on(home, room.machine, room.key):
                    return f"Ollama at {home.api_base}, on the same GPU, has not been read yet"
        return ""

    def _by_room(
        self, model: Model, size: GpuResidency, server: Server | None, room: Room, other: Claim | None
    ) -> Verdict:
        registry, name = self.table.registry, self.want.slot.name
        own = self.table.runner_at(server_key(self.want.slot.api_base), name)
        # A server that stalls cannot unload it; where the load is allowed all the same, Ollama reloads by itself.
        up = own is not None and own.server.state == "up"
        fault = fault_of(registry, own.server, own.entry, model, name) if own is not None and up else None
        needed = 0.0 if on_cpu(model) else float(size.vram_mb)
        if own is not None and fault != "other_context":
            needed = max(needed, own.entry.size_mb if fault == "partial" else own.entry.vram_mb)
        machine_mb = sum(card.total_mb for card in (*room.cards, *room.others))
        file = server.files.get(name) if server is not None else None
        predicted = predict(model, file, server.version if server is not None else (), machine_mb)
        case = Case(self.table, self.want.slot, room, needed, predicted, own)
        base = frozenset((own,)) if own is not None else frozenset()
        if other is not None:
            return refusals.in_flight(self.want, other, needed, case.judge(base), self.table.now)
        if own is None or fault is None:
            return self._load(case, base)
        if fault == "other_context":
            return self._reload(case, own, f"it is loaded with num_ctx {own.entry.context}")
        part = f"{own.entry.vram_mb:.0f} of its {describe.megabytes(own.entry.size_mb)}"
        return self._reload(case, own, f"only {part} are on the GPU")

    def _reload(self, case: Case, own: Runner, what: str) -> Verdict:
        """Decide about a model that is loaded otherwise than the registry says: unload it, then load it."""
        numbers = case.judge(frozenset((own,)))
        name = refusals.name_of(self.want)
        mine = self.want.model
        bound = [one.id for one in own.models if one.never_evict and (mine is None or one.id != mine.id)]
        if bound:
            fix = "give both the same num_ctx, or the model weights of its own"
            reason = f"{name} has to be reloaded ({what}), but never-evict {', '.join(bound)} uses that runner; {fix}"
            return refusals.no_room(reason, numbers, refusals.NEVER_S, transient=False)
        if own.busy:
            reason = f"{name} has to be reloaded ({what}), which waits for {own.busy} request(s) that use it"
            return refusals.no_room(f"{reason}: {describe.arithmetic(numbers)}", numbers, refusals.BUSY_S)
        return self._load(case, frozenset((own,)), (own,), what)

    def _load(self, case: Case, base: Gone, first: tuple[Runner, ...] = (), what: str = "") -> Verdict:
        """Decide by the numbers.

        Args:
            case: the load.
            base: runners whose memory comes back without a victim. first: those of them that have to be unloaded.
            what: why they have to be.

        """
        name = refusals.name_of(self.want)
        numbers = case.judge(base)
        if numbers.rule is None and not first:
            return Admit(case.needed_mb, _booked_on(case), describe.fits(name, case, numbers), case.room.mode == "nvml")
        chosen = victims(case, base) if numbers.rule is not None else ()
        if chosen is not None:
            return self._swap((*first, *chosen), case, numbers, what)
        if self._may_spill(case, numbers):
            some = max(0.0, min(case.needed_mb, numbers.available_mb))
            why = describe.broken_rule(name, case, numbers)
            why = f"{why}; the rest goes to the CPU, partial_offload allows it"
            return Admit(some, _booked_on(case), why, case.room.mode == "nvml")
        return refusals.no_fit(name, case, base, numbers)

    def _swap(self, out: tuple[Runner, ...], case: Case, numbers: Numbers, what: str) -> Swap | No:
        name = refusals.name_of(self.want)
        if numbers.rule is not None:
            why = describe.broken_rule(name, case, numbers)
        else:
            why = f"{name} has to be reloaded ({what}): {describe.arithmetic(numbers)}"
        if not self.may_swap:
            return refusals.no_room(f"{why}; others wait before for the same room", numbers, refusals.BUSY_S)
        return Swap(tuple(one.slot for one in out), f"{why}; unload {describe.names_of(out)}")

    def _may_spill(self, case: Case, numbers: Numbers) -> bool:
        """Say whether a model may go partly to the CPU: nothing is there that Ollama could push out for it."""
        if self.table.registry.gpu_residency_policy.partial_offload == "refuse" or numbers.rule != "physical":
            return False
        if any(one.key == case.key for one in self.table.runners):
            return False
        return not any(
            home.model.never_evict and self.table.is_on(home, case.room.machine, card.key)
            for home in self.table.homes
            for card in case.room.cards
        )


def _booked_on(case: Case) -> str:
    """Return the GPU to book on; empty where Ollama chooses."""
    cards = case.room.cards
    return cards[0].key if len(cards) == 1 and cards[0].key != "auto" else ""
