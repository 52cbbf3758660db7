"""`litellm-registry audit` as its users see it."""

from __future__ import annotations

import json
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from doctor_kit import House

from litellm_registry_hook.cli.main import main
from litellm_registry_hook.core.audit import AuditRecord
from litellm_registry_hook.core.virtual_key import token_of
from litellm_registry_hook.edges.store import audit as trail
from litellm_registry_hook.edges.store.database import Database

KEY = "sk-the-key-of-torgash-000001"
TOKEN = token_of(KEY)
SHORT = TOKEN[:8]
START = datetime(2026, 11, 30, 10, 0, tzinfo=timezone.utc)
FIRST = [
    AuditRecord(START, "granted", "agent:torgash", SHORT, "paid-fallback", who="ops", note="until the demo"),
    AuditRecord(START + timedelta(minutes=1), "refused", "agent:other", "0" * 8, "paid-fallback", "large", "req-1", code="metered_key_not_opted_in"),
    AuditRecord(START + timedelta(minutes=2), "called", "agent:torgash", SHORT, "paid-fallback", "large", "req-2"),
    AuditRecord(START + timedelta(minutes=2, seconds=3), "cost", "agent:torgash", SHORT, "paid-fallback", "", "req-2", cost=0.01),
    AuditRecord(START + timedelta(minutes=3), "called", "", SHORT, "other-paid", "", "req-2"),
    AuditRecord(START + timedelta(minutes=4), "cost", "agent:torgash", SHORT, "paid-fallback", "", "req-2", cost=0.0025),
    AuditRecord(START + timedelta(minutes=5), "cost", "agent:torgash", SHORT, "paid-fallback", "", "req-lost", cost=0.5),
    AuditRecord(START + timedelta(minutes=6), "removed", "agent:torgash", SHORT, "*", who="ops"),
]  # fmt: skip


@pytest.fixture
def audit(house: House, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    """Run the command in the house, in a time zone one hour east of UTC."""
    monkeypatch.chdir(house.folder)
    monkeypatch.delenv("LITELLM_REGISTRY", raising=False)
    monkeypatch.setenv("TZ", "XXX-1")
    time.tzset()
    for name, value in house.environ.items():
        monkeypatch.setenv(name, value)

    def call(*arguments: str) -> tuple[int, str, str]:
        code = main(("audit", *arguments))
        return code, *capsys.readouterr()

    yield call
    monkeypatch.delenv("TZ")
    time.tzset()


def fill(path: Path, records: list[AuditRecord] = FIRST) -> None:
    """Write a trail."""
    database = Database(path)
    for record in records:
        trail.append(database, record)
    database.close()


def test_the_table(audit, house: House) -> None:
    """A row a record, in local time; a call shows the sum of its costs, and a cost without its call has a row."""
    fill(house.state_file)

    assert audit() == (
        0,
        f"""\
WHEN                      KIND     KEY                             MODEL          TIER   REQUEST   WHO  CODE                      COST    NOTE
2026-11-30 11:00:00+0100  granted  agent:torgash sha256:{SHORT}…  paid-fallback  -      -         ops  -                         -       until the demo
2026-11-30 11:01:00+0100  refused  agent:other sha256:00000000…    paid-fallback  large  req-1     -    metered_key_not_opted_in  -       -
2026-11-30 11:02:00+0100  called   agent:torgash sha256:{SHORT}…  paid-fallback  large  req-2     -    -                         0.0125  -
2026-11-30 11:03:00+0100  called   sha256:{SHORT}…                other-paid     -      req-2     -    -                         -       -
2026-11-30 11:05:00+0100  cost     agent:torgash sha256:{SHORT}…  paid-fallback  -      req-lost  -    -                         0.5     -
2026-11-30 11:06:00+0100  removed  agent:torgash sha256:{SHORT}…  *              -      -         ops  -                         -       -
""",
        "",
    )  # fmt: skip


def test_json_has_every_record(audit, house: House) -> None:
    """--json has all records with ISO times in UTC, cost records too, and the cost at its call."""
    fill(house.state_file)

    code, out, err = audit("--json")

    found = json.loads(out)
    assert (code, err) == (0, "")
    assert [(one["kind"], one["cost"]) for one in found] == [
        ("granted", None), ("refused", None), ("called", 0.0125), ("cost", 0.01), ("called", None), ("cost", 0.0025),
        ("cost", 0.5), ("removed", None),
    ]  # fmt: skip
    assert found[2] == {
        "at": "2026-11-30T10:02:00+00:00", "kind": "called", "alias": "agent:torgash", "key": SHORT,
        "model": "paid-fallback", "tier": "large", "request_id": "req-2", "who": "", "code": "", "cost": 0.0125, "note": "",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--kind", "called"], ["called paid-fallback 0.0125", "called other-paid None"]),
        (["--kind", "cost"], ["cost paid-fallback 0.01", "cost paid-fallback 0.0025", "cost paid-fallback 0.5"]),
        (["--key", "agent:other"], ["refused paid-fallback None"]),
        (["--key", KEY, "--kind", "called"], ["called paid-fallback 0.0125", "called other-paid None"]),
        (["--key", f"sha256:{TOKEN}", "--kind", "removed"], ["removed * None"]),
        (["--since", "2026-11-30T11:04"], ["cost paid-fallback 0.0025", "cost paid-fallback 0.5", "removed * None"]),
        (["--since", "2026-11-30T10:05Z"], ["cost paid-fallback 0.5", "removed * None"]),
    ],
)
def test_choosing(audit, house: House, arguments: list[str], expected: list[str]) -> None:
    """Records are chosen by kind, key in any form, and time; the cost of a call stays beside it."""
    fill(house.state_file)

    found = json.loads(audit("--json", *arguments)[1])

    assert [f"{one['kind']} {one['model']} {one['cost']}" for one in found] == expected


