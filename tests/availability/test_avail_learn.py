"""What answers of real calls teach."""

from __future__ import annotations

from typing import Any

import pytest
from availability.avail_kit import NOON

from litellm_registry_hook.core.availability.facts import Circuit, Closure, Reading
from litellm_registry_hook.core.availability.learn import (
    after_failure,
    after_success,
    lapsed,
    learn,
    learn_from_success,
    reopened,
    trial_due,
    tried,
)
from litellm_registry_hook.core.failure import Failure


@pytest.mark.parametrize(
    ("status", "text", "closes"),
    [
        (429, "", True),
        (429, "anything at all", True),
        (403, "You have exceeded your monthly quota", True),
        (403, "forbidden", False),
        (402, "", True),
        (403, "insufficient permissions for this model", False),
        (403, "this exceeded your authority", False),
        (403, "insufficient funds", True),
        (403, "You've reached your usage limit for this billing cycle", True),
        (400, "Your credit balance is too low", True),
        (400, "bad request: rate limit this", False),
        (401, "quota", False),
        (500, "quota", False),
        (503, "", False),
        (0, "", False),
        (403, "Key limit exceeded (daily limit). Manage it using ***", True),
        (403, "Your newly created team doesn't have any credits yet.", True),
        (403, 'x requires moderation. Your input was flagged for "violence". No credits were charged.', False),
        (
            403,
            "The generativelanguage.googleapis.com API requires a quota project, which is not set by default.",
            False,
        ),
        (403, "Project `p` does not have access to model `gpt-4`", False),
        (403, "The model `x` is blocked at the project level. See console.groq.com/settings/project/limits", False),
        (429, "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 50000.", False),
        (429, "Rate limit reached on tokens per min (TPM): Limit 30000, Used 29000, Requested 5000.", True),
        (429, "Extra usage is required for long context requests.", False),
        (402, "This request requires more credits, or fewer max_tokens. You requested up to 65536 tokens.", False),
        (402, "Insufficient credits. Add more", True),
    ],
)
def test_which_answers_close_a_model(status: int, text: str, closes: bool) -> None:
    """429 and 402 do, 403 and 400 with the words of a used-up account; not one request's size, nothing else."""
    assert (learn("m", Failure(status, text), {}, NOON) is not None) is closes


@pytest.mark.parametrize(
    ("headers", "text", "seconds"),
    [
        ({}, "", None),
        ({"retry-after": "30"}, "", 30),
        ({"Retry-After": "30"}, "", 30),
        ({"llm_provider-retry-after": "30"}, "", 30),
        ({"retry-after": "0"}, "", None),
        ({"retry-after": "-5"}, "", None),
        ({"retry-after": "soon"}, "", None),
        ({"retry-after": "Sun, 01 Mar 2026 12:02:00 GMT"}, "", 120),
        ({"retry-after": "Sun, 01 Mar 2026 11:00:00 GMT"}, "", None),
        ({"retry-after": str(400 * 86400)}, "", None),
        ({"retry-after-ms": "2500"}, "", 2.5),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s"}, "", 360),
        ({"x-ratelimit-remaining-requests": "5", "x-ratelimit-reset-requests": "6m0s"}, "", None),
        (
            {
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-requests": "1s",
                "x-ratelimit-remaining-tokens": "0",
                "x-ratelimit-reset-tokens": "90s",
            },
            "",
            90,
        ),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int((NOON + 50) * 1000))}, "", 50),
        (
            {
                "anthropic-ratelimit-tokens-remaining": "0",
                "anthropic-ratelimit-tokens-reset": "2026-03-01T12:01:00Z",
                "anthropic-ratelimit-requests-remaining": "12",
                "anthropic-ratelimit-requests-reset": "2026-03-01T14:00:00Z",
            },
            "",
            60,
        ),
        (
            {
                "anthropic-ratelimit-unified-status": "rejected",
                "anthropic-ratelimit-unified-reset": str(int(NOON + 600)),
            },
            "",
            600,
        ),
        (
            {
                "anthropic-ratelimit-unified-status": "rejected",
                "anthropic-ratelimit-unified-5h-status": "allowed",
                "anthropic-ratelimit-unified-5h-reset": str(int(NOON + 600)),
                "anthropic-ratelimit-unified-7d-status": "rejected",
                "anthropic-ratelimit-unified-7d-reset": str(int(NOON + 7000)),
                "anthropic-ratelimit-unified-reset": str(int(NOON + 7000)),
                "retry-after": "5",
            },
            "",
            7000,
        ),
        (
            {"anthropic-ratelimit-unified-status": "allowed", "anthropic-ratelimit-unified-reset": str(int(NOON + 9))},
            "",
            None,
        ),
        (
            {
                "retry-after-ms": "1200",
                "x-ratelimit-remaining-tokens": "0",
                "x-ratelimit-reset-tokens": "59.8s",
            },
            "",
            1.2,
        ),
        (
            {
                "retry-after": "2",
                "x-ratelimit-remaining-tokens": "0",
                "x-ratelimit-reset-tokens": "7h12m",
            },
            "",
            25920,
        ),
        (
            {
                "anthropic-ratelimit-unified-status": "rejected",
                "anthropic-ratelimit-unified-reset": str(int(NOON + 600)),
                "anthropic-ratelimit-unified-overage-status": "rejected",
                "anthropic-ratelimit-unified-overage-reset": str(int(NOON + 20 * 86400)),
            },
            "",
            600,
        ),
        ({}, "Rate limit reached. Please try again in 1m12s.", 72),
        ({}, "Please retry after 20 seconds.", 20),
        ({}, "limit reached, try again in 3 hours", 10800),
        ({}, '{"type":"usage_limit_reached","resets_in_seconds":18000}', 18000),
        ({}, f'{{"resets_at": {int(NOON + 77)}}}', 77),
        ({}, '"retryDelay": "17s"', 17),
        ({"retry-after": "30"}, "try again in 3 hours", 30),
    ],
)
def test_when_a_limit_ends(headers: dict[str, str], text: str, seconds: float | None) -> None:
    """Headers state it, the latest of those that are spent counts, and words only where no header does."""
    closure = learn("m", Failure(429, text), headers, NOON)

    assert closure is not None
    until = seconds if seconds is not None else 60
    assert (closure.stated, closure.until) == (seconds is not None, pytest.approx(NOON + until, abs=1e-5))
    assert closure.try_at == pytest.approx(NOON + min(until, 3600), abs=1e-5)


