"""Which models answer to a name, in the order in which they are asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from litellm_registry_hook.core.start.carry_chains import Chains, hops, key_for, overflow_of
from litellm_registry_hook.core.start.carry_choices import Choices
from litellm_registry_hook.core.start.carry_clash import CHAT
from litellm_registry_hook.core.start.carry_entries import Entry
from litellm_registry_hook.core.start.carry_mode import context_of
from litellm_registry_hook.core.start.carry_model import Draft
from litellm_registry_hook.core.start.proposal import Left
from litellm_registry_hook.core.wildcards import covers


@dataclass(frozen=True, slots=True)
class Found:
    """What a config says of names.

    Attributes:
        groups: every model_name with its entries. carried: the models of those that come into the registry.
        aliases: alias -> (target, hidden). chains: fallbacks.
        reserved: names that entries outside the registry claim by their model_info.id.

    """

    groups: Mapping[str, list[Entry]]
    carried: Mapping[str, tuple[Draft, ...]]
    aliases: Mapping[str, tuple[str, bool]]
    chains: Chains
    reserved: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class NamedPool:
    """What a name stands for.

    Attributes:
        own: models of the name itself. after: models of its fallbacks.
        via: names of the fallbacks. context: tokens by place in own + after, where an overflow needs them.

    """

    own: tuple[Draft, ...]
    after: tuple[Draft, ...] = ()
    via: tuple[str, ...] = ()
    contexts: Mapping[int, int] | None = None

    @property
    def members(self) -> tuple[Draft, ...]:
        """All of them in order."""
        return self.own + self.after


def pools_of(found: Found, choices: Choices) -> tuple[dict[str, NamedPool], tuple[Left, ...]]:
    """Return what every name stands for, names of the config first, then aliases; and what could not be carried."""
    pools: dict[str, NamedPool] = {}
    left: list[Left] = []
    for name, drafts in found.carried.items():
        if name not in found.aliases:
            pools[name] = _pool(found, name, drafts, choices, left)
    ids = {one for drafts in found.carried.values() for draft in drafts for one in draft.explicit_ids}
    for alias, (target, hidden) in found.aliases.items():
        if alias in ids:
            why = f"{alias} is also the model_info.id of an entry, and LiteLLM takes that first"
            left.append(Left(f"model_group_alias: {alias} -> {target}", why, "rename one of the two"))
            continue
        if target not in found.carried:
            left.append(_alias_left(found, alias, target))
            continue
        if alias in found.reserved or (alias in found.groups and alias not in found.carried):
            left.append(
                Left(
                    f"model_group_alias: {alias} -> {target}",
                    f"{alias} is also the name or the id of entries that stay foreign",
                    "rename one of the two",
                )
            )
            continue
        pools[alias] = _pool(found, alias, found.carried[target], choices, left)
        if hidden:
            left.append(
                Left(
                    f"model_group_alias: {alias}: hidden",
                    "an alias of the registry is listed in /v1/models; it works as before",
                )
            )
    left.extend(_unheard(found))
    return pools, tuple(left)


def _pool(found: Found, name: str, own: tuple[Draft, ...], choices: Choices, left: list[Left]) -> NamedPool:
    after: list[Draft] = []
    via: list[str] = []
    for hop in hops(found.chains, name):
        for draft in _reached(found, f"fallbacks: {name} -> {hop}", hop, own, left):
            if draft not in own and draft not in after:
                after.append(draft)
                if hop not in via:
                    via.append(hop)
    contexts: dict[int, int] = {}
    for hop in overflow_of(found.chains, name):
        what = f"context_window_fallbacks: {name} -> {hop}"
        more = _reached(found, what, hop, own, left)
        known = [context_of(draft.entries[0], choices) for draft in (*own, *after)]
        for draft in more:
            size = context_of(draft.entries[0], choices)
            smallest = min((one for one in known if one is not None), default=None)
            if size is None or None in known or smallest is None or size <= smallest:
                left.append(
                    Left(
                        what,
                        "a too long input goes on only to a model that is known to take more, and nothing says how "
                        "much these take",
                        f"write `context` at the models, and list that of {hop} in the tier {name}",
                    )
                )
                continue
            if draft not in own and draft not in after:
                after.append(draft)
                via.append(hop)
            for place, one in enumerate((*own, *after)):
                tokens = context_of(one.entries[0], choices)
                if tokens is not None:
                    contexts[place] = tokens
    return NamedPool(own, tuple(after), tuple(via), contexts or None)


def _reached(found: Found, what: str, hop: str, own: tuple[Draft, ...], left: list[Left]) -> tuple[Draft, ...]:
    """Return the models behind a fallback's name that may stand in for `own`."""
    drafts = models_behind(found, hop)
    mode = own[0].mode
    if not drafts:
        if hop in found.groups or any(entry.model == hop for entries in found.groups.values() for entry in entries):
            left.append(Left(what, f"{hop} stays foreign, and a tier lists models of the registry only"))
        elif (wildcard := _wildcard(found, hop)) is not None:
            why = f"only the wildcard {wildcard} serves {hop}, and a tier lists models of the registry"
            left.append(Left(what, why, f"write an entry {hop} into the config and import again"))
        else:
            left.append(Left(what, f"the config has no entry {hop!r}", "take it out, or add the model to the registry"))
        return ()
    if mode == "embedding":
        left.append(
            Left(
                what,
                "vectors of two embedding models are not comparable, so none ever stands in for another",
                f"let clients name {hop} themselves",
            )
        )
        return ()
    fitting = tuple(one for one in drafts if one.mode == mode or {one.mode, mode} <= CHAT)
    if len(fitting) < len(drafts):
        other = next(one.mode for one in drafts if one not in fitting)
        left.append(Left(what, f"{name_of(own)} is served as {mode} and {hop} as {other}"))
    return fitting


