"""A probe's answer to readings."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from availability.avail_kit import NOON, TWO_WINDOWS, budgeted, gated, one

from litellm_registry_hook.core.availability.facts import Reading
from litellm_registry_hook.core.availability.moments import clock, moment_of, span, span_of
from litellm_registry_hook.core.availability.parse import failed, merged, readings_of


def read(answer: Any, **window: Any) -> Reading:
    """The one reading of an answer, with the window's keys."""
    _, model = one(gated(windows=[{"name": "w", "field": "used", "resets_at_field": "resets", **window}]))
    text = answer if isinstance(answer, str) else json.dumps(answer)
    (found,) = readings_of(model, text, NOON - 1, NOON)
    return found


@pytest.mark.parametrize(
    ("value", "used", "note"),
    [
        (0, 0.0, ""),
        (12.5, 12.5, ""),
        ("12.5", 12.5, ""),
        (" 12.5 % ", 12.5, ""),
        ("100%", 100.0, ""),
        (120, 100.0, "the probe said 120 %"),
        ("+7", 7.0, ""),
    ],
)
def test_a_percentage_is_a_number_or_text(value: Any, used: float, note: str) -> None:
    """Numbers and numeric text are percentages, and more than all of it is full, with a note."""
    assert read({"used": value}) == Reading("sub", "w", used, None, NOON - 1, NOON, "", note)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (-1, "`used` is -1, below zero"),
        ("-0.5%", "`used` is -0.5, below zero"),
        (True, "`used` is true, not a number"),
        (None, "`used` is null, not a number"),
        ("", '`used` is "", not a number'),
        ("1e2", '`used` is "1e2", not a number'),
        ("12,5", '`used` is "12,5", not a number'),
        ("nan", '`used` is "nan", not a number'),
        ([5], "`used` is a list, not a number"),
        ({"pct": 5}, "`used` is an object, not a number"),
        ("x" * 200, '`used` is "' + "x" * 58 + "…, not a number"),
    ],
)
def test_anything_else_is_an_error_and_not_a_value(value: Any, why: str) -> None:
    """A value that is no percentage is neither full nor free: the reading has an error."""
    assert read({"used": value}) == Reading("sub", "w", None, None, 0.0, NOON, why)


@pytest.mark.parametrize(
    ("unit", "value", "used", "note", "error"),
    [
        ("used_fraction", 0.97, 97.0, "", ""),
        ("used_fraction", "0.5", 50.0, "", ""),
        ("used_fraction", 1, 100.0, "", ""),
        ("used_fraction", 1.2, 100.0, "the probe said 120 %", ""),
        ("used_fraction", 97, None, "", "`used` is 97, not a fraction of 1: is the unit `used`?"),
        ("used_fraction", "97%", None, "", '`used` is "97%", not a number'),
        ("left_fraction", 0.25, 75.0, "", ""),
        ("left_fraction", 0, 100.0, "", ""),
        ("left_fraction", 1.5, None, "", "`used` is 1.5: more than all of the window is left"),
    ],
)
def test_a_window_may_be_a_fraction_of_one(unit: str, value: Any, used: float | None, note: str, error: str) -> None:
    """The units of fractions count to 1; a percentage in their place is an error, not a full window."""
    read_at = 0.0 if error else NOON - 1
    assert read({"used": value}, unit=unit) == Reading("sub", "w", used, None, read_at, NOON, error, note)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "its answer is empty"),
        (" \n", "its answer is empty"),
        ("used: 5", "its answer is not JSON"),
        ("[" * 100_000, "its answer is not JSON"),
        ('{"used": NaN}', "`used` is nan, not a number"),
        ('{"used": Infinity}', "`used` is inf, not a number"),
        ('{"used": 1' + "0" * 400 + "}", "`used` is inf, not a number"),
        ("{}", "the answer has no `used`"),
        ("[]", "the answer has no `used`"),
        ("null", "the answer has no `used`"),
        ("5", "the answer has no `used`"),
    ],
)
def test_an_answer_that_does_not_say_is_an_error(text: str, why: str) -> None:
    """Nothing, no JSON, or JSON without the field: the reading says which; its detail is for operators."""
    found = read(text)

    assert replace(found, detail="") == Reading("sub", "w", None, None, 0.0, NOON, why)
    short = text if len(text) <= 60 else text[:59] + "…"
    assert found.detail == (short if why == "its answer is not JSON" else "")


@pytest.mark.parametrize(
    ("value", "used", "error"),
    [
        (30, 70.0, ""),
        ("100%", 0.0, ""),
        (0, 100.0, ""),
        (-1, None, "`used` is -1, below zero"),
        (120, None, "`used` is 120: more than all of the window is left"),
    ],
)
def test_unit_left_turns_it_round(value: Any, used: float | None, error: str) -> None:
    """With `unit: left` the field says what is left; -1 and more than all stay errors."""
    found = read({"used": value}, unit="left")

    assert (found.used_pct, found.error) == (used, error)


