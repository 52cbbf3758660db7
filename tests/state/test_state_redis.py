"""What only Redis has: a server that may be down, deaf, emptied, foreign or protected, and an address with a password."""

from __future__ import annotations

import re
import socket
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path

import pytest

from litellm_registry_hook.cli.main import main
from litellm_registry_hook.core.audit import AuditRecord
from litellm_registry_hook.core.decision import Decision
from litellm_registry_hook.core.virtual_key import VirtualKey, token_of
from litellm_registry_hook.edges.store.mirror import KeyMirror
from litellm_registry_hook.edges.store.place import open_state
from litellm_registry_hook.errors import StateError
from tests.state.valkey import Valkey

NOW = datetime(2026, 11, 30, 12, tzinfo=timezone.utc)
ROOT = Path(__file__).parents[2]
PASSWORD = "hunter2-is-secret"
DEADLINE_S = 10


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Valkey]:
    """A server of the test's own, with a password."""
    with Valkey(tmp_path, password=PASSWORD) as one:
        yield one


def problem(call: Callable[[], object]) -> str:
    with pytest.raises(StateError) as caught:
        call()
    return str(caught.value)


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("redis://cache", "redis://cache"),
        ("redis://cache:6380/2", "redis://cache:6380/2"),
        (f"redis://:{PASSWORD}@cache:6379/0", "redis://cache:6379/0"),
        (f"rediss://me:{PASSWORD}@cache/?ssl_cert_reqs=none", "rediss://cache"),
        ("redis://me:hun%40ter%232@[::1]:6379", "redis://[::1]:6379"),
        (f"redis://cache:6379/1?password={PASSWORD}", "redis://cache:6379/1"),
        (f"unix://:{PASSWORD}@/run/valkey.sock", "unix:///run/valkey.sock"),
        ("unix:///run/valkey.sock?db=3", "unix:///run/valkey.sock"),
    ],
)
def test_a_place_has_no_password(url: str, place: str) -> None:
    """What is shown of an address has server and database number, and no user, password or option."""
    assert open_state({}, url).place == place


HOW = "is no URL of a server: write {}, a password's special characters as %40 %23 %2F"


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("redis://", "state redis://… " + HOW.format("redis://HOST:6379/0")),
        ("redis://me:hun#ter2@cache", "state redis://… " + HOW.format("redis://HOST:6379/0")),
        ("rediss://me:hun/ter2@cache", "state rediss://… " + HOW.format("rediss://HOST:6379/0")),
        ("redis://cache/registry", "state redis://… " + HOW.format("redis://HOST:6379/0")),
        ("redis://cache:hunter2", "state redis://… " + HOW.format("redis://HOST:6379/0")),
        ("redis://[hunter2", "state redis://… " + HOW.format("redis://HOST:6379/0")),
        ("unix://run/", "state unix://… " + HOW.format("unix:///PATH")),
        ("mysql://me:hunter2@host", "the registry's state is no address of a store: "
         "write sqlite:////PATH, redis://, rediss:// or unix://"),
    ],
)  # fmt: skip
def test_an_address_of_no_use(url: str, message: str) -> None:
    """An address that cannot be used says how to write one, and repeats nothing that may be a password."""
    assert problem(lambda: open_state({}, url)) == message


