"""A fleet of workers on a virtual clock: one probes, all know; what one call teaches, all obey."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from availability.avail_kit import NOON, TWO_WINDOWS, Fleet, gated, served, target
from strategies import model_entry, registry_of

from litellm_registry_hook.core.availability.facts import Reading
from litellm_registry_hook.core.availability.moments import clock
from litellm_registry_hook.core.availability.probes import Answer
from litellm_registry_hook.core.failure import Failure
from litellm_registry_hook.core.registry import Registry


def usage(five: float, week: float = 0.0, resets: float | None = None) -> str:
    """A usage answer."""
    return json.dumps({"five": {"used": five, "resets": resets}, "week": {"used": week}})


@pytest.fixture
def registry() -> Registry:
    """A subscription, an on-demand server, and a free model on two servers."""
    return registry_of(
        gated(windows=TWO_WINDOWS), served("tei", 8080), model_entry("free", bases=("http://a", "http://b"))
    )


@pytest.fixture
def fleet(registry: Registry) -> Fleet:
    """Three workers whose subscription has room."""
    found = Fleet(registry)
    found.answers = {"sub": usage(10), "tei|http://127.0.0.1:8080": Answer("up")}
    return found


def test_one_worker_probes_and_all_know(fleet: Fleet) -> None:
    """In ten minutes the probe runs ten times in the whole fleet, by one worker, and each has its reading."""
    fleet.run(1)
    fleet.run(600)

    asked = [(name, at) for name, key, at in fleet.asked if key == "sub"]
    assert {name for name, _ in asked} == {"w0"}
    assert [at - NOON for _, at in asked] == [0.5 + 60 * n for n in range(11)]
    for watch in fleet.workers.values():
        assert watch.facts.readings["sub"]["5h"] == Reading("sub", "5h", 10.0, None, NOON + 600.5, NOON + 600.5)


def test_one_worker_probes_and_all_know_in_the_real_state(registry: Registry, tmp_path: Path) -> None:
    """The same with the state file that workers really share: a reading, a 429, a trial, a success."""
    fleet, model = Fleet(registry, str(tmp_path / "state.sqlite"), workers=2), registry.by_id["sub"]
    fleet.answers["sub"] = usage(10, resets=NOON + 9000.123)
    fleet.run(65)
    assert [(name, at - NOON) for name, key, at in fleet.asked if key == "sub"] == [("w0", 0.5), ("w0", 60.5)]
    expected = Reading("sub", "5h", 10.0, NOON + 9000.123, NOON + 60.5, NOON + 60.5)
    assert [watch.facts.readings["sub"]["5h"] for watch in fleet.workers.values()] == [expected, expected]
    fleet["w1"].failed("sub@0", model, Failure(429))
    fleet.run(1)
    assert fleet.skips(model) == ["quota_exhausted"] * 2
    fleet.run(60)
    passed = [watch for watch in fleet.workers.values() if watch.enter(model, target(model)) is None]
    assert len(passed) == 1
    passed[0].succeeded("sub@0", model, fleet.clock())
    fleet.run(1)
    assert fleet.skips(model) == [None, None]


def test_all_workers_see_a_full_window_within_a_second(fleet: Fleet) -> None:
    """A second after the reading, every worker refuses, and a second after the next one every worker serves."""
    model = fleet.registry.by_id["sub"]
    fleet.answers["sub"] = usage(99)
    fleet.run(1.5)
    assert fleet.skips(model) == ["quota_exhausted"] * 3
    fleet.answers["sub"] = usage(5)
    fleet.run(61)
    assert fleet.skips(model) == [None] * 3


@pytest.mark.parametrize(("five", "week"), [(100, 3), (3, 100)])
def test_either_window_alone_closes(fleet: Fleet, five: float, week: float) -> None:
    """5h full and weekly empty, or the reverse: closed in every worker."""
    fleet.answers["sub"] = usage(five, week)
    fleet.run(1.5)

    assert fleet.skips(fleet.registry.by_id["sub"]) == ["quota_exhausted"] * 3


def test_the_reset_opens_without_a_reading_and_without_a_restart(fleet: Fleet) -> None:
    """At the second of the reset the model is open in every worker though the probe has been broken since."""
    model = fleet.registry.by_id["sub"]
    fleet.answers["sub"] = usage(100, resets=NOON + 300)
    fleet.run(1.5)
    fleet.answers["sub"] = Answer(error="exit 1")
    fleet.run(298)
    assert fleet.skips(model) == ["quota_exhausted"] * 3
    fleet.run(0.5)
    assert fleet.skips(model) == [None] * 3


def test_a_dead_workers_probes_go_on_with_another(fleet: Fleet) -> None:
    """Its lease lapses, another worker takes over, and asks no earlier than was due."""
    fleet.run(1)
    fleet.dead.add("w0")
    fleet.run(120)

    asked = [(name, at - NOON) for name, key, at in fleet.asked if key == "sub"]
    assert asked[0] == ("w0", 0.5)
    assert asked[1:] == [(asked[1][0], 60.5), (asked[1][0], 120.5)]
    assert asked[1][0] in {"w1", "w2"}


def test_a_new_fleet_knows_what_the_old_one_knew(fleet: Fleet) -> None:
    """After a restart the last readings hold, and the usage endpoint is not asked before its time."""
    fleet.answers["sub"] = usage(100)
    fleet.run(1.5)
    fleet.dead |= {"w0", "w1", "w2"}
    fleet.run(20)
    fleet.spawn("w9").step()

    assert fleet.skips(fleet.registry.by_id["sub"]) == ["quota_exhausted"]
    fleet.run(30)
    assert [at - NOON for _, key, at in fleet.asked if key == "sub"] == [0.5]


def test_a_worker_that_ends_right_after_a_probe_leaves_its_reading(registry: Registry) -> None:
    """Whoever finds in the state that a probe has been asked finds there what it said, however early the other ended."""
    fleet = Fleet(registry, workers=1)
    fleet.answers["sub"] = usage(97)
    fleet["w0"].step()
    del fleet.workers["w0"]
    fleet.clock.now += 16
    fleet.spawn("w1")
    fleet["w1"].step()

    assert fleet["w1"].facts.readings["sub"]["5h"].used_pct == 97


def test_a_hanging_probe_harms_nobody(fleet: Fleet) -> None:
    """It runs once a worker, the other probes go on, the model is served by the policy; when it is back it counts."""
    fleet.hanging["sub"] = []
    fleet.run(201)

    assert len(fleet.hanging["sub"]) == 2  # the second worker asked after the pause of a failed probe
    assert sum(key.startswith("tei") for _, key, _ in fleet.asked) == 41
    assert fleet.skips(fleet.registry.by_id["sub"]) == [None] * 3
    assert fleet["w1"].facts.readings["sub"]["5h"].error == "it has not ended for 40 s"
    waiting = fleet.hanging.pop("sub")
    for work in waiting:
        work()
    fleet.run(2)
    assert fleet["w1"].facts.readings["sub"]["5h"].error == ""


def test_a_failing_probe_is_asked_less_and_less(fleet: Fleet) -> None:
    """Twice the pause after each failure, 15 minutes at most, and the full rate after the first success."""
    fleet.answers["sub"] = Answer(error="it answered 429", retry_after_s=0.0)
    fleet.run(3600)
    moments = [at for _, key, at in fleet.asked if key == "sub"]
    assert [round(b - a) for a, b in zip(moments, moments[1:], strict=False)] == [120, 240, 480, 900, 900, 900]
    fleet.answers["sub"] = usage(5)
    fleet.run(1000)
    assert round(max(at for _, key, at in fleet.asked if key == "sub") - moments[-1]) == 1020


def test_ten_failures_leave_the_last_good_value_then_the_policy() -> None:
    """A usage endpoint that answers 429 ten times is neither "exhausted" nor "free"."""
    registry = registry_of(gated(windows=TWO_WINDOWS), on_unknown={"quota": "skip"})
    fleet, model = Fleet(registry, workers=1), registry.by_id["sub"]
    fleet.answers["sub"] = usage(10)
    fleet.run(1)
    fleet.answers["sub"] = Answer(error="it answered 429", retry_after_s=0.0)
    fleet.run(890)
    assert fleet.skips(model) == [None]
    fleet.run(20)
    assert fleet.skips(model) == ["model_unavailable"]
    fleet.run(5 * 3600)
    assert sum(key == "sub" for _, key, _ in fleet.asked) > 10
    skip = fleet["w0"].usable(model, (target(model),))[1]
    assert skip is not None
    assert "and the probe failed (it answered 429) since; routing.on_unknown.quota is skip" in skip.reason


def test_a_usage_endpoint_is_never_asked_more_than_twice_a_minute() -> None:
    """No interval_s makes it so, and its Retry-After is honoured."""
    registry = registry_of(gated(windows=TWO_WINDOWS, probe_url="http://u", interval_s=1.0))
    fleet = Fleet(registry, chance=lambda: 0.0)
    fleet.answers["sub"] = usage(5)
    fleet.run(300)
    assert len(fleet.asked) == 10
    fleet.answers["sub"] = Answer(error="it answered 429", retry_after_s=1800.0)
    fleet.run(60)
    before = len(fleet.asked)
    fleet.run(1700)
    assert len(fleet.asked) == before


def test_a_429_closes_in_every_worker_and_nothing_flaps(fleet: Fleet) -> None:
    """An hour of 429 without a time, the probe at 80 %: closed all the time, and one call a minute finds out."""
    model, tried = fleet.registry.by_id["sub"], []
    fleet.answers["sub"] = usage(80)
    fleet.run(2)
    fleet["w1"].failed("sub@0", model, Failure(429, "usage limit reached"))
    assert fleet.skips(model) == [None, "quota_exhausted", None]
    fleet.run(1)
    assert fleet.skips(model) == ["quota_exhausted"] * 3
    for _ in range(7200):
        fleet.run(0.5)
        passed = [watch for watch in fleet.workers.values() if watch.enter(model, target(model)) is None]
        assert len(passed) <= 1
        for watch in passed:
            tried.append(fleet.clock())
            watch.failed("sub@0", model, Failure(429, "usage limit reached"), {}, fleet.clock())
    gaps = {round(b - a) for a, b in zip(tried, tried[1:], strict=False)}
    assert 50 <= len(tried) <= 60
    assert gaps <= set(range(60, 66))
    # The first that succeeds opens it everywhere.
    for _ in range(400):
        fleet.run(0.5)
        passed = [watch for watch in fleet.workers.values() if watch.enter(model, target(model)) is None]
        if passed:
            break
    (watch,) = passed
    watch.succeeded("sub@0", model, fleet.clock())
    fleet.run(1)
    assert fleet.skips(model) == [None] * 3


def test_a_stated_reset_holds_to_the_second(fleet: Fleet) -> None:
    """Retry-After of half an hour: not one call before, and every worker serves after it."""
    model = fleet.registry.by_id["sub"]
    fleet.run(2)
    fleet["w1"].failed("sub@0", model, Failure(429), {"retry-after": "1800"})
    fleet.run(1)
    for _ in range(1797):
        fleet.run(1)
        assert all(watch.enter(model, target(model)) is not None for watch in fleet.workers.values())
    fleet.run(2)
    assert fleet.skips(model) == [None] * 3


def test_a_far_reset_is_found_out_each_hour(fleet: Fleet) -> None:
    """Three days are stated: one call an hour; a 429 without a time leaves the three days as they are."""
    model, tried = fleet.registry.by_id["sub"], []
    fleet.run(2)
    end = fleet.clock() + 3 * 86400
    fleet["w0"].failed("sub@0", model, Failure(429), {"retry-after": str(3 * 86400)})
    for _ in range(2 * 3600 + 30):
        fleet.run(2, every=2)
        for watch in fleet.workers.values():
            if watch.enter(model, target(model)) is None:
                tried.append(fleet.clock())
                watch.failed("sub@0", model, Failure(429), {}, fleet.clock())
    assert len(tried) == 4
    assert fleet["w2"].facts.closures["sub"].until == pytest.approx(end)
    assert fleet["w2"].facts.closures["sub"].stated


def test_a_probe_that_saw_it_full_opens_it_early(fleet: Fleet) -> None:
    """Full, then room, after the 429: open before the stated time; 80 % all along would not have."""
    model = fleet.registry.by_id["sub"]
    fleet.run(2)
    fleet["w1"].failed("sub@0", model, Failure(429), {"retry-after": "3000"})
    fleet.answers["sub"] = usage(80)
    fleet.run(120)
    assert fleet.skips(model) == ["quota_exhausted"] * 3
    fleet.answers["sub"] = usage(100)
    fleet.run(61)
    assert fleet["w2"].facts.closures["sub"].full_after
    fleet.answers["sub"] = usage(2)
    fleet.run(61)
    assert fleet.skips(model) == [None] * 3


def test_a_trial_that_never_ends_is_followed_by_another(fleet: Fleet) -> None:
    """The client of the one request hung up, or its worker died: after a minute the next may pass."""
    model, tried = fleet.registry.by_id["sub"], []
    fleet.run(2)
    fleet["w1"].failed("sub@0", model, Failure(429))
    fleet.run(1)
    for _ in range(600):
        fleet.run(0.5)
        for name, watch in fleet.workers.items():
            if name not in fleet.dead and watch.enter(model, target(model)) is None:
                tried.append(fleet.clock())
                if len(tried) == 1:
                    watch.step()
                    fleet.dead.add(name)
    assert len(tried) >= 4
    assert all(60 <= b - a < 75 for a, b in zip(tried, tried[1:], strict=False))


def test_a_worker_whose_thread_stalls_gives_its_trial_away(fleet: Fleet) -> None:
    """Its permit ends by itself before another worker may have one: never two trials at once."""
    model = fleet.registry.by_id["sub"]
    fleet.run(2)
    fleet["w0"].failed("sub@0", model, Failure(429))
    fleet.run(1)
    fleet.dead |= {"w1", "w2"}
    fleet.run(59.5)
    assert fleet["w0"].facts.permits == {"sub"}
    fleet.dead = {"w0"}
    passed: list[str] = []
    while not passed:
        fleet.run(0.5)
        free = [name for name, watch in fleet.workers.items() if watch.board.permitted("sub")]
        assert len(free) <= 1
        passed = [name for name in free if name != "w0" and fleet[name].enter(model, target(model)) is None]
    assert fleet.clock() - NOON <= 70
    assert fleet["w0"].enter(model, target(model)) is not None


def test_a_trial_given_back_passes_the_next_request(fleet: Fleet) -> None:
    """An attempt that came to nothing leaves the trial to the next one."""
    model = fleet.registry.by_id["sub"]
    fleet.run(2)
    fleet["w0"].failed("sub@0", model, Failure(429))
    fleet.run(61)
    (watch,) = [one for one in fleet.workers.values() if one.enter(model, target(model)) is None]
    assert watch.enter(model, target(model)) is not None
    watch.undecided("sub@0", model)
    assert watch.enter(model, target(model)) is None


def test_an_older_attempt_does_not_give_another_ones_trial_back(fleet: Fleet) -> None:
    """A request from before the closure that comes to nothing, or is refused, leaves the trial that is under way."""
    model = fleet.registry.by_id["sub"]
    fleet.run(2)
    sent = fleet.clock()
    fleet.run(1)
    fleet["w0"].failed("sub@0", model, Failure(429))
    fleet.run(61)
    (watch,) = [one for one in fleet.workers.values() if one.enter(model, target(model)) is None]
    watch.undecided("sub@0", model, sent)
    watch.failed("sub@0", model, Failure(422), {}, sent)
    assert watch.enter(model, target(model)) is not None
    watch.undecided("sub@0", model, fleet.clock())
    assert watch.enter(model, target(model)) is None


def test_a_served_answer_that_was_the_last_of_its_limit_closes(fleet: Fleet) -> None:
    """What its headers say is in force at once, in every worker a moment later, and over at the stated time."""
    model = fleet.registry.by_id["sub"]
    fleet.run(2)
    fleet["w0"].succeeded("sub@0", model, fleet.clock(), {"x-ratelimit-remaining-requests": "3"})
    assert fleet.skips(model)[0] is None
    last = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "40s"}
    fleet["w0"].succeeded("sub@0", model, fleet.clock(), last)
    assert fleet.skips(model) == ["quota_exhausted", None, None]
    fleet.run(1)
    assert fleet.skips(model) == ["quota_exhausted"] * 3
    (skip,) = {watch.enter(model, target(model)) for watch in fleet.workers.values()}
    assert skip is not None
    assert skip.reason == (
        "a call 1 s ago was served, and said that nothing is left; the answer says that it ends at "
        f"{clock(fleet.clock() + 39)}, in 39 s; wait, or ask for a tier with further members"
    )
    fleet.run(40)
    assert fleet.skips(model) == [None] * 3


def test_an_old_success_opens_nothing(fleet: Fleet) -> None:
    """A stream that began before the 429 and ends after it says nothing of now."""
    model = fleet.registry.by_id["sub"]
    fleet.run(10)
    fleet["w0"].failed("sub@0", model, Failure(429))
    fleet["w0"].succeeded("sub@0", model, fleet.clock() - 5)
    assert fleet.skips(model)[0] == "quota_exhausted"


def test_a_burst_of_answers_is_one_closure(fleet: Fleet) -> None:
    """Fifty calls that were under way at the 429 do not push its end away."""
    model = fleet.registry.by_id["sub"]
    fleet.run(10)
    sent = fleet.clock()
    fleet.run(1)
    fleet["w0"].failed("sub@0", model, Failure(429), {}, sent)
    first = fleet["w0"].facts.closures["sub"]
    fleet.run(30)
    for _ in range(50):
        fleet["w0"].failed("sub@0", model, Failure(429), {}, sent)
    assert fleet["w0"].facts.closures["sub"] == first


def test_a_circuit_opens_in_every_worker_and_closes_with_one_trial(fleet: Fleet) -> None:
    """Three refused connections of one server; the other one serves; one trial at a time; success closes it."""
    model = fleet.registry.by_id["free"]
    for _ in range(3):
        assert fleet.skips(model) == [None] * 3
        fleet["w2"].failed("free@0", model, Failure(500, "Connection error."))
    fleet.run(1)
    assert fleet.skips(model, 0) == ["model_unavailable"] * 3
    assert fleet.skips(model, 1) == [None] * 3
    passed: list[Any] = []
    while not passed:
        fleet.run(0.5)
        passed = [one for one in fleet.workers.values() if one.enter(model, target(model, 0)) is None]
        assert len(passed) <= 1
    assert 14.5 <= fleet.clock() - NOON <= 17
    passed[0].succeeded("free@0", model, fleet.clock())
    fleet.run(1)
    assert fleet.skips(model, 0) == [None] * 3


def test_a_success_between_failures_keeps_the_circuit_closed(fleet: Fleet) -> None:
    """Only failures in a row count, and an answer of any kind shows that the server is there."""
    model, watch = fleet.registry.by_id["free"], fleet["w0"]
    for word in ("success", "400"):
        for _ in range(2):
            watch.failed("free@0", model, Failure(0))
        if word == "success":
            watch.succeeded("free@0", model)
        else:
            watch.failed("free@0", model, Failure(400, "bad"))
    watch.failed("free@0", model, Failure(0))
    watch.failed("free@0", model, Failure(0))
    assert watch.usable(model, (target(model, 0),))[1] is None
    watch.failed("free@0", model, Failure(0))
    assert watch.usable(model, (target(model, 0),))[1] is not None


def test_an_on_demand_server_goes_and_comes(fleet: Fleet) -> None:
    """Within one reading and a second, every worker knows; and a reading that stops coming says nothing."""
    model = fleet.registry.by_id["tei"]
    fleet.run(1)
    fleet.answers["tei|http://127.0.0.1:8080"] = Answer("gone")
    fleet.run(6.5)
    assert fleet.skips(model) == ["model_unavailable"] * 3
    fleet.hanging["tei|http://127.0.0.1:8080"] = []
    fleet.run(40)
    assert fleet.skips(model) == [None] * 3


def test_without_a_state_each_worker_watches_for_itself(registry: Registry) -> None:
    """Probes, closures and trials work in memory."""
    fleet, model = Fleet(registry, "none", workers=2), registry.by_id["sub"]
    fleet.answers["sub"] = usage(99)
    fleet.run(2)
    assert fleet.skips(model) == ["quota_exhausted"] * 2
    assert {name for name, key, _ in fleet.asked if key == "sub"} == {"w0", "w1"}
    fleet.answers["sub"] = usage(1)
    fleet.run(60)
    fleet["w0"].failed("sub@0", model, Failure(429))
    assert fleet.skips(model) == ["quota_exhausted", None]
    fleet.run(60)
    assert fleet["w0"].enter(model, target(model)) is None
    assert fleet["w0"].enter(model, target(model)) is not None
    fleet["w0"].succeeded("sub@0", model, fleet.clock())
    assert fleet.skips(model) == [None, None]


def test_a_state_that_goes_and_comes_loses_nothing(fleet: Fleet) -> None:
    """While it is gone each worker goes on with what it knows; what was learned is shared when it is back."""
    model = fleet.registry.by_id["sub"]
    fleet.answers["sub"] = usage(10)
    fleet.run(5)
    fleet.memory.gone = True
    fleet["w1"].failed("sub@0", model, Failure(429), {"retry-after": "600"})
    fleet.run(70)
    assert fleet.skips(model) == [None, "quota_exhausted", None]
    assert {name for name, key, at in fleet.asked if key == "sub" and at > NOON + 6} == {"w0", "w1", "w2"}
    fleet.memory.gone = False
    fleet.run(1.5)
    assert fleet.skips(model) == ["quota_exhausted"] * 3


def test_an_edit_of_the_registry_is_followed(fleet: Fleet) -> None:
    """A new interval and new windows count at once, and a model that is gone is forgotten."""
    fleet.run(2)
    fleet.registry = registry_of(gated(windows=TWO_WINDOWS[1:], interval_s=5.0))
    fleet.answers["sub"] = usage(99, 1)
    fleet.run(2)
    assert dict(fleet["w1"].facts.readings) == {
        "sub": {"weekly": Reading("sub", "weekly", 1.0, None, NOON + 2.5, NOON + 2.5)}
    }
    assert fleet["w1"].facts.health == {}
    fleet.run(20)
    assert [at - NOON for _, key, at in fleet.asked if key == "sub"] == [0.5, 2.5, 7.5, 12.5, 17.5, 22.5]


def test_a_clock_that_is_set_back_stops_no_probe(fleet: Fleet) -> None:
    """A day back: the reading's age is unknown until the next one, which comes within the hour of the old plan."""
    fleet.run(5)
    fleet.clock.now -= 86400
    before = len(fleet.asked)
    fleet.run(2)

    assert len(fleet.asked) > before
    assert fleet["w0"].facts.readings["sub"]["5h"].read_at == pytest.approx(fleet.clock(), abs=3)