@pytest.mark.parametrize(
    ("path", "tree"),
    [
        ("a.b.c", {"a": {"b": {"c": 7}}}),
        ("a.1.c", {"a": [{}, {"c": 7}]}),
        ("a.b.c", {"a": {"b.c": 7}}),
        ("a.b.c", {"a.b.c": 7}),
        ("0", [7]),
    ],
)
def test_paths_go_through_mappings_lists_and_dotted_keys(path: str, tree: Any) -> None:
    """A dotted path finds its value in mappings, lists by index, and under keys that have dots themselves."""
    assert read(tree, field=path).used_pct == 7


@pytest.mark.parametrize(
    ("value", "moment"),
    [
        ("2026-03-01T12:30:00Z", NOON + 1800),
        ("2026-03-01T12:30:00", NOON + 1800),
        ("2026-03-01 12:30", NOON + 1800),
        ("2026-03-01T13:30:00+01:00", NOON + 1800),
        ("2026-03-01T07:00:00.123456789-0530", NOON + 1800.123456),
        ("2026-03-02", NOON + 43200),
        (NOON + 5, NOON + 5),
        (str(int(NOON + 5)), NOON + 5),
        ((NOON + 5) * 1000, NOON + 5),
        (None, None),
    ],
)
def test_moments_are_iso_or_since_the_epoch(value: Any, moment: float | None) -> None:
    """A reset is ISO text with any offset, UTC without, or seconds or milliseconds since the epoch; null is unknown."""
    found = read({"used": 99, "resets": value})

    assert (found.used_pct, found.note) == (99, "")
    assert found.resets_at == (pytest.approx(moment, abs=1e-5) if moment is not None else None)


@pytest.mark.parametrize(
    "value", ["soon", 3600, True, "2026-13-01", [], 1e18, NOON + 500 * 86400, "2026-03-01T12:00:00Q"]
)
def test_a_reset_that_is_no_moment_is_only_noted(value: Any) -> None:
    """A span, garbage, or a moment years ahead leaves the reset unknown, and the percentage counts."""
    found = read({"used": 99, "resets": value})

    assert (found.used_pct, found.resets_at, found.error) == (99, None, "")
    assert found.note.startswith("`resets` is ")
    assert found.note.endswith(", not a moment")


def test_each_window_is_read_for_itself() -> None:
    """One window that cannot be read does not spoil the other."""
    _, model = one(gated(windows=TWO_WINDOWS))
    text = json.dumps({"five": {"used": 5}, "week": {"resets": NOON + 9}})

    assert readings_of(model, text, NOON, NOON) == (
        Reading("sub", "5h", 5.0, None, NOON, NOON),
        Reading("sub", "weekly", None, None, 0.0, NOON, "the answer has no `week.used`"),
    )


@pytest.mark.parametrize(
    ("spent", "used", "note", "error"),
    [
        (5, 25.0, "5 of 20", ""),
        ("19.99", 99.95, "19.99 of 20", ""),
        (20, 100.0, "20 of 20", ""),
        (31.5, 100.0, "31.5 of 20", ""),
        ("5%", None, "", '`spent` is "5%", not a number'),
        (-3, None, "", "`spent` is -3, below zero"),
    ],
)
def test_a_budget_is_percent_of_its_limit(spent: Any, used: float | None, note: str, error: str) -> None:
    """What was spent is read as percent of the limit, and kept in words."""
    _, model = one(budgeted())
    (found,) = readings_of(model, json.dumps({"spent": spent}), NOON, NOON)

    assert (found.window, found.used_pct, found.note, found.error) == ("budget", pytest.approx(used), note, error)


def test_a_failure_keeps_the_last_good_value() -> None:
    """The value and its moment stay, the error is that of the last try."""
    _, model = one(gated())
    good = Reading("sub", "5h", 40.0, NOON + 9, NOON, NOON)
    (bad,) = failed(model, "exit 1", NOON + 60, "no login")

    assert merged(good, bad) == Reading("sub", "5h", 40.0, NOON + 9, NOON, NOON + 60, "exit 1", "", "no login")
    assert merged(None, bad) == bad
    assert merged(bad, good) == good


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1s", 1),
        ("6m0s", 360),
        ("1h2m3.5s", 3723.5),
        ("90", 90),
        ("20ms", 0.02),
        ("", None),
        ("s", None),
        ("1 s", None),
    ],
)
def test_spans_as_providers_write_them(text: str, seconds: float | None) -> None:
    """Go durations and plain seconds are spans, anything else is none."""
    assert span_of(text) == pytest.approx(seconds)


def test_times_are_written_for_people() -> None:
    """Spans have two units at most, moments are UTC."""
    assert [span(n) for n in (-3, 0, 59, 60, 3661, 90061)] == ["0 s", "0 s", "59 s", "1 min", "1 h 1 min", "1 d 1 h"]
    assert clock(NOON + 0.9) == "2026-03-01 12:00:00 UTC"
    assert moment_of(NOON) == NOON
