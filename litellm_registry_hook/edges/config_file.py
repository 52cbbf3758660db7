"""A LiteLLM config on disk: read it, edit what is ours in it, write it back."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from litellm_registry_hook.core.problems import Problem
from litellm_registry_hook.core.registry import Registry
from litellm_registry_hook.core.sync import SyncPlan, is_owned, plan_sync, same
from litellm_registry_hook.core.sync_findings import shadows
from litellm_registry_hook.edges.atomic import replace_bytes
from litellm_registry_hook.edges.config_tree import read_document
from litellm_registry_hook.edges.yaml_splice import Splicer
from litellm_registry_hook.errors import ConfigError

NEW_CONFIG = """\
# Config of the LiteLLM proxy. The entries marked managed_by: litellm-registry-hook are written by
# generate-litellm-config: change the registry and run it again. Everything else is yours.
model_list:

litellm_settings:

general_settings:
  master_key: os.environ/LITELLM_MASTER_KEY
"""
_MANAGED_KEYS = {
    "litellm_settings": {"callbacks", "enable_post_custom_auth_checks"},
    "general_settings": {"health_check_skip_disabled_background_models", "custom_auth_run_common_checks"},
}


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A config as it was read.

    Attributes:
        path: where. text: its text without a BOM. bom: whether it has one. exists: False for a file still to be made.

    """

    path: Path
    text: str
    bom: bool
    exists: bool


@dataclass(frozen=True, slots=True)
class Synced:
    """A config, what to change in it, and its text afterwards.

    Attributes:
        file: as read. plan: the changes. text: the new text.
        removed, added: the pieces of text taken out and put in.
        warnings: those of the plan, and files that could not be looked into.

    """

    file: ConfigFile
    plan: SyncPlan
    text: str
    removed: tuple[str, ...]
    added: tuple[str, ...]
    warnings: tuple[Problem, ...]

    @property
    def changed(self) -> bool:
        """Whether there is something to write."""
        return self.plan.changes or not self.file.exists


def read_config(path: Path) -> ConfigFile:
    """Read a config; a missing file is a fresh one.

    Raises:
        ConfigError: it cannot be read or is not UTF-8.

    """
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        if path.is_symlink():
            raise ConfigError(f"{path}: the link points to {path.readlink()}, which does not exist") from None
        return ConfigFile(path, NEW_CONFIG, bom=False, exists=False)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    bom = raw.startswith(codecs.BOM_UTF8)
    try:
        text = raw[len(codecs.BOM_UTF8) if bom else 0 :].decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}: not UTF-8: save the file as UTF-8") from None
    return ConfigFile(path, text, bom=bom, exists=True)


def sync_config(registry: Registry, file: ConfigFile, *, adopt: bool = False, loader: Any = None) -> Synced:
    """Work out the text of a config that obeys the registry; nothing is written.

    Args:
        registry: the registry.
        file: the config.
        adopt: replace foreign entries that carry names of the registry.
        loader: a PyYAML loader class, for tests.

    Raises:
        ConfigError: the config is not YAML, or is built in a way that cannot be edited without touching foreign bytes.

    """
    name = str(file.path)
    config = _config_data(file.text, name, loader)
    included, unread = _included(file.path, config)
    plan = plan_sync(registry, config, adopt=adopt, included=included)
    splicer = Splicer(file.text, name, loader)
    _splice(splicer, plan)
    if plan.changes:
        _verify(registry, config, splicer.text, name, adopt=adopt)
    warnings = (*plan.warnings, *unread)
    return Synced(file, plan, splicer.text, tuple(splicer.removed), tuple(splicer.added), warnings)


def contents(file: ConfigFile) -> tuple[Mapping[str, Any], ...]:
    """Return what a config and the files that it includes say; files that cannot be read are left out.

    Raises:
        ConfigError: the config itself is not YAML.

    """
    config = _config_data(file.text, str(file.path))
    return (config, *(content for _, content in _included(file.path, config)[0]))


