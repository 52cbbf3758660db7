"""Days, weeks and months of a budget, in UTC as LiteLLM's own records are."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Literal

Period = Literal["day", "week", "month"]


def bounds(period: Period, now: float) -> tuple[str, float]:
    """Return the first day of the running period, `2026-03-01`, and the moment at which the next one starts.

    Args:
        period: a week starts on Monday. now: seconds since the epoch.

    >>> bounds("month", 1772366400.0)
    ('2026-03-01', 1775001600.0)
    """
    day = datetime.fromtimestamp(now, tz=timezone.utc).replace(hour=0, minute=0, second=0, microsecond=0)
    if period == "day":
        first, after = day, day + timedelta(days=1)
    elif period == "week":
        first = day - timedelta(days=day.weekday())
        after = first + timedelta(days=7)
    else:
        first = day.replace(day=1)
        after = (first + timedelta(days=32)).replace(day=1)
    return first.strftime("%Y-%m-%d"), after.timestamp()