def test_status_tells_each_probe(fleet: Fleet) -> None:
    """Last good value, its age, the next time and the error, in every worker."""
    fleet.run(1)
    fleet.answers["sub"] = Answer(error="exit 1")
    fleet.run(70)
    here, there = fleet["w0"].seen(), fleet["w1"].seen()

    assert [(one.key, one.here) for one in here] == [("sub", True), ("tei|http://127.0.0.1:8080", True)]
    assert [(one.key, one.here) for one in there] == [("sub", False), ("tei|http://127.0.0.1:8080", False)]
    for one in (here[0], there[0]):
        assert one.used_pct == {"5h": 10.0, "weekly": 0.0}
        assert (one.kind, one.what, one.error, one.state) == ("command", "usage", "exit 1", "")
        assert (one.age_s, one.next_in_s) == (pytest.approx(70.5), pytest.approx(109.5))
    assert (there[1].state, there[1].age_s) == ("up", pytest.approx(here[1].age_s))


@pytest.mark.parametrize("headers", [{"retry-after": "1800"}, {}])
def test_a_clock_that_is_set_back_keeps_no_model_closed(fleet: Fleet, headers: dict[str, str]) -> None:
    """A day back after a 429, and after three refused connections: one request finds out at once, and opens it."""
    sub, free = fleet.registry.by_id["sub"], fleet.registry.by_id["free"]
    fleet.run(2)
    fleet["w0"].failed("sub@0", sub, Failure(429), headers)
    for _ in range(3):
        fleet["w0"].failed("free@0", free, Failure(0))
    fleet.run(1)
    fleet.clock.now -= 86400
    for model in (sub, free):
        passed: list[Any] = []
        for _ in range(20):
            fleet.run(0.5)
            passed += [watch for watch in fleet.workers.values() if watch.enter(model, target(model)) is None]
        (watch,) = passed
        watch.succeeded(f"{model.id}@0", model, fleet.clock())
        fleet.run(1)
        assert fleet.skips(model) == [None] * 3


