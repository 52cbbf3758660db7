"""Ids, tiers and aliases: each name of the config keeps its meaning, and no name is taken twice."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from litellm_registry_hook.core.deployments import split_deployment_id
from litellm_registry_hook.core.registry import NAME_RE
from litellm_registry_hook.core.start.carry_model import Draft
from litellm_registry_hook.core.start.carry_pools import Found, NamedPool
from litellm_registry_hook.core.start.proposal import Left, ProposedModel

_SLUG = re.compile(r"[^A-Za-z0-9._:-]+")
_LONGEST = 120


@dataclass(frozen=True, slots=True)
class Result:
    """The named parts of a registry, as Proposal has them; `ids` is the id of each draft, by identity."""

    models: tuple[ProposedModel, ...] = ()
    tiers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    tier_notes: Mapping[str, str] = field(default_factory=dict)
    left: tuple[Left, ...] = ()


def named(found: Found, pools: Mapping[str, NamedPool]) -> Result:
    """Give every model an id and every name its tier or alias."""
    drafts = [draft for group in found.carried.values() for draft in group]
    ids = _ids(found, pools, drafts)
    tiers: dict[str, tuple[str, ...]] = {}
    aliases: dict[str, str] = {}
    notes: dict[str, str] = {}
    left: list[Left] = []
    contexts: dict[str, int] = {}
    for name, pool in pools.items():
        members = tuple(ids[id(draft)] for draft in pool.members)
        for place, tokens in (pool.contexts or {}).items():
            contexts[members[place]] = tokens
        if members == (name,):
            continue
        if not NAME_RE.match(name) or split_deployment_id(name) is not None:
            left.append(Left(f"model_group_alias: {name}", "this is not a legal name in the registry", "rename it"))
        elif len(members) == 1:
            aliases[name] = members[0]
        else:
            target = found.aliases[name][0] if name in found.aliases else ""
            if tiers.get(target) == members:
                aliases[name] = target
            else:
                tiers[name] = members
                notes[name] = _note(pool)
    taken = {*tiers, *aliases, *ids.values(), *found.groups, *found.reserved}
    for draft in drafts:
        for explicit in draft.explicit_ids:
            if explicit not in taken and NAME_RE.match(explicit) and split_deployment_id(explicit) is None:
                aliases[explicit] = ids[id(draft)]
                taken.add(explicit)
    models = tuple(draft.named(ids[id(draft)], contexts.get(ids[id(draft)])) for draft in drafts)
    return Result(models, tiers, aliases, notes, tuple(left))


def _ids(found: Found, pools: Mapping[str, NamedPool], drafts: list[Draft]) -> dict[int, str]:
    """Return the id of each draft: its model_name where that is its alone, else one made of its upstream's name."""
    ids: dict[int, str] = {}
    for name, pool in pools.items():
        if len(pool.members) == 1 and pool.members[0].group == name and name not in found.aliases:
            ids[id(pool.members[0])] = name
    taken = {*found.groups, *found.aliases, *found.reserved}
    for draft in drafts:
        if id(draft) in ids:
            continue
        wanted = _SLUG.sub("-", draft.upstream).strip("-._:")[:_LONGEST] or "model"
        candidate, number = wanted, 2
        while candidate in taken:
            candidate = f"{wanted}-{number}"
            number += 1
        ids[id(draft)] = candidate
        taken.add(candidate)
    return ids


def _note(pool: NamedPool) -> str:
    parts: list[str] = []
    if len(pool.own) > 1:
        if any(entry.order != float("inf") for draft in pool.own for entry in draft.entries):
            parts.append("in LiteLLM's `order`")
        else:
            parts.append("LiteLLM spread calls over these: now the first that is available serves")
    if pool.via:
        parts.append(f"then the fallbacks of LiteLLM's config ({', '.join(pool.via)})")
    return "; ".join(parts)
