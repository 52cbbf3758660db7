"""A probe's answer to readings: what is odd is an error of the reading, never "full" and never "free"."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from litellm_registry_hook.core.availability.facts import BUDGET, Reading
from litellm_registry_hook.core.availability.moments import moment_of
from litellm_registry_hook.core.registry import Model, Quota, QuotaWindow

_NUMBER: Final = re.compile(r"^[+-]?\d+(\.\d+)?$")
_MISSING: Final = object()
FULL: Final = 100.0
MOST_OF_ONE: Final = 2.0
"""A larger fraction was a percentage."""
FARTHEST_S: Final = 400 * 86400.0
_SHOWN: Final = 60


class OddValueError(Exception):
    """Say why a value is no percentage."""


def windows_of(model: Model) -> tuple[str, ...]:
    """Return the names of what is read of a model: its windows, or its budget; empty where nothing is."""
    quota = model.quota
    if quota is None:
        return ()
    if model.lifecycle == "quota-gated":
        return tuple(window.name for window in quota.windows)
    told = quota.field is not None or quota.probe_spend is not None
    return (BUDGET,) if told and quota.limit is not None else ()


def readings_of(model: Model, text: str, read_at: float, tried_at: float) -> tuple[Reading, ...]:
    """Read a probe's answer.

    Args:
        model: a model with a quota.
        text: the answer, JSON.
        read_at: the moment it speaks of. tried_at: the moment it was asked.

    Returns:
        one reading a window; one with `error` where the answer does not say.

    """
    names = windows_of(model)
    if not text.strip():
        return tuple(_error(model, name, tried_at, "its answer is empty") for name in names)
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError):
        return tuple(_error(model, name, tried_at, "its answer is not JSON", _short(text)) for name in names)
    quota = model.quota or Quota()
    if model.lifecycle != "quota-gated":
        return tuple(_budget(model, quota, tree, read_at, tried_at) for _ in names)
    found = []
    for window in quota.windows:
        try:
            used, note = _percent(window, _at(tree, window.field))
        except OddValueError as error:
            found.append(_error(model, window.name, tried_at, str(error)))
            continue
        resets_at = None
        if window.resets_at_field is not None:
            resets_at, odd = _resets_at(window.resets_at_field, _at(tree, window.resets_at_field), tried_at)
            note = "; ".join(part for part in (note, odd) if part)
        found.append(Reading(model.id, window.name, used, resets_at, read_at, tried_at, "", note))
    return tuple(found)


def failed(model: Model, why: str, tried_at: float, detail: str = "") -> tuple[Reading, ...]:
    """Return the readings of a probe that gave no answer."""
    return tuple(_error(model, name, tried_at, why, detail) for name in windows_of(model))


def merged(before: Reading | None, now: Reading) -> Reading:
    """Return a new reading; where it failed, the last good value with the new error."""
    if before is None or not now.error:
        return now
    return replace(before, tried_at=now.tried_at, error=now.error, detail=now.detail)


def _error(model: Model, window: str, tried_at: float, why: str, detail: str = "") -> Reading:
    return Reading(model.id, window, None, None, 0.0, tried_at, why, "", detail)


def _budget(model: Model, quota: Quota, tree: Any, read_at: float, tried_at: float) -> Reading:
    path, limit = quota.field or "", quota.limit or 1.0
    resets_at = None
    if quota.probe_spend is not None:
        path = "spent"
        resets_at, _ = _resets_at("resets_at", _at(tree, "resets_at"), tried_at)
    try:
        spent = _number(path, _at(tree, path))
    except OddValueError as error:
        return _error(model, BUDGET, tried_at, str(error))
    note = f"{spent:g} of {limit:g}" if quota.probe_spend is None else f"{spent:.4g} of {limit:g} $"
    return Reading(model.id, BUDGET, min(FULL, spent / limit * 100), resets_at, read_at, tried_at, "", note)


def _percent(window: QuotaWindow, value: Any) -> tuple[float, str]:
    path, whole = window.field, 1.0 if window.unit.endswith("_fraction") else FULL
    number = _number(path, value, percent=whole == FULL)
    left = window.unit.startswith("left")
    if left and number > whole:
        raise OddValueError(f"`{path}` is {number:g}: more than all of the window is left")
    if whole != FULL and number > MOST_OF_ONE:
        raise OddValueError(f"`{path}` is {number:g}, not a fraction of 1: is the unit `used`?")
    percent = number if whole == FULL else round(number * FULL, 6)
    if left:
        return FULL - percent, ""
    return (FULL, f"the probe said {percent:g} %") if percent > FULL else (percent, "")


def _number(path: str, value: Any, *, percent: bool = False) -> float:
    if value is _MISSING:
        raise OddValueError(f"the answer has no `{path}`")
    number = value
    if isinstance(value, str):
        text = value.strip()
        text = text[:-1].rstrip() if percent and text.endswith("%") else text
        number = float(text) if _NUMBER.match(text) else value
    if isinstance(value, (Mapping, list)):
        # Not quoted: clients see it, and it may hold anything.
        raise OddValueError(f"`{path}` is {'a list' if isinstance(value, list) else 'an object'}, not a number")
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        raise OddValueError(f"`{path}` is {_short(json.dumps(value, ensure_ascii=False))}, not a number")
    try:
        number = float(number)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise OddValueError(f"`{path}` is {number}, not a number")
    if number < 0:
        raise OddValueError(f"`{path}` is {number:g}, below zero")
    return number


def _resets_at(path: str, value: Any, now: float) -> tuple[float | None, str]:
    if value is None or value is _MISSING:
        return None, ""
    moment = moment_of(value)
    if moment is None or moment > now + FARTHEST_S:
        return None, f"`{path}` is {_short(json.dumps(value, ensure_ascii=False))}, not a moment"
    return moment, ""


def _at(tree: Any, path: str) -> Any:
    """Follow a dotted path; a number is an index of a list, and a key may itself have dots."""
    if isinstance(tree, Mapping) and path in tree:
        return tree[path]
    step, _, rest = path.partition(".")
    if isinstance(tree, Mapping) and step in tree:
        inner = tree[step]
    elif isinstance(tree, list) and step.isdecimal() and int(step) < len(tree):
        inner = tree[int(step)]
    else:
        return _MISSING
    return _at(inner, rest) if rest else inner


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…"
