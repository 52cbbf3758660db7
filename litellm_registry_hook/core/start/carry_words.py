"""What a person should know of an import: at the top of the file, and about what a model loses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from litellm_registry_hook.core.start.carry_info import ACCESS_GROUPS
from litellm_registry_hook.core.start.carry_model import Draft
from litellm_registry_hook.core.start.carry_names import Result
from litellm_registry_hook.core.start.carry_pools import Found, NamedPool
from litellm_registry_hook.core.start.proposal import Left


def group_left(carried: Mapping[str, tuple[Draft, ...]], pools: Mapping[str, NamedPool]) -> Iterator[Left]:
    """Yield what entries lose on their way into the registry."""
    for name, drafts in carried.items():
        for draft in drafts:
            what = draft.entries[0].what
            if name in pools and ACCESS_GROUPS in (draft.body.get("model_info") or {}):
                yield Left(
                    f"{what}: model_info.{ACCESS_GROUPS}",
                    f"the name {name} is a tier now, and no access group has tiers: keys that list the group reach its "
                    "models by their ids",
                    f"give those keys the name {name}, or import with --keep-foreign {name}",
                )
            if draft.lost:
                yield Left(
                    f"{what}: model_info.{', '.join(draft.lost)}",
                    "the registry has no place for it; the model is called as before",
                )
        if name in pools and len(drafts) > 1 and drafts[0].mode == "embedding":
            ids = ", ".join(draft.upstream for draft in drafts[1:])
            yield Left(
                f"model_name {name}: {ids}",
                "an embedding tier uses its first model only: vectors of two are not comparable",
                "if it is the same model at another address, list that under endpoints of the first",
            )


def top_notes(found: Found, result: Result) -> tuple[str, ...]:
    """Return the comment at the top of the file."""
    lines = ["Carried over from a LiteLLM config: its model_names and aliases are model ids, tiers or aliases here."]
    metered = {str(model.id) for model in result.models if model.entry["metered"]}
    if metered:
        lines.append(
            f"{len(metered)} of {len(result.models)} models are metered: requests for them need the header "
            "x-registry-allow-metered: true and a key in routing.metered_opt_in."
        )
    stay = [name for name in found.groups if name not in found.carried]
    if stay:
        names = ", ".join(stay)
        lines.append(f"Not in here, still LiteLLM's, and metered from now on (routing.unlisted_models): {names}.")
    return tuple(lines)
