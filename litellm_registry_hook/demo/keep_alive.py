"""Ollama's keep_alive: a number of seconds or a Go duration, negative meaning for ever."""

from __future__ import annotations

import contextlib
import re
from datetime import datetime, timedelta, timezone
from typing import Any

# Go's time.Duration counts nanoseconds in 63 bits: the longest is about 292 years, hence expires_at in the year 2318.
FOREVER_S = (2**63 - 1) / 1e9
DEFAULT_S = 300.0
UNITS_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
PART_RE = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)([a-zµμ]*)")


def go_seconds(text: str) -> float:
    """Read a Go duration (`time.ParseDuration`) as seconds.

    Raises:
        ValueError: with Go's own words.

    """
    sign = -1.0 if text.startswith("-") else 1.0
    rest = text[1:] if text.startswith(("-", "+")) else text
    if rest == "0":
        return 0.0
    total, at = 0.0, 0
    while at < len(rest):
        part = PART_RE.match(rest, at)
        if part is None:
            break
        if not part[2]:
            raise ValueError(f'time: missing unit in duration "{text}"')
        if part[2] not in UNITS_S:
            raise ValueError(f'time: unknown unit "{part[2]}" in duration "{text}"')
        total += float(part[1]) * UNITS_S[part[2]]
        at = part.end()
    if at == 0 or at < len(rest):
        raise ValueError(f'time: invalid duration "{text}"')
    return sign * total


def keep_alive_seconds(value: Any) -> float | None:
    """Return the seconds a keep_alive asks for, FOREVER_S for a negative one, None where none was sent.

    Raises:
        ValueError: neither a number nor a Go duration.

    """
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError(f"invalid type for keep_alive: {type(value).__name__}")  # noqa: TRY004
    seconds = go_seconds(value) if isinstance(value, str) else float(value)
    return FOREVER_S if seconds < 0 else min(seconds, FOREVER_S)


def rfc3339(unix_s: float) -> str:
    """Write a moment (seconds since 1970) as Go's RFC3339Nano does: local offset, up to nine digits."""
    moment = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=unix_s)
    digits = f"{moment.microsecond:06d}789".rstrip("0")
    with contextlib.suppress(OverflowError, OSError):  # where the platform's local time ends before 2318
        moment = moment.astimezone()
    offset = moment.strftime("%z")
    zone = "Z" if offset == "+0000" else f"{offset[:3]}:{offset[3:5]}"
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{digits}{zone}"
