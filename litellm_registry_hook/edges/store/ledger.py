"""Lease rows in the state file: what the workers of one host agree on, a load in flight say."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from litellm_registry_hook.core.gpu.ports import Row
from litellm_registry_hook.edges.store.database import Database


class SqliteLedger:
    """The Ledger port on SQLite. A process that dies needs no cleaning up: its rows lapse."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        """Use a state file.

        Args:
            database: the state file.
            clock: seconds since the epoch; every process that shares the file needs the same one.

        """
        self._database = database
        self._clock = clock

    def take(
        self,
        kind: str,
        key: str,
        owner: str,
        ttl_s: float,
        *,
        data: Mapping[str, Any] | None = None,
        limit: int | None = None,
    ) -> bool:
        """Make a row or renew this owner's; see Ledger.take. Data of None leaves those of a renewed row as they are."""
        text = json.dumps(dict(data)) if data is not None else None
        with self._database.writing() as connection:
            # The clock is read under the write lock: a process that waited for it must not count with an old moment.
            now = self._clock()
            connection.execute("DELETE FROM leases WHERE until <= ?", (now,))
            row = connection.execute("SELECT owner FROM leases WHERE kind = ? AND key = ?", (kind, key)).fetchone()
            if row is not None and row[0] != owner:
                return False
            if limit is not None:
                others = connection.execute("SELECT count(*) FROM leases WHERE kind = ? AND key <> ?", (kind, key))
                if others.fetchone()[0] >= limit:
                    return False
            connection.execute(
                "INSERT INTO leases (kind, key, owner, data, until) VALUES (?, ?, ?, ifnull(?, '{}'), ?) "
                "ON CONFLICT (kind, key) DO UPDATE SET until = excluded.until, data = ifnull(?, data)",
                (kind, key, owner, text, now + ttl_s, text),
            )
            return True

    def renew(self, kind: str, key: str, owner: str, ttl_s: float) -> bool:
        """Move the end of a row; False where this owner does not have it any more."""
        with self._database.writing() as connection:
            now = self._clock()
            done = connection.execute(
                "UPDATE leases SET until = ? WHERE kind = ? AND key = ? AND owner = ? AND until > ?",
                (now + ttl_s, kind, key, owner, now),
            )
            return done.rowcount == 1

    def drop(self, kind: str, key: str, owner: str) -> None:
        """Remove a row of this owner; nothing where there is none."""
        with self._database.writing() as connection:
            connection.execute("DELETE FROM leases WHERE kind = ? AND key = ? AND owner = ?", (kind, key, owner))

    def rows(self, *kinds: str) -> list[Row]:
        """Return the live rows of these kinds in order of seq, in one look."""
        marks = ", ".join("?" for _ in kinds)
        with self._database.reading() as connection:
            found = connection.execute(
                "SELECT kind, key, owner, data, seq, until FROM leases "  # noqa: S608
                f"WHERE until > ? AND kind IN ({marks}) ORDER BY seq",
                (self._clock(), *kinds),
            ).fetchall()
        return [Row(kind, key, owner, json.loads(data), seq, until) for kind, key, owner, data, seq, until in found]

    def now(self) -> float:
        """Return the clock of the host, seconds since the epoch."""
        return self._clock()