def test_the_hosts_own_reading_of_retry_after_counts() -> None:
    """Where no headers are at hand, Failure.retry_after_s states the time."""
    closure = learn("m", Failure(429, "slow  down", 45.0), {}, NOON)

    assert closure == Closure("m", NOON, NOON + 45, "answered 429: slow down", True, NOON + 45)


def guess(**more: Any) -> Closure:
    """A 429 without a time."""
    return Closure("m", NOON, NOON + 60, "answered 429", try_at=NOON + 60, **more)


def windows(*used: float, at: float = NOON + 5, error: str = "") -> dict[str, Reading]:
    """Readings of as many windows."""
    return {str(n): Reading("m", str(n), pct, None, at, at, error) for n, pct in enumerate(used)}


def test_a_probe_opens_only_what_it_has_seen_full() -> None:
    """80 % at a 429 measures something else: only full, then room in all windows, opens."""
    assert reopened(guess(), windows(80, 10), 95) == guess()
    assert reopened(guess(), windows(96, 10), 95) == guess(full_after=True)
    assert reopened(guess(full_after=True), windows(97, 10), 95) == guess(full_after=True)
    assert reopened(guess(full_after=True), windows(3, 10), 95) is None


def test_a_reading_from_before_the_answer_tells_nothing() -> None:
    """Neither does one that failed, or only some of the windows."""
    assert reopened(guess(), windows(100, at=NOON), 95) == guess()
    full = guess(full_after=True)
    assert reopened(full, windows(3, at=NOON), 95) == full
    assert reopened(full, windows(3, error="exit 1"), 95) == full
    assert reopened(full, windows(3) | {"x": Reading("m", "x", None, None, 0.0, NOON + 5, "gone")}, 95) == full
    assert reopened(full, {}, 95) == full


def test_what_a_success_opens() -> None:
    """Only a request that was sent after the answer says that it is over."""
    assert after_success(guess(), NOON + 1, NOON + 2)
    assert after_success(guess(), NOON, NOON + 2)
    assert not after_success(guess(), NOON - 1, NOON + 2)


def test_when_the_one_request_may_pass() -> None:
    """At its time, not while one is on its way, again after a minute, and after the clock was set back."""
    assert [trial_due(guess(), NOON + at) for at in (59, 60)] == [False, True]
    sent = guess(trial_at=NOON + 70)
    assert [trial_due(sent, NOON + at) for at in (70, 129, 130, 65)] == [False, False, True, True]
    assert tried(guess(), NOON + 70) == sent
    assert tried(sent, None) == guess()


def test_a_stated_end_is_the_end() -> None:
    """A closure that states its end is over then; a guessed one needs a request."""
    assert lapsed(Closure("m", NOON, NOON + 9, "x", True), NOON + 9)
    assert not lapsed(Closure("m", NOON, NOON + 9, "x", True), NOON + 8)
    assert not lapsed(guess(), NOON + 999)


REFUSED = Failure(500, "Connection error.")


