"""The decisions on requests: the newest 10,000, of seven days."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, timezone

from litellm_registry_hook.core.decision import KEEP_DAYS, KEEP_DECISIONS, Decision, decision_of, line_of
from litellm_registry_hook.edges.store.database import Database


def append(database: Database, records: Sequence[Decision]) -> None:
    """Add decisions in one transaction and drop what is too old or too much."""
    if not records:
        return
    with database.writing() as connection:
        connection.executemany(
            "INSERT INTO decisions (at, request_id, record) VALUES (?, ?, ?)",
            [(moment(one.at), one.request_id, line_of(one)) for one in records],
        )
        newest = connection.execute("SELECT max(id) FROM decisions").fetchone()[0]
        connection.execute("DELETE FROM decisions WHERE id <= ?", (newest - KEEP_DECISIONS,))
        oldest = max(one.at for one in records) - timedelta(days=KEEP_DAYS)
        connection.execute("DELETE FROM decisions WHERE at < ?", (moment(oldest),))


def read(database: Database, request_id: str | None, since: datetime | None, limit: int | None) -> list[Decision]:
    """Return decisions, the newest first; of one request, from a moment on, so many at most."""
    with database.reading() as connection:
        rows = connection.execute(
            "SELECT record FROM decisions WHERE (? IS NULL OR request_id = ?) AND at >= ? ORDER BY id DESC LIMIT ?",
            (request_id, request_id, moment(since) if since is not None else "", -1 if limit is None else limit),
        ).fetchall()
    return [decision_of(line) for (line,) in rows]


def moment(at: datetime) -> str:
    """Write a moment so that moments compare as text."""
    return at.astimezone(timezone.utc).isoformat(timespec="milliseconds")
