"""What a LiteLLM config says and what runs, as one proposal: the config's entries win and get the sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from litellm_registry_hook.core.gpu.names import full_name
from litellm_registry_hook.core.gpu.place import ServerKey, server_key
from litellm_registry_hook.core.registry import OLLAMA_PROVIDERS
from litellm_registry_hook.core.start.carry_model import AS_FREE, SIZE_UNKNOWN
from litellm_registry_hook.core.start.name import unused
from litellm_registry_hook.core.start.proposal import Proposal, ProposedModel

_TO_RESIDENCY: Final = ("num_ctx", "keep_alive")
_TO_OPTIONS: Final = ("num_batch", "num_gpu")
_OLLAMA_BASE: Final = "http://127.0.0.1:11434"
_MEASURED: Final = "measured"

Deployment = tuple[str, ServerKey]


def merge(discovered: Proposal, imported: Proposal) -> Proposal:
    """Return one proposal.

    A deployment that both have (the same model of the same provider at the same server) stands there as the config has
    it, with the gpu_residency and dimensions that the config lacks, and with a measured size. Other ids, tiers and
    aliases that were found make way for the config's, and for names that stay LiteLLM's.
    """
    seen = {key: model for model in discovered.models for key in _deployments(model.entry)}
    same: dict[str, str] = {}
    models = []
    for model in imported.models:
        twin = next((seen[key] for key in _deployments(model.entry) if key in seen), None)
        models.append(model if twin is None else _sized(model, twin, sized=twin.id not in same))
        if twin is not None:
            same.setdefault(twin.id, model.id)
    names = {one.id for one in imported.models} | {*imported.tiers, *imported.aliases} | imported.reserved
    renamed = dict(same)
    for model in discovered.models:
        if model.id not in same:
            renamed[model.id] = unused(model.id, names)
            names.add(renamed[model.id])
    pools, moved = _pools(discovered, imported, renamed, names)
    models += [_renamed(one, renamed[one.id], moved) for one in discovered.models if one.id not in same]
    names |= set(pools)
    return Proposal(
        models=tuple(models),
        tiers=pools,
        aliases=_aliases(discovered, imported, {**moved, **renamed}, names),
        routing={**discovered.routing, **imported.routing},
        policy=_policy(discovered, imported, models),
        left=(*imported.left, *discovered.left),
        notes=tuple(dict.fromkeys((*imported.notes, *discovered.notes))),
        tier_notes={**{moved[tier]: note for tier, note in discovered.tier_notes.items()}, **imported.tier_notes},
    )


def _deployments(entry: Mapping[str, Any]) -> Iterator[Deployment]:
    """Return what an entry calls: model and server, whatever provider speaks to it and however the name is spelled."""
    params = entry.get("litellm") or {}
    provider, slash, name = str(params.get("model") or "").partition("/")
    ollama = provider in OLLAMA_PROVIDERS
    bases = [place.get("api_base") for place in entry.get("endpoints") or ()] or [params.get("api_base")]
    for base in bases:
        where = base or (_OLLAMA_BASE if ollama else None)
        if isinstance(where, str) and not where.startswith("os.environ/"):
            yield full_name(name if slash else provider), server_key(where)


def _sized(model: ProposedModel, twin: ProposedModel, *, sized: bool) -> ProposedModel:
    """Return an entry of the config with what was seen of it.

    Args:
        model: of the config. twin: the same as it was found. sized: whether it is the first one of that deployment.

    """
    entry = dict(model.entry)
    marks = dict(model.marks)
    if "dimensions" in twin.entry and "dimensions" not in entry and _embeds(entry):
        entry["dimensions"] = twin.entry["dimensions"]
    if twin.entry.get("metered") and not entry["metered"] and marks.get("metered") != AS_FREE:
        # The server says what no name does: it has the model run in somebody's cloud.
        entry |= {"lifecycle": "cost-gated", "metered": True}
        marks["metered"] = "its server calls it elsewhere, which costs money"
    found = twin.entry.get("gpu_residency")
    if not found or entry.get("metered"):
        return replace(model, entry=entry, marks=marks)
    mark = twin.marks.get("gpu_residency.vram_mb", "")
    own = dict(entry.get("gpu_residency") or {})
    if str(entry["litellm"].get("model", "")).partition("/")[0] in OLLAMA_PROVIDERS:
        residency = {**found, **_moved(entry), **own}
    else:
        # Only Ollama's providers tell it a context.
        residency = {**{key: found[key] for key in ("vram_mb", "never_evict") if key in found}, **own}
    if not sized:
        # One deployment, two names: one of them keeps it on the GPU.
        residency.pop("never_evict", None)
    if not own or mark.startswith(_MEASURED):
        residency["vram_mb"] = found["vram_mb"]
        other = "num_ctx" in residency and residency["num_ctx"] != found.get("num_ctx")
        marks["gpu_residency.vram_mb"] = f"{mark}, with num_ctx {found.get('num_ctx')}" if other else mark
    entry["gpu_residency"] = {key: residency[key] for key in ("vram_mb", *residency) if key in residency}
    entry = _placed(entry, twin)
    if "endpoints" in twin.marks:
        marks["endpoints"] = twin.marks["endpoints"]
    notes = tuple(note for note in model.notes if note != SIZE_UNKNOWN)
    return ProposedModel(entry, notes, {path: mark for path, mark in marks.items() if mark != SIZE_UNKNOWN})


def _embeds(entry: Mapping[str, Any]) -> bool:
    roles = entry.get("role")
    return entry.get("mode") == "embedding" or "embedder" in ([roles] if isinstance(roles, str) else roles or ())


def _moved(entry: dict[str, Any]) -> dict[str, Any]:
    """Take what gpu_residency would overrule out of `litellm`, and return it as gpu_residency has it."""
    params = dict(entry["litellm"])
    found = {key: params.pop(key) for key in _TO_RESIDENCY if key in params}
    options = {key: params.pop(key) for key in _TO_OPTIONS if key in params}
    given = params.pop("options", None)
    entry["litellm"] = params
    options = {**(dict(given) if isinstance(given, Mapping) else {}), **options}
    if "num_ctx" in options:
        found.setdefault("num_ctx", options.pop("num_ctx"))
    return {**found, **({"options": options} if options else {})}


def _placed(entry: dict[str, Any], twin: ProposedModel) -> dict[str, Any]:
    """Return the entry with the GPU that its endpoints were found on."""
    gpus = {
        server_key(place["api_base"]): place["gpu"] for place in twin.entry.get("endpoints") or () if "gpu" in place
    }
    base = entry["litellm"].get("api_base")
    places = entry.get("endpoints") or ([{"api_base": base}] if isinstance(base, str) else twin.entry.get("endpoints"))
    if not gpus or not places:
        return entry
    done = []
    for place in places:
        gpu = gpus.get(server_key(str(place.get("api_base"))))
        done.append({**place, "gpu": gpu} if gpu is not None and "gpu" not in place else dict(place))
    return {**entry, "endpoints": done}


def _renamed(model: ProposedModel, name: str, moved: Mapping[str, str]) -> ProposedModel:
    entry = {**model.entry, "id": name}
    if "tier" in entry:
        entry["tier"] = moved[str(entry["tier"])]
    return replace(model, entry=entry)


def _pools(
    discovered: Proposal, imported: Proposal, renamed: Mapping[str, str], names: Iterable[str]
) -> tuple[dict[str, tuple[str, ...]], dict[str, str]]:
    """Return all tiers, and what the found ones are called now.

    A pool of embedding models is never added to: their vectors are not comparable.
    """
    pools = {tier: tuple(ids) for tier, ids in imported.tiers.items()}
    moved: dict[str, str] = {}
    vectors = {one.id for one in discovered.models if _embeds(one.entry)}
    for tier, ids in discovered.tiers.items():
        now = tuple(dict.fromkeys(renamed[one] for one in ids))
        mine = pools.get(tier)
        if mine is not None and (not vectors & set(ids) or set(now) <= set(mine)):
            moved[tier] = tier
            pools[tier] = tuple(dict.fromkeys((*mine, *now)))
        else:
            moved[tier] = unused(tier, {*names, *pools}, ["found"])
            pools[moved[tier]] = now
    return pools, moved


def _aliases(discovered: Proposal, imported: Proposal, now: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    aliases = dict(imported.aliases)
    taken = set(names)
    for alias, target in discovered.aliases.items():
        if alias not in taken and target in now:
            aliases[alias] = now[target]
    return aliases


def _policy(discovered: Proposal, imported: Proposal, models: Iterable[ProposedModel]) -> dict[str, Any]:
    policy = {**discovered.policy, **imported.policy}
    gpus = {**discovered.policy.get("gpus", {}), **imported.policy.get("gpus", {})}
    policy.pop("never_evict_ids", None)
    if gpus:
        policy["gpus"] = gpus
    stay = [one.id for one in models if (one.entry.get("gpu_residency") or {}).get("never_evict")]
    return {"never_evict_ids": stay, **policy} if stay else policy
