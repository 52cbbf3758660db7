"""Removed grants that outrank a permission which LiteLLM still has in its key cache."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from litellm_registry_hook.edges.store.database import Database

EVERY = "*"


def add(database: Database, token: str, models: Iterable[str] | None, at: datetime, who: str) -> None:
    """Note that a key's grant for these models, or for all, is over."""
    with database.writing() as connection:
        connection.executemany(
            "INSERT OR REPLACE INTO revocations (token, model, at, who) VALUES (?, ?, ?, ?)",
            [(token, model, at.isoformat(), who) for model in (models or (EVERY,))],
        )


def lift(database: Database, token: str, models: Iterable[str] | None) -> None:
    """Take revocations back: a new grant for these models, or for all."""
    with database.writing() as connection:
        if models is None:
            connection.execute("DELETE FROM revocations WHERE token = ?", (token,))
        else:
            names = [(token, model) for model in (*models, EVERY)]
            connection.executemany("DELETE FROM revocations WHERE token = ? AND model = ?", names)


def every(database: Database) -> dict[str, frozenset[str]]:
    """Return the revoked models by token; EVERY stands for all."""
    with database.reading() as connection:
        rows = connection.execute("SELECT token, model FROM revocations").fetchall()
    found: dict[str, set[str]] = {}
    for token, model in rows:
        found.setdefault(token, set()).add(model)
    return {token: frozenset(models) for token, models in found.items()}
