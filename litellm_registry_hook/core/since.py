"""A moment in the past, as people write it."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

_AGO = re.compile(r"^([0-9]{1,6})([smhdw])$")
_CLOCK = re.compile(r"^([01][0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]))?$")
# One form on every Python: fromisoformat of 3.10 takes less than that of 3.11.
_MOMENT = re.compile(r"^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{3}|\.\d{6})?)?(Z|[+-]\d\d:\d\d)?)?$")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def read_since(text: str, now: datetime) -> datetime:
    """Read the moment from which on something is wanted.

    Args:
        text: `30m`, `12h`, `7d`, `2w`: so long ago; `2026-11-30`: the first moment of that day; `2026-11-30T18:00`,
            with an offset or `Z` if wanted; `18:00`: when the clock last said so.
        now: an aware moment; its offset is the one that a date or time without an offset is read in.

    Raises:
        ValueError: none of these, or too far away to be a date.

    """
    text = text.strip()
    ago = _AGO.match(text)
    if ago is not None:
        try:
            return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        except OverflowError:
            raise ValueError(f"{text!r} is longer ago than there are dates") from None
    clock = _CLOCK.match(text)
    if clock is not None:
        hour, minute, second = (int(part or 0) for part in clock.groups())
        today = now.replace(hour=hour, minute=minute, second=second, microsecond=0)
        return today if today <= now else today - timedelta(days=1)
    if _MOMENT.match(text):
        moment = datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith("Z") else text)
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=now.tzinfo)
    raise ValueError(f"{text!r} is no moment: write 7d, 12h, 2026-11-30, 2026-11-30T18:00 or 18:00")
