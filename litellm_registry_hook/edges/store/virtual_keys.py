"""The embedded virtual keys."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from datetime import datetime

from litellm_registry_hook.core.virtual_key import VirtualKey
from litellm_registry_hook.edges.store.database import Database
from litellm_registry_hook.edges.store.port import AliasTakenError

COLUMNS = "token, alias, models, created, expires, revoked, note"


def add(database: Database, key: VirtualKey) -> None:
    """Store a new key.

    Raises:
        AliasTakenError: a live key has its alias.

    """
    with database.writing() as connection:
        try:
            connection.execute(f"INSERT INTO virtual_keys ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)", row_of(key))  # noqa: S608
        except sqlite3.IntegrityError as error:
            raise AliasTakenError(key.alias) from error


def every(database: Database) -> list[VirtualKey]:
    """Return all keys, the revoked ones too, in order of creation."""
    with database.reading() as connection:
        rows = connection.execute(f"SELECT {COLUMNS} FROM virtual_keys ORDER BY created, alias").fetchall()  # noqa: S608
    return [key_of(row) for row in rows]


def by_token(database: Database, token: str) -> VirtualKey | None:
    """Return the key with this token."""
    with database.reading() as connection:
        row = connection.execute(f"SELECT {COLUMNS} FROM virtual_keys WHERE token = ?", (token,)).fetchone()  # noqa: S608
    return key_of(row) if row is not None else None


def revoke(database: Database, token: str, at: datetime) -> bool:
    """End a key; False where there is no live one."""
    with database.writing() as connection:
        done = connection.execute(
            "UPDATE virtual_keys SET revoked = ? WHERE token = ? AND revoked IS NULL", (at.isoformat(), token)
        )
        return done.rowcount == 1


def rotate(database: Database, old: str, new: VirtualKey, at: datetime) -> bool:
    """End a key and store its successor in one step; False where the old one is not live."""
    with database.writing() as connection:
        done = connection.execute(
            "UPDATE virtual_keys SET revoked = ? WHERE token = ? AND revoked IS NULL", (at.isoformat(), old)
        )
        if done.rowcount != 1:
            return False
        connection.execute(f"INSERT INTO virtual_keys ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)", row_of(new))  # noqa: S608
        return True


def row_of(key: VirtualKey) -> tuple[str | None, ...]:
    """Return a key as the texts that are stored."""
    return (
        key.token,
        key.alias,
        json.dumps(list(key.models)) if key.models is not None else None,
        key.created.isoformat(),
        key.expires.isoformat() if key.expires else None,
        key.revoked.isoformat() if key.revoked else None,
        key.note,
    )


def key_of(row: Sequence[str]) -> VirtualKey:
    """Return the key of a stored row."""
    token, alias, models, created, expires, revoked, note = row
    return VirtualKey(
        token,
        alias,
        tuple(json.loads(models)) if models is not None else None,
        datetime.fromisoformat(created),
        datetime.fromisoformat(expires) if expires else None,
        datetime.fromisoformat(revoked) if revoked else None,
        note,
    )
