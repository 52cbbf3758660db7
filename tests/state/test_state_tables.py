"""Keys, revocations, calls, audit and workers: the same on SQLite and on Redis."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from litellm_registry_hook.core.audit import AuditRecord
from litellm_registry_hook.core.virtual_key import VirtualKey, token_of
from litellm_registry_hook.edges.store.port import AliasTakenError, State

NOW = datetime(2026, 11, 30, 12, 0, 0, 250000, tzinfo=timezone.utc)
TOMORROW = NOW + timedelta(days=1)


def key(alias: str, secret: str = "", **more) -> VirtualKey:
    return VirtualKey(token_of(f"sk-{secret or alias}"), alias, **{"models": None, "created": NOW, **more})


FULL = key("agent:ü", models=("large", "embed"), expires=TOMORROW, note='for "tests" \\ /')


def test_a_key_comes_back_as_it_went(state: State) -> None:
    """Every field of a key survives, and keys come in order of creation, then alias."""
    late, early = key("a", created=TOMORROW), key("z", created=NOW - timedelta(days=1))
    empty, ended = replace(key("none"), models=()), key("ended", revoked=TOMORROW)
    for one in (late, FULL, early, empty, ended):
        state.add_key(one)

    assert state.virtual_keys() == [early, FULL, ended, empty, late]


def test_an_alias_is_one_live_keys(state: State) -> None:
    """A second key with the alias of one that is not revoked is refused, and so is a token that is there already."""
    state.add_key(key("bot"))
    with pytest.raises(AliasTakenError, match="bot"):
        state.add_key(key("bot", "other"))
    with pytest.raises(AliasTakenError):
        state.add_key(replace(key("bot"), alias="another"))
    state.add_key(key("bot", "past", revoked=NOW))

    assert {one.token for one in state.virtual_keys()} == {token_of("sk-bot"), token_of("sk-past")}


def test_revoking(state: State) -> None:
    """A live key is ended once; its alias is free again; one that nobody knows cannot be ended."""
    state.add_key(key("bot"))

    assert state.revoke_key(token_of("sk-bot"), TOMORROW)
    assert not state.revoke_key(token_of("sk-bot"), NOW)
    assert not state.revoke_key(token_of("sk-nobody"), NOW)
    state.add_key(key("bot", "second"))
    assert {one.token: one.revoked for one in state.virtual_keys()} == {
        token_of("sk-bot"): TOMORROW, token_of("sk-second"): None,
    }  # fmt: skip


def test_rotating(state: State) -> None:
    """The successor takes over in the same step, under the same alias; an ended or unknown key has none."""
    state.add_key(key("bot"))
    second, third = key("bot", "second", created=TOMORROW), key("bot", "third")

    assert state.rotate_key(token_of("sk-bot"), second, TOMORROW)
    assert not state.rotate_key(token_of("sk-bot"), third, TOMORROW)
    assert not state.rotate_key(token_of("sk-nobody"), third, TOMORROW)
    assert state.virtual_keys() == [key("bot", revoked=TOMORROW), second]
    with pytest.raises(AliasTakenError):
        state.add_key(third)


def test_of_many_rotations_one_wins(opened: Callable[[], State], state: State) -> None:
    """Twenty threads give one key a successor at once: there is one."""
    state.add_key(key("bot"))
    start, won = threading.Barrier(20), []

    def run(number: int) -> None:
        own, row = opened(), key("bot", f"next-{number}")
        start.wait()
        if own.rotate_key(token_of("sk-bot"), row, NOW):
            won.append(row)
        own.close()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(20)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()

    assert [one for one in state.virtual_keys() if one.revoked is None] == won
    assert len(won) == 1


def test_revocations_of_models_and_of_all(state: State) -> None:
    """What is revoked is listed by token; lifting takes single models back, and everything where none is named."""
    state.revoke_grant("t1", ["paid", "name with spaces"], NOW, "ops")
    state.revoke_grant("t1", ["paid"], TOMORROW, "ops")
    state.revoke_grant("t2", None, NOW, "ops")
    state.revoke_grant("t12", ["x"], NOW, "ops")
    assert state.revocations() == {
        "t1": frozenset({"paid", "name with spaces"}), "t2": frozenset("*"), "t12": frozenset("x"),
    }  # fmt: skip

    state.lift_revocation("t1", ["paid"])
    state.lift_revocation("t2", ["paid"])
    assert state.revocations() == {"t1": frozenset({"name with spaces"}), "t12": frozenset("x")}
    state.lift_revocation("t1", None)
    state.lift_revocation("nobody", None)
    assert state.revocations() == {"t12": frozenset("x")}


def test_calls_are_counted_to_the_limit(state: State) -> None:
    """Calls count for a key, a model and a day; several at once are taken together or not at all."""
    day = NOW.date().isoformat()
    assert [state.take_call("t", "paid", day, 3) for _ in range(4)] == [True, True, True, False]
    assert state.take_call("t", "other", day, 1)
    assert state.take_call("u", "paid", day, 1)
    assert state.take_call("t", "paid", "2026-12-01", 1)
    assert not state.take_call("t", "none", day, 0)
    assert not state.take_call("t", "many", day, 5, more=6)
    assert state.take_call("t", "many", day, 5, more=4)
    assert not state.take_call("t", "many", day, 5, more=2)

    counted = [state.calls("t", name, day) for name in ("paid", "other", "many", "none")]
    assert (counted, state.calls("u", "paid", day), state.calls("t", "paid", "2026-12-01")) == ([3, 1, 4, 0], 1, 1)


def test_a_cap_holds_under_a_crowd(opened: Callable[[], State]) -> None:
    """Forty threads take calls at once: as many get one as the limit says."""
    day, start, won = NOW.date().isoformat(), threading.Barrier(40), []

    def run() -> None:
        own = opened()
        start.wait()
        won.append(own.take_call("t", "paid", day, 5))
        own.close()

    threads = [threading.Thread(target=run) for _ in range(40)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()

    assert (won.count(True), opened().calls("t", "paid", day)) == (5, 5)


def test_the_audit_trail(state: State) -> None:
    """Records come back as they went, in order of writing, from a moment on; grants and removals by themselves."""
    granted = AuditRecord(NOW, "granted", "bot", "abab", "paid", who="ops", note='ü / "q"')
    called = AuditRecord(NOW + timedelta(hours=1), "called", "bot", "abab", "paid", "tier", "r-1")
    cost = AuditRecord(NOW + timedelta(hours=2), "cost", "bot", "abab", "paid", request_id="r-1", cost=0.1234567890123)
    removed = AuditRecord(NOW + timedelta(hours=2), "removed", "bot", "abab", "*", who="ops")
    for one in (granted, called, cost, removed):
        state.append_audit(one)

    assert state.audit() == [granted, called, cost, removed]
    assert state.audit(NOW + timedelta(hours=1)) == [called, cost, removed]
    assert state.audit(NOW + timedelta(hours=1, microseconds=1)) == [cost, removed]
    assert state.audit((NOW + timedelta(hours=2)).astimezone(timezone(timedelta(hours=-11)))) == [cost, removed]
    assert state.audit(TOMORROW) == []
    assert state.grants() == [granted, removed]


def test_a_long_audit_trail(state: State) -> None:
    """A trail longer than what is read at a time comes whole and in order."""
    every = [AuditRecord(NOW, "refused", model=f"m{number}", code="unlisted_model") for number in range(2500)]
    for one in every:
        state.append_audit(one)

    assert state.audit() == every


def test_a_name_that_utf_8_cannot_say(state: State) -> None:
    """A refused model's name is whatever a client sent; half a surrogate pair is recorded as a question mark."""
    state.append_audit(AuditRecord(NOW, "refused", model="m\ud800", code="unlisted_model"))

    assert [one.model for one in state.audit()] == ["m?"]


