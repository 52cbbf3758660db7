"""Lease rows: who holds what, until when, on SQLite and on Redis."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from litellm_registry_hook.core.gpu.ports import Ledger
from litellm_registry_hook.edges.store.database import Database
from litellm_registry_hook.edges.store.ledger import SqliteLedger
from litellm_registry_hook.edges.store.port import State
from litellm_registry_hook.edges.store.redis_ledger import RedisLedger
from litellm_registry_hook.edges.store.redis_server import RedisServer

DEADLINE_S = 20


class Clock:
    """A clock that stands until it is told."""

    def __init__(self) -> None:
        self.time = 1_800_000_000.25

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ledger(url: str, clock: Clock, tmp_path: Path) -> Ledger:
    """A ledger on a clock of the test's."""
    if url.startswith("sqlite"):
        return SqliteLedger(Database(tmp_path / "state.sqlite"), clock)
    return RedisLedger(RedisServer(url), clock)


def held(ledger: Ledger, *kinds: str) -> list[tuple[str, str, str]]:
    return [(row.kind, row.key, row.owner) for row in ledger.rows(*kinds)]


def test_a_row_is_one_owners(ledger: Ledger, clock: Clock) -> None:
    """The first owner has the row with its data and end; another one does not get it."""
    assert ledger.take("claim", "host", "a", 10, data={"model": "x", "mb": [1, 2.5], "ü": None})
    assert not ledger.take("claim", "host", "b", 10)

    [row] = ledger.rows("claim")
    assert (row.kind, row.key, row.owner, row.data, row.until) == (
        "claim", "host", "a", {"model": "x", "mb": [1, 2.5], "ü": None}, clock.time + 10,
    )  # fmt: skip
    assert ledger.now() == clock.time


def test_taking_again_renews(ledger: Ledger, clock: Clock) -> None:
    """The owner's second take moves the end, replaces data where there are some, and keeps the order."""
    ledger.take("claim", "first", "a", 10, data={"n": 1})
    ledger.take("claim", "second", "b", 10)
    before = ledger.rows("claim")
    clock.time += 5

    assert ledger.take("claim", "first", "a", 10)
    first, second = ledger.rows("claim")
    assert (first.key, first.data, first.until, first.seq) == ("first", {"n": 1}, clock.time + 10, before[0].seq)
    assert second == before[1]

    assert ledger.take("claim", "first", "a", 10, data={"n": 2})
    assert ledger.rows("claim")[0].data == {"n": 2}
    assert ledger.take("claim", "first", "a", 10, data={})
    assert ledger.rows("claim")[0].data == {}


def test_a_row_past_its_end_is_absent(ledger: Ledger, clock: Clock) -> None:
    """At its end a row cannot be seen, renewed or dropped by its owner, and another takes it with a new seq."""
    ledger.take("lock", "host", "a", 10)
    [old] = ledger.rows("lock")
    clock.time += 10

    assert ledger.rows("lock") == []
    assert not ledger.renew("lock", "host", "a", 10)
    assert ledger.take("lock", "host", "b", 10)
    ledger.drop("lock", "host", "a")
    [new] = ledger.rows("lock")
    assert (new.owner, new.seq > old.seq) == ("b", True)


def test_its_own_lapsed_row_is_a_new_one(ledger: Ledger, clock: Clock) -> None:
    """An owner that comes too late gets a new row, without the old data."""
    ledger.take("lock", "host", "a", 10, data={"n": 1})
    [old] = ledger.rows("lock")
    clock.time += 11

    assert ledger.take("lock", "host", "a", 10)
    [new] = ledger.rows("lock")
    assert (new.data, new.seq > old.seq) == ({}, True)


def test_renewing_is_for_the_owner(ledger: Ledger, clock: Clock) -> None:
    """A row's end is moved by its owner, from now on; by nobody else, and not where there is no row."""
    ledger.take("lock", "host", "a", 10)
    clock.time += 9

    assert not ledger.renew("lock", "host", "b", 99)
    assert not ledger.renew("lock", "other", "a", 99)
    assert not ledger.renew("other", "host", "a", 99)
    assert ledger.renew("lock", "host", "a", 10)
    assert [row.until for row in ledger.rows("lock")] == [clock.time + 10]


def test_dropping_is_for_the_owner(ledger: Ledger) -> None:
    """A row is removed by its owner; dropping what is another's or not there changes nothing."""
    ledger.take("lock", "host", "a", 10)

    ledger.drop("lock", "host", "b")
    ledger.drop("lock", "other", "a")
    assert held(ledger, "lock") == [("lock", "host", "a")]
    ledger.drop("lock", "host", "a")
    assert held(ledger, "lock") == []