def write_config(synced: Synced) -> None:
    """Write the new text back at once; the caller holds the lock.

    Raises:
        ConfigError: the file changed since it was read, or cannot be written.

    """
    path = synced.file.path
    if read_config(path) != synced.file:
        raise ConfigError(f"{path}: changed while it was being edited: run it again")
    try:
        replace_bytes(path, (codecs.BOM_UTF8 if synced.file.bom else b"") + synced.text.encode("utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror}") from None


def _config_data(text: str, name: str, loader: Any = None) -> Mapping[str, Any]:
    data = read_document(text, name, loader).data
    if data is None:
        return {}
    if not isinstance(data, Mapping):
        raise ConfigError(f"{name}:1: the file must be a mapping (model_list:, litellm_settings:, …)")
    if not isinstance(data.get("model_list"), (list, type(None))):
        raise ConfigError(f"{name}: model_list must be a list of entries (- model_name: …)")
    return data


def _splice(splicer: Splicer, plan: SyncPlan) -> None:
    """Carry out a plan from the last item of model_list to the first, so that indexes stay true."""
    in_place = {index: [w.content for w in wanted] for index, wanted in plan.replace.items() if wanted}
    if in_place:
        splicer.replace_items("model_list", in_place)
    offset: dict[int, int] = {index: len(entries) - 1 for index, entries in in_place.items() if len(entries) > 1}
    gone = sorted(index for index, wanted in plan.replace.items() if not wanted)
    steps: list[tuple[int, int, int]] = [(first, 0, last) for first, last in _runs(gone)]
    steps.extend((after, 1, after) for after in plan.insert)
    for index, kind, last in sorted(steps, reverse=True):
        shift = sum(extra for place, extra in offset.items() if place < index)
        if kind == 0:
            splicer.remove_items("model_list", index + shift, last + shift)
        else:
            own = offset.get(index, 0)
            splicer.insert_items("model_list", index + shift + own, [w.content for w in plan.insert[index]])
    for edit in plan.settings:
        if edit.action == "append":
            splicer.append_value(edit.section, edit.key, edit.value)
        else:
            splicer.set_value(edit.section, edit.key, edit.value)


def _runs(indexes: list[int]) -> list[tuple[int, int]]:
    """Return runs of neighbours in a sorted list, as (first, last)."""
    runs: list[tuple[int, int]] = []
    for _, group in groupby(enumerate(indexes), key=lambda pair: pair[1] - pair[0]):
        members = [index for _, index in group]
        runs.append((members[0], members[-1]))
    return runs


def _verify(registry: Registry, before: Mapping[str, Any], text: str, name: str, *, adopt: bool) -> None:
    """Read the new text again before anybody gets it: nothing left to do, and nothing foreign has changed.

    Raises:
        ConfigError: the edit did not come out as planned; the file is left alone.

    """
    try:
        after = _config_data(text, name)
    except ConfigError as error:
        raise ConfigError(f"{name}: cannot be edited safely, nothing was written: afterwards, {error}") from None
    if plan_sync(registry, after, adopt=adopt).changes:
        raise ConfigError(
            f"{name}: cannot be edited safely, nothing was written: the entries did not come out as planned"
        )
    if not same(_foreign(registry, before, adopt=adopt), _foreign(registry, after, adopt=adopt)):
        raise ConfigError(f"{name}: cannot be edited safely, nothing was written: foreign values would change")


def _foreign(registry: Registry, config: Mapping[str, Any], *, adopt: bool) -> dict[str, Any]:
    """Return what of a config is not ours; empty sections count as missing."""
    rest: dict[str, Any] = dict(config)
    listed = rest.pop("model_list", None)
    managed = {id(listed)} if listed else set()
    foreign = [(index, entry) for index, entry in enumerate(listed or []) if not is_owned(entry)]
    adopted = {shadow.index for shadow in shadows(registry, foreign)} if adopt else set()
    sections: dict[str, Any] = {"model_list": [entry for index, entry in foreign if index not in adopted]}
    for name, keys in _MANAGED_KEYS.items():
        section = rest.pop(name, None)
        if isinstance(section, Mapping):
            managed.update(
                id(value) for value in (section, section.get("callbacks")) if isinstance(value, (dict, list))
            )
            section = {key: item for key, item in section.items() if key not in keys}
        if section:
            sections[name] = section
    return {**{key: _unshared(value, managed) for key, value in rest.items()}, **sections}


def _unshared(value: Any, managed: set[int]) -> Any:
    """Return a value without the containers that ours are aliases of: editing those is what was asked for."""
    if id(value) in managed:
        return None
    if isinstance(value, Mapping):
        return {key: _unshared(item, managed) for key, item in value.items()}
    return [_unshared(item, managed) for item in value] if isinstance(value, list) else value


def _included(path: Path, config: Mapping[str, Any]) -> tuple[list[tuple[str, Mapping[str, Any]]], list[Problem]]:
    """Read the files that a config includes, and those that they include, each once."""
    found: list[tuple[str, Mapping[str, Any]]] = []
    unread: list[Problem] = []
    seen: set[Path] = {path.absolute()}
    waiting = _includes(path, config)
    while waiting:
        file = waiting.pop(0)
        if file in seen:
            continue
        seen.add(file)
        name = str(file.name)
        if not file.exists():
            unread.append(_unread(name, "there is no such file"))
            continue
        try:
            content = _config_data(read_config(file).text, name)
        except ConfigError as error:
            unread.append(_unread(name, str(error)))
            continue
        found.append((name, content))
        waiting.extend(_includes(file, content))
    return found, unread


def _includes(path: Path, config: Mapping[str, Any]) -> list[Path]:
    names = config.get("include")
    return (
        [(path.parent / name).absolute() for name in names if isinstance(name, str)] if isinstance(names, list) else []
    )


def _unread(name: str, reason: str) -> Problem:
    return Problem(
        code="included_unreadable",
        path="include",
        message=f"{name} was not looked into: {reason}",
        hint="LiteLLM does not start without it: mend it, or take it out of include",
        severity="warning",
    )
