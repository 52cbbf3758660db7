"""What has to change in a LiteLLM config so that it obeys the registry: pure data in, pure data out.

Entries marked `model_info.managed_by: litellm-registry-hook` are owned; all others are foreign and are only ever
touched by adoption. Tiers and aliases are never entries: without the plugin such a name must be an error, not an open
door.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from litellm_registry_hook.core.deployments import MANAGED_BY, deployments_of, split_deployment_id
from litellm_registry_hook.core.problems import Problem
from litellm_registry_hook.core.registry import Registry
from litellm_registry_hook.core.sync_entry import entry_of
from litellm_registry_hook.core.sync_findings import Shadow, findings, shadows, vector_warnings
from litellm_registry_hook.core.sync_settings import SettingEdit, setting_edits


@dataclass(frozen=True, slots=True)
class Wanted:
    """An entry that model_list must hold.

    Attributes:
        id: its model_info.id. model_id: the model. content: the entry.

    """

    id: str
    model_id: str
    content: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not as the registry wants it.

    Attributes:
        path: where, as `model_list[kimi@0].litellm_params.api_base`.
        kind: `missing`, `extra` (an owned entry without a model, or a second one with its id), `changed`, `adopted`.
        was: the value there; None where there is none. wanted: the same for the value wanted.
        keys: the path as keys, for masking.

    """

    path: str
    kind: Literal["missing", "extra", "changed", "adopted"]
    was: Any
    wanted: Any
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SyncPlan:
    """How a config becomes what the registry wants.

    Attributes:
        replace: index in model_list -> the entries that take its place; none removes it.
        insert: index in model_list -> new entries right after it; -1 is the start of the list.
        settings: required settings to write.
        differences: the same as paths and values, for people.
        warnings: what the generator does not change but people must know.

    """

    replace: Mapping[int, tuple[Wanted, ...]]
    insert: Mapping[int, tuple[Wanted, ...]]
    settings: tuple[SettingEdit, ...]
    differences: tuple[Difference, ...]
    warnings: tuple[Problem, ...]

    @property
    def changes(self) -> bool:
        """Whether there is anything to write."""
        return bool(self.replace or self.insert or self.settings)


def is_owned(entry: Any) -> bool:
    """Say whether an entry of model_list is ours to change."""
    info = entry.get("model_info") if isinstance(entry, Mapping) else None
    return isinstance(info, Mapping) and info.get("managed_by") == MANAGED_BY


def wanted_entries(registry: Registry, config: Mapping[str, Any]) -> tuple[Wanted, ...]:
    """Return the entries that model_list must hold, in registry order.

    An api_base keeps the number that an owned entry gives it. A number whose api_base is gone is free again: a model
    whose only address changes keeps its deployment id.
    """
    known = _known_numbers(config)
    found: list[Wanted] = []
    for model in registry.models:
        bases = {place.api_base for place in model.places} or {""}
        numbers = {base: n for base, n in known.get(model.id, {}).items() if base in bases}
        found.extend(
            Wanted(deployment.id, model.id, MappingProxyType(entry_of(registry, model, deployment)))
            for deployment in deployments_of(model, numbers)
        )
    return tuple(found)


