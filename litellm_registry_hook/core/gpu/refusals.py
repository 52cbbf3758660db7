"""Every No of the residency gate: what stands in the way, the numbers, the fix, and when to come back."""

from __future__ import annotations

import math
from typing import Final

from litellm_registry_hook.core.gpu import describe
from litellm_registry_hook.core.gpu.facts import Claim, Server
from litellm_registry_hook.core.gpu.names import short_name
from litellm_registry_hook.core.gpu.rules import Case, Gone, Numbers
from litellm_registry_hook.core.gpu.swap import in_reach
from litellm_registry_hook.core.gpu.table import Runner
from litellm_registry_hook.core.gpu.verdict import No, Want

NO_ROOM: Final = "gpu_no_headroom"
UNKNOWN: Final = "gpu_state_unknown"
UNAVAILABLE: Final = "model_unavailable"
# Estimates for Retry-After, in seconds.
LOAD_S: Final = 20.0
BUSY_S: Final = 5.0
UNKNOWN_S: Final = 10.0
NEVER_S: Final = 30.0


def name_of(want: Want) -> str:
    """Return what people call the wanted model: its registry id, else its Ollama name."""
    return want.model.id if want.model is not None else short_name(want.slot.name)


def no_room(reason: str, numbers: Numbers, retry_after_s: float, *, transient: bool = True) -> No:
    """Return a refusal by numbers."""
    return No(
        NO_ROOM,
        reason,
        retry_after_s,
        transient,
        numbers.needed_mb,
        numbers.free_mb if math.isfinite(numbers.free_mb) else None,
        numbers.reserved_mb,
        numbers.promised_mb,
    )


def gone(want: Want, server: Server) -> No:
    """Return that the server does not answer at all."""
    why = f"Ollama at {want.slot.api_base} does not answer ({server.reason or 'connection refused'})"
    return No(UNAVAILABLE, f"{name_of(want)} is not available: {why}; start it", UNKNOWN_S)


def no_size(want: Want) -> No:
    """Return that a model without a known size is not loaded."""
    where = "is not in the registry" if want.model is None else "has no gpu_residency in the registry"
    reason = f"{name_of(want)} {where}, so its size is not known: add gpu_residency.vram_mb, or load it by hand"
    return No(NO_ROOM, reason, NEVER_S, transient=False)


def in_flight(want: Want, claim: Claim, needed_mb: float, numbers: Numbers | None, now: float) -> No:
    """Return that another load of the same server goes first; without numbers where the server stalls over it."""
    sums = describe.arithmetic(numbers) if numbers is not None else f"{describe.megabytes(needed_mb)} needed"
    reason = (
        f"{name_of(want)} waits for a load in flight, {claim.model} ({describe.megabytes(claim.mb)}) on "
        f"{want.slot.api_base}, as Ollama loads one model at a time: {sums}; try again"
    )
    if numbers is not None:
        return no_room(reason, numbers, _until_loaded(claim, now))
    return No(NO_ROOM, reason, _until_loaded(claim, now), needed_mb=needed_mb, promised_mb=claim.mb)


def unknown(want: Want, why: str) -> No:
    """Return that what is free or loaded is not known, which is never taken for room."""
    size = want.model.gpu_residency if want.model is not None else None
    needed = float(size.vram_mb) if size is not None else None
    text = f" ({describe.megabytes(needed)})" if needed is not None else ""
    fix = "mend that, or set routing.on_unknown.vram: allow"
    reason = f"{name_of(want)}{text} is not loaded, the state of its GPU is not known: {why}; {fix}"
    return No(UNKNOWN, reason, UNKNOWN_S, needed_mb=needed)


def no_fit(name: str, case: Case, base: Gone, numbers: Numbers) -> No:
    """Return what stands in the way: models in use, loads in flight, the GPU itself, or what is not ours to unload.

    Args:
        name: of the wanted model.
        case: the load. base: runners whose memory comes back without a victim.
        numbers: the rule that failed now.

    """
    why = describe.broken_rule(name, case, numbers)
    around = in_reach(case)
    ours = base.union(one for one in around if one.evictable)
    busy = [one for one in around if one.evictable and one.busy]
    if busy and case.judge(ours).rule is None:
        text = ", ".join(f"{one.label} ({one.busy} in flight)" for one in busy)
        return no_room(f"{why}; in use and not unloaded: {text}; wait for them", numbers, BUSY_S)
    never = case.bare()
    if never is not None:
        text = describe.broken_rule(name, case, never)
        reason = f"{text}, even with nothing but never-evict models loaded; {describe.never_fix(never)}"
        return no_room(reason, never, NEVER_S, transient=False)
    if numbers.promised_mb and case.judge(ours, promises=False).rule is None:
        first = min(case.table.claims, key=lambda claim: claim.began)
        return no_room(f"{why}; wait for the loads in flight", numbers, _until_loaded(first, case.table.now))
    stuck = [one for one in around if one.models and not one.never_evict and not one.evictable]
    foreign = [one for one in around if not one.models]
    if (stuck or foreign) and case.judge(ours.union(stuck, foreign), promises=False).rule is None:
        return _held(why, case, numbers, stuck, foreign)
    fix = "end other programs on that GPU" if case.room.mode == "nvml" else "stop other model servers on that GPU"
    return no_room(f"{why}; memory is in use by others than registry models: {fix}", numbers, NEVER_S)


def _held(why: str, case: Case, numbers: Numbers, stuck: list[Runner], foreign: list[Runner]) -> No:
    parts = []
    if foreign:
        names = describe.names_of(foreign)
        parts.append(f"never unloaded, as the registry does not know it: {names}; add it, or `ollama stop` it")
    if stuck:
        parts.append(f"not unloaded, as its server stalls or it is being loaded: {describe.names_of(stuck)}")
    ends = [one.entry.expires_at - case.table.now for one in foreign if one.entry.expires_at is not None]
    retry = min(max(1.0, min(ends)), NEVER_S) if ends else NEVER_S
    return no_room(f"{why}; {'; '.join(parts)}", numbers, retry)


def _until_loaded(claim: Claim, now: float) -> float:
    return max(1.0, claim.began + LOAD_S - now)
