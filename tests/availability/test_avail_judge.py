"""The decision made of readings, closures, circuits and health."""

from __future__ import annotations

from typing import Any

import pytest
from availability.avail_kit import NOON, TWO_WINDOWS, budgeted, facts_of, gated, one, served, target
from strategies import model_entry

from litellm_registry_hook.core.availability.facts import Circuit, Closure, Facts, Health, Reading
from litellm_registry_hook.core.availability.judge import judge, judge_target, usable
from litellm_registry_hook.core.refusal import Skip
from litellm_registry_hook.wiring import load_registry

REGISTRY, SUB = one(gated(windows=TWO_WINDOWS))


def reading(window: str = "5h", used: float | None = 50.0, **more: Any) -> Reading:
    """A reading of `sub`, ten seconds old."""
    given = {"resets_at": None, "read_at": NOON - 10, "tried_at": NOON - 10, **more}
    return Reading("sub", window, used, **given)


def answer(*readings: Reading, now: float = NOON, **routing: Any) -> Skip | None:
    """What is said of `sub`."""
    registry, model = one(gated(windows=TWO_WINDOWS), **routing)
    return judge(registry, model, facts_of(*readings), now)


def test_all_windows_have_room() -> None:
    """Below the threshold in each window, the model is used."""
    assert answer(reading("5h", 94.99), reading("weekly", 0.0)) is None


@pytest.mark.parametrize(
    ("five", "week", "after"),
    [(100.0, 0.0, 600.0), (95.0, 94.0, 600.0), (0.0, 100.0, 86400.0), (99.0, 99.0, 86400.0)],
)
def test_one_full_window_is_enough(five: float, week: float, after: float) -> None:
    """Either window alone closes the model, and Retry-After is the last reset of those that are full."""
    skip = answer(reading("5h", five, resets_at=NOON + 600), reading("weekly", week, resets_at=NOON + 86400), now=NOON)

    assert skip is not None
    assert (skip.model, skip.code, skip.retry_after_s) == ("sub", "quota_exhausted", after)


def test_the_reason_says_window_percent_threshold_age_reset_and_fix() -> None:
    """The sentence names everything one needs to believe it."""
    skip = answer(reading("5h", 97.5, resets_at=NOON + 3900), reading("weekly", 100.0, note="the probe said 120 %"))

    assert skip == Skip(
        "sub",
        "quota_exhausted",
        "the window 5h is used up: 97.5 % used of at most 95 % (read 10 s ago); it starts anew at 2026-03-01 13:05:00 UTC, "
        "in 1 h 5 min; the window weekly is used up: 100 % used of at most 95 % (read 10 s ago, the probe said 120 %); "
        "when it starts anew is not known; wait, or ask for a tier with further members",
        None,
    )


def test_a_reset_that_has_passed_is_room_until_the_next_reading() -> None:
    """The window opens at the second of its reset, and a reading from after it counts as it stands."""
    full = reading("5h", 100.0, resets_at=NOON + 60)

    assert answer(full, now=NOON + 59.9) is not None
    assert answer(full, now=NOON + 60) is None
    again = reading("5h", 100.0, resets_at=NOON + 60, read_at=NOON + 61)
    skip = answer(again, now=NOON + 65)
    assert skip is not None
    assert "100 % used of at most 95 % (read 4 s ago); when it starts anew is not known" in skip.reason
    assert skip.retry_after_s is None


def test_a_failed_probe_keeps_the_last_good_value_while_it_is_young() -> None:
    """Full stays full and free stays free, with its age, until max_age_s."""
    full = reading("5h", 99.0, read_at=NOON - 900, error="exit 1")
    skip = answer(full, reading("weekly", 0.0))

    assert skip is not None
    assert "99 % used of at most 95 % (read 15 min ago, the probe has failed since (exit 1))" in skip.reason
    free = reading("5h", 5.0, read_at=NOON - 900, error="exit 1")
    assert answer(free, reading("weekly", 0.0), on_unknown={"quota": "skip"}) is None


@pytest.mark.parametrize(
    ("found", "why"),
    [
        ((), "it has not been read yet"),
        ((reading("5h", None, read_at=0.0, error="exit 1"),), "the probe failed (exit 1)"),
        ((reading("5h", 99.0, read_at=NOON - 901),), "it was read 15 min 1 s ago (max_age_s is 900)"),
        (
            (reading("5h", 5.0, read_at=NOON - 7200, error="exit 1"),),
            "it was read 2 h ago (max_age_s is 900) and the probe failed (exit 1) since",
        ),
        ((reading("5h", 99.0, read_at=NOON + 61),), "it was read 1 min 1 s from now, so the clock was set back"),
    ],
)
def test_what_is_not_known_follows_the_policy(found: tuple[Reading, ...], why: str) -> None:
    """Unknown is neither full nor free: routing.on_unknown.quota says what it is, and the reason says why."""
    found = (*found, reading("weekly", 0.0))

    assert answer(*found) is None
    assert answer(*found, on_unknown={"quota": "skip"}) == Skip(
        "sub",
        "model_unavailable",
        f"how much of the window 5h is used is not known: {why}; routing.on_unknown.quota is skip; mend the probe of "
        "quota, or set it to use",
    )


