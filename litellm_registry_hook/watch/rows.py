"""What the workers tell each other through the ledger: kinds, keys, and how they are written and read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, Final, TypeAlias

from litellm_registry_hook.core.availability.facts import Circuit, Closure, Health, Reading
from litellm_registry_hook.core.gpu.ports import Row

READING: Final = "reading"
HEALTH: Final = "health"
CLOSURE: Final = "closure"
CIRCUIT: Final = "circuit"
LEASE: Final = "probe-lease"
TRIAL: Final = "trial"
PLAN: Final = "probe-next"
WORKER: Final = "watch-worker"
FLEET: Final = "fleet"
"""The owner of rows that every worker may write: what one has learned outlives it."""

Value: TypeAlias = Reading | Health | Closure | Circuit
Name: TypeAlias = tuple[str, str]
TYPES: Final[dict[str, type[Reading | Health | Closure | Circuit]]] = {
    READING: Reading,
    HEALTH: Health,
    CLOSURE: Closure,
    CIRCUIT: Circuit,
}
HOUR_S: Final = 3600.0
LONGEST_S: Final = 40 * 86400.0


def name_of(value: Value) -> Name:
    """Return the kind and the key of a value's row."""
    if isinstance(value, Reading):
        return READING, f"{value.model}|{value.window}"
    if isinstance(value, Health):
        return HEALTH, f"{value.model}|{value.api_base}"
    return (CLOSURE, value.key) if isinstance(value, Closure) else (CIRCUIT, value.deployment)


def life_of(value: Value, now: float) -> float:
    """Return the seconds for which a value's row is kept: past anything that it may be needed for."""
    if isinstance(value, Reading):
        return min(LONGEST_S, max(24 * HOUR_S, (value.resets_at or 0.0) - now + HOUR_S))
    if isinstance(value, Health):
        return 120.0
    if isinstance(value, Closure):
        return max(1.0, value.until - now) if value.stated else max(1.0, value.until - now) + HOUR_S
    return max(1.0, value.until - now) + HOUR_S


def data_of(value: Value) -> dict[str, Any]:
    """Write a value as a row's data."""
    return asdict(value)


def value_in(row: Row) -> Value | None:
    """Read a value from its row; None where another version wrote what this one cannot read."""
    made = TYPES.get(row.kind)
    if made is None:
        return None
    known = {one.name for one in fields(made)}
    data: Mapping[str, Any] = {name: value for name, value in row.data.items() if name in known}
    try:
        return made(**data)
    except TypeError:
        return None
