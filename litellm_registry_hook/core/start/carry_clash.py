"""Names that cannot come over because of what another entry, or an alias, says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from litellm_registry_hook.core.deployments import split_deployment_id
from litellm_registry_hook.core.start.carry_entries import Entry
from litellm_registry_hook.core.start.carry_foreign import ALLOW, UNLISTED, Why
from litellm_registry_hook.core.start.carry_model import Draft
from litellm_registry_hook.core.start.proposal import Left

CHAT = frozenset({"chat", "responses"})


def modes_clash(drafts: Sequence[Draft]) -> Why | None:
    """Say why models of one name cannot stand in one tier: they are served in different modes."""
    modes = tuple(dict.fromkeys(draft.mode for draft in drafts))
    if len(modes) == 1 or CHAT.issuperset(modes):
        return None
    return (
        f"entries of this name are served as {' and '.join(modes)}; {UNLISTED}",
        f"give each mode a name of its own, {ALLOW}",
    )


def foreign_ids(groups: Mapping[str, list[Entry]], carried: Mapping[str, object]) -> dict[str, Entry]:
    """Return the names that a foreign entry claims through its model_info.id.

    `generate-litellm-config --adopt` would take an entry whose id is a name of the registry.
    """
    found: dict[str, Entry] = {}
    for name, entries in groups.items():
        if name in carried:
            continue
        for entry in entries:
            explicit = entry.info.get("id")
            if isinstance(explicit, str):
                split = split_deployment_id(explicit)
                for claimed in (explicit, *((split[0],) if split is not None else ())):
                    found.setdefault(claimed, entry)
    return found


def settle(
    groups: Mapping[str, list[Entry]],
    carried: dict[str, tuple[Draft, ...]],
    aliases: Mapping[str, tuple[str, bool]],
) -> Iterator[Left]:
    """Take names out of `carried` until none of them clashes with what stays foreign; yield what is said of them."""
    changed = True
    while changed:
        changed = False
        claimed = foreign_ids(groups, carried)
        for name in list(carried):
            why: Why | None = None
            if name in claimed:
                why = (
                    f"{claimed[name].what} stays foreign and has this name as its model_info.id; {UNLISTED}",
                    "rename that id and import again",
                )
            elif name in aliases and aliases[name][0] not in carried:
                target = aliases[name][0]
                why = (
                    f"model_group_alias sends this name to {target}, which is no model of the registry; {UNLISTED}",
                    "remove one of the two",
                )
            if why is not None:
                del carried[name]
                changed = True
                yield from (Left(entry.what, *why) for entry in groups[name])