def test_a_429_after_the_clock_was_set_back_is_a_new_one(fleet: Fleet) -> None:
    """It closes for its own minute, not until the day that the old one spoke of."""
    model = fleet.registry.by_id["sub"]
    fleet.run(2)
    fleet["w0"].failed("sub@0", model, Failure(429), {"retry-after": "1800"})
    fleet.clock.now -= 86400
    fleet["w0"].failed("sub@0", model, Failure(429), {}, fleet.clock())
    closure = fleet["w0"].facts.closures["sub"]

    assert (closure.since, closure.until, closure.stated) == (fleet.clock(), fleet.clock() + 60, False)


def test_a_closure_that_is_over_needs_no_permit(fleet: Fleet) -> None:
    """Its time has come, and the watch's thread is busy elsewhere: the requests of all workers pass."""
    model = fleet.registry.by_id["sub"]
    fleet.run(2)
    fleet["w1"].failed("sub@0", model, Failure(429), {"retry-after": "30"})
    fleet.run(1)
    fleet.clock.now += 30
    assert [watch.enter(model, target(model)) for watch in fleet.workers.values()] == [None] * 3


def test_other_windows_and_limits_are_read_at_once() -> None:
    """An edit of what is read of the answer asks again, at any interval."""
    fleet = Fleet(registry_of(gated(interval_s=3600.0, max_age_s=9000.0)), workers=2)
    fleet.answers["sub"] = usage(99, 1)
    fleet.run(5)
    fleet.registry = registry_of(gated(windows=TWO_WINDOWS[1:], interval_s=3600.0, max_age_s=9000.0))
    fleet.run(1.5)
    assert list(fleet["w1"].facts.readings["sub"]) == ["weekly"]
    assert len(fleet.asked) == 2