def _wildcard(found: Found, name: str) -> str | None:
    return next((listed for listed in found.groups if "*" in listed and covers(listed, name)), None)


def name_of(drafts: tuple[Draft, ...]) -> str:
    """Return the model_name that these come from."""
    return drafts[0].group


def models_behind(found: Found, name: str) -> tuple[Draft, ...]:
    """Return the models that LiteLLM calls for a name: an alias, a model_name, or a provider/name of its entries."""
    target = found.aliases[name][0] if name in found.aliases else name
    if target in found.groups:
        return found.carried.get(target, ())
    return tuple(
        draft
        for drafts in found.carried.values()
        for draft in drafts
        if any(entry.model == target for entry in draft.entries)
    )


def _alias_left(found: Found, alias: str, target: str) -> Left:
    what = f"model_group_alias: {alias} -> {target}"
    resolved = "so LiteLLM resolves the alias, under the same routing.unlisted_models"
    if target in found.groups:
        return Left(what, f"{target} stays foreign, {resolved}")
    if target in found.aliases:
        return Left(
            what, "an alias of an alias leads nowhere in LiteLLM either", f"point it at {found.aliases[target][0]}"
        )
    if (wildcard := _wildcard(found, target)) is not None:
        return Left(what, f"only the wildcard {wildcard} serves {target}, {resolved}")
    return Left(what, f"the config has no entry {target!r}", "remove it")


def _unheard(found: Found) -> list[Left]:
    """Return the chains of names that are not carried over."""
    found_left: list[Left] = []
    for kind, chains in (("fallbacks", found.chains.by_name), ("context_window_fallbacks", found.chains.overflow)):
        heard = {key_for(chains, name) for name in (*found.carried, *found.aliases)}
        for name, targets in chains.items():
            if name == "*":
                if kind == "fallbacks":
                    found_left.append(
                        Left(
                            f"default_fallbacks: any other name -> {', '.join(targets)}",
                            "a name that nobody knows is refused (unknown_model) instead of being answered by "
                            "another model",
                            "write the names that clients use into routing.aliases",
                        )
                    )
                continue
            if name in heard:
                continue
            where = "stays foreign" if name in found.groups else "is no name of this config"
            found_left.append(
                Left(
                    f"{kind}: {name} -> {', '.join(targets)}",
                    f"{name} {where}, so it is no tier; under routing.unlisted_models: metered a call of it is made "
                    "once, without LiteLLM's fallbacks",
                )
            )
    return found_left