def plan_sync(
    registry: Registry,
    config: Mapping[str, Any],
    *,
    adopt: bool = False,
    included: Sequence[tuple[str, Mapping[str, Any]]] = (),
) -> SyncPlan:
    """Plan the edits of a config.

    Args:
        registry: the registry.
        config: the parsed config; its model_list is a list, None or missing.
        adopt: replace foreign entries that carry a name of the registry.
        included: (name, content) of the files that the config includes; they are only looked at.

    """
    entries: list[Any] = list(config.get("model_list") or [])
    wanted = wanted_entries(registry, config)
    by_id = {entry.id: entry for entry in wanted}
    place: dict[str, int] = {}
    replace: dict[int, tuple[Wanted, ...]] = {}
    differences: list[Difference] = []
    for index, entry in enumerate(entries):
        if not is_owned(entry):
            continue
        entry_id = _entry_id(entry)
        target = by_id.get(entry_id) if entry_id not in place else None
        if target is None:
            replace[index] = ()
            differences.append(Difference(f"model_list[{entry_id}]", "extra", entry, None))
            continue
        place[entry_id] = index
        if not same(entry, target.content):
            replace[index] = (target,)
            differences.extend(_differences(f"model_list[{entry_id}]", (), entry, target.content))
    shadowed = shadows(registry, [(i, entry) for i, entry in enumerate(entries) if not is_owned(entry)])
    adopted: tuple[Shadow, ...] = shadowed if adopt else ()
    for shadow in adopted:
        fresh = tuple(w for w in wanted if w.model_id == shadow.model_id and w.id not in place)
        place.update(dict.fromkeys((w.id for w in fresh), shadow.index))
        replace[shadow.index] = fresh
        differences.append(
            Difference(f"model_list[{shadow.index}] ({shadow.name})", "adopted", entries[shadow.index], None)
        )
        differences.extend(Difference(f"model_list[{w.id}]", "missing", None, w.content) for w in fresh)
    missing = [w for w in wanted if w.id not in place]
    differences.extend(Difference(f"model_list[{w.id}]", "missing", None, w.content) for w in missing)
    settings = setting_edits(config)
    differences.extend(_setting_difference(edit) for edit in settings)
    warnings = (
        *(() if adopt else tuple(shadow.problem() for shadow in shadowed)),
        *vector_warnings(registry, adopted),
        *findings(registry, config, included),
    )
    insert = _anchors(wanted, place, {w.id for w in missing}, len(entries), replace)
    return SyncPlan(replace, insert, settings, tuple(differences), warnings)


def same(left: Any, right: Any) -> bool:
    """Say whether two YAML values are the same, types included: `1`, `1.0` and `true` all differ."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and bool(left == right)


def _known_numbers(config: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Return model id -> api_base -> number as the owned entries have them; the first entry of a number counts."""
    known: dict[str, dict[str, int]] = {}
    for entry in config.get("model_list") or []:
        split = split_deployment_id(_entry_id(entry)) if is_owned(entry) else None
        if split is None:
            continue
        params = entry.get("litellm_params")
        base = params.get("api_base") if isinstance(params, Mapping) else None
        numbers = known.setdefault(split[0], {})
        if split[1] not in numbers.values():
            numbers.setdefault(base if isinstance(base, str) else "", split[1])
    return known


def _entry_id(entry: Mapping[str, Any]) -> str:
    return str(entry["model_info"].get("id"))


def _anchors(
    wanted: Sequence[Wanted],
    place: Mapping[str, int],
    missing: set[str],
    count: int,
    replace: Mapping[int, tuple[Wanted, ...]],
) -> dict[int, tuple[Wanted, ...]]:
    """Return where missing entries go: behind their predecessor in the registry, else before the next, else last."""
    surviving = [index for index in range(count) if replace.get(index, (None,)) != ()]
    anchors: dict[int, list[Wanted]] = {}
    for position, entry in enumerate(wanted):
        if entry.id not in missing:
            continue
        before = next((place[w.id] for w in reversed(wanted[:position]) if w.id in place), None)
        after = next((place[w.id] for w in wanted[position:] if w.id in place), None)
        if before is not None:
            anchor = before
        elif after is not None:
            anchor = max((index for index in surviving if index < after), default=-1)
        else:
            anchor = surviving[-1] if surviving else -1
        anchors.setdefault(anchor, []).append(entry)
    return {index: tuple(entries) for index, entries in anchors.items()}


def _differences(prefix: str, keys: tuple[str, ...], was: Any, wanted: Any) -> list[Difference]:
    if not (isinstance(was, Mapping) and isinstance(wanted, Mapping)):
        return [Difference(prefix, "changed", was, wanted, keys)]
    found: list[Difference] = []
    for key in dict.fromkeys([*wanted, *was]):
        path, below = f"{prefix}.{key}", (*keys, str(key))
        if key not in was:
            found.append(Difference(path, "missing", None, wanted[key], below))
        elif key not in wanted:
            found.append(Difference(path, "extra", was[key], None, below))
        elif not same(was[key], wanted[key]):
            found.extend(_differences(path, below, was[key], wanted[key]))
    return found


def _setting_difference(edit: SettingEdit) -> Difference:
    kind: Literal["missing", "changed"] = "missing" if edit.was is None else "changed"
    keys = (edit.section, edit.key)
    if edit.action == "set":
        return Difference(edit.path, kind, edit.was, edit.value, keys)
    present = edit.was if isinstance(edit.was, list) else [] if edit.was is None else [edit.was]
    return Difference(edit.path, kind, edit.was, [*present, edit.value], keys)
