"""Moments in the past, as people write them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from litellm_registry_hook.core.since import read_since

ZONE = timezone(timedelta(hours=1))
NOW = datetime(2026, 11, 30, 12, 30, tzinfo=ZONE)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90s", "2026-11-30T12:28:30+01:00"),
        ("30m", "2026-11-30T12:00:00+01:00"),
        (" 12h ", "2026-11-30T00:30:00+01:00"),
        ("7d", "2026-11-23T12:30:00+01:00"),
        ("2w", "2026-11-16T12:30:00+01:00"),
        ("2026-11-30", "2026-11-30T00:00:00+01:00"),
        ("2026-11-30T08:00", "2026-11-30T08:00:00+01:00"),
        ("2026-11-30 08:00:05", "2026-11-30T08:00:05+01:00"),
        ("2026-11-30T08:00Z", "2026-11-30T08:00:00+00:00"),
        ("2026-11-30T08:00-05:00", "2026-11-30T08:00:00-05:00"),
        ("08:15", "2026-11-30T08:15:00+01:00"),
        ("12:30", "2026-11-30T12:30:00+01:00"),
        ("18:00", "2026-11-29T18:00:00+01:00"),
    ],
)
def test_moments(text: str, expected: str) -> None:
    """A span, a date, a time and a moment mean what they say, in the offset of now."""
    assert read_since(text, NOW).isoformat() == expected


@pytest.mark.parametrize(
    "text", ["", "7", "d7", "7y", "-7d", "yesterday", "2026-13-01", "2026-11-30T25:00", "24:00", "20261130"]
)
def test_what_is_no_moment(text: str) -> None:
    """Anything else is an error that says what to write or what is wrong."""
    with pytest.raises(ValueError, match=r"is no moment|must be in"):
        read_since(text, NOW)


def test_longer_ago_than_there_are_dates() -> None:
    """A span beyond the calendar is an error, not a crash."""
    with pytest.raises(ValueError, match="longer ago than there are dates"):
        read_since("999999d", NOW)
