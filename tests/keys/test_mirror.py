"""The keys in memory follow the file, from one thread."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path

import pytest

from litellm_registry_hook.core.virtual_key import VirtualKey, token_of
from litellm_registry_hook.edges.store import virtual_keys
from litellm_registry_hook.edges.store.database import Database
from litellm_registry_hook.edges.store.mirror import KeyMirror
from litellm_registry_hook.edges.store.sqlite_state import SqliteState

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
DEADLINE_S = 10


def row(alias: str) -> VirtualKey:
    return VirtualKey(token_of(f"sk-{alias}"), alias, None, NOW)


@pytest.fixture
def mirror(state: Path) -> Iterator[KeyMirror]:
    one = KeyMirror(lambda: SqliteState(state), every_s=0.05)
    yield one
    one.stop()


def until(condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + DEADLINE_S
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


async def test_a_key_made_a_moment_ago_is_found(mirror: KeyMirror, database: Database) -> None:
    """A token that is not in memory is looked up in the file before it is refused."""
    slow = KeyMirror(lambda: SqliteState(database.path), every_s=60)
    assert await slow.find(row("a").token) is None
    virtual_keys.add(database, row("a"))

    assert await slow.find(row("a").token) == row("a")
    slow.stop()


async def test_an_unknown_token_makes_no_state(mirror: KeyMirror, state: Path) -> None:
    """Looking for a key where there is no file finds none, is no failure, and makes no file."""
    assert await mirror.find("0" * 64) is None
    assert (mirror.readable, state.exists()) == (True, False)


async def test_changes_are_seen_without_being_asked(mirror: KeyMirror, database: Database) -> None:
    """A revocation by somebody else reaches memory by itself."""
    virtual_keys.add(database, row("a"))
    await mirror.find(row("a").token)
    virtual_keys.revoke(database, row("a").token, NOW)

    assert until(lambda: mirror.get(row("a").token).revoked == NOW)


async def test_a_flood_of_unknown_tokens_reads_the_file_seldom(state: Path, database: Database) -> None:
    """Five hundred unknown keys at once share a few looks at the file, and all are answered."""
    virtual_keys.add(database, row("a"))
    looks: list[float] = []

    class Counting(KeyMirror):
        def _look(self) -> None:
            looks.append(time.monotonic())
            super()._look()

    counting = Counting(lambda: SqliteState(state), every_s=60)
    found = await asyncio.gather(*(counting.find(token_of(f"sk-{number}")) for number in range(500)))
    counting.stop()

    assert found == [None] * 500
    # Each arrives before or while a look runs; the last look is the one that ends the thread.
    assert len(looks) <= 20


async def test_what_is_known_stays_while_the_file_is_gone(mirror: KeyMirror, database: Database, state: Path) -> None:
    """Without the file the known keys stay; when it is back, what it says counts."""
    virtual_keys.add(database, row("a"))
    await mirror.find(row("a").token)
    database.close()
    for path in list(state.parent.iterdir()):
        path.unlink()
    gone = until(lambda: not mirror.readable)
    kept = mirror.get(row("a").token)
    other = Database(state)
    virtual_keys.add(other, row("b"))
    other.close()

    assert gone
    assert kept == row("a")
    assert until(lambda: mirror.readable and mirror.get(row("b").token) is not None)
    assert mirror.get(row("a").token) is None


async def test_a_file_that_was_replaced_is_opened_anew(mirror: KeyMirror, database: Database, state: Path) -> None:
    """A restored backup counts at once, though the old file is still open."""
    virtual_keys.add(database, row("a"))
    await mirror.find(row("a").token)
    other = Database(state.with_name("backup.sqlite"))
    virtual_keys.add(other, row("b"))
    with other.reading() as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    other.close()
    database.close()
    for name in ("-wal", "-shm"):
        state.with_name(state.name + name).unlink(missing_ok=True)
    os.replace(state.with_name("backup.sqlite"), state)

    assert until(lambda: mirror.get(row("b").token) is not None and mirror.get(row("a").token) is None)


async def test_a_file_that_is_no_state_is_a_failure_until_it_is_one(state: Path) -> None:
    """Garbage in the place of the state accepts nobody and stops nothing."""
    state.parent.mkdir()
    state.write_bytes(b"not a database at all" * 100)
    mirror = KeyMirror(lambda: SqliteState(state), every_s=0.05)
    found = await mirror.find(row("a").token)
    unreadable = mirror.readable
    state.unlink()
    other = Database(state)
    virtual_keys.add(other, row("a"))
    other.close()

    assert (found, unreadable) == (None, False)
    assert until(lambda: mirror.get(row("a").token) == row("a"))
    mirror.stop()


async def test_a_place_that_is_not_known_yet_is_asked_again(state: Path, database: Database) -> None:
    """While nothing says where the state is, nobody is accepted; then the keys are read."""
    virtual_keys.add(database, row("a"))
    places: list[SqliteState] = []

    def place() -> SqliteState:
        if not places:
            raise OSError("no registry")
        return places[0]

    mirror = KeyMirror(place, every_s=0.05)
    found = await mirror.find(row("a").token)
    unreadable = mirror.readable
    places.append(SqliteState(state))

    assert (found, unreadable) == (None, False)
    assert until(lambda: mirror.get(row("a").token) == row("a"))
    mirror.stop()