def test_a_known_full_window_outranks_an_unknown_one() -> None:
    """With `use`, a window that cannot be read does not hide that the other is used up."""
    skip = answer(reading("5h", None, read_at=0.0, error="x"), reading("weekly", 96.0))

    assert skip is not None
    assert skip.code == "quota_exhausted"


@pytest.mark.parametrize(("spent", "closed"), [(99.99, False), (100.0, True)])
def test_a_budget_is_spent_at_its_limit(spent: float, closed: bool) -> None:
    """A cost-gated model has no threshold: what reaches the limit is spent."""
    registry, model = one(budgeted())
    found = Reading("paid", "budget", spent, None, NOON - 10, NOON - 10, "", "20 of 20")

    assert judge(registry, model, facts_of(found), NOON) == (
        Skip(
            "paid",
            "quota_exhausted",
            "the budget is spent: 20 of 20 (read 10 s ago); raise quota.limit; wait, or ask for a tier with further members",
        )
        if closed
        else None
    )


def closure(**more: Any) -> Closure:
    """A 429 of a minute ago that stated ten minutes more."""
    given: dict[str, Any] = {"since": NOON - 60, "until": NOON + 600, "stated": True, "try_at": NOON + 600, **more}
    return Closure("sub", why="answered 429: slow down", **given)


def test_a_real_answer_outranks_every_reading() -> None:
    """The model is closed until the stated moment though the probe says 0 %, and open at that moment."""
    facts = facts_of(reading("5h", 0.0), reading("weekly", 0.0), closures={"sub": closure()})

    assert judge(REGISTRY, SUB, facts, NOON) == Skip(
        "sub",
        "quota_exhausted",
        "a call 1 min ago answered 429; the answer says that it ends at 2026-03-01 12:10:00 UTC, in 10 min; "
        "wait, or ask for a tier with further members",
        600.0,
    )
    assert judge(REGISTRY, SUB, facts, NOON + 599.9) is not None
    assert judge(REGISTRY, SUB, facts, NOON + 600) is None


def test_a_guessed_closure_lets_one_request_find_out() -> None:
    """After a minute one request passes, while it is on its way none other, and after another minute the next."""
    guess = closure(stated=False, until=NOON, try_at=NOON)
    tried = closure(stated=False, until=NOON, try_at=NOON, trial_at=NOON + 5)

    def said(one: Closure, now: float) -> Skip | None:
        return judge(REGISTRY, SUB, facts_of(closures={"sub": one}), now)

    assert said(guess, NOON - 1) == Skip(
        "sub",
        "quota_exhausted",
        "a call 59 s ago answered 429; no time was stated, so one request finds out after a minute; "
        "wait, or ask for a tier with further members",
        1.0,
    )
    assert said(guess, NOON) is None
    assert said(tried, NOON + 6) is not None
    assert said(tried, NOON + 64.9) is not None
    assert said(tried, NOON + 65) is None


def test_a_far_reset_is_checked_by_one_request_an_hour() -> None:
    """A model that is closed for three days is tried after an hour; Retry-After stays what was stated."""
    far = closure(until=NOON + 3 * 86400, try_at=NOON + 3540)
    before = judge(REGISTRY, SUB, facts_of(closures={"sub": far}), NOON)

    assert before is not None
    assert before.retry_after_s == 3 * 86400
    assert "in 3 d, and one request finds out earlier" in before.reason
    assert judge(REGISTRY, SUB, facts_of(closures={"sub": far}), NOON + 3540) is None


def test_only_the_worker_with_the_permit_makes_the_trial() -> None:
    """Of a fleet, the others refuse until it is known how the trial went."""
    guess = {"sub": closure(stated=False, until=NOON, try_at=NOON)}

    assert judge(REGISTRY, SUB, Facts(closures=guess, permits=frozenset()), NOON + 1) is not None
    assert judge(REGISTRY, SUB, Facts(closures=guess, permits=frozenset({"sub"})), NOON + 1) is None


def test_retry_after_is_the_probes_reset_where_that_is_later() -> None:
    """A 429 without a time and a window that is seen full until later: the client is told the later one."""
    full = reading("5h", 100.0, resets_at=NOON + 3600)
    facts = facts_of(full, closures={"sub": closure(stated=False, until=NOON + 60, try_at=NOON + 60)})
    skip = judge(REGISTRY, SUB, facts, NOON)

    assert skip is not None
    assert skip.retry_after_s == 3600


