"""The watch with real threads, real probes and the real state; and what there is to read."""

from __future__ import annotations

import json
import os
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from availability.avail_kit import TWO_WINDOWS, Fleet, budgeted, gated, http_server, one, says, served, soon, target
from strategies import model_entry, registry_of

from litellm_registry_hook.core.availability.facts import Circuit, Closure, Health, Reading
from litellm_registry_hook.core.availability.probes import Answer, Probe, probes_of
from litellm_registry_hook.core.failure import Failure
from litellm_registry_hook.core.gpu.ports import Row
from litellm_registry_hook.edges.store.sqlite_state import SqliteState
from litellm_registry_hook.watch.board import look
from litellm_registry_hook.watch.engine import Watch
from litellm_registry_hook.watch.rows import data_of, name_of, value_in
from litellm_registry_hook.wiring import to_probe_configs


def test_what_there_is_to_read() -> None:
    """One probe a quota or budget, one a health_url of an on-demand server; usage endpoints no faster than 30 s."""
    registry = registry_of(
        gated("a", probe_command="usage --json", env=["TOKEN"], interval_s=5.0),
        gated("b", probe_file="/run/usage.json"),
        gated("c", probe_url="http://u", interval_s=5.0),
        budgeted("d"),
        model_entry("e", metered=True, lifecycle="cost-gated"),
        served("f", 1, 2),
        model_entry("g", lifecycle="on-demand", bases=("http://a",)),
        model_entry("h"),
    )

    assert list(probes_of(registry).values()) == [
        Probe("a", "a", "command", "usage --json", "", ("TOKEN",), 5.0, 1.0),
        Probe("b", "b", "file", "/run/usage.json", "", (), 60.0, 1.0),
        Probe("c", "c", "url", "http://u", "", (), 30.0, 30.0),
        Probe("d", "d", "command", "spend", "", (), 60.0, 1.0),
        Probe("f|http://127.0.0.1:1", "f", "health", "http://127.0.0.1:1/health", "http://127.0.0.1:1", (), 5.0, 1.0),
        Probe("f|http://127.0.0.1:2", "f", "health", "http://127.0.0.1:2/health", "http://127.0.0.1:2", (), 5.0, 1.0),
    ]


@pytest.mark.parametrize(
    "value",
    [
        Reading("m", "w", 12.5, 1.75, 2.0, 3.0, "exit 1", "odd", "no login"),
        Reading("m", "w"),
        Health("m", "http://a", "gone", 1.0, "x"),
        Closure("m", 1.0, 2.0, "answered 429", True, 1.5, True, 1.25),
        Circuit("m@0", 3, 1.0, "did not answer", 1.0, 16.0, 1, None),
    ],
)
def test_rows_are_read_as_they_were_written(value: Reading | Health | Closure | Circuit) -> None:
    """Through JSON and back; a key of a later version is left out, and what lacks one of ours is no value."""
    kind, key = name_of(value)
    data = json.loads(json.dumps(data_of(value)))

    assert value_in(Row(kind, key, "fleet", data)) == value
    assert value_in(Row(kind, key, "fleet", data | {"later": 1})) == value
    assert value_in(Row(kind, key, "fleet", {})) is None
    assert value_in(Row("other", key, "fleet", data)) is None


def test_two_workers_with_everything_real(tmp_path: Path) -> None:
    """A command's reading, a file's, an address's and a server's health reach both; a 429 does; a success opens."""
    usage = tmp_path / "usage.json"
    usage.write_text(json.dumps({"five": {"used": 96}, "week": {"used": 1}}))
    with http_server(says('{"five": {"used": 3}}')) as url:
        registry = registry_of(
            gated("command", windows=TWO_WINDOWS, probe_command=f"cat {usage}", interval_s=1.0),
            gated("file", windows=TWO_WINDOWS, probe_file=str(usage), interval_s=1.0),
            gated("url", probe_url=url),
            served("tei", int(url.split(":")[2].split("/")[0])),
        )
        state = SqliteState(tmp_path / "state.sqlite")
        watches = [Watch(lambda: registry, state.ledger, time.time, os.environ, worker=name) for name in "ab"]
        try:
            for watch in watches:
                watch.start()
            a, b = watches

            def codes(watch: Watch) -> list[str | None]:
                skips = [watch.usable(model, (target(model),))[1] for model in registry.models]
                return [skip.code if skip is not None else None for skip in skips]

            def known(watch: Watch) -> bool:
                return len(watch.facts.readings) == 3 and len(watch.facts.health) == 1

            soon(lambda: known(a) and known(b))
            assert codes(a) == codes(b) == ["quota_exhausted", "quota_exhausted", None, None]
            usage.write_text(json.dumps({"five": {"used": 6}, "week": {"used": 1}}))
            soon(lambda: codes(a) == codes(b) == [None] * 4)
            a.failed("command@0", registry.models[0], Failure(429, "slow down"))
            assert codes(a)[0] == "quota_exhausted"
            soon(lambda: codes(b)[0] == "quota_exhausted")
            b.succeeded("command@0", registry.models[0], time.time())
            soon(lambda: codes(a)[0] is None)
        finally:
            for watch in watches:
                watch.stop()


