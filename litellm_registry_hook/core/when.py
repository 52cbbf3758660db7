"""Moments as people write them on a command line."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import Final

from litellm_registry_hook.core.registry import parse_moment

FORMS: Final = "write 30m, 12h, 7d, 2w, 18:00 (UTC), 2027-01-31 or 2027-01-31T18:00Z"
_SPAN: Final = re.compile(r"([0-9]{1,6})([mhdw])")
_CLOCK: Final = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")
_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def read_when(text: str, now: datetime) -> datetime:
    """Read when something ends: a span from now, the next time of day, a date, or an ISO time.

    Everything is UTC unless the text has an offset; a date means its first moment, as in the registry.

    Args:
        text: `30m`, `12h`, `7d`, `2w`, `18:00`, `2027-01-31`, `2027-01-31T18:00`, `2027-01-31T18:00+02:00`.
        now: an aware moment.

    Returns:
        an aware moment in UTC, after `now`.

    Raises:
        ValueError: not a moment, or not after `now`; the text says what to write.

    """
    moment = _read(text.strip(), now.astimezone(timezone.utc))
    if moment <= now:
        raise ValueError(f"{moment:%Y-%m-%d %H:%M} UTC is not in the future; {FORMS}")
    return moment


def _read(text: str, now: datetime) -> datetime:
    span = _SPAN.fullmatch(text)
    clock = _CLOCK.fullmatch(text)
    try:
        if span is not None:
            return now + timedelta(**{_UNITS[span[2]]: int(span[1])})
        if clock is not None:
            today = now.replace(hour=int(clock[1]), minute=int(clock[2]), second=0, microsecond=0)
            return today if today > now else today + timedelta(days=1)
        return parse_moment(text).astimezone(timezone.utc)
    except (ValueError, OverflowError):
        raise ValueError(f"that is no moment; {FORMS}") from None


def show_moment(moment: datetime) -> str:
    """Write a moment for people, in UTC and to the minute."""
    return f"{moment.astimezone(timezone.utc):%Y-%m-%d %H:%M} UTC"
