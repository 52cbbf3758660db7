"""Explanation and status, put together from what is known: the same for the command line and the proxy's routes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, Final

from litellm_registry_hook.core import status
from litellm_registry_hook.core.consent import ANONYMOUS
from litellm_registry_hook.core.explain import Explanation, explain
from litellm_registry_hook.core.gpu.ports import Row
from litellm_registry_hook.core.gpu.table import Table
from litellm_registry_hook.core.plan import Ask, Index
from litellm_registry_hook.core.registry import Registry
from litellm_registry_hook.edges.store.port import State
from litellm_registry_hook.errors import StateError
from litellm_registry_hook.residency.records import WAITING
from litellm_registry_hook.why.looks import Looks

IN_FORCE: Final = "registry-in-force"
"""Rows in which each worker says which registry it has in force."""
ALIVE_S: Final = 10.0


def explained(looks: Looks, index: Index, name: str, ask: Ask) -> Explanation | None:
    """Explain a name by what is known; None where the registry does not know it."""
    asked = looks.ask_of(ask)
    return explain(index, name, asked, looks.facts, looks.gpu, looks.meter(asked))


@dataclass(frozen=True, slots=True)
class File:
    """A registry file and what is in force of it.

    Attributes:
        path: where. digest: of its content, 12 hex digits. loaded_at: when it came in force, in this process.
        broken: problems of the file as it stands, one a line; empty while what it says is in force.

    """

    path: str
    digest: str
    loaded_at: datetime | None
    broken: tuple[str, ...] = ()

    def as_data(self) -> dict[str, Any]:
        """Return it for JSON, and for a worker's row."""
        return {
            "path": self.path,
            "digest": self.digest,
            "loaded_at": self.loaded_at.isoformat(timespec="seconds") if self.loaded_at is not None else None,
            "broken": list(self.broken),
        }


def status_data(looks: Looks, index: Index, file: File) -> dict[str, Any]:
    """Return the whole status."""
    registry, board = index.registry, looks.board
    now = datetime.fromtimestamp(looks.now, timezone.utc)
    ask = Ask(ANONYMOUS, False, now)
    table = Table(looks.in_force().resolved, board.snapshot, board.shared.claims, board.usage(), looks.now)
    return {
        "at": now.isoformat(timespec="seconds"),
        "registry": {**file.as_data(), "models": len(registry.models), "mode": registry.routing.mode},
        "state": state_data(looks.state, looks.state_error, now),
        "tiers": status.tiers_data(index, ask, looks.facts, looks.gpu),
        "gpus": status.gpus_data(table),
        "servers": status.servers_data(board.snapshot, looks.now),
        "loads": status.loads_data(table),
        "waiting": waiting_data(looks, registry),
        "never_evict_missing": status.missing_data(table),
        "quotas": status.quotas_data(index, looks.facts, looks.now),
        "opt_ins": status.grants_data(registry, now),
    }


def state_data(state: State | None, error: str, now: datetime) -> dict[str, Any]:
    """Return where the state is, whether it can be used, and the workers that use it."""
    found: dict[str, Any] = {"place": state.place if state is not None else None, "error": error or None}
    workers: list[dict[str, Any]] = []
    count = 0
    if state is not None and not error and state.exists():
        try:
            count = state.workers_since(now - timedelta(seconds=ALIVE_S))
            workers = [_worker(row) for row in state.ledger.rows(IN_FORCE)]
        except StateError as caught:
            found["error"] = str(caught)
    return {**found, "workers": count, "in_force": workers}


def _worker(row: Row) -> dict[str, Any]:
    data: Mapping[str, Any] = row.data
    return {"worker": row.key, **{name: data.get(name) for name in ("path", "digest", "loaded_at", "broken")}}


def waiting_data(looks: Looks, registry: Registry) -> list[dict[str, Any]]:
    """Return how many requests wait for memory of each machine."""
    if looks.state is None or looks.state_error or not looks.state.exists():
        return []
    kinds = sorted({WAITING + looks.board.machine(use.slot) for use in looks.board.wants()})
    if not kinds or not registry.models:
        return []
    counts: dict[str, int] = dict.fromkeys(kinds, 0)
    for row in _rows(looks.state, kinds):
        counts[row.kind] += 1
    return [{"machine": kind.removeprefix(WAITING), "requests": count} for kind, count in counts.items() if count]


def _rows(state: State, kinds: Iterable[str]) -> list[Row]:
    try:
        return state.ledger.rows(*kinds)
    except StateError:
        return []


def no_status(file: File, state: State | None, error: str, now: datetime) -> dict[str, Any]:
    """Return what is known without a valid registry: its problems, and what the workers have in force."""
    return {
        "at": now.isoformat(timespec="seconds"),
        "registry": {**file.as_data(), "models": None, "mode": None},
        "state": state_data(state, error, now),
    }
