"""From what was seen and decided to a registry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from litellm_registry_hook.core.start.choices import Choices
from litellm_registry_hook.core.start.draft import NO_KEY, Draft, drafts_of
from litellm_registry_hook.core.start.found import Found
from litellm_registry_hook.core.start.machines import Machine, gpus_section, machines_of
from litellm_registry_hook.core.start.name import unused
from litellm_registry_hook.core.start.own import machine_of
from litellm_registry_hook.core.start.proposal import Left, Proposal, ProposedModel
from litellm_registry_hook.core.start.residents import House, default_kept, kept
from litellm_registry_hook.core.start.sizes import Size, size_of
from litellm_registry_hook.core.start.tiers import Tiers, tiers_of

_ROLES: Final = {"chat": "chat", "embed": "embedder", "rerank": "reranker"}
_OPEN: Final = "the memory of its GPU is not known: the gate is open here"
_HEAD: Final = (
    "The models of this house, written by `litellm-registry init`.",
    "Callers name a tier of routing.tiers, never a model.",
    "Check this file:        litellm-registry validate",
    "Measure the sizes:      litellm-registry calibrate --write",
    "Carry it to the proxy:  generate-litellm-config",
)


@dataclass(frozen=True, slots=True)
class Plan:
    """All that a proposal stands on.

    Attributes:
        house: drafts that are proposed, with sizes and machines. embedders: those whose vector length is known, best
            first. left: what is not proposed.

    """

    house: House
    embedders: tuple[str, ...]
    left: tuple[Left, ...]


def plan(found: Found, choices: Choices) -> Plan:
    """Return the drafts that can be proposed with these choices."""
    drafts, left = drafts_of(found, choices)
    machines = machines_of(found, drafts, choices)
    sizes: dict[str, Size] = {}
    good: dict[str, Draft] = {}
    dropped: list[Left] = []
    for draft in drafts:
        total = max((machines[machine_of(base)].total_mb for base in draft.bases if draft.own), default=0.0)
        size = size_of(draft, choices, total)
        why = _unfit(draft, size, machines, choices)
        if why is not None:
            dropped.append(why)
            continue
        good[draft.id] = draft
        if size is not None:
            sizes[draft.id] = size
    house = House(good, sizes, machines, choices.reserve_mb)
    return Plan(house, _embedders(house), (*found.left, *left, *dropped))


def _unfit(draft: Draft, size: Size | None, machines: Mapping[str, Machine], choices: Choices) -> Left | None:
    where = f"{draft.id} at {draft.bases[0]}"
    if draft.kind == "embed" and draft.length is None:
        why = "the length of its vectors is not told without embedding something"
        return Left(where, why, f"--dimensions {draft.id}=N")
    if size is None or draft.resident is not None:
        return None
    rooms = [machines[machine_of(base)] for base in draft.bases]
    if all(room.counted and size.mb + choices.reserve_mb > room.total_mb for room in rooms):
        need = f"{size.mb} MB ({size.mark.partition(':')[0]}) and a reserve of {choices.reserve_mb}"
        why = f"it needs {need}, the GPU has {max(room.total_mb for room in rooms):.0f} MB"
        return Left(where, why, f"--size {draft.id}=MB if it takes less")
    return None


def _embedders(house: House) -> tuple[str, ...]:
    """Return the embedders: free before metered, loaded before others, then the smallest."""

    def order(one: Draft) -> tuple[object, ...]:
        size = house.sizes.get(one.id)
        return one.metered, one.resident is None, size is None, size.mb if size is not None else 0, one.id

    found = [draft for draft in house.drafts.values() if draft.kind == "embed"]
    return tuple(draft.id for draft in sorted(found, key=order))


def propose(found: Found, choices: Choices) -> Proposal:
    """Return the registry of what was seen; a decision that is still open is taken as --yes takes it."""
    ground = plan(found, choices)
    house = ground.house
    free = [one for one in ground.embedders if not house.drafts[one].metered]
    embedder = choices.embedder if choices.embedder in ground.embedders else (free[0] if free else None)
    stay, not_kept = kept(house, [one for one in default_kept(house, embedder, choices) if one in house.drafts])
    tiers = tiers_of(house, embedder, stay)
    models = tuple(_model(draft, house, tiers, keeps=draft.id in stay) for draft in house.drafts.values())
    return Proposal(
        models=models,
        tiers=tiers.pools,
        aliases=_aliases(house, tiers),
        routing={"metered_opt_in": []},
        policy=_policy(found, house, stay, models),
        left=(*ground.left, *not_kept),
        notes=_HEAD,
        tier_notes=tiers.notes,
    )


def _aliases(house: House, tiers: Tiers) -> dict[str, str]:
    aliases = {"embedder": "embed"} if "embed" in tiers.pools else {}
    taken = {*house.drafts, *tiers.pools, *aliases}
    for draft in house.drafts.values():
        for name in draft.aliases:
            one = unused(name, taken)
            taken.add(one)
            aliases[one] = draft.id
    return aliases


def _policy(found: Found, house: House, stay: Iterable[str], models: Iterable[ProposedModel]) -> dict[str, Any]:
    gpus = gpus_section(found, house.machines)
    if not gpus or not any("gpu_residency" in model.entry for model in models):
        return {}
    policy: dict[str, Any] = {"never_evict_ids": list(stay)} if stay else {}
    return {**policy, "reserve_mb": house.reserve_mb, "gpus": gpus}


def _model(draft: Draft, house: House, tiers: Tiers, *, keeps: bool) -> ProposedModel:
    marks: dict[str, str] = {}
    entry: dict[str, Any] = {"id": draft.id}
    if (home := tiers.home(draft.id)) is not None:
        entry["tier"] = home
    entry["role"] = _ROLES[draft.kind]
    entry["lifecycle"] = "cost-gated" if draft.metered else "on-demand" if draft.health else "always-on"
    entry["metered"] = draft.metered
    if draft.metered:
        entry["opt_in_required"] = True
    if draft.length is not None:
        entry["dimensions"] = draft.length
    size = house.sizes.get(draft.id)
    if draft.context is not None and draft.ollama is None and draft.kind == "chat":
        entry["context"] = draft.context
    entry["litellm"] = {"model": draft.litellm, **({"api_key": draft.key} if draft.key else {})}
    # A server that is not Ollama takes part in the counting only where its GPU is counted.
    counts = size is not None and (draft.ollama is not None or house.on_gpu(draft.id))
    entry["endpoints"] = [_endpoint(draft, base, house, gpu=counts or draft.cloud) for base in draft.bases]
    if any(house.machines[host].how == "unknown" for host in house.hosts(draft.id) if counts):
        marks["endpoints"] = _OPEN
    if size is not None and counts:
        residency: dict[str, Any] = {"vram_mb": size.mb}
        marks["gpu_residency.vram_mb"] = size.mark
        if size.num_ctx is not None:
            residency["num_ctx"] = size.num_ctx
        if keeps:
            residency["never_evict"] = True
        entry["gpu_residency"] = residency
    return ProposedModel(entry, _notes(draft, tiers), marks)


def _endpoint(draft: Draft, base: str, house: House, *, gpu: bool) -> dict[str, Any]:
    place: dict[str, Any] = {"api_base": base}
    if draft.health and not draft.metered:
        place["health_url"] = f"{base.removesuffix('/v1')}/health"
    key = house.machines[machine_of(base)].key if draft.own else "none"
    if gpu and key is not None:
        place["gpu"] = key
    return place


def _notes(draft: Draft, tiers: Tiers) -> tuple[str, ...]:
    said = []
    if draft.cloud:
        said.append("a cloud model of Ollama: it runs elsewhere and costs money")
    elif draft.metered and draft.own:
        said.append("its server lists it as a paid provider's: a call may cost money (--free says otherwise)")
    elif draft.metered:
        said.append("not a server of this house: a call may cost money (--free says otherwise)")
    if draft.params:
        said.append(f"{draft.params / 1e9:.3g} B parameters")
    if draft.ollama is not None and draft.ollama.abilities:
        said.append(", ".join(draft.ollama.abilities))
    if draft.context is not None and draft.ollama is not None:
        said.append(f"trained with {draft.context} tokens")
    if draft.ollama is None and not draft.metered and draft.kind == "chat":
        said.append("its memory is not managed here")
    lines = ["; ".join(said)] if said else []
    if draft.key == NO_KEY:
        lines.append("LiteLLM wants a key; the server does not look at it")
    if draft.id in tiers.passed_over:
        lines.append("too large beside the never-evict models: the gate will pass it over")
    return tuple(lines)
