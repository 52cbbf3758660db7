"""What must hold whatever a probe prints, a provider answers, and in whichever order things happen."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

from availability.avail_kit import NOON, TWO_WINDOWS, Fleet, budgeted, facts_of, gated, one, target
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import model_entry, registry_of

from litellm_registry_hook.core.availability.facts import Circuit, Closure, Facts, Reading
from litellm_registry_hook.core.availability.judge import judge, usable
from litellm_registry_hook.core.availability.learn import after_failure, learn, reopened
from litellm_registry_hook.core.availability.parse import readings_of
from litellm_registry_hook.core.availability.probes import Probe, pause_after
from litellm_registry_hook.core.failure import Failure
from litellm_registry_hook.core.refusal import STATUS

REGISTRY, SUB = one(gated(windows=TWO_WINDOWS))
STRICT, _ = one(gated(windows=TWO_WINDOWS), on_unknown={"quota": "skip"})
PAID = one(budgeted())[1]

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(["99%", "-1"])
trees = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["five", "week", "used", "resets", "spent", "x"]), inner, max_size=4)
    ),
    max_leaves=12,
)
answers = trees.map(json.dumps) | st.text(max_size=40)
moments = st.floats(NOON - 2000, NOON + 2000)
percents = st.floats(0, 100)


@st.composite
def readings(draw: st.DrawFn, window: str) -> Reading:
    """Any reading of a window."""
    return Reading(
        "sub",
        window,
        draw(st.none() | percents),
        draw(st.none() | moments),
        draw(moments),
        draw(moments),
        draw(st.sampled_from(["", "exit 1"])),
    )


@given(answers)
def test_any_answer_is_a_percentage_or_an_error(text: str) -> None:
    """Whatever is printed: each window has either a value from 0 to 100 or a reason, never both or neither."""
    for model, count in ((SUB, 2), (PAID, 1)):
        found = readings_of(model, text, NOON, NOON)
        assert len(found) == count
        for reading in found:
            assert (reading.used_pct is None) == bool(reading.error)
            assert reading.used_pct is None or 0 <= reading.used_pct <= 100
            assert reading.resets_at is None or math.isfinite(reading.resets_at)


@given(readings("5h"), readings("weekly"), moments)
def test_the_decision_is_a_whole_refusal_or_none(five: Reading, week: Reading, now: float) -> None:
    """A refusal has a code that clients know, a sentence, and no time in the past; being careful refuses no less."""
    facts = facts_of(five, week)
    found, careful = judge(REGISTRY, SUB, facts, now), judge(STRICT, SUB, facts, now)

    if found is not None:
        assert found.code == "quota_exhausted"
        assert careful == found
    for skip in (found, careful):
        if skip is not None:
            assert skip.code in STATUS
            assert skip.reason
            assert skip.retry_after_s is None or skip.retry_after_s > 0


@given(readings("5h"), readings("weekly"), moments, percents)
def test_more_use_never_opens(five: Reading, week: Reading, now: float, more: float) -> None:
    """Raising what is used up never turns a refusal into a yes."""
    if five.used_pct is None:
        five = replace(five, used_pct=0.0)
    worse = replace(five, used_pct=max(five.used_pct or 0.0, more))

    if judge(REGISTRY, SUB, facts_of(five, week), now) is not None:
        assert judge(REGISTRY, SUB, facts_of(worse, week), now) is not None


@given(percents, percents, st.floats(0, 900))
def test_fresh_readings_decide_alone(five: float, week: float, age: float) -> None:
    """With all windows known, the model is used if and only if each is below its threshold."""
    at = NOON - age
    facts = facts_of(*(Reading("sub", name, used, None, at, at) for name, used in (("5h", five), ("weekly", week))))

    assert (judge(STRICT, SUB, facts, NOON) is None) == (five < 95 and week < 95)


@given(st.floats(0.001, 3000), st.floats(0, 3600), readings("5h"), readings("weekly"))
def test_no_reading_opens_what_a_call_has_closed(length: float, later: float, five: Reading, week: Reading) -> None:
    """Until its stated end a closure refuses, whatever was read; from then on it says nothing."""
    closure = learn("sub", Failure(429, "", length), {}, NOON)
    assert closure is not None
    closed = judge(REGISTRY, SUB, facts_of(five, week, closures={"sub": closure}), NOON + later)

    if NOON + later < closure.until:
        assert closed is not None
        assert closed.code == "quota_exhausted"
    else:
        assert closed == judge(REGISTRY, SUB, facts_of(five, week), NOON + later)


headers = st.dictionaries(
    st.sampled_from(
        [
            "retry-after",
            "retry-after-ms",
            "x-ratelimit-remaining-requests",
            "x-ratelimit-reset-requests",
            "anthropic-ratelimit-unified-status",
            "anthropic-ratelimit-unified-reset",
            "anthropic-ratelimit-unified-5h-status",
            "anthropic-ratelimit-unified-5h-reset",
        ]
    ),
    st.text(max_size=12)
    | st.sampled_from(["rejected", "0", "0.0", "1h", "1e9", "-1", "Sun, 01 Mar 2026 12:02:00 GMT"])
    | st.integers(-10, 10**16).map(str)
    | moments.map(str),
)
words = st.text(max_size=30) | st.sampled_from(["resets_at: 1772366500", "try again in 9999999999h", "retry in 5 days"])


@given(headers, words, st.none() | st.floats(-10, 1e12))
def test_a_closure_ends_within_a_month_and_is_tried_within_the_hour(
    found: dict[str, str], text: str, retry: float | None
) -> None:
    """Whatever an answer states, no model is closed for ever, and none for less than no time."""
    closure = learn("m", Failure(429, text, retry), found, NOON)

    assert closure is not None
    assert NOON < closure.until <= NOON + 35 * 86400
    assert NOON < closure.try_at <= min(closure.until, NOON + 3600)
    assert closure.stated or closure.until == NOON + 60


@given(readings("5h"), readings("weekly"), st.booleans())
def test_only_room_in_all_windows_after_a_full_one_opens(five: Reading, week: Reading, full_after: bool) -> None:
    """A probe never opens a closure that it has not seen full before."""
    closure = Closure("sub", NOON, NOON + 60, "answered 429", full_after=full_after)
    after = reopened(closure, {"5h": five, "weekly": week}, 95)

    if after is None:
        assert full_after
        assert all(one.used_pct is not None and one.used_pct < 95 and one.read_at > NOON for one in (five, week))
    elif after != closure:
        assert after == replace(closure, full_after=True)


@given(st.lists(st.tuples(st.sampled_from([0, 408, 500, 503, 400, 429]), st.floats(0, 100)), max_size=20))
def test_a_circuit_never_stays_open_for_long(steps: list[tuple[int, float]]) -> None:
    """After any failures it is tried again within five minutes, and it opens on the third in a row at the earliest."""
    circuit: Circuit | None = None
    now = NOON
    for count, (status, pause) in enumerate(steps, 1):
        now += pause
        circuit = after_failure(circuit, "m@0", Failure(status, "Connection error." if status == 500 else ""), now)
        if circuit is not None and circuit.opened_at is not None:
            assert count >= 3
            assert circuit.until <= now + 300


@given(st.integers(0, 10_000), st.none() | st.floats(0, 1e9), st.floats(0, 1), st.sampled_from(["url", "command"]))
def test_a_probe_is_asked_again_in_bounds(fails: int, retry: float | None, chance: float, kind: Any) -> None:
    """Never below its floor, never later than an hour, and never before a Retry-After within that hour."""
    floor = 30.0 if kind == "url" else 1.0
    probe = Probe("m", "m", kind, "x", interval_s=60.0, floor_s=floor)
    pause = pause_after(probe, fails, retry, chance)

    assert floor <= pause <= 3600
    assert pause >= min(3600, retry or 0)


ops = st.lists(
    st.tuples(
        st.sampled_from(["429", "stated", "down", "ok", "enter", "full", "room", "broken", "state", "pause", "long"]),
        st.integers(0, 2),
        st.sampled_from(["sub", "free"]),
    ),
    max_size=40,
)


@settings(max_examples=15, deadline=None)
@given(ops)
def test_workers_agree_and_no_more_than_one_trial_passes(steps: list[tuple[str, int, str]]) -> None:
    """In any order of events: a second later all know the same, and of what is closed one request a moment passes."""
    registry = registry_of(gated(windows=TWO_WINDOWS), model_entry("free", bases=("http://a",)))
    fleet = Fleet(registry)
    fleet.answers = {"sub": json.dumps({"five": {"used": 10}, "week": {"used": 10}})}
    fleet.run(1)
    for op, n, name in steps:
        watch, model = fleet[f"w{n}"], registry.by_id[name]
        deployment = f"{name}@0"
        if op == "429":
            watch.failed(deployment, model, Failure(429, "slow down"))
        elif op == "stated":
            watch.failed(deployment, model, Failure(429, "slow down", 30.0 + 4000 * n))
        elif op == "down":
            for _ in range(3):
                watch.failed(deployment, model, Failure(0, "connection refused"))
        elif op == "ok":
            watch.succeeded(deployment, model, fleet.clock())
        elif op == "full":
            fleet.answers["sub"] = json.dumps({"five": {"used": 99}, "week": {"used": 10}})
        elif op == "room":
            fleet.answers["sub"] = json.dumps({"five": {"used": 9}, "week": {"used": 10}})
        elif op == "broken":
            fleet.answers["sub"] = "no JSON"
        elif op == "state":
            fleet.memory.gone = not fleet.memory.gone
        elif op == "pause":
            fleet.run(0.5)
        elif op == "long":
            fleet.run(20 + 60 * n)
        else:
            shut = {key for one in fleet.workers.values() for key in one.facts.closures}
            shared = not fleet.memory.gone and all(one.board.state_ok for one in fleet.workers.values())
            known = all(set(one.facts.closures) >= shut for one in fleet.workers.values())
            passed = [one for one in fleet.workers.values() if one.enter(model, target(model)) is None]
            if shared and known and name in shut:
                assert len(passed) <= 1
    fleet.memory.gone = False
    fleet.run(2)
    first, *others = (watch.facts for watch in fleet.workers.values())
    for facts in others:
        assert facts.closures == first.closures
        assert facts.circuits == first.circuits
        assert facts.readings == first.readings
    # Nothing stays closed for ever: with successes and room, all is open after the longest of the stated times.
    fleet.answers["sub"] = json.dumps({"five": {"used": 1}, "week": {"used": 1}})
    for _ in range(3 * 60):
        fleet.run(30, every=1.5)
        for watch in fleet.workers.values():
            for model in registry.models:
                if watch.enter(model, target(model)) is None:
                    watch.succeeded(f"{model.id}@0", model, fleet.clock())
    for watch in fleet.workers.values():
        for model in registry.models:
            assert usable(registry, model, (target(model),), watch.facts, fleet.clock())[1] is None
        assert watch.facts.circuits == {}


def test_facts_start_empty() -> None:
    """Nothing known is a value too."""
    assert Facts() == Facts({}, {}, {}, {}, None)
