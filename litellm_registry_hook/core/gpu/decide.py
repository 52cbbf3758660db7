"""May this model be loaded now? A pure function of the registry, what was read, loads in flight and our own traffic.

Never-evict models stay because no load that would push one out is ever started: Ollama's keep_alive -1 does not
protect them. The decision may be asked speculatively and any number of times; it changes nothing and logs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from litellm_registry_hook.core.gpu import describe
from litellm_registry_hook.core.gpu.facts import Claim, Server, Snapshot, Usage
from litellm_registry_hook.core.gpu.place import NONE, Home, Room, overlap, room_of, server_key
from litellm_registry_hook.core.gpu.predict import context_of, on_cpu, predict
from litellm_registry_hook.core.gpu.resident import Fault, fault_of, residency
from litellm_registry_hook.core.gpu.rules import Case, Gone, Numbers
from litellm_registry_hook.core.gpu.swap import in_reach, victims
from litellm_registry_hook.core.gpu.table import Runner, Table
from litellm_registry_hook.core.gpu.verdict import Admit, Join, No, Open, Resident, Swap, Verdict, Want
from litellm_registry_hook.core.registry import Model, Registry

NO_ROOM: Final = "gpu_no_headroom"
UNKNOWN: Final = "gpu_state_unknown"
UNAVAILABLE: Final = "model_unavailable"
# A look takes seconds where a server stalls; what is older than this says nothing about free memory.
MAX_LOOK_AGE_S: Final = 30.0
LOAD_S: Final = 20.0  # what a load usually takes
BUSY_RETRY_S: Final = 5.0
UNKNOWN_RETRY_S: Final = 10.0
NEVER_RETRY_S: Final = 30.0


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
    resident: Resident | None = residency(registry, snapshot, want, now)
    if resident is not None:
        return resident
    return _Load(table, want, home, may_swap).verdict()


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
    tag = want.slot.name.rpartition(":")[2]
    return tag == "cloud" or tag.endswith("-cloud")


class _Load:
    """One model that is not resident, on its way to a verdict."""

    def __init__(self, table: Table, want: Want, home: Home | None, may_swap: bool) -> None:
        self.table = table
        self.want = want
        self.may_swap = may_swap
        self.key = server_key(want.slot.api_base)
        self.home = home
        self.base = want.slot.api_base
        self.name = want.model.id if want.model is not None else want.slot.name
        self.allow = table.registry.routing.on_unknown.vram == "allow"

    def verdict(self) -> Verdict:
        server = self.table.servers.get(self.key)
        if server is not None and server.state == "gone":
            reason = f"Ollama at {self.base} does not answer ({server.reason or 'connection refused'}); start it"
            return No(UNAVAILABLE, f"{self.name} is not available: {reason}", UNKNOWN_RETRY_S)
        claim = self.table.claim_at(self.key, self.want.slot.name)
        if claim is not None and self._same_load(claim, server):
            return Join(claim)
        model = self.want.model
        if model is None or model.gpu_residency is None:
            return self._no_size()
        other = claim or next((one for one in self.table.claims if server_key(one.slot.api_base) == self.key), None)
        if other is not None:
            return self._in_flight(other, float(model.gpu_residency.vram_mb))
        doubt = self._doubt(server)
        if doubt and not self.allow:
            return self._unknown(doubt)
        return self._weigh(model, server, doubt)

    def _same_load(self, claim: Claim, server: Server | None) -> bool:
        """Say whether a load in flight will serve this one as well: the same runner, with the same context."""
        mine = self.want.model
        theirs = self.table.registry.by_id.get(claim.model)
        if mine is None or theirs is None or mine.id == theirs.id:
            return True
        file = server.files.get(self.want.slot.name) if server is not None else None
        shape = file.shape if file is not None else None
        return context_of(mine, shape) in {None, context_of(theirs, shape)}

    def _no_size(self) -> No:
        where = "is not in the registry" if self.want.model is None else "has no gpu_residency in the registry"
        fix = "add gpu_residency.vram_mb to it, or load it by hand"
        return No(
            NO_ROOM, f"{self.name} {where}, so its size is not known and it is not loaded: {fix}", NEVER_RETRY_S, False
        )

    def _in_flight(self, claim: Claim, needed_mb: float) -> No:
        left = max(1.0, claim.began + LOAD_S - self.table.now)
        reason = f"{self.name} ({describe.megabytes(needed_mb)}) has to wait: {describe.loading(claim, self.base)}"
        return No(NO_ROOM, reason, left, needed_mb=needed_mb, promised_mb=claim.mb)

    def _doubt(self, server: Server | None) -> str:
        """Return why what is loaded or free is not known; empty where it is."""
        age = self.table.now - self.table.snapshot.at
        if age > MAX_LOOK_AGE_S:
            return f"the last reading is {age:.0f} s old"
        if server is None or (server.state == "up" and server.read_at <= 0):
            return f"Ollama at {self.base} has not been read yet"
        if server.state == "stalled":
            return f"Ollama at {self.base} answers too late ({server.reason or 'timeout'})"
        return ""

    def _unknown(self, why: str) -> No:
        size = self.want.model.gpu_residency if self.want.model is not None else None
        needed = float(size.vram_mb) if size is not None else None
        text = f" ({describe.megabytes(needed)})" if needed is not None else ""
        fix = "mend that, or set routing.on_unknown.vram: allow"
        reason = f"{self.name}{text} is not loaded, the state of its GPU is not known: {why}; {fix}"
        return No(UNKNOWN, reason, UNKNOWN_RETRY_S, needed_mb=needed)

    def _weigh(self, model: Model, server: Server | None, doubt: str) -> Verdict:
        assert model.gpu_residency is not None
        needed = 0.0 if on_cpu(model) else float(model.gpu_residency.vram_mb)
        gpu = self.home.gpu if self.home is not None else "auto"
        room = room_of(self.table.registry.gpu_residency_policy, self.table.snapshot, self.base, gpu)
        if room.mode != "unknown":
            doubt = doubt or self._unread(room)
            if doubt and not self.allow:
                return self._unknown(doubt)
        elif not self.allow:
            return self._unknown(room.reason)
        elif room.fallback is not None:
            room = replace(room, mode="declared", cards=(room.fallback,), others=())
        else:
            reason = f"{self.name} is loaded without numbers, routing.on_unknown.vram is allow: {room.reason}"
            return Admit(needed, "", reason)
        own = self.table.runner_at(self.key, self.want.slot.name)
        fault: Fault | None = None
        if own is not None and own.server.state == "up":
            fault = fault_of(self.table.registry, own.server, own.entry, model, self.want.slot.name)
        if own is not None and fault is None:
            needed = max(needed, own.entry.vram_mb)
        machine_mb = sum(card.total_mb for card in (*room.cards, *room.others))
        file = server.files.get(self.want.slot.name) if server is not None else None
        predicted = predict(model, file, server.version if server is not None else (), machine_mb)
        case = Case(self.table, self.want.slot, room, needed, predicted, own)
        if own is not None and fault is not None:
            return self._reload(case, own, fault)
        return self._load(case, frozenset((own,)) if own is not None else frozenset(), ())

    def _unread(self, room: Room) -> str:
        """Return which Ollama of a declared GPU was never read: what it holds is not known, nor is what is free."""
        if room.mode != "declared":
            return ""
        for key, homes in self.table.at_server.items():
            for home in homes:
                here = room_of(self.table.registry.gpu_residency_policy, self.table.snapshot, home.api_base, home.gpu)
                if here.machine != room.machine or here.mode == NONE or not overlap(here.key, room.key):
                    continue
                server = self.table.servers.get(key)
                if server is None or (server.state != "gone" and server.read_at <= 0):
                    return f"Ollama at {home.api_base}, on the same GPU, has not been read yet"
        return ""

    def _reload(self, case: Case, own: Runner, fault: Fault) -> Verdict:
        """Decide about a model that is loaded otherwise than the registry says: unload it, then load it."""
        what = (
            f"it is loaded with num_ctx {own.entry.context}"
            if fault == "other_context"
            else f"only {own.entry.vram_mb:.0f} of its {describe.megabytes(own.entry.size_mb)} are on the GPU"
        )
        numbers = case.judge(frozenset((own,)))
        mine = self.want.model
        bound = [one.id for one in own.models if one.never_evict and (mine is None or one.id != mine.id)]
        if bound:
            fix = "give both the same num_ctx, or the model a copy of its own weights"
            return self._no(
                f"{self.name} has to be reloaded ({what}), but never-evict {', '.join(bound)} uses that runner; {fix}",
                numbers,
                NEVER_RETRY_S,
                transient=False,
            )
        if own.busy or own.claimed:
            reason = f"{self.name} has to be reloaded ({what}), which waits for {own.busy} request(s) that use it"
            return self._no(f"{reason}: {describe.arithmetic(numbers)}", numbers, BUSY_RETRY_S)
        return self._load(case, frozenset((own,)), (own,), what)

    def _load(self, case: Case, base: Gone, first: tuple[Runner, ...], what: str = "") -> Verdict:
        """Decide by the numbers.

        Args:
            case: the load.
            base: runners whose memory comes back without a victim. first: those of them that have to be unloaded.
            what: why they have to be.

        """
        numbers = case.judge(base)
        chosen: tuple[Runner, ...] | None = ()
        if numbers.rule is None and not first:
            return Admit(case.needed_mb, self._gpu(case), describe.fits(self.name, case, numbers))
        if numbers.rule is not None:
            chosen = victims(case, base)
        if chosen is not None:
            out = (*first, *chosen)
            why = describe.broken_rule(self.name, case, numbers) if numbers.rule is not None else f"{self.name}: {what}"
            if not self.may_swap:
                return self._no(f"{why}; others wait before for the same room", numbers, BUSY_RETRY_S)
            return Swap(tuple(one.slot for one in out), f"{why}; unload {describe.names_of(out)}")
        if self._may_spill(case, numbers):
            some = max(0.0, min(case.needed_mb, numbers.available_mb))
            return Admit(
                some, self._gpu(case), f"{describe.broken_rule(self.name, case, numbers)}; the rest goes to the CPU"
            )
        return self._refuse(case, base, numbers)

    def _gpu(self, case: Case) -> str:
        """Return the GPU to book on; empty where Ollama chooses."""
        cards = case.room.cards
        return cards[0].key if len(cards) == 1 and cards[0].key != "auto" else ""

    def _may_spill(self, case: Case, numbers: Numbers) -> bool:
        """Say whether a model may go partly to the CPU: nothing else is there that Ollama could push out for it."""
        table = self.table
        if table.registry.gpu_residency_policy.partial_offload == "refuse" or numbers.rule != "physical":
            return False
        if any(one.key == case.key for one in table.runners):
            return False
        for home in table.homes:
            if not home.model.never_evict or home.gpu == NONE:
                continue
            here = room_of(table.registry.gpu_residency_policy, table.snapshot, home.api_base, home.gpu)
            if here.machine == case.room.machine and any(overlap(here.key, card.key) for card in case.room.cards):
                return False
        return True

    def _refuse(self, case: Case, base: Gone, numbers: Numbers) -> No:
        """Say what stands in the way: models in use, loads in flight, models we do not know, or the GPU itself."""
        why = describe.broken_rule(self.name, case, numbers)
        around = in_reach(case)
        ours = base.union(one for one in around if one.evictable)
        busy = [one for one in around if one.evictable and one.busy]
        if busy and case.judge(ours).rule is None:
            text = ", ".join(f"{one.label} ({one.busy} in flight)" for one in busy)
            return self._no(f"{why}; in use and not unloaded: {text}; wait for them", numbers, BUSY_RETRY_S)
        if numbers.promised_mb and case.judge(ours, promises=False).rule is None:
            began = min(claim.began for claim in self.table.claims)
            return self._no(f"{why}; wait for the loads in flight", numbers, max(1.0, began + LOAD_S - self.table.now))
        never = case.bare()
        if never is not None:
            text = describe.broken_rule(self.name, case, never)
            return self._no(
                f"{text}, even with nothing else loaded; {describe.never_fix(never)}",
                never,
                NEVER_RETRY_S,
                transient=False,
            )
        stuck = [one for one in around if one.models and not one.never_evict and not one.evictable]
        unknown = [one for one in around if not one.models]
        if (stuck or unknown) and case.judge(ours.union(stuck, unknown), promises=False).rule is None:
            return self._held(why, numbers, stuck, unknown)
        fix = "end other programs on that GPU" if case.room.mode == "nvml" else "stop other model servers on that GPU"
        return self._no(f"{why}; memory is in use by others than registry models: {fix}", numbers, NEVER_RETRY_S)

    def _held(self, why: str, numbers: Numbers, stuck: list[Runner], unknown: list[Runner]) -> No:
        parts = []
        if unknown:
            names = describe.names_of(unknown)
            parts.append(
                f"never unloaded as the registry does not know them: {names}; add them to it or `ollama stop` them"
            )
        if stuck:
            parts.append(f"not unloaded as their server does not answer or loads them: {describe.names_of(stuck)}")
        ends = [one.entry.expires_at for one in unknown if one.entry.expires_at is not None]
        retry = min(max(1.0, min(ends) - self.table.now), NEVER_RETRY_S) if ends else NEVER_RETRY_S
        return self._no(f"{why}; {'; '.join(parts)}", numbers, retry)

    def _no(self, reason: str, numbers: Numbers, retry_after_s: float, *, transient: bool = True) -> No:
        return No(
            NO_ROOM,
            reason,
            retry_after_s,
            transient,
            numbers.needed_mb,
            numbers.free_mb,
            numbers.reserved_mb,
            numbers.promised_mb,
        )
