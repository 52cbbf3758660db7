"""A state file of an older version is brought up to this one where it lies."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

import pytest

from litellm_registry_hook.core.audit import AuditRecord
from litellm_registry_hook.core.virtual_key import VirtualKey
from litellm_registry_hook.edges.store.sqlite_state import SqliteState
from litellm_registry_hook.errors import StateError

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
# As version 0.1 made it; never to be changed.
FIRST = """
PRAGMA journal_mode = WAL;
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
INSERT INTO virtual_keys VALUES ('aa', 'bot', '["large"]', '2026-01-02T03:04:05+00:00', NULL, NULL, 'n');
INSERT INTO revocations VALUES ('aa', 'paid', '2026-01-02T03:04:05+00:00', 'ops');
INSERT INTO calls VALUES ('aa', 'paid', '2026-01-02', 4);
INSERT INTO audit VALUES (7, '2026-01-02T03:04:05+00:00', 'called', 'bot', 'aa', 'paid', '', 'r', '', '', NULL, '');
INSERT INTO workers VALUES ('w', '2026-01-02T03:04:05+00:00');
PRAGMA user_version = 1;
"""
TAKER = """
import sys
from pathlib import Path
from litellm_registry_hook.edges.store.sqlite_state import SqliteState
state = SqliteState(Path(sys.argv[1]))
sys.stdin.readline()
print(state.ledger.take("lock", sys.argv[2], "me", 60), state.calls("aa", "paid", "2026-01-02"), flush=True)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A state file of the first schema, with a row in each table."""
    path = tmp_path / "state.sqlite"
    connection = sqlite3.connect(path)
    connection.executescript(FIRST)
    connection.close()
    path.chmod(0o600)
    return path


def schema(file: Path) -> tuple[int, list[str]]:
    connection = sqlite3.connect(file)
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    names = [
        name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    ]
    connection.close()
    return version, [name for name in names if not name.startswith("sqlite_")]


OLD = ["audit", "calls", "revocations", "virtual_keys", "workers"]


def contents(state: SqliteState) -> tuple[object, ...]:
    return (
        state.virtual_keys(), state.revocations(), state.calls("aa", "paid", "2026-01-02"), state.audit(),
        state.workers_since(NOW),
    )  # fmt: skip


KEPT = (
    [VirtualKey("aa", "bot", ("large",), NOW, note="n")], {"aa": frozenset({"paid"})}, 4,
    [AuditRecord(NOW, "called", "bot", "aa", "paid", request_id="r")], 1,
)  # fmt: skip


def test_a_file_of_the_first_schema(file: Path) -> None:
    """Everything in it stays, and leases can be taken; the file keeps its mode."""
    state = SqliteState(file)

    assert contents(state) == KEPT
    assert state.ledger.take("lock", "host", "me", 10)
    state.close()
    assert schema(file) == (3, sorted([*OLD, "decisions", "leases"]))
    assert file.stat().st_mode & 0o777 == 0o600


def test_several_processes_upgrade_it_at_once(file: Path) -> None:
    """Eight processes that open it together all go on with it, upgraded once."""
    takers = [
        subprocess.Popen(
            [sys.executable, "-c", TAKER, str(file), str(number)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for number in range(8)
    ]  # fmt: skip
    outs = [one.communicate("go\n", timeout=60) for one in takers]
    state = SqliteState(file)

    assert outs == [("True 4\n", "")] * 8
    assert sorted(row.key for row in state.ledger.rows("lock")) == [str(number) for number in range(8)]
    assert contents(state) == KEPT
    state.close()


def test_a_connection_of_the_old_version_goes_on(file: Path) -> None:
    """A proxy that has the file open while another program upgrades it can still write what it knows."""
    old = sqlite3.connect(file, isolation_level=None)
    old.execute("SELECT count(*) FROM calls").fetchone()
    state = SqliteState(file)
    state.ledger.take("lock", "host", "me", 10)
    old.execute("UPDATE calls SET count = count + 1")
    old.close()

    assert state.calls("aa", "paid", "2026-01-02") == 5
    state.close()


def test_looking_upgrades_nothing(file: Path) -> None:
    """The doctor reads an old file as it is."""
    state = SqliteState(file, upgrade=False)

    assert state.virtual_keys() == KEPT[0]
    state.close()
    assert schema(file) == (1, OLD)


def test_a_file_of_a_newer_version_is_left_alone(file: Path) -> None:
    """What a newer version wrote is refused and unchanged."""
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    state = SqliteState(file)

    with pytest.raises(StateError) as caught:
        state.version()
    assert str(caught.value) == (f"state file {file} was written by a newer version; use that one, or another file")
    assert schema(file) == (99, OLD)


def test_an_upgrade_that_fails_changes_nothing(file: Path) -> None:
    """Where a step cannot be done, the file is as it was, and the error names it."""
    connection = sqlite3.connect(file)
    connection.execute("CREATE TABLE leases (other TEXT)")
    connection.close()

    with pytest.raises(StateError) as caught:
        SqliteState(file).version()
    assert str(caught.value) == f"state file {file}: table leases already exists"
    assert schema(file) == (1, sorted([*OLD, "leases"]))


def gone(file: Path) -> None:
    for path in file.parent.glob("state.sqlite*"):
        path.unlink()


@pytest.mark.parametrize(
    "use",
    [
        lambda state: state.version(),
        lambda state: state.take_call("aa", "paid", "2026-01-02", 9),
        lambda state: state.ledger.take("lock", "host", "me", 1),
    ],
)
def test_a_file_that_was_taken_away_is_not_made_again(file: Path, use: Callable[[SqliteState], object]) -> None:
    """A running proxy does not go on with an empty state: that one would have forgotten revocations and counts."""
    state = SqliteState(file)
    state.version()
    gone(file)

    for _ in range(2):
        with pytest.raises(StateError) as caught:
            use(state)
        assert str(caught.value) == f"state file {file} is gone"
    assert not file.exists()


def test_a_file_that_is_back_is_used_again(file: Path) -> None:
    """When somebody has put a state file there again, it counts at once, with another version."""
    state = SqliteState(file)
    before = state.version()
    gone(file)
    other = SqliteState(file)
    other.revoke_grant("bb", None, NOW, "ops")
    other.close()

    assert (state.revocations(), state.version() != before) == ({"bb": frozenset("*")}, True)
    state.close()
