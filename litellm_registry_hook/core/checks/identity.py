"""Names: ids, tiers and aliases are one name space, and none may be taken twice."""

from __future__ import annotations

import re
from collections.abc import Iterator

from litellm_registry_hook.core.draft import Draft
from litellm_registry_hook.core.findings import Finding, redact
from litellm_registry_hook.core.suggest import did_you_mean

_DEPLOYMENT = re.compile(r"^(.+)@[0-9]+$")
_STATE = re.compile(r"^(sqlite:///.+|rediss?://.+|unix:///.+)$")


def rules(draft: Draft) -> Iterator[Finding]:
    """Find names that clash or lead nowhere."""
    yield from _ids(draft)
    yield from _tiers_and_aliases(draft)
    state = draft.registry.state
    if state is not None and not _STATE.match(state):
        message = "the state store's address is not known"
        yield Finding(
            "bad_state_url",
            ("state",),
            message,
            "write sqlite:////absolute/path, redis://host, rediss://host or unix:///socket",
        )


def _ids(draft: Draft) -> Iterator[Finding]:
    first: dict[str, int] = {}
    for at, model in draft.models():
        if model.id in first:
            message = f"the id `{model.id}` is taken by models[{first[model.id]}]"
            yield Finding("duplicate_id", (*at, "id"), message, "give each model an id of its own")
        first.setdefault(model.id, int(at[1]))
        yield from _deployment(draft, (*at, "id"), model.id)


def _deployment(draft: Draft, path: tuple[str | int, ...], name: str) -> Iterator[Finding]:
    found = _DEPLOYMENT.match(name)
    if found and found[1] in draft.known_ids:
        message = f"`{name}` is how a deployment of the model `{found[1]}` is called"
        yield Finding("name_clash", path, message, "take a name that does not end in @ and a number")


def _tiers_and_aliases(draft: Draft) -> Iterator[Finding]:
    routing = draft.registry.routing
    for tier in routing.tiers:
        path = ("routing", "tiers", tier)
        if tier in draft.known_ids:
            message = f"the tier `{tier}` has the name of a model"
            yield Finding("name_clash", path, message, "rename one of the two", "key")
        yield from _deployment(draft, path, tier)
    for alias, target in routing.aliases.items():
        path = ("routing", "aliases", alias)
        if alias in draft.known_ids:
            message = f"the alias `{alias}` has the name of a model"
            yield Finding("name_clash", path, message, "rename the alias", "key")
        if alias in routing.tiers:
            message = f"the alias `{alias}` has the name of a tier"
            yield Finding("name_clash", path, message, "rename the alias", "key")
        yield from _deployment(draft, path, alias)
        if target in routing.tiers or target in draft.known_ids:
            continue
        if target in routing.aliases:
            message = f"`{redact(target)}` is an alias itself"
            hint = f"point at what it means: {redact(routing.aliases[target])}"
            yield Finding("alias_to_alias", path, message, hint)
        elif draft.intact("routing", "tiers") and draft.ids_are_known:
            message = f"the alias points at `{redact(target)}`, which is neither a tier nor a model id"
            names = set(routing.tiers) | draft.known_ids
            yield Finding("unknown_alias_target", path, message, did_you_mean(target, names, what="tiers and ids"))
