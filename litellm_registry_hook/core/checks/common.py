"""Findings that several rules share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from litellm_registry_hook.core.draft import Draft
from litellm_registry_hook.core.findings import Finding, Path, redact
from litellm_registry_hook.core.suggest import did_you_mean


def id_list(draft: Draft, ids: Iterable[str], path: Path) -> Iterator[Finding]:
    """Find unknown and repeated model ids in a list."""
    seen: set[str] = set()
    for index, model_id in enumerate(ids):
        at = (*path, index)
        if model_id not in draft.known_ids and draft.ids_are_known:
            hint = did_you_mean(model_id, draft.known_ids, what="model ids")
            yield Finding("unknown_id", at, f"`{redact(model_id)}` is not the id of a model", hint)
        elif model_id in seen:
            yield Finding("duplicate_in_list", at, f"`{model_id}` stands twice in this list", "keep the first")
        seen.add(model_id)


def no_effect(path: Path, why: str, hint: str) -> Finding:
    """Say that a key cannot have an effect where it stands."""
    return Finding("key_without_effect", path, f"`{path[-1]}` has no effect: {why}", hint, "key")