def test_a_model_without_quota_can_be_closed_too() -> None:
    """A rate limit of any provider closes the model that it is about, and no other."""
    registry, model = one(model_entry("free"))
    facts = Facts(closures={"free": Closure("free", NOON, NOON + 9, "answered 429", True, NOON + 9)})

    assert [judge(registry, model, facts, NOON + at) is None for at in (0, 8, 9)] == [False, False, True]
    assert judge(REGISTRY, SUB, facts, NOON) is None


def test_one_server_of_several_has_a_limit_of_its_own() -> None:
    """A closure under a deployment's id closes that deployment."""
    registry, model = one(model_entry("local", bases=("http://a", "http://b")))
    facts = Facts(closures={"local@0": Closure("local@0", NOON, NOON + 9, "answered 429", True, NOON + 9)})

    assert usable(registry, model, (target(model, 0), target(model, 1)), facts, NOON) == ((target(model, 1),), None)


def test_an_open_circuit_closes_its_deployment_only() -> None:
    """The other deployment is used, the reason counts the failures, and after its time one request passes."""
    registry, model = one(model_entry("local", bases=("http://a", "http://b")))
    open_ = Circuit("local@0", 3, NOON - 5, "did not answer: connection refused", NOON - 5, NOON + 10, 1)
    facts = Facts(circuits={"local@0": open_})

    assert judge_target(registry, model, target(model, 0), facts, NOON) == Skip(
        "local",
        "model_unavailable",
        "local@0 failed 3 times in a row, last 5 s ago: it did not answer; one request finds out in "
        "10 s; see whether its server is up",
        10.0,
    )
    assert judge_target(registry, model, target(model, 1), facts, NOON) is None
    assert judge_target(registry, model, target(model, 0), facts, NOON + 10) is None


def test_a_model_is_unavailable_when_all_its_deployments_are() -> None:
    """The answer is that of the deployment that is tried first again."""
    registry, model = one(model_entry("local", bases=("http://a", "http://b")))
    circuits = {
        f"local@{n}": Circuit(f"local@{n}", 3, NOON, "did not answer", NOON, NOON + after, 1)
        for n, after in ((0, 30), (1, 15))
    }
    targets, skip = usable(registry, model, (target(model, 0), target(model, 1)), Facts(circuits=circuits), NOON)

    assert targets == ()
    assert skip is not None
    assert (skip.code, skip.retry_after_s) == ("model_unavailable", 15)
    assert skip.reason.startswith("local@1 failed 3 times")


@pytest.mark.parametrize(
    ("health", "use", "skip"),
    [
        (("up", 5, ""), None, None),
        (
            ("gone", 5, ""),
            *2 * ("the server of endpoints[0] is not there: its health_url refused the connection 5 s ago; start it",),
        ),
        (
            ("unknown", 5, "did not say that it is up"),
            None,
            "whether the server of endpoints[0] is up is not known: its health_url did not say that it is up; routing.on_unknown.health is skip",
        ),
        (
            ("gone", 31, ""),
            None,
            "whether the server of endpoints[0] is up is not known: its health_url was last read 31 s ago; routing.on_unknown.health is skip",
        ),
        (
            None,
            None,
            "whether the server of endpoints[0] is up is not known: its health_url has not been read yet; routing.on_unknown.health is skip",
        ),
    ],
)
def test_an_on_demand_server(health: Any, use: str | None, skip: str | None) -> None:
    """Gone is unavailable; what is not known follows routing.on_unknown.health."""
    for policy, reason in (("use", use), ("skip", skip)):
        registry, model = one(served("tei", 8080), on_unknown={"health": policy})
        base = "http://127.0.0.1:8080"
        known = {"tei": {base: Health("tei", base, health[0], NOON - health[1], health[2])}} if health else {}
        found = judge_target(registry, model, target(model), Facts(health=known), NOON)

        assert found == (Skip("tei", "model_unavailable", reason) if reason else None)


def test_nothing_is_said_of_what_is_not_read() -> None:
    """Always-on models, a cost-gated one without a budget and an on-demand one without health_url are used."""
    for entry in (
        model_entry("a"),
        model_entry("b", metered=True, lifecycle="cost-gated"),
        model_entry("c", lifecycle="on-demand", bases=("http://a",)),
    ):
        registry, model = one(entry, on_unknown={"quota": "skip", "health": "skip"})
        assert usable(registry, model, (target(model),), Facts(), NOON) == ((target(model),), None)


def test_the_shipped_registry_before_anything_is_read() -> None:
    """With the shipped policy every model is used until something is known."""
    registry = load_registry()

    for model in registry.models:
        assert usable(registry, model, (target(model),), Facts(), NOON) == ((target(model),), None)