def test_the_environment_outranks_the_registry() -> None:
    """LITELLM_REGISTRY_STATE counts before the registry's `state:`, also where it is of no use."""
    assert open_state({"LITELLM_REGISTRY_STATE": "redis://one"}, "redis://two").place == "redis://one"
    assert problem(lambda: open_state({"LITELLM_REGISTRY_STATE": "cache:6379"}, "redis://two")) == (
        "LITELLM_REGISTRY_STATE is no address of a store: write sqlite:////PATH, redis://, rediss:// or unix://"
    )


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where redis-py is not installed the error says how to install it."""
    monkeypatch.setitem(sys.modules, "redis", None)

    assert problem(lambda: open_state({}, f"redis://:{PASSWORD}@cache")) == (
        "state redis://cache: the redis package is missing: pip install 'litellm-registry-hook[redis]'"
    )


def test_nothing_but_our_own_keys_and_no_secret(server: Valkey) -> None:
    """All that is written has the prefix, and neither a key nor the password is in it."""
    state = open_state({}, server.url)
    secret = "sk-a-key-of-somebody"
    state.add_key(VirtualKey(token_of(secret), "bot", None, NOW))
    state.revoke_grant(token_of(secret), None, NOW, "ops")
    state.take_call(token_of(secret), "paid", "2026-11-30", 5)
    state.beat("w", NOW)
    state.append_decisions([Decision(NOW, "r")])
    state.ledger.take("lock", "host", "me", 60)
    held = server.everything()

    assert sorted(held) == [
        f"litellm-registry-hook:{name}"
        for name in ("aliases", "calls:2026-11-30", "decisions", "keys", "lease_seq", "leases:lock", "revocations", "schema",
                     "version", "workers")
    ]  # fmt: skip
    assert held["litellm-registry-hook:schema"] == "1"
    assert secret not in str(held)
    assert PASSWORD not in str(held)
    state.close()


def test_a_user_that_may_touch_nothing_else(server: Valkey) -> None:
    """The rights that docs/state.md names are enough for everything, and `?db=` takes another database."""
    [rights] = re.findall(r"`(~litellm-registry-hook:.*?)`", (ROOT / "docs/state.md").read_text())
    server.command("ACL", "SETUSER", "registry", "on", ">user-secret", *rights.split())
    state = open_state({}, f"unix://registry:user-secret@{server.socket}?db=1")
    state.add_key(VirtualKey("t", "bot", None, NOW))
    state.revoke_grant("t", None, NOW, "ops")
    state.append_audit(AuditRecord(NOW, "granted", "bot"))
    state.beat("w", NOW)
    state.append_decisions([Decision(datetime.now(timezone.utc), "r")])

    assert [one.request_id for one in state.decisions()] == ["r"]
    assert (state.take_call("t", "paid", "2026-11-30", 5), state.ledger.take("a", "b", "c", 9)) == (True, True)
    assert (len(state.virtual_keys()), state.revocations(), state.workers_since(NOW)) == (1, {"t": frozenset("*")}, 1)
    assert (len(state.audit()), len(state.grants()), len(state.ledger.rows("a"))) == (1, 1, 1)
    assert state.ledger.now() > 0
    assert server.everything() == {}
    state.close()


def test_what_passes_is_dropped_by_the_server(server: Valkey) -> None:
    """Counts of a day and lease rows have an end on the server, later than they are needed."""
    state = open_state({}, server.url)
    state.take_call("t", "paid", "2026-11-30", 5)
    state.ledger.take("lock", "host", "me", 100)
    state.ledger.take("lock", "other", "me", 10)
    days = int(server.command("TTL", "litellm-registry-hook:calls:2026-11-30")) / 86_400
    lease = int(server.command("PTTL", "litellm-registry-hook:leases:lock")) / 1000

    assert 7.9 < days <= 8
    assert 150 < lease <= 160
    state.close()


def test_the_servers_clock_counts(server: Valkey) -> None:
    """The ledger's time is the server's, and a row's end is on it."""
    state = open_state({}, server.url)
    before = float(server.command("TIME")[0])
    now = state.ledger.now()
    state.ledger.take("lock", "host", "me", 100)
    [row] = state.ledger.rows("lock")
    after = float(server.command("TIME")[0]) + 1

    assert before <= now <= after
    assert before + 100 <= row.until <= after + 100
    state.close()


def test_a_server_that_is_down_and_up_again(server: Valkey) -> None:
    """While it is down every use is an error at once that names it; afterwards the same object goes on, with nothing in it."""
    state = open_state({}, server.url)
    state.revoke_grant("t", None, NOW, "ops")
    before = state.version()
    server.kill()
    started = time.monotonic()
    said = [problem(use) for use in (state.version, lambda: state.ledger.take("a", "b", "c", 1), state.ledger.now)]
    took = time.monotonic() - started
    server.start()

    assert all(one.startswith(f"state unix://{server.socket}: ") for one in said)
    assert PASSWORD not in str(said)
    assert took < 1
    assert (state.version(), state.revocations(), state.ledger.take("lock", "host", "me", 9)) == ("", {}, True)
    state.add_key(VirtualKey("t", "bot", None, NOW))
    assert state.version() not in {"", before}
    state.close()


def test_a_server_that_was_emptied(server: Valkey) -> None:
    """FLUSHALL under a running proxy makes an empty state: no error, a new version, rows that come after all before."""
    state = open_state({}, server.url)
    state.add_key(VirtualKey("t", "bot", None, NOW))
    state.ledger.take("lock", "host", "me", 60)
    [old] = state.ledger.rows("lock")
    before = state.version()
    server.command("FLUSHALL")

    assert (state.version(), state.virtual_keys(), state.ledger.rows("lock")) == ("", [], [])
    assert not state.ledger.renew("lock", "host", "me", 60)
    state.add_key(VirtualKey("t", "bot", None, NOW))
    assert int(state.version()) > int(before)
    assert state.ledger.take("lock", "host", "me", 60)
    assert state.ledger.rows("lock")[0].seq > old.seq
    state.close()


