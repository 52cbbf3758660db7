"""Which workers use this state: a row each, touched every other second."""

from __future__ import annotations

from datetime import datetime

from litellm_registry_hook.edges.store.database import Database


def beat(database: Database, worker_id: str, now: datetime) -> None:
    """Say that a worker is there; rows of workers that went away are dropped after an hour."""
    with database.writing() as connection:
        connection.execute("INSERT OR REPLACE INTO workers (id, seen) VALUES (?, ?)", (worker_id, now.isoformat()))
        connection.execute("DELETE FROM workers WHERE datetime(seen) < datetime(?, '-1 hour')", (now.isoformat(),))


def seen_since(database: Database, moment: datetime) -> int:
    """Count the workers seen since a moment."""
    with database.reading() as connection:
        row = connection.execute(
            "SELECT count(*) FROM workers WHERE datetime(seen) >= datetime(?)", (moment.isoformat(),)
        ).fetchone()
    return int(row[0])
