"""What a running proxy has loaded, held against the registry: pure data in, pure data out.

LiteLLM reads its config at start only, and its UI can add models that no file knows. What LiteLLM 1.108.7 tells an
admin of its deployments is not what was configured: keys are left out or masked, `os.environ/NAME` is resolved, and
switches of its own are filled in. What cannot be seen is told as unseen, never as a difference.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from litellm_registry_hook.core.registry import Registry
from litellm_registry_hook.core.sync import Difference, is_owned, wanted_entries
from litellm_registry_hook.core.sync_masking import shown_text
from litellm_registry_hook.core.wildcards import covers

RESTART: Final = "restart the proxy"
# LiteLLM masks values whose key has one of these words (litellm_core_utils/sensitive_data_masker.py), and drops six.
_MASKED_WORDS: Final = frozenset(
    {
        "access",
        "auth",
        "authorization",
        "certificate",
        "cookie",
        "credential",
        "credentials",
        "fingerprint",
        "key",
        "password",
        "private",
        "secret",
        "tenancy",
        "token",
    }
)
_MASKED_RE: Final = re.compile(r"\*{2,}|^<unable to serialize>$")
# Of model_info only what the generator writes is compared: LiteLLM fills in prices and abilities of the model.
_OWN_INFO: Final = ("managed_by", "mode", "disable_background_health_check")
_ENV: Final = "os.environ/"


@dataclass(frozen=True, slots=True)
class InForce:
    """A registry that a worker of the proxy has in force.

    Attributes:
        worker: who; empty for the worker that answered.
        path: the file, as the proxy names it. digest: of its content, 12 hex digits.
        loaded_at: ISO time. broken: problems of the file as it stands; then what was before is in force.

    """

    worker: str
    path: str
    digest: str
    loaded_at: str = ""
    broken: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Running:
    """What a proxy says of itself.

    Attributes:
        url: where it answers.
        rows: its deployments as /v1/model/info lists them, one per deployment id.
        registries: what its workers have in force; empty where the plugin is not loaded.
        litellm: LiteLLM's version; empty where it is not told.
        settings_missing: paths of settings that the gates rely on and that are not in force there.

    """

    url: str
    rows: tuple[Mapping[str, Any], ...]
    registries: tuple[InForce, ...]
    litellm: str = ""
    settings_missing: tuple[str, ...] = ()

    @property
    def has_plugin(self) -> bool:
        """Whether the plugin is loaded there."""
        return bool(self.registries)


@dataclass(frozen=True, slots=True)
class Gap:
    """One thing that the proxy has otherwise than the files say.

    Attributes:
        code: `not_loaded`, `not_in_registry`, `not_in_config`, `changed`, `added_in_ui`, `changed_in_ui`,
            `registry_older`, `registry_refused`, `setting_missing`, `plugin_missing`.
        message: what is so. fix: how to mend it.
        difference: the values, where there are any: `was` is the proxy's.

    """

    code: str
    message: str
    fix: str
    difference: Difference | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """A proxy against the registry.

    Attributes:
        gaps: what differs; empty is up to date.
        unseen: paths that LiteLLM does not show.

    """

    gaps: tuple[Gap, ...]
    unseen: tuple[str, ...]


@dataclass(frozen=True)
class _Looking:
    gaps: list[Gap] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)

    def gap(self, code: str, message: str, fix: str, difference: Difference | None = None) -> None:
        self.gaps.append(Gap(code, message, fix, difference))


def compare(
    registry: Registry,
    digest: str,
    running: Running,
    configs: Sequence[Mapping[str, Any]] | None = None,
) -> Comparison:
    """Compare what a proxy has loaded with what it would load after a run of the generator and a restart.

    Args:
        registry: the registry. digest: of its file, 12 hex digits.
        running: the proxy.
        configs: the parsed config and the files it includes; None where there is none at hand: then deployments are
            numbered as the proxy numbers them, and entries of others are not judged.

    """
    found = _Looking()
    _registries(found, digest, running)
    rows = {str(_info(row).get("id")): row for row in reversed(running.rows)}
    numbering = configs[0] if configs else {"model_list": list(running.rows)}
    wanted = {one.id: one.content for one in wanted_entries(registry, numbering)}
    for wanted_id, content in wanted.items():
        row = rows.get(wanted_id)
        if row is None:
            found.gap("not_loaded", f"the proxy has no deployment {wanted_id}", RESTART)
            continue
        if _info(row).get("db_model") is True:
            found.gap(
                "changed_in_ui",
                f"deployment {wanted_id} comes from the proxy's database, not from its config",
                "delete it in the UI; what stands in the registry is loaded from the config",
            )
        _entry(found, wanted_id, row, content)
    others = [row for row_id, row in rows.items() if row_id not in wanted]
    _others(found, others, configs)
    if configs is not None:
        _foreign(found, running.rows, configs)
    return Comparison(tuple(found.gaps), tuple(found.unseen))


def _registries(found: _Looking, digest: str, running: Running) -> None:
    if not running.has_plugin:
        found.gap(
            "plugin_missing",
            "the plugin is not loaded there: tiers are unknown models (400), and nothing is gated",
            f"install it for the proxy's Python, run generate-litellm-config for the callback, and {RESTART}",
        )
        return
    for path in running.settings_missing:
        found.gap("setting_missing", f"{path} is not true in the proxy, and a gate relies on it", RESTART)
    here = running.registries[0]
    if here.broken:
        problems = "; ".join(shown_text(line) for line in here.broken)
        message = f"the proxy refuses {here.path} as it stands and goes on with {here.digest}: {problems}"
        found.gap("registry_refused", message, "mend the file; it is read again at once")
        return
    for one in running.registries:
        if one.digest != digest:
            who = f"worker {one.worker}" if one.worker else "the proxy"
            since = f", loaded {one.loaded_at}" if one.loaded_at else ""
            found.gap(
                "registry_older",
                f"{who} has {one.digest or 'nothing'} of {one.path} in force{since}, and the file here is {digest}",
                "an edit is in force within a second: if this stays, the proxy reads another file (LITELLM_REGISTRY)",
            )


def _others(found: _Looking, rows: Sequence[Mapping[str, Any]], configs: Sequence[Mapping[str, Any]] | None) -> None:
    listed = None if configs is None else [entry for config in configs for entry in _entries(config)]
    for row in rows:
        row_id, name = str(_info(row).get("id")), str(row.get("model_name"))
        if _info(row).get("db_model") is True:
            found.gap(
                "added_in_ui",
                f"model {name!r} ({row_id[:16]}) was added in the UI, to the proxy's database",
                "describe it in the registry and delete it in the UI, or set store_model_in_db: false",
            )
        elif is_owned(row):
            found.gap("not_in_registry", f"the proxy still has deployment {row_id}", RESTART)
        elif listed is not None and not any(covers(str(entry.get("model_name")), name) for entry in listed):
            found.gap("not_in_config", f"the proxy still has model {name!r}, which no config file here lists", RESTART)


def _foreign(found: _Looking, rows: Sequence[Mapping[str, Any]], configs: Sequence[Mapping[str, Any]]) -> None:
    """Hold entries of others against what is loaded, as far as their name, model and address tell."""
    named: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        named.setdefault(str(row.get("model_name")), []).append(row)
    for config in configs:
        for entry in _entries(config):
            name = str(entry.get("model_name"))
            # A wildcard is listed as the models that it stands for, or as none.
            if is_owned(entry) or "*" in name:
                continue
            if name not in named:
                found.gap("not_loaded", f"the proxy has no model {name!r}", RESTART)
            elif not any(_calls_alike(row, entry) for row in named[name]):
                found.gap("changed", f"the proxy has model {name!r} otherwise than the config", RESTART)


def _calls_alike(row: Mapping[str, Any], entry: Mapping[str, Any]) -> bool:
    """Say whether a deployment may be that of an entry: nothing that can be seen speaks against it."""
    for key, other in (("model", "model"), ("api_base", "base_url")):
        was, wanted = (_params(one).get(key) or _params(one).get(other) for one in (row, entry))
        # Where an entry names no address, LiteLLM may fill one in.
        if wanted is not None and not (_alike(was, wanted) or _masked(key, was) or _unresolved(wanted)):
            return False
    return True


def _entries(config: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    return (entry for entry in config.get("model_list") or [] if isinstance(entry, Mapping))


def _info(row: Mapping[str, Any]) -> Mapping[str, Any]:
    info = row.get("model_info")
    return info if isinstance(info, Mapping) else {}


def _params(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    params = entry.get("litellm_params")
    return params if isinstance(params, Mapping) else {}


def _entry(found: _Looking, entry_id: str, row: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    base = f"model_list[{entry_id}]"
    info = {key: value for key, value in _info(row).items() if key in _OWN_INFO}
    wanted_info = {key: value for key, value in wanted["model_info"].items() if key in _OWN_INFO}
    _value(found, f"{base}.model_name", ("model_name",), row.get("model_name"), wanted["model_name"])
    _mapping(found, f"{base}.litellm_params", ("litellm_params",), _params(row), wanted["litellm_params"])
    _mapping(found, f"{base}.model_info", ("model_info",), info, wanted_info)


def _mapping(
    found: _Looking, path: str, keys: tuple[str, ...], was: Mapping[str, Any], wanted: Mapping[str, Any]
) -> None:
    for key in dict.fromkeys([*wanted, *was]):
        at, below = f"{path}.{key}", (*keys, str(key))
        if key in wanted:
            _value(found, at, below, was.get(key), wanted[key])
        elif not was[key]:
            continue  # LiteLLM's own filling: null, false or empty
        elif _masked(str(key), was[key]):
            found.unseen.append(at)
        else:
            found.gap("changed", at, RESTART, Difference(at, "extra", was[key], None, below))


def _value(found: _Looking, path: str, keys: tuple[str, ...], was: Any, wanted: Any) -> None:
    if isinstance(was, Mapping) and isinstance(wanted, Mapping):
        _mapping(found, path, keys, was, wanted)
    elif _alike(was, wanted):
        return
    elif _masked(keys[-1], was) or _unresolved(wanted):
        found.unseen.append(path)
    else:
        kind: Any = "missing" if was is None else "changed"
        found.gap("changed", path, RESTART, Difference(path, kind, was, wanted, keys))


def _masked(key: str, was: Any) -> bool:
    """Say whether LiteLLM keeps a value back: by the name of its key, or by what it shows instead."""
    words = key.lower().replace("-", "_").split("_")
    if "cost" not in words and not _MASKED_WORDS.isdisjoint(words):
        return True
    texts = was if isinstance(was, list) else [was]
    return any(isinstance(text, str) and _MASKED_RE.search(text) for text in texts)


def _unresolved(wanted: Any) -> bool:
    values = wanted if isinstance(wanted, (list, tuple)) else [wanted]
    return any(isinstance(value, str) and value.startswith(_ENV) for value in values)


def _alike(was: Any, wanted: Any) -> bool:
    """Compare as LiteLLM shows values: 7 as 7.0, and what JSON lacks as text."""
    if isinstance(was, bool) or isinstance(wanted, bool) or was is None or wanted is None:
        return was is wanted
    if isinstance(was, str) and isinstance(wanted, str):
        return was == wanted
    if isinstance(was, (list, tuple)) and isinstance(wanted, (list, tuple)):
        return len(was) == len(wanted) and all(map(_alike, was, wanted))
    if isinstance(was, Mapping) and isinstance(wanted, Mapping):
        return was.keys() == wanted.keys() and all(_alike(was[key], wanted[key]) for key in was)
    try:
        return bool(float(was) == float(wanted))
    except (OverflowError, TypeError, ValueError):
        return str(was) == str(wanted)
