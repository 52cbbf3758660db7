"""What real calls teach: a used-up quota closes a model, failures of the network open a deployment's circuit."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from litellm_registry_hook.core.availability.facts import Circuit, Closure, Reading
from litellm_registry_hook.core.availability.stated import nothing_left, stated_reset
from litellm_registry_hook.core.failure import MAX_TEXT, QUOTA_WORDS, SIZE_WORDS, SPENT_WORDS, Failure

GUESS_S: Final = 60.0
"""How long a model stays closed where the answer states no time."""
RECHECK_S: Final = 3600.0
"""A stated time farther off than this is checked by one request an hour: providers reset early, and err."""
TRIAL_S: Final = 60.0
"""How long the one request that finds out may take before another one may pass."""
FAILURES: Final = 3
"""Failures in a row, none older than FORGET_S, that open a circuit."""
FORGET_S: Final = 60.0
FIRST_OPEN_S: Final = 15.0
LONGEST_OPEN_S: Final = 300.0
SKEW_S: Final = 60.0
"""What was learned farther in the future than this was learned before the clock was set back."""

_NETWORK: Final = frozenset({0, 408, 502, 503, 504, 529})
# LiteLLM answers 500 for a refused connection; a 500 of the upstream's own may be the request's fault.
_NO_CONNECTION: Final = re.compile(
    # `APIConnectionError` is what LiteLLM calls any error that it does not know.
    r"(?<!API)connection|cannot connect|refused|unreachable|timed? ?out|name or service not known|name resolution",
    re.IGNORECASE,
)


def is_quota_answer(failure: Failure) -> bool:
    """Say whether an answer means that a quota is used up: 429 or 402, or 403 and 400 with the words for it.

    One of a single request's size is not: a smaller one may pass.
    """
    if failure.status == 400:  # noqa: PLR2004
        return SPENT_WORDS.search(failure.text) is not None
    if failure.status == 403:  # noqa: PLR2004
        return QUOTA_WORDS.search(failure.text) is not None
    return failure.status in {402, 429} and SIZE_WORDS.search(failure.text) is None


def is_network_failure(failure: Failure) -> bool:
    """Say whether a failure tells of the server rather than of the request."""
    if failure.context_overflow:
        return False
    return failure.status in _NETWORK or (failure.status == 500 and _NO_CONNECTION.search(failure.text) is not None)  # noqa: PLR2004


def learn(key: str, failure: Failure, headers: Mapping[str, str], now: float) -> Closure | None:
    """Return the closure that an answer teaches; None where it tells nothing of a quota.

    Args:
        key: what it closes: a registry id or a deployment id.
        failure: the answer.
        headers: its headers, names in lower case; a `llm_provider-` before them does not matter.
        now: when it came.

    """
    if not is_quota_answer(failure):
        return None
    until = stated_reset(failure, headers, now)
    stated = until is not None and until > now
    if until is None or until <= now:
        until = now + GUESS_S
    text = " ".join(failure.text.split())
    text = text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"
    why = f"answered {failure.status}" + (f": {text}" if text else "")
    return Closure(key, now, until, why, stated, min(until, now + RECHECK_S))


def learn_from_success(key: str, headers: Mapping[str, str], now: float) -> Closure | None:
    """Return the closure that a served answer teaches by saying that it was the last of its limit; else None."""
    until = nothing_left(headers, now)
    if until is None:
        return None
    return Closure(key, now, until, "was served, and said that nothing is left", True, min(until, now + RECHECK_S))


def reopened(closure: Closure, readings: Mapping[str, Reading], threshold: float) -> Closure | None:
    """Return a closure after new readings; None where they open it.

    Only a probe that has seen a full window after the answer may open it, once it sees room in all windows: one that
    says 80 % at the moment of a 429 measures something else than the provider does.
    """
    new = [reading for reading in readings.values() if reading.used_pct is not None and reading.read_at > closure.since]
    if any(reading.used_pct is not None and reading.used_pct >= threshold for reading in new):
        return closure if closure.full_after else replace(closure, full_after=True)
    if closure.full_after and readings and len(new) == len(readings) and not any(reading.error for reading in new):
        return None
    return closure


def lapsed(closure: Closure, now: float) -> bool:
    """Say whether a closure is over: its stated time has come. A guessed one needs a request that succeeds."""
    return closure.stated and now >= closure.until


def trial_due(what: Closure | Circuit, now: float) -> bool:
    """Say whether one request may pass to find out: its time has come and none is on its way."""
    at = what.try_at if isinstance(what, Closure) else what.until
    if from_ahead(what, now):
        at = now
    return now >= at and (what.trial_at is None or not what.trial_at <= now < what.trial_at + TRIAL_S)


def tried(what: Closure | Circuit, now: float | None) -> Closure | Circuit:
    """Note that the one request is on its way; with None, that it came to nothing."""
    return replace(what, trial_at=now)


def learned_again(closure: Closure, before: Closure) -> Closure:
    """Return the closure of a trial that failed and states no time: what was stated before still holds."""
    return replace(closure, until=before.until, stated=True, try_at=min(before.until, closure.since + RECHECK_S))


def after_failure(before: Circuit | None, deployment: str, failure: Failure, now: float) -> Circuit | None:
    """Return a deployment's circuit after a failed attempt.

    Three failures of the network in a row open it for 15 s, and each failed trial for twice as long, up to 5 minutes.
    A Retry-After opens it at once, for as long as it says within those 5 minutes.
    """
    if not is_network_failure(failure):
        return before
    if before is not None and from_ahead(before, now):
        before = None
    fresh = before is not None and 0 <= now - before.last_at <= FORGET_S
    was_open = before is not None and before.opened_at is not None
    count = before.failures + 1 if before is not None and (fresh or was_open) else 1
    why = f"answered {failure.status}" if failure.status else "did not answer"
    text = " ".join(failure.text.split())[:MAX_TEXT]
    why = f"{why}: {text}" if text else why
    times = before.times if before is not None else 0
    if before is not None and before.opened_at is not None and now < before.until:
        # A request that set off before it was opened.
        return replace(before, failures=count, last_at=now)
    asked = failure.retry_after_s or 0.0
    if not was_open and count < FAILURES and not asked:
        return Circuit(deployment, count, now, why)
    shortest = FIRST_OPEN_S * 2.0 ** min(times, 10) if was_open or count >= FAILURES else 0.0
    pause = min(LONGEST_OPEN_S, max(shortest, asked))
    return Circuit(deployment, count, now, why, now, now + pause, times + 1)


def after_success(what: Closure | Circuit, began: float, now: float) -> bool:
    """Say whether a success ends a closure or a circuit: that of a request which set off after it was made."""
    since = what.since if isinstance(what, Closure) else what.opened_at
    return since is None or began >= since or from_ahead(what, now)


def from_ahead(what: Closure | Circuit, now: float) -> bool:
    """Say whether the clock was set back since: when it ends is not known, so one request may find out."""
    since = what.since if isinstance(what, Closure) else what.opened_at
    return since is not None and since > now + SKEW_S