def test_costs_as_a_table(audit, house: House) -> None:
    """Asked for by kind, every cost record is a row."""
    fill(house.state_file)

    assert [line.split()[-2] for line in audit("--kind", "cost")[1].splitlines()] == ["COST", "0.01", "0.0025", "0.5"]


def test_nothing_recorded(audit, house: House) -> None:
    """Without records, or without a state file, the answer is empty and says where it looked; no file is made."""
    said = f"no records in {house.state_file}\n"

    assert audit() == (0, "", said)
    assert audit("--json") == (0, "[]\n", said)
    assert not house.state_file.exists()
    fill(house.state_file)
    assert audit("--key", "agent:nobody") == (0, "", said)
    assert audit("--since", "2030-01-01") == (0, "", said)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["--since", "yesterday"],
            "error: 'yesterday' is no moment: write 7d, 12h, 2026-11-30, 2026-11-30T18:00 or 18:00. (see `litellm-registry audit --help`)\n",
        ),
        (
            ["--key", "sha256:abc"],
            "error: the token is not a sha256: write sha256: and 64 lower-case hex digits. (see `litellm-registry audit --help`)\n",
        ),
        (
            ["--kind", "paid"],
            "error: Invalid value for '--kind': 'paid' is not one of 'granted', 'removed', 'refused', 'called', 'cost'. (see `litellm-registry audit --help`)\n",
        ),
    ],
)
def test_bad_usage(audit, house: House, arguments: list[str], said: str) -> None:
    """What cannot be read is exit code 2 and one line."""
    assert audit(*arguments) == (2, "", said)


def test_a_state_that_cannot_be_read(audit, house: House) -> None:
    """A file that is no state is an error that names it."""
    house.state_file.write_text("no database " * 200)

    code, out, err = audit()

    assert (code, out) == (2, "")
    assert err == f"error: state file {house.state_file}: file is not a database\n"


def test_no_secret_and_no_control_character(audit, house: House) -> None:
    """A key that somebody put into a note or named as a model is masked; a name cannot write to the terminal."""
    fill(
        house.state_file,
        [
            AuditRecord(START, "granted", "a", SHORT, "paid-fallback", who="ops", note=f"for {KEY}"),
            AuditRecord(
                START, "refused", "a", SHORT, f"{KEY}\x1b[31m\nforged line", "large", "req", code="unlisted_model"
            ),
        ],
    )

    table, data, chosen = audit()[1], audit("--json")[1], audit("--key", KEY)[1]

    assert [KEY in text for text in (table, data, chosen)] == [False, False, False]
    assert TOKEN not in table + data
    assert "\x1b" not in table + data
    assert len(table.splitlines()) == 3
