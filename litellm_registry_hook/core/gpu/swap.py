"""Which models to unload for a load: idle, evictable, least recently used through us, and no more than needed."""

from __future__ import annotations

import math

from litellm_registry_hook.core.gpu.place import overlap
from litellm_registry_hook.core.gpu.rules import Case, Gone
from litellm_registry_hook.core.gpu.table import Runner


def in_reach(case: Case) -> list[Runner]:
    """Return the runners whose end could help, on a GPU in question or in that Ollama's count; not the own one."""
    return [
        one
        for one in case.table.runners
        if one is not case.own
        and one.machine == case.room.machine
        and (one.key == case.key or any(overlap(one.gpu, card.key) for card in case.room.cards))
    ]


def candidates(case: Case) -> list[Runner]:
    """Return the runners that may be unloaded, the first to go first.

    One that is leaving anyway (its expiry has passed) is the first. Members of a co-residency group go last, as they
    were promised a place together. Among equals: least recently used through us; one never used is the oldest.
    """
    grouped = {name for group in case.table.registry.gpu_residency_policy.co_residency_groups for name in group.ids}

    def order(one: Runner) -> tuple[bool, bool, float, str, str]:
        leaving = one.entry.expires_at is not None and one.entry.expires_at <= case.table.now
        last = one.last_used if one.last_used is not None else -math.inf
        return not leaving, any(model.id in grouped for model in one.models), last, one.slot.api_base, one.slot.name

    return sorted((one for one in in_reach(case) if one.evictable and one.busy == 0), key=order)


def victims(case: Case, base: Gone) -> tuple[Runner, ...] | None:
    """Return the runners to unload so that both rules hold, in order; None where unloading idle ones is not enough.

    Taken in order until it fits; then whoever turns out not to be needed stays, the most recently used first.

    Args:
        case: the load.
        base: runners that come free anyway: the model's own, where it is loaded otherwise than it should be.

    """
    chosen: list[Runner] = []
    for one in candidates(case):
        chosen.append(one)
        if case.judge(base.union(chosen)).rule is None:
            break
    else:
        return None
    for one in tuple(reversed(chosen)):
        rest = [other for other in chosen if other is not one]
        if case.judge(base.union(rest)).rule is None:
            chosen = rest
    return tuple(chosen)