def test_rows_come_in_order_of_arrival(ledger: Ledger) -> None:
    """Rows of the kinds asked for, and of no other, in the order in which they were made, across kinds."""
    for kind, key in (("a", "2"), ("b", "1"), ("a", "1"), ("c", "1"), ("a:b", "1"), ("a", "b:1")):
        ledger.take(kind, key, "me", 10)

    assert held(ledger, "a", "b", "a") == [("a", "2", "me"), ("b", "1", "me"), ("a", "1", "me"), ("a", "b:1", "me")]
    assert held(ledger, "a:b") == [("a:b", "1", "me")]
    assert held(ledger) == []
    seqs = [row.seq for row in ledger.rows("a", "b", "c")]
    assert seqs == sorted(set(seqs))


def test_seq_rises_also_after_all_rows_are_gone(ledger: Ledger) -> None:
    """A new row comes after every row there ever was."""
    ledger.take("q", "1", "a", 10)
    [old] = ledger.rows("q")
    ledger.drop("q", "1", "a")
    ledger.take("q", "1", "a", 10)

    assert ledger.rows("q")[0].seq > old.seq


def test_a_limit_counts_live_rows_of_other_keys(ledger: Ledger, clock: Clock) -> None:
    """With two rows of the kind a third is refused at a limit of two; rows that lapse and other kinds do not count."""
    assert ledger.take("load", "x", "a", 10, limit=2)
    assert ledger.take("load", "y", "b", 20, limit=2)
    assert ledger.take("other", "z", "c", 20, limit=2)
    assert not ledger.take("load", "z", "c", 10, limit=2)
    assert ledger.take("load", "x", "a", 10, limit=2)
    assert not ledger.take("load", "y", "c", 10, limit=9)
    clock.time += 10

    assert ledger.take("load", "z", "c", 10, limit=2)
    assert held(ledger, "load") == [("load", "y", "b"), ("load", "z", "c")]
    assert not ledger.take("none", "x", "a", 10, limit=0)


def test_fifty_at_once_and_one_wins(opened: Callable[[], State]) -> None:
    """Fifty threads, each with the state opened for itself, want one lock: one gets it."""
    start, won = threading.Barrier(50), []

    def run(number: int) -> None:
        state = opened()
        start.wait()
        if state.ledger.take("lock", "host", f"worker-{number}", 60):
            won.append(f"worker-{number}")
        state.close()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(50)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()

    assert won == [row.owner for row in opened().ledger.rows("lock")]
    assert len(won) == 1


def test_fifty_at_once_keep_the_limit(opened: Callable[[], State]) -> None:
    """Fifty threads want rows of their own at a limit of seven: seven get one, each with a seq of its own."""
    start, won = threading.Barrier(50), []

    def run(number: int) -> None:
        state = opened()
        start.wait()
        if state.ledger.take("queue", str(number), f"worker-{number}", 60, limit=7):
            won.append(str(number))
        state.close()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(50)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    rows = opened().ledger.rows("queue")

    assert sorted(won) == sorted(row.key for row in rows)
    assert (len(rows), len({row.seq for row in rows})) == (7, 7)


HOLDER = """
import sys, time
from litellm_registry_hook.edges.store.place import open_state
ledger = open_state({}, sys.argv[1]).ledger
print(ledger.take("lock", "host", "the dead", float(sys.argv[2])), flush=True)
time.sleep(600)
"""
RACER = """
import sys
from litellm_registry_hook.edges.store.place import open_state
state = open_state({}, sys.argv[1])
sys.stdin.readline()
print(state.ledger.take("lock", "host", sys.argv[2], 60), flush=True)
"""


def test_a_killed_owner_holds_nothing_for_long(url: str, state: State) -> None:
    """kill -9 of the owner: the row stands to its end and no moment longer, by the ledger's own clock."""
    ttl = 1.5
    owner = subprocess.Popen([sys.executable, "-c", HOLDER, url, str(ttl)], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    taken = owner.stdout.readline()
    [row] = state.ledger.rows("lock")
    os.kill(owner.pid, signal.SIGKILL)
    owner.communicate()
    tries = []
    end = time.monotonic() + DEADLINE_S
    while (not tries or not tries[-1][1]) and time.monotonic() < end:
        before = state.ledger.now()
        tries.append((before, state.ledger.take("lock", "host", "the heir", 60), state.ledger.now()))
        time.sleep(0.02)

    assert (taken, row.owner) == ("True\n", "the dead")
    assert all(before < row.until for before, won, _ in tries if not won)
    assert tries[-1][1] is True
    assert row.until <= tries[-1][2] < row.until + 5
    assert [one.owner for one in state.ledger.rows("lock")] == ["the heir"]


def test_processes_at_once_and_one_wins(url: str, state: State) -> None:
    """Eight processes, on a state that does not exist yet, want one lock: one gets it."""
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, url, f"p{number}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for number in range(8)
    ]
    outs = [one.communicate("go\n", timeout=60)[0] for one in racers]

    assert sorted(outs) == ["False\n"] * 7 + ["True\n"]
    assert [row.owner for row in state.ledger.rows("lock")] == [f"p{outs.index('True' + chr(10))}"]
