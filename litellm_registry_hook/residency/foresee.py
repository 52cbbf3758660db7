"""What the live gate would say, without doing it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from litellm_registry_hook.core.gpu.compare import gpu_homes
from litellm_registry_hook.core.gpu.facts import Loaded, Snapshot
from litellm_registry_hook.core.gpu.names import short_name
from litellm_registry_hook.core.gpu.place import homes_of
from litellm_registry_hook.core.gpu.resident import server_of
from litellm_registry_hook.core.gpu.verdict import Admit, Join, No, Open, Resident, Swap, Verdict
from litellm_registry_hook.core.registry import Model, Registry
from litellm_registry_hook.residency.aside import Aside
from litellm_registry_hook.residency.warm import name_of, want_of


@dataclass(frozen=True, slots=True)
class Foreseen:
    """The answer.

    Attributes:
        ok: whether a request for the model would be served. reason: a sentence.
        needed_mb, free_mb, reserved_mb, promised_mb: the numbers; None where not known.

    """

    ok: bool
    reason: str
    needed_mb: float | None = None
    free_mb: float | None = None
    reserved_mb: float | None = None
    promised_mb: float | None = None


def foresee(aside: Aside, model: Model, resident: Iterable[str] = ()) -> Foreseen:
    """Ask the gate about a model; of several servers the best answer counts. Nothing is loaded or unloaded.

    Args:
        aside: entered.
        model: of the registry.
        resident: ids that are to count as loaded too.

    """
    registry = aside.in_force().resolved
    homes = [home for home in gpu_homes(registry) if home.model.id == model.id]
    if not homes:
        return Foreseen(True, f"{model.id} is on no Ollama server with a GPU: the proxy loads nothing for it")
    aside.board.snapshot = _with(aside.board.snapshot, registry, frozenset(resident))
    found = []
    for home in homes:
        want = want_of(aside, home)
        failed = aside.board.shared.failed.get(want.slot)
        if failed is not None:
            why, until = failed
            left = max(1.0, until - aside.board.clock())
            found.append(Foreseen(False, f"{model.id} could not be loaded: {why}; not tried again for {left:.0f} s"))
            continue
        found.append(_said(name_of(home), aside.board.decide(want, may_swap=True)))
    return next((one for one in found if one.ok), found[0])


def _said(name: str, verdict: Verdict) -> Foreseen:
    match verdict:
        case Open():
            return Foreseen(True, f"{name} needs no check: it is on no GPU of this registry")
        case Resident(until=None):
            return Foreseen(True, f"{name} is loaded and pinned")
        case Resident():
            return Foreseen(True, f"{name} is loaded")
        case Join(claim=claim):
            return Foreseen(True, f"{name} is being loaded by {claim.owner}", needed_mb=claim.mb)
        case Admit(mb=mb, reason=reason):
            return Foreseen(True, reason, needed_mb=mb)
        case Swap(victims=victims, reason=reason):
            names = ", ".join(short_name(slot.name) for slot in victims)
            return Foreseen(True, f"{reason} (would be unloaded first: {names})")
        case No():
            return Foreseen(
                False, verdict.reason, verdict.needed_mb, verdict.free_mb, verdict.reserved_mb, verdict.promised_mb
            )


def _with(snapshot: Snapshot, registry: Registry, resident: frozenset[str]) -> Snapshot:
    """Return a snapshot in which these are loaded too, their memory counted as taken already."""
    servers, health = dict(snapshot.servers), dict(snapshot.health)
    for home in homes_of(registry):
        if home.model.id not in resident:
            continue
        if home.slot is None:
            health[home.api_base] = "up"
            continue
        server = server_of(snapshot, home.api_base)
        server = servers.get(server.api_base) if server is not None else None
        if server is not None and all(one.name != home.slot.name for one in server.loaded):
            mb = float(home.model.gpu_residency.vram_mb) if home.model.gpu_residency else 0.0
            entry = Loaded(home.slot.name, size_mb=mb, vram_mb=mb)
            servers[server.api_base] = replace(server, loaded=(*server.loaded, entry))
    return replace(snapshot, servers=servers, health=health)
