"""Moments as people write them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litellm_registry_hook.core.when import FORMS, read_when, show_moment

NOW = datetime(2026, 12, 31, 17, 30, 5, 7, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("30m", "2026-12-31T18:00:05.000007"),
        ("12h", "2027-01-01T05:30:05.000007"),
        ("7d", "2027-01-07T17:30:05.000007"),
        ("2w", "2027-01-14T17:30:05.000007"),
        ("18:00", "2026-12-31T18:00:00"),
        ("17:30", "2027-01-01T17:30:00"),
        ("00:00", "2027-01-01T00:00:00"),
        ("2027-01-31", "2027-01-31T00:00:00"),
        (" 2027-01-31 ", "2027-01-31T00:00:00"),
        ("2027-01-31T18:00", "2027-01-31T18:00:00"),
        ("2027-01-31T18:00Z", "2027-01-31T18:00:00"),
        ("2027-01-31T18:00+02:00", "2027-01-31T16:00:00"),
        ("2027-01-31 18:00:30", "2027-01-31T18:00:30"),
    ],
)
def test_every_form_is_read(text: str, moment: str) -> None:
    """A span counts from now; a time of day is the next one; a date is its first moment; all in UTC."""
    assert read_when(text, NOW).isoformat() == f"{moment}+00:00"


@pytest.mark.parametrize(
    "text",
    ["", "soon", "7", "7y", "-7d", "1.5h", "7 d", "24:00", "9:30", "2027-13-01", "31.01.2027", "999999w", "٧d"],
)
def test_anything_else_is_an_error_with_the_forms(text: str) -> None:
    """What cannot be read is answered with what to write."""
    with pytest.raises(ValueError) as refused:
        read_when(text, NOW)

    assert str(refused.value) == f"that is no moment; {FORMS}"


@pytest.mark.parametrize("text", ["0m", "2026-12-31", "2026-12-31T17:30:05", "1999-01-01T00:00Z"])
def test_the_past_is_an_error(text: str) -> None:
    """A moment that is over is not taken."""
    with pytest.raises(ValueError, match=r"^[0-9: -]{16} UTC is not in the future; write 30m"):
        read_when(text, NOW)


@given(st.datetimes(timezones=st.just(timezone(timedelta(hours=-7)))), st.integers(1, 9999), st.sampled_from("mhdw"))
def test_a_span_is_that_much_later_whatever_the_clocks_offset(now: datetime, number: int, unit: str) -> None:
    """A span is added to now, and the answer is in UTC."""
    seconds = number * {"m": 60, "h": 3600, "d": 86400, "w": 604800}[unit]
    if now.year > 9700:
        now = now.replace(year=2000, day=1)

    found = read_when(f"{number}{unit}", now)

    assert (found - now, found.utcoffset()) == (timedelta(seconds=seconds), timedelta(0))


@given(st.text(max_size=12))
def test_text_is_a_later_moment_or_a_value_error(text: str) -> None:
    """Nothing else comes out of any text."""
    try:
        found = read_when(text, NOW)
    except ValueError:
        return
    assert found > NOW


def test_a_moment_is_shown_in_utc() -> None:
    """People read it to the minute, with its zone."""
    assert show_moment(datetime(2027, 1, 1, 1, 59, tzinfo=timezone(timedelta(hours=2)))) == "2026-12-31 23:59 UTC"
