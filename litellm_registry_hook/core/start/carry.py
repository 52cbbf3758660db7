"""A registry out of a LiteLLM config that grew by hand: every name that clients use goes on working.

A model_name becomes a model id where one model answers to it and nothing else does. Where several do, or a fallback
follows, the name becomes a tier that lists them in order and the models get ids of their own; an alias stays an alias.
What cannot be carried stays in the config, untouched, and is named with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from litellm_registry_hook.core.start.carry_chains import read_chains
from litellm_registry_hook.core.start.carry_choices import Choices
from litellm_registry_hook.core.start.carry_clash import foreign_ids, modes_clash, settle
from litellm_registry_hook.core.start.carry_entries import Entry, credentials, read_aliases, read_entries
from litellm_registry_hook.core.start.carry_foreign import Why, draft_because, foreign_because, left_of
from litellm_registry_hook.core.start.carry_model import Draft, drafts_of
from litellm_registry_hook.core.start.carry_names import named
from litellm_registry_hook.core.start.carry_pools import Found, pools_of
from litellm_registry_hook.core.start.carry_secrets import Names
from litellm_registry_hook.core.start.carry_settings import settings_left
from litellm_registry_hook.core.start.carry_words import group_left, top_notes
from litellm_registry_hook.core.start.proposal import Left, Proposal

__all__ = ["Choices", "carry"]


def carry(config: Mapping[str, Any], choices: Choices | None = None) -> Proposal:
    """Propose a registry that serves what a LiteLLM config serves.

    Args:
        config: the parsed config.
        choices: what a person has decided.

    """
    choices = choices or Choices()
    groups, unread = read_entries(config)
    secrets = Names()
    carried, foreign = _sorted_out(groups, choices, credentials(config), secrets)
    aliases = read_aliases(config)
    foreign += settle(groups, carried, aliases)
    chains, odd = read_chains(config)
    found = Found(groups, carried, aliases, chains, frozenset(foreign_ids(groups, carried)))
    pools, pool_left = pools_of(found, choices)
    result = named(found, pools)
    taken = {entry.index for drafts in carried.values() for draft in drafts for entry in draft.entries}
    left = [
        *secrets.left(taken),
        *unread,
        *foreign,
        *group_left(carried, pools),
        *odd,
        *pool_left,
        *result.left,
        *settings_left(config),
    ]
    stay = any(name not in carried for name in groups)
    return Proposal(
        models=result.models,
        tiers=result.tiers,
        aliases=result.aliases,
        routing={"unlisted_models": "metered"} if stay else {},
        left=tuple(dict.fromkeys(left)),
        notes=top_notes(found, result),
        tier_notes=result.tier_notes,
        reserved=frozenset({*groups, *aliases, *found.reserved, *choices.elsewhere}),
    )


def _sorted_out(
    groups: Mapping[str, list[Entry]],
    choices: Choices,
    known: Mapping[str, Mapping[str, Any]],
    secrets: Names,
) -> tuple[dict[str, tuple[Draft, ...]], list[Left]]:
    """Return the models of each name that is carried over, and what is said of those that are not.

    A name stays foreign as a whole: `generate-litellm-config --adopt` takes every entry that carries a registry name.
    """
    carried: dict[str, tuple[Draft, ...]] = {}
    left: list[Left] = []
    for name, entries in groups.items():
        reasons: dict[int, Why] = {}
        for entry in entries:
            why = foreign_because(entry, choices, secrets)
            if why is not None:
                reasons[entry.index] = why
        if not reasons:
            drafts = drafts_of(name, entries, choices, known, secrets)
            for draft in drafts:
                why = draft_because(draft)
                if why is not None:
                    reasons[draft.entries[0].index] = why
            why = modes_clash(drafts) if not reasons else None
            if why is not None:
                reasons = {entry.index: why for entry in entries}
            if not reasons:
                carried[name] = drafts
                continue
        left.extend(left_of(name, entries, reasons))
    return carried, left
