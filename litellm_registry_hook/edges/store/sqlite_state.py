"""The state in one SQLite file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path

from litellm_registry_hook.core.audit import AuditRecord
from litellm_registry_hook.core.decision import Decision
from litellm_registry_hook.core.virtual_key import VirtualKey
from litellm_registry_hook.edges.store import audit, calls, decisions, revocations, virtual_keys, workers
from litellm_registry_hook.edges.store.database import Database
from litellm_registry_hook.edges.store.ledger import SqliteLedger


class SqliteState:
    """The State port on SQLite; what each method promises stands there.

    Attributes:
        file: the file. ledger: the lease rows.

    """

    def __init__(self, file: Path, *, upgrade: bool = True) -> None:
        """Name a state file; nothing is opened yet.

        Args:
            file: where it is; made when something is written, or read without asking `exists` first.
            upgrade: bring a file of an older version up to this one; without, it is read as it is.

        """
        self.file = file
        self._database = Database(file, upgrade=upgrade)
        self.ledger = SqliteLedger(self._database)

    @property
    def place(self) -> str:
        """The file's absolute path."""
        return str(self.file.absolute())

    def exists(self) -> bool:
        """Say whether the file is there."""
        return self.file.exists()

    def version(self) -> str:
        """Return what changes with every write of another connection."""
        return self._database.version()

    def close(self) -> None:
        """Close this thread's connection."""
        self._database.close()

    def add_key(self, key: VirtualKey) -> None:
        """Store a new virtual key."""
        virtual_keys.add(self._database, key)

    def virtual_keys(self) -> list[VirtualKey]:
        """Return all virtual keys."""
        return virtual_keys.every(self._database)

    def revoke_key(self, token: str, at: datetime) -> bool:
        """End a key."""
        return virtual_keys.revoke(self._database, token, at)

    def rotate_key(self, old: str, new: VirtualKey, at: datetime) -> bool:
        """End a key and store its successor."""
        return virtual_keys.rotate(self._database, old, new, at)

    def revoke_grant(self, token: str, models: Iterable[str] | None, at: datetime, who: str) -> None:
        """Note that a grant is over."""
        revocations.add(self._database, token, models, at, who)

    def lift_revocation(self, token: str, models: Iterable[str] | None) -> None:
        """Take revocations back."""
        revocations.lift(self._database, token, models)

    def revocations(self) -> dict[str, frozenset[str]]:
        """Return the revoked models by token."""
        return revocations.every(self._database)

    def take_call(self, token: str, model: str, day: str, limit: int, *, more: int = 1) -> bool:
        """Count more calls unless they go over the limit."""
        return calls.take(self._database, token, model, day, limit, more=more)

    def calls(self, token: str, model: str, day: str) -> int:
        """Return the calls counted."""
        return calls.count(self._database, token, model, day)

    def append_audit(self, record: AuditRecord) -> None:
        """Add a record to the audit trail."""
        audit.append(self._database, record)

    def audit(self, since: datetime | None = None) -> list[AuditRecord]:
        """Return the audit trail."""
        return audit.read(self._database, since)

    def grants(self) -> list[AuditRecord]:
        """Return the audit records of grants and removals."""
        return audit.grants(self._database)

    def append_decisions(self, records: Sequence[Decision]) -> None:
        """Keep what was decided on requests."""
        decisions.append(self._database, records)

    def decisions(
        self, request_id: str | None = None, since: datetime | None = None, limit: int | None = None
    ) -> list[Decision]:
        """Return decisions, the newest first."""
        return decisions.read(self._database, request_id, since, limit)

    def beat(self, worker_id: str, now: datetime) -> None:
        """Say that a worker is there."""
        workers.beat(self._database, worker_id, now)

    def workers_since(self, moment: datetime) -> int:
        """Count the workers seen since a moment."""
        return workers.seen_since(self._database, moment)