def test_a_wrong_password(server: Valkey) -> None:
    """A refused password is an error without it, though the server's address has it."""
    wrong = server.url.replace(PASSWORD, "not-the-password")

    assert problem(open_state({}, wrong).version) == (
        f"state unix://{server.socket}: invalid username-password pair or user is disabled."
    )


def test_a_state_of_another_version(server: Valkey) -> None:
    """A layout that this version does not know is neither read nor written."""
    state = open_state({}, server.url)
    server.command("SET", "litellm-registry-hook:schema", "2")
    uses = (state.version, state.audit, lambda: state.revoke_grant("t", None, NOW, "o"), lambda: state.ledger.rows("a"))
    said = {problem(use) for use in uses}

    assert said == {
        f"state unix://{server.socket}: this state was written by another version of litellm-registry-hook "
        "(schema 2, this one knows 1); use that one, or another server or database number"
    }
    assert server.everything() == {"litellm-registry-hook:schema": "2"}
    state.close()


def test_a_deaf_server_costs_one_timeout() -> None:
    """A server that takes connections and never answers costs two seconds once; others are told at once, then it is tried again."""
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        state = open_state({}, f"redis://127.0.0.1:{deaf.getsockname()[1]}")
        first = time.monotonic()
        said = problem(state.version)
        second = time.monotonic()
        again = problem(state.revocations)
        third = time.monotonic()
        state.close()

    assert 1.5 < second - first < 5
    assert third - second < 0.4
    assert said == again == f"state {state.place}: Timeout reading from socket"


def test_the_command_line_on_redis(
    server: Valkey, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Keys are made, listed and revoked as on a file; the place is printed without the password."""
    monkeypatch.setenv("LITELLM_REGISTRY_STATE", server.url)
    monkeypatch.setenv("LITELLM_REGISTRY", str(ROOT / "model-registry.yaml"))

    def run(*arguments: str) -> tuple[int, str, str]:
        return (main(arguments), *capsys.readouterr())

    assert run("keys", "list") == (0, "", f"no keys in unix://{server.socket}\n")
    code, key, said = run("keys", "create", "--alias", "bot")
    assert (code, key[:3]) == (0, "sk-")
    assert said.splitlines()[-2:] == [
        f"state: unix://{server.socket}",
        "warning: no running proxy uses this state; a proxy that runs as another user, or elsewhere, has one of its "
        "own (set LITELLM_REGISTRY_STATE alike for both)",
    ]
    open_state({}, server.url).beat("w", datetime.now(timezone.utc))
    assert run("keys", "create", "--alias", "bot")[0] == 2
    assert run("keys", "revoke", "bot") == (
        0, "`bot` is revoked, in every worker within 2 seconds\n", f"state: unix://{server.socket}\n",
    )  # fmt: skip
    assert run("audit") == (0, "", f"no records in unix://{server.socket}\n")
    server.kill()
    code, out, said = run("keys", "list")
    assert (code, out) == (2, "")
    assert said.startswith(f"error: state unix://{server.socket}: ")
    assert PASSWORD not in said


async def test_the_mirror_follows_a_server(server: Valkey) -> None:
    """Keys are found when they are new, and revoked by others; while the server is down those known stay."""
    mirror, state = KeyMirror(lambda: open_state({}, server.url), every_s=0.05), open_state({}, server.url)
    row = VirtualKey(token_of("sk-a"), "a", None, NOW)

    def until(condition: Callable[[], bool]) -> bool:
        end = time.monotonic() + DEADLINE_S
        while not condition() and time.monotonic() < end:
            time.sleep(0.01)
        return condition()

    assert await mirror.find(row.token) is None
    state.add_key(row)
    assert await mirror.find(row.token) == row
    state.revoke_key(row.token, NOW)
    assert until(lambda: mirror.get(row.token).revoked == NOW)
    server.kill()
    assert until(lambda: not mirror.readable)
    assert mirror.get(row.token) is not None
    server.start()
    assert until(lambda: mirror.readable and mirror.get(row.token) is None)
    mirror.stop()
    state.close()