def test_workers(state: State) -> None:
    """A worker counts from its last beat on; one that was not seen for an hour is forgotten."""
    state.beat("a", NOW)
    state.beat("b", NOW)
    state.beat("b", NOW + timedelta(seconds=30))
    counts = [state.workers_since(NOW + timedelta(seconds=n)) for n in (-1, 0, 10, 31)]
    state.beat("c", NOW + timedelta(minutes=60, seconds=10))

    assert counts == [2, 2, 1, 0]
    assert state.workers_since(NOW - timedelta(days=1)) == 2


def test_the_version_tells_of_changes_by_others(opened: Callable[[], State], state: State) -> None:
    """Each change of keys or revocations by another process makes another version; without one it stays."""
    other = opened()
    seen = [state.version()]
    changes: list[Callable[[], object]] = [
        lambda: other.add_key(key("bot")),
        lambda: other.revoke_grant("t", None, NOW, "ops"),
        lambda: other.lift_revocation("t", ["paid"]),
        lambda: other.rotate_key(token_of("sk-bot"), key("bot", "next"), NOW),
        lambda: other.revoke_key(token_of("sk-next"), NOW),
    ]
    for change in changes:
        assert state.version() == seen[-1]
        change()
        seen.append(state.version())

    assert len(set(seen)) == len(changes) + 1


def test_no_thread_misses_a_change(opened: Callable[[], State], state: State) -> None:
    """A version that one thread was told before a change is never told to another thread after it."""
    told: list[str] = []

    def tell() -> None:
        told.append(state.version())
        state.close()

    for number in range(6):
        thread = threading.Thread(target=tell)
        thread.start()
        thread.join()
        opened().revoke_grant(f"t{number}", None, NOW, "ops")

    assert len(set(told)) == 6


def test_it_is_empty_at_first(state: State) -> None:
    """A state that nobody has used can be read, and holds nothing."""
    assert (state.virtual_keys(), state.revocations(), state.audit(), state.grants()) == ([], {}, [], [])
    assert (state.calls("t", "m", "2026-01-01"), state.workers_since(NOW), state.ledger.rows("lock")) == (0, 0, [])
