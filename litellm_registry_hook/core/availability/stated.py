"""When a limit ends, as a provider's answer states it: in headers, else in words."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Final

from litellm_registry_hook.core.availability.moments import MILLISECONDS, moment_of, span_of
from litellm_registry_hook.core.failure import Failure

LONGEST_S: Final = 35 * 86400.0
"""A longer pause than a month of grace is a mistake."""
SHORTEST_S: Final = 0.5
"""A limit of a served answer that ends sooner is over before the next request."""
REFILLED_S: Final = 60.0
"""Tokens a minute are refilled all the time: their reset, not later than this, is when all of them are there again."""

_UNIFIED: Final = "anthropic-ratelimit-unified-"
_REMAINING: Final = re.compile(r"^(?:x-|anthropic-)?ratelimit-(?:(.+)-)?remaining(?:-(.+))?$")
_IN_WORDS: Final = (
    re.compile(r"resets_in_seconds\W{1,4}(\d+(?:\.\d+)?)", re.IGNORECASE),
    re.compile(r"retryDelay\W{1,5}(\d+(?:\.\d+)?s)", re.IGNORECASE),
    re.compile(r"(?:try again|retry|resets?) (?:in|after) ((?:\d+(?:\.\d+)?(?:ms|h|m|s))+)\b", re.IGNORECASE),
)
_COUNTED: Final = re.compile(
    r"(?:try again|retry|resets?) (?:in|after) (\d+(?:\.\d+)?) ?(seconds?|secs?|minutes?|mins?|hours?|days?)\b",
    re.IGNORECASE,
)
_AT: Final = re.compile(r"resets?_at\W{1,4}([0-9T:.+Z-]{10,40})", re.IGNORECASE)
_COUNT_S: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def stated_reset(failure: Failure, headers: Mapping[str, str], now: float) -> float | None:
    """Return the latest moment that the answer states for the end of its limit; None where it states none ahead.

    Read are Retry-After (seconds or a date), retry-after-ms, the reset of `anthropic-ratelimit-unified-*` where that is
    rejected, and the reset beside every `…ratelimit-…remaining…` that is 0. Only where no header states one, the
    words: `try again in 20s`, `resets_in_seconds`, `resets_at`, `retryDelay`.
    """
    named = {name.lower().removeprefix("llm_provider-"): str(value).strip() for name, value in headers.items()}
    asked = _retry_after(named, failure, now)
    # Where tokens are refilled, Retry-After says when there are enough.
    found = [*asked, *_unified(named, now), *_spent(named, now, refilled=not any(moment > now for moment in asked))]
    found = [moment for moment in found if now < moment <= now + LONGEST_S]
    if not found:
        found = [moment for moment in _words(failure.text, now) if now < moment <= now + LONGEST_S]
    return max(found, default=None)


def nothing_left(headers: Mapping[str, str], now: float) -> float | None:
    """Return when a limit ends of which a served answer's headers say that nothing is left; None where none does.

    `remaining` is 0, of a limit that is not itself 0, and its reset is stated; or a unified window is rejected. Tokens
    a minute do not count: some are there again a moment later, and a 429 would say how long it takes.
    """
    named = {name.lower().removeprefix("llm_provider-"): str(value).strip() for name, value in headers.items()}
    # Below 0 is no count: some say so of what they do not limit.
    found = [*_unified(named, now), *_spent(named, now, refilled=False, least=0.0)]
    return max((moment for moment in found if now + SHORTEST_S <= moment <= now + LONGEST_S), default=None)


def _retry_after(headers: Mapping[str, str], failure: Failure, now: float) -> list[float]:
    found = [now + failure.retry_after_s] if failure.retry_after_s is not None else []
    text = headers.get("retry-after", "")
    seconds = span_of(text)
    if seconds is not None:
        found.append(now + seconds)
    elif text:
        with contextlib.suppress(ValueError, TypeError, IndexError, OverflowError):
            found.append(parsedate_to_datetime(text).timestamp())
    milliseconds = span_of(headers.get("retry-after-ms", ""))
    return [*found, now + milliseconds / 1000] if milliseconds is not None else found


def _unified(headers: Mapping[str, str], now: float) -> list[float]:
    """Read the windows of a subscription: those that are rejected count, else the whole if it is.

    `overage` is no window but what may be bought beyond them: it is rejected wherever nothing may.
    """
    windows = [
        headers.get(name.removesuffix("status") + "reset", "")
        for name, value in headers.items()
        if name.startswith(_UNIFIED)
        and name.endswith("-status")
        and name not in {_UNIFIED + "status", _UNIFIED + "overage-status"}
        and value == "rejected"
    ]
    found = _moments(windows, now)
    if not found and headers.get(_UNIFIED + "status") == "rejected":
        found = _moments([headers.get(_UNIFIED + "reset", "")], now)
    return found


def _spent(headers: Mapping[str, str], now: float, *, refilled: bool, least: float = -math.inf) -> list[float]:
    """Read the resets of the limits of which nothing is left.

    Args:
        headers: names in lower case. now: seconds since the epoch.
        refilled: whether tokens a minute count. least: a smaller `remaining` is none.

    """
    found: list[float] = []
    for name, value in headers.items():
        if name.startswith(_UNIFIED) or _REMAINING.match(name) is None:
            continue
        unlimited = headers.get(name.replace("remaining", "limit"), "") in {"0", "-1"}
        if unlimited or not re.fullmatch(r"-?\d+(\.\d+)?", value) or not least <= float(value) <= 0:
            continue
        resets = _moments([headers.get(name.replace("remaining", "reset"), "")], now)
        found += [one for one in resets if refilled or "tokens" not in name or one > now + REFILLED_S]
    return found


def _moments(texts: list[str], now: float) -> list[float]:
    found = []
    for text in texts:
        moment = moment_of(text)
        seconds = span_of(text) if moment is None else None
        if moment is not None:
            found.append(moment)
        elif seconds is not None and seconds < MILLISECONDS:
            found.append(now + seconds)
    return found


def _words(text: str, now: float) -> list[float]:
    found = []
    for pattern in _IN_WORDS:
        seconds = [span_of(match) for match in pattern.findall(text)[:4]]
        found += [now + one for one in seconds if one is not None]
    found += [now + float(number) * _COUNT_S[unit[0].lower()] for number, unit in _COUNTED.findall(text)[:4]]
    moments = [moment_of(match.rstrip(".-")) for match in _AT.findall(text)[:4]]
    return [*found, *(moment for moment in moments if moment is not None)]
