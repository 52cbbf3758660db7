"""The state as its users see it: one SQLite file for the workers of one host, or a Redis server for several hosts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Protocol

from litellm_registry_hook.core.audit import AuditRecord
from litellm_registry_hook.core.decision import Decision
from litellm_registry_hook.core.gpu.ports import Ledger
from litellm_registry_hook.core.virtual_key import VirtualKey


class AliasTakenError(Exception):
    """A live key has this alias already."""


class State(Protocol):
    """Everything that workers, hosts and the command line share. Safe to share between threads.

    Each method is one short transaction and may block, for seconds where the state is ill; never call one on an event
    loop. Each raises StateError, naming the state and no password, where the state cannot be used. Moments are aware.
    It holds hashes of keys, never a key.
    """

    @property
    def place(self) -> str:
        """Where it is, for people: a path, or a URL without its password."""

    @property
    def file(self) -> Path | None:
        """The file; None where a server keeps the state."""

    @property
    def ledger(self) -> Ledger:
        """The lease rows."""

    def exists(self) -> bool:
        """Say whether there is anything to read: reading makes no file. A server is always there to be asked."""

    def version(self) -> str:
        """Return a text that is another one once keys or revocations have changed; it may change without."""

    def close(self) -> None:
        """Give back what this thread holds open; the next use opens it again."""

    def add_key(self, key: VirtualKey) -> None:
        """Store a new virtual key.

        Raises:
            AliasTakenError: a key that is not revoked has its alias.

        """

    def virtual_keys(self) -> list[VirtualKey]:
        """Return all virtual keys, the revoked ones too, in order of creation."""

    def revoke_key(self, token: str, at: datetime) -> bool:
        """End a key; False where there is none with this token, or it is revoked already."""

    def rotate_key(self, old: str, new: VirtualKey, at: datetime) -> bool:
        """End a key and store its successor in one step; False where the old one is revoked or unknown."""

    def revoke_grant(self, token: str, models: Iterable[str] | None, at: datetime, who: str) -> None:
        """Note that a key's grant for these models, or for all, is over."""

    def lift_revocation(self, token: str, models: Iterable[str] | None) -> None:
        """Take revocations back: a new grant for these models, or for all."""

    def revocations(self) -> dict[str, frozenset[str]]:
        """Return the revoked models by token; `*` stands for all."""

    def take_call(self, token: str, model: str, day: str, limit: int, *, more: int = 1) -> bool:
        """Count `more` calls of a key on a day (`YYYY-MM-DD`, UTC), all or none; False where they go over `limit`."""

    def calls(self, token: str, model: str, day: str) -> int:
        """Return the calls counted for a key, a model and a day."""

    def append_audit(self, record: AuditRecord) -> None:
        """Add a record to the audit trail; there is no other way to change it."""

    def audit(self, since: datetime | None = None) -> list[AuditRecord]:
        """Return the audit trail from a moment on, in order of writing."""

    def grants(self) -> list[AuditRecord]:
        """Return the audit records of grants and removals, in order of writing."""

    def append_decisions(self, records: Sequence[Decision]) -> None:
        """Keep what was decided on requests; of all of them the newest 10,000 of seven days stay."""

    def decisions(
        self, request_id: str | None = None, since: datetime | None = None, limit: int | None = None
    ) -> list[Decision]:
        """Return decisions, the newest first: of one request, from a moment on, so many at most."""

    def beat(self, worker_id: str, now: datetime) -> None:
        """Say that a worker is there; workers not seen for an hour are forgotten."""

    def workers_since(self, moment: datetime) -> int:
        """Count the workers seen since a moment."""