def test_three_failures_in_a_row_open_a_circuit() -> None:
    """The third does, for 15 s; with more than a minute between, counting starts anew."""
    first = after_failure(None, "m@0", REFUSED, NOON)
    second = after_failure(first, "m@0", Failure(503), NOON + 60)
    third = after_failure(second, "m@0", Failure(0), NOON + 61)

    assert first == Circuit("m@0", 1, NOON, "answered 500: Connection error.")
    assert second == Circuit("m@0", 2, NOON + 60, "answered 503")
    assert third == Circuit("m@0", 3, NOON + 61, "did not answer", NOON + 61, NOON + 76, 1)
    assert after_failure(second, "m@0", Failure(0), NOON + 121) == Circuit("m@0", 1, NOON + 121, "did not answer")


def test_each_failed_trial_doubles_the_pause() -> None:
    """15, 30, 60, 120, 240, then 300 s for ever."""
    circuit = None
    pauses, now = [], NOON
    for _ in range(9):
        circuit = after_failure(circuit, "m@0", Failure(504), now)
        assert circuit is not None
        if circuit.opened_at is not None:
            pauses.append(circuit.until - now)
            now = circuit.until
    assert pauses == [15, 30, 60, 120, 240, 300, 300]


def test_failures_from_before_the_opening_change_nothing_but_the_count() -> None:
    """A burst that was under way does not push the trial away."""
    open_ = Circuit("m@0", 3, NOON, "did not answer", NOON, NOON + 15, 1)

    assert after_failure(open_, "m@0", Failure(0), NOON + 9) == Circuit(
        "m@0", 4, NOON + 9, "did not answer", NOON, NOON + 15, 1
    )


def test_a_retry_after_opens_at_once() -> None:
    """A server that says when it is ready is believed, within 5 minutes."""
    loading = after_failure(None, "m@0", Failure(503, "loading", 40.0), NOON)
    asking = after_failure(None, "m@0", Failure(503, "", 9000.0), NOON)

    shortly = after_failure(None, "m@0", Failure(503, "", 1.0), NOON)

    assert shortly == Circuit("m@0", 1, NOON, "answered 503", NOON, NOON + 1, 1)
    assert loading == Circuit("m@0", 1, NOON, "answered 503: loading", NOON, NOON + 40, 1)
    assert asking is not None
    assert asking.until == NOON + 300


@pytest.mark.parametrize(
    "failure",
    [Failure(400, "bad"), Failure(401), Failure(404), Failure(429), Failure(500, "bug"), Failure(503, "", None, True)],
)
def test_what_says_nothing_of_the_server_is_not_counted(failure: Failure) -> None:
    """The request's own faults, quotas and an overflowed context leave a circuit as it is."""
    before = Circuit("m@0", 2, NOON, "did not answer")

    assert after_failure(before, "m@0", failure, NOON + 1) is before
    assert after_failure(None, "m@0", failure, NOON + 1) is None


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"x-ratelimit-remaining-requests": "0"}, None),
        ({"x-ratelimit-remaining-requests": "1", "x-ratelimit-reset-requests": "60s"}, None),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "60s"}, 60),
        ({"llm_provider-x-ratelimit-remaining-tokens": "0", "llm_provider-x-ratelimit-reset-tokens": "1m30s"}, 90),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "12ms"}, None),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "59.9s"}, None),
        (
            {
                "anthropic-ratelimit-input-tokens-remaining": "0",
                "anthropic-ratelimit-input-tokens-reset": "2026-03-01T12:00:40Z",
            },
            None,
        ),
        ({"x-ratelimit-remaining-requests": "-1", "x-ratelimit-reset-requests": "60s"}, None),
        (
            {
                "anthropic-ratelimit-unified-status": "allowed",
                "anthropic-ratelimit-unified-5h-status": "allowed",
                "anthropic-ratelimit-unified-overage-status": "rejected",
                "anthropic-ratelimit-unified-overage-reset": str(int(NOON + 86400)),
            },
            None,
        ),
        (
            {
                "x-ratelimit-limit-requests": "0",
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-requests": "60s",
            },
            None,
        ),
        ({"anthropic-ratelimit-unified-status": "allowed", "anthropic-ratelimit-unified-reset": str(NOON + 60)}, None),
        ({"anthropic-ratelimit-unified-status": "rejected", "anthropic-ratelimit-unified-reset": str(NOON + 60)}, 60),
        ({"retry-after": "60"}, None),
    ],
)
def test_which_served_answers_were_the_last_of_a_limit(headers: dict[str, str], seconds: float | None) -> None:
    """One says so by `remaining` 0 of a limit that is not 0 and the time of its reset, or by a rejected window."""
    expected = None
    if seconds is not None:
        why = "was served, and said that nothing is left"
        expected = Closure("m", NOON, NOON + seconds, why, True, NOON + seconds)
    assert learn_from_success("m", headers, NOON) == expected
