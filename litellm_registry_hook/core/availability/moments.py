"""Moments and spans: as programs write them, and as people read them."""

from __future__ import annotations

import math
import re
from datetime import datetime, timezone
from typing import Any, Final

_ISO: Final = re.compile(
    r"^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2})(:\d{2})?(?:\.(\d{1,12}))?\s*(Z|[+-]\d{2}(?::?\d{2})?)?)?$", re.IGNORECASE
)
_NUMBER: Final = re.compile(r"^\d+(\.\d+)?$")
_GO: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|us|µs|ns|h|m|s)")
_UNIT_S: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
EARLIEST: Final = 1e9
MILLISECONDS: Final = 1e11
LATEST: Final = 1e14


def moment_of(value: Any) -> float | None:
    """Read a moment: ISO text (UTC where it has no offset), or seconds or milliseconds since the epoch.

    Numbers below 1e9 are spans, not moments, and from 1e11 on they are milliseconds. None for anything else.

    >>> moment_of("2026-03-01T12:00:00Z"), moment_of("2026-03-01 13:00+01:00"), moment_of(1772366400000)
    (1772366400.0, 1772366400.0, 1772366400.0)
    """
    if isinstance(value, str):
        text = value.strip()
        if _NUMBER.match(text):
            return moment_of(float(text))
        return _iso(text)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if not EARLIEST <= value < LATEST:
        return None
    return float(value) / 1000 if value >= MILLISECONDS else float(value)


def _iso(text: str) -> float | None:
    found = _ISO.match(text)
    if found is None:
        return None
    day, minute, second, fraction, offset = found.groups()
    if offset is None or offset in {"Z", "z"}:
        offset = "+00:00"
    elif len(offset) == 3:  # noqa: PLR2004  +01
        offset += ":00"
    elif ":" not in offset:
        offset = f"{offset[:3]}:{offset[3:]}"
    micro = (fraction or "0")[:6].ljust(6, "0")
    try:
        moment = datetime.fromisoformat(f"{day}T{minute or '00:00'}{second or ':00'}.{micro}{offset}").timestamp()
    except (ValueError, OverflowError):
        return None
    return moment if moment >= EARLIEST else None


def span_of(text: str) -> float | None:
    """Read a span as providers write it, `1h2m3s`, `120ms` or plain seconds; None for anything else.

    >>> span_of("6m0s"), span_of("120ms"), span_of("2.5"), span_of("soon")
    (360.0, 0.12, 2.5, None)
    """
    text = text.strip()
    if _NUMBER.match(text):
        return float(text)
    parts = _GO.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    return sum(float(number) * _UNIT_S[unit] for number, unit in parts)


def clock(moment: float) -> str:
    """Write a moment in UTC.

    >>> clock(1772366400.4)
    '2026-03-01 12:00:00 UTC'
    """
    return datetime.fromtimestamp(math.floor(moment), tz=timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")


def span(seconds: float) -> str:
    """Write a span in the two units that matter.

    >>> span(0.2), span(75), span(3600), span(93600)
    ('0 s', '1 min 15 s', '1 h', '1 d 2 h')
    """
    left = max(0, round(seconds))
    parts: list[str] = []
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        number, left = divmod(left, size)
        if number or (unit == "s" and not parts):
            parts.append(f"{number} {unit}")
        elif parts:
            break
    return " ".join(parts[:2])
