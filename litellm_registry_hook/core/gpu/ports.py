"""What the act of loading needs from outside, as protocols; the edges implement them and tests have fakes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from litellm_registry_hook.core.gpu.facts import Snapshot
from litellm_registry_hook.core.gpu.verdict import Want


@dataclass(frozen=True, slots=True)
class Row:
    """One lease row that several processes can see.

    Attributes:
        kind: what it is about, `claim:gpu-host` say. key: its name within the kind. owner: who holds it.
        data: JSON of the holder's choice.
        seq: rises with each new row; the order of arrival.
        until: it lapses then, seconds since the epoch on the ledger's clock.

    """

    kind: str
    key: str
    owner: str
    data: Mapping[str, Any] = field(default_factory=dict)
    seq: int = 0
    until: float = 0.0


class Ledger(Protocol):
    """Lease rows in the state: SQLite for the workers of one host, Redis for several hosts.

    Each method is one short transaction and may block for a few milliseconds; never call one on an event loop. Each
    raises StateError where the state cannot be used. A row past its end counts as absent everywhere.
    """

    def take(
        self,
        kind: str,
        key: str,
        owner: str,
        ttl_s: float,
        *,
        data: Mapping[str, Any] | None = None,
        limit: int | None = None,
    ) -> bool:
        """Make a row, or renew it where `owner` has it already; False where another owner has it.

        With `limit`: False too where the kind has that many live rows of other keys. A renewed row keeps its seq.
        """

    def renew(self, kind: str, key: str, owner: str, ttl_s: float) -> bool:
        """Move the end of a row; False where this owner does not have it any more."""

    def drop(self, kind: str, key: str, owner: str) -> None:
        """Remove a row of this owner; nothing where there is none."""

    def rows(self, *kinds: str) -> list[Row]:
        """Return the live rows of these kinds in order of seq, in one look."""

    def now(self) -> float:
        """Return the ledger's own clock, seconds since the epoch."""


class Eyes(Protocol):
    """Reads the machines. Blocking; bounded by timeouts; never raises."""

    def look(self, bases: Sequence[str] | None = None) -> Snapshot:
        """Return a fresh snapshot; with `bases` only those servers and NVML are read anew."""


class Hands(Protocol):
    """Loads and unloads models. Blocking."""

    def load(self, want: Want, timeout_s: float) -> str | None:
        """Load a model with the registry's keep_alive and options; None when it is loaded, else why not."""

    def unload(self, want: Want, timeout_s: float) -> str | None:
        """Ask for a model's unload; None when it was accepted (it may take seconds), else why not."""
