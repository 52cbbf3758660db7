"""The audit trail."""

from __future__ import annotations

from dataclasses import astuple, fields
from datetime import datetime, timezone

from litellm_registry_hook.core.audit import AuditRecord
from litellm_registry_hook.edges.store.database import Database

COLUMNS = ", ".join(one.name for one in fields(AuditRecord))
MARKS = ", ".join("?" for _ in fields(AuditRecord))


def append(database: Database, record: AuditRecord) -> None:
    """Add a record, its moment in UTC: moments are compared as text. There is no other way to change the trail."""
    at, *rest = astuple(record)
    # A model's name in a refusal is whatever a client sent, also what UTF-8 cannot say.
    said = (one.encode(errors="replace").decode() if isinstance(one, str) else one for one in rest)
    row = (at.astimezone(timezone.utc).isoformat(), *said)
    with database.writing() as connection:
        connection.execute(f"INSERT INTO audit ({COLUMNS}) VALUES ({MARKS})", row)  # noqa: S608


def read(database: Database, since: datetime | None = None) -> list[AuditRecord]:
    """Return the records from a moment on, oldest first."""
    with database.reading() as connection:
        rows = connection.execute(
            f"SELECT {COLUMNS} FROM audit WHERE at >= ? ORDER BY id",  # noqa: S608
            (since.astimezone(timezone.utc).isoformat() if since is not None else "",),
        ).fetchall()
    return [AuditRecord(datetime.fromisoformat(at), *rest) for at, *rest in rows]


def grants(database: Database) -> list[AuditRecord]:
    """Return the records of grants and removals, oldest first."""
    with database.reading() as connection:
        rows = connection.execute(
            f"SELECT {COLUMNS} FROM audit WHERE kind IN ('granted', 'removed') ORDER BY id"  # noqa: S608
        ).fetchall()
    return [AuditRecord(datetime.fromisoformat(at), *rest) for at, *rest in rows]
