"""How many metered calls a key has made today, counted across the workers."""

from __future__ import annotations

from litellm_registry_hook.edges.store.database import Database


def take(database: Database, token: str, model: str, day: str, limit: int, *, more: int = 1) -> bool:
    """Count one more call, or several at once, unless they go over the limit; False where they do.

    Args:
        database: the state.
        token: the key. model: the metered model. day: `YYYY-MM-DD`, UTC.
        limit: calls a day. more: how many are to be counted, all or none.

    """
    with database.writing() as connection:
        row = connection.execute(
            "SELECT count FROM calls WHERE token = ? AND model = ? AND day = ?", (token, model, day)
        ).fetchone()
        if (row[0] if row is not None else 0) + more > limit:
            return False
        connection.execute(
            "INSERT INTO calls (token, model, day, count) VALUES (?, ?, ?, ?) "
            "ON CONFLICT (token, model, day) DO UPDATE SET count = count + excluded.count",
            (token, model, day, more),
        )
        connection.execute("DELETE FROM calls WHERE day < date(?, '-7 days')", (day,))
        return True


def count(database: Database, token: str, model: str, day: str) -> int:
    """Return the calls counted for a key, a model and a day."""
    with database.reading() as connection:
        row = connection.execute(
            "SELECT count FROM calls WHERE token = ? AND model = ? AND day = ?", (token, model, day)
        ).fetchone()
    return int(row[0]) if row is not None else 0