def test_an_edit_asks_no_usage_endpoint_earlier() -> None:
    """Nothing goes below half a minute, nor before the Retry-After of the last answer."""
    fleet = Fleet(registry_of(gated(probe_url="http://u")), workers=2)
    fleet.answers["sub"] = usage(5)
    for n in range(60):
        fleet.registry = registry_of(gated(probe_url="http://u", interval_s=60.0 + n))
        fleet.run(1)
    assert [at - NOON for _, _, at in fleet.asked] == [0.5, 30.5]
    fleet.answers["sub"] = Answer(error="it answered 429", retry_after_s=1800.0)
    fleet.run(60)
    before = len(fleet.asked)
    fleet.registry = registry_of(gated(probe_url="http://u", windows=TWO_WINDOWS))
    fleet.run(1600)
    assert len(fleet.asked) == before
    fleet.registry = registry_of(gated(probe_url="http://other"))
    fleet.run(2)
    assert len(fleet.asked) == before + 1


def test_a_mended_probe_does_not_wait_for_the_one_that_hangs() -> None:
    """One worker, a file on a disk that never answers: another path is read at once, and the old one's end is nothing."""
    fleet = Fleet(registry_of(gated(probe_file="/nfs/usage")), workers=1)
    fleet.hanging["sub"] = []
    fleet.run(60)
    (waiting,) = fleet.hanging.pop("sub")
    fleet.answers["sub"] = usage(42)
    fleet.registry = registry_of(gated(probe_file="/var/usage"))
    fleet.run(2)
    assert fleet["w0"].facts.readings["sub"]["5h"].used_pct == 42
    fleet.answers["sub"] = usage(99)
    waiting()
    fleet.run(1)
    assert fleet["w0"].facts.readings["sub"]["5h"].used_pct == 42


def test_a_success_drops_no_closure_that_it_knew_nothing_of(fleet: Fleet) -> None:
    """One worker's trial is served, another meets the week's end in the same half second: the week's end holds."""
    model = fleet.registry.by_id["sub"]
    fleet.run(2)
    fleet["w0"].failed("sub@0", model, Failure(429))
    fleet.run(61)
    fleet["w0"].succeeded("sub@0", model, fleet.clock())
    fleet["w1"].failed("sub@0", model, Failure(429), {"retry-after": "259200"}, fleet.clock())
    for name in ("w1", "w0", "w2", "w1"):
        fleet[name].step()
    assert fleet.skips(model) == ["quota_exhausted"] * 3
