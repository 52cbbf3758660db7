"""The audit trail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, fields
from datetime import datetime, timezone
from typing import Any

from litellm_registry_hook.core.audit import AuditRecord
from litellm_registry_hook.edges.store.database import Database

COLUMNS = ", ".join(one.name for one in fields(AuditRecord))
MARKS = ", ".join("?" for _ in fields(AuditRecord))


def append(database: Database, record: AuditRecord) -> None:
    """Add a record; moments are compared as text. There is no other way to change the trail."""
    with database.writing() as connection:
        connection.execute(f"INSERT INTO audit ({COLUMNS}) VALUES ({MARKS})", row_of(record))  # noqa: S608


def read(database: Database, since: datetime | None = None) -> list[AuditRecord]:
    """Return the records from a moment on, oldest first."""
    with database.reading() as connection:
        rows = connection.execute(
            f"SELECT {COLUMNS} FROM audit WHERE at >= ? ORDER BY id",  # noqa: S608
            (since.astimezone(timezone.utc).isoformat() if since is not None else "",),
        ).fetchall()
    return [record_of(row) for row in rows]


def grants(database: Database) -> list[AuditRecord]:
    """Return the records of grants and removals, oldest first."""
    with database.reading() as connection:
        rows = connection.execute(
            f"SELECT {COLUMNS} FROM audit WHERE kind IN ('granted', 'removed') ORDER BY id"  # noqa: S608
        ).fetchall()
    return [record_of(row) for row in rows]


def row_of(record: AuditRecord) -> tuple[Any, ...]:
    """Return a record as it is stored: its moment in UTC, its texts as UTF-8 can say them.

    A model's name in a refusal is whatever a client sent.
    """
    at, *rest = astuple(record)
    said = (one.encode(errors="replace").decode() if isinstance(one, str) else one for one in rest)
    return (at.astimezone(timezone.utc).isoformat(), *said)


def record_of(row: Sequence[Any]) -> AuditRecord:
    """Return the record of a stored row."""
    at, *rest = row
    return AuditRecord(datetime.fromisoformat(at), *rest)