def test_a_slow_probe_delays_nothing(tmp_path: Path) -> None:
    """While one hangs in its thread the others are read, the step returns, and it runs once only."""
    registry = registry_of(gated("slow", interval_s=1.0), gated("quick", interval_s=1.0))
    over, running = threading.Event(), []

    def ask(probe: Probe) -> Answer:
        if probe.model == "slow":
            running.append(threading.current_thread().name)
            over.wait(30)
        return Answer('{"five": {"used": 1}}')

    watch = Watch(lambda: registry, None, time.time, {}, ask=ask)
    watch.start()
    try:
        first = soon(lambda: watch.facts.readings.get("quick"))["5h"]
        soon(lambda: watch.facts.readings["quick"]["5h"].read_at >= first.read_at + 2)
        assert running == ["probe-slow"]
        assert "slow" not in watch.facts.readings
        over.set()
        soon(lambda: watch.facts.readings.get("slow"))
    finally:
        over.set()
        watch.stop()


def test_a_bug_in_a_probe_is_a_failed_reading() -> None:
    """An exception becomes the reading's error, and the watch goes on."""
    registry, model = one(gated(interval_s=1.0))

    def ask(probe: Probe) -> Answer:
        raise RuntimeError("a bug")

    watch = Watch(lambda: registry, None, time.time, {}, ask=ask)
    watch.start()
    try:
        reading = soon(lambda: watch.facts.readings.get("sub"))["5h"]
        assert (reading.error, reading.detail) == ("RuntimeError", "a bug")
        assert watch.seen()[0].error == "RuntimeError: a bug"
        assert watch.usable(model, (target(model),)) == ((target(model),), None)
    finally:
        watch.stop()


def test_a_program_beside_the_workers_sees_what_they_know() -> None:
    """The rows alone give the same facts, and looking leaves none."""
    fleet = Fleet(registry_of(gated(), served("tei", 8080)))
    fleet.answers = {"sub": '{"five": {"used": 7}}', "tei|http://127.0.0.1:8080": Answer("up")}
    fleet.run(2)
    fleet["w0"].failed("sub@0", fleet.registry.models[0], Failure(429, "slow down"))
    fleet.run(1)
    before = dict(fleet.memory.kept)

    assert look(fleet.memory, fleet.clock()) == replace(fleet["w1"].facts, permits=None)
    assert fleet.memory.kept == before


def test_a_monitor_is_told_that_the_field_says_what_is_left() -> None:
    """A probe's description has the unit where it is not the percent used."""
    registry, _ = one(gated(windows=[{"name": "w", "field": "a"}, {"name": "v", "field": "b", "unit": "left"}]))

    assert to_probe_configs(registry, "sub") == [
        {"type": "quota", "command": "usage", "field": "a", "threshold_pct": 95},
        {"type": "quota", "command": "usage", "field": "b", "threshold_pct": 95, "unit": "left"},
    ]


def test_requests_read_memory_only(tmp_path: Path) -> None:
    """What the event loop calls never touches the state: it works while the state's every call would fail."""
    registry, model = one(gated())

    class Shut:
        def __getattr__(self, name: str) -> object:
            raise AssertionError(f"{name} was called on the event loop")

    watch = Watch(lambda: registry, Shut(), time.time, {})  # type: ignore[arg-type]
    watch.failed("sub@0", model, Failure(429))
    assert watch.usable(model, (target(model),))[0] == ()
    assert watch.enter(model, target(model)) is not None
    watch.undecided("sub@0", model)
    watch.succeeded("sub@0", model)
    for _ in range(3):
        watch.failed("sub@0", model, Failure(0))
    assert watch.enter(model, target(model)) is not None
    assert watch.seen() == ()
