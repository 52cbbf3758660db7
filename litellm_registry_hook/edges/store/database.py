"""Opens the state file: its schema, its mode, one connection a thread."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Final

from litellm_registry_hook.errors import StateError

BUSY_SECONDS: Final = 5.0
# One step a version: a file at version n gets the steps from n on, in one transaction. A step that was released stays
# as it is.
STEPS: Final = (
    """
CREATE TABLE virtual_keys (
    token TEXT PRIMARY KEY, alias TEXT NOT NULL, models TEXT, created TEXT NOT NULL,
    expires TEXT, revoked TEXT, note TEXT
) STRICT;
CREATE UNIQUE INDEX live_alias ON virtual_keys (alias) WHERE revoked IS NULL;
CREATE TABLE revocations (
    token TEXT NOT NULL, model TEXT NOT NULL, at TEXT NOT NULL, who TEXT NOT NULL, PRIMARY KEY (token, model)
) STRICT;
CREATE TABLE calls (
    token TEXT NOT NULL, model TEXT NOT NULL, day TEXT NOT NULL, count INTEGER NOT NULL, PRIMARY KEY (token, model, day)
) STRICT;
CREATE TABLE audit (
    id INTEGER PRIMARY KEY AUTOINCREMENT, at TEXT NOT NULL, kind TEXT NOT NULL, alias TEXT NOT NULL, key TEXT NOT NULL,
    model TEXT NOT NULL, tier TEXT NOT NULL, request_id TEXT NOT NULL, who TEXT NOT NULL, code TEXT NOT NULL,
    cost REAL, note TEXT NOT NULL
) STRICT;
CREATE INDEX audit_at ON audit (at);
CREATE TABLE workers (id TEXT PRIMARY KEY, seen TEXT NOT NULL) STRICT;
""",
    # seq never comes twice, also when the table has been empty in between.
    """
CREATE TABLE leases (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, key TEXT NOT NULL, owner TEXT NOT NULL,
    data TEXT NOT NULL, until REAL NOT NULL, UNIQUE (kind, key)
) STRICT;
""",
    """
CREATE TABLE decisions (
    id INTEGER PRIMARY KEY AUTOINCREMENT, at TEXT NOT NULL, request_id TEXT NOT NULL, record TEXT NOT NULL
) STRICT;
CREATE INDEX decisions_request ON decisions (request_id);
CREATE INDEX decisions_at ON decisions (at);
""",
)
SCHEMA_VERSION: Final = len(STEPS)
_NUMBERS: Final = count()


class Database:
    """The state file. Safe to share between threads; every method of the table modules takes one."""

    def __init__(self, path: Path, *, upgrade: bool = True) -> None:
        """Name a state file; nothing is opened yet.

        Args:
            path: where it is.
            upgrade: bring a file of an older version up to this one; without, it is read as it is.

        """
        self.path = path
        self._upgrade = upgrade
        self._opened = False
        self._local = threading.local()

    def _connect(self) -> sqlite3.Connection:
        found: sqlite3.Connection | None = getattr(self._local, "connection", None)
        present = _file_of(self.path)
        if found is not None and present != self._local.file:
            # A connection stays with the file it opened, also when another one takes its name.
            self._drop()
            found = None
        if present is None and self._opened:
            # A new one would have forgotten who is revoked.
            raise StateError(f"state file {self.path} is gone")
        if found is None:
            _make(self.path)
            file = _file_of(self.path)
            found = sqlite3.connect(self.path, timeout=BUSY_SECONDS, isolation_level=None)
            try:
                found.execute("PRAGMA journal_mode = WAL")
                found.execute("PRAGMA synchronous = NORMAL")
                _migrate(found, self.path, upgrade=self._upgrade)
            except BaseException:
                found.close()
                raise
            self._local.connection, self._local.file, self._local.number = found, file, next(_NUMBERS)
            self._opened = True
        return found

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Give a connection for one statement.

        Raises:
            StateError: the file cannot be read; names it.

        """
        try:
            yield self._connect()
        except (sqlite3.Error, OSError) as error:
            self._drop()
            raise StateError(f"state file {self.path}: {error}") from error

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Give a connection inside one short transaction that holds the write lock; no other I/O belongs in it.

        Raises:
            StateError: the file cannot be written; names it.

        """
        with self.reading() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    def version(self) -> str:
        """Return a text that changes when another connection has written.

        SQLite counts for each connection by itself, so one thread's text is never another's.
        """
        with self.reading() as connection:
            changes = connection.execute("PRAGMA data_version").fetchone()[0]
        return f"{self._local.number}.{changes}"

    def _drop(self) -> None:
        found = getattr(self._local, "connection", None)
        self._local.connection = None
        if found is not None:
            found.close()

    def close(self) -> None:
        """Close this thread's connection; whoever uses it again may find no file and makes one."""
        self._drop()
        self._opened = False


def _make(path: Path) -> None:
    """Create folder and file for this user alone; SQLite gives its side files the mode of the main one."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        if path.stat().st_uid == os.geteuid() and path.stat().st_mode & 0o077:
            path.chmod(0o600)


def _file_of(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _migrate(connection: sqlite3.Connection, path: Path, *, upgrade: bool) -> None:
    found = connection.execute("PRAGMA user_version").fetchone()[0]
    if found == SCHEMA_VERSION or (0 < found < SCHEMA_VERSION and not upgrade):
        return
    if found > SCHEMA_VERSION:
        raise StateError(f"state file {path} was written by a newer version; use that one, or another file")
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have been first, with a newer version even.
        found = connection.execute("PRAGMA user_version").fetchone()[0]
        for statement in ";".join(STEPS[found:]).split(";"):
            if statement.strip():
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {max(found, SCHEMA_VERSION)}")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
