"""The tiers of a proposal: `large`, `small`, `embed`, `rerank`, and `paid` for what may cost money."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from litellm_registry_hook.core.start.draft import Draft
from litellm_registry_hook.core.start.name import unused
from litellm_registry_hook.core.start.residents import House

# Up to here a chat model counts as small.
SMALL_PARAMS: Final = 5e9
_NOTES: Final = {
    "large": "chat models, the largest first",
    "small": "chat models, the smallest first",
    "embed": "one model: vectors of two models are not comparable",
    "paid": "each call may cost money: consent and an opted-in key, see docs/opt-in.md",
}


@dataclass(frozen=True, slots=True)
class Tiers:
    """The pools.

    Attributes:
        pools: ids by tier, in the order of the file. notes: comment above a tier.
        passed_over: ids that cannot be loaded beside the never-evict models; they stand last in their pools.

    """

    pools: Mapping[str, tuple[str, ...]]
    notes: Mapping[str, str]
    passed_over: frozenset[str]

    def home(self, model_id: str) -> str | None:
        """Return the first tier that lists a model."""
        return next((tier for tier, ids in self.pools.items() if model_id in ids), None)


def tiers_of(house: House, embedder: str | None, stay: Collection[str]) -> Tiers:
    """Return the tiers; every model stands in one at least."""
    drafts = house.drafts.values()
    over = frozenset(one.id for one in drafts if one.id not in stay and house.evicts(one.id, stay))
    chat = [one for one in drafts if one.kind == "chat" and not one.metered]
    small = _small(chat)
    large = [one for one in chat if one not in small]
    if all(one.id in over for one in large):
        # A tier that nothing can serve helps nobody.
        large = chat
    pools: dict[str, tuple[str, ...]] = {
        "large": _ids(sorted(large, key=lambda one: (one.id in over, -one.params, one.id))),
        "small": _ids(sorted(small, key=lambda one: (one.id in over, one.params, one.id))),
        "embed": (embedder,) if embedder is not None else (),
        "rerank": _ids([one for one in drafts if one.kind == "rerank" and not one.metered]),
        "paid": _ids([one for one in drafts if one.kind == "chat" and one.metered]),
    }
    others = [one for one in drafts if one.id != embedder and one.kind == "embed"]
    others += [one for one in drafts if one.kind == "rerank" and one.metered]
    for one in others:
        name = unused(f"{one.kind}-{one.id}", {*house.drafts, *pools})
        pools[name] = (one.id,)
    pools = {tier: ids for tier, ids in pools.items() if ids}
    return Tiers(pools, {tier: note for tier, note in _NOTES.items() if tier in pools}, over)


def _small(chat: list[Draft]) -> list[Draft]:
    known = [one for one in chat if one.params]
    small = [one for one in known if one.params <= SMALL_PARAMS]
    least = min((one.params for one in known), default=0.0)
    return small or [one for one in known if one.params == least] or chat


def _ids(drafts: list[Draft]) -> tuple[str, ...]:
    return tuple(one.id for one in drafts)
