"""Pools: what stands in a tier, and which models stand in none."""

from __future__ import annotations

from collections.abc import Iterator

from litellm_registry_hook.core.checks.common import id_list
from litellm_registry_hook.core.draft import Draft
from litellm_registry_hook.core.findings import Finding, redact
from litellm_registry_hook.core.suggest import did_you_mean


def rules(draft: Draft) -> Iterator[Finding]:
    """Find tiers that cannot serve and models that no tier serves."""
    tiers = draft.registry.routing.tiers
    listed: set[str] = set()
    for tier, ids in tiers.items():
        path = ("routing", "tiers", tier)
        listed.update(ids)
        if not ids and draft.intact(*path):
            yield Finding("empty_tier", path, f"the tier `{tier}` has no model", "list model ids, or remove the tier")
        yield from id_list(draft, ids, path)
        models = [draft.registry.by_id[one] for one in ids if one in draft.registry.by_id]
        sizes = {
            model.id: model.dimensions for model in models if model.effective_mode == "embedding" and model.dimensions
        }
        if len(set(sizes.values())) > 1:
            text = ", ".join(f"{name} {size}" for name, size in sizes.items())
            message = f"the embedding models of the tier `{tier}` differ in dimensions: {text}"
            yield Finding("dimensions_differ", path, message, "one tier per vector length")
        elif len(sizes) > 1:
            first, *others = (f"`{name}`" for name in sizes)
            message = f"the tier `{tier}` only uses {first}: vectors of {', '.join(others)} would not be comparable"
            hint = "give each embedding model a tier of its own, and move the alias when all is embedded anew"
            yield Finding("embedders_in_one_tier", path, message, hint, severity="warning")
        modes = {model.id: model.effective_mode for model in models if draft.whole(model.id, "role")}
        if len(set(modes.values())) > 1:
            text = ", ".join(f"{name} {mode}" for name, mode in modes.items())
            message = f"the models of the tier `{tier}` are served in different modes: {text}"
            yield Finding("mixed_modes", path, message, "one tier per mode", severity="warning")
    if not draft.intact("routing", "tiers"):
        return
    for at, model in draft.models():
        if model.id not in listed:
            message = f"no tier lists `{model.id}`: it is reached by its name only"
            yield Finding(
                "model_in_no_tier", (*at, "id"), message, "add it to a tier of routing.tiers", severity="warning"
            )
        if model.tier is not None and model.tier not in tiers:
            message = f"`{redact(model.tier)}` is not a tier of routing.tiers"
            hint = did_you_mean(model.tier, tiers, what="tiers")
            yield Finding("home_tier", (*at, "tier"), message, hint, severity="warning")
        elif model.tier is not None and model.id not in tiers[model.tier]:
            message = f"the tier `{model.tier}` does not list `{model.id}`"
            yield Finding("home_tier", (*at, "tier"), message, "add it there, or change tier", severity="warning")
