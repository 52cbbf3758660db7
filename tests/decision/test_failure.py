"""What a failed attempt means for the next member."""

from __future__ import annotations

import ssl

import pytest

from litellm_registry_hook.core.failure import (
    MAX_TEXT,
    Failure,
    as_skip,
    context_of,
    larger_context,
    made_here,
    try_next,
)
from litellm_registry_hook.core.refusal import Skip
from tests.strategies import model_entry, registry_of


def model(**more):
    return registry_of(model_entry("m", **more)).by_id["m"]


@pytest.mark.parametrize("status", [0, 401, 402, 404, 408, 409, 429, 500, 502, 503, 504, 529])
def test_the_next_member_is_tried_after(status):
    """No answer, 401, 402, 404, 408, 409, 429 and any 5xx say nothing about the request."""
    assert try_next(Failure(status))


@pytest.mark.parametrize("status", [400, 403, 405, 406, 410, 413, 415, 422, 424, 451])
def test_the_request_is_at_fault_for(status):
    """Any other 4xx would only repeat: the client gets it."""
    assert not try_next(Failure(status, "no such parameter"))


@pytest.mark.parametrize(
    ("error", "status", "here"),
    [
        (TypeError("'NoneType' object is not iterable"), 0, True),
        (KeyError("connection"), 0, True),
        (ValueError("no JSON"), 0, True),
        (ValueError("no JSON"), 502, False),
        (ConnectionRefusedError(), 0, False),
        (ssl.SSLCertVerificationError(), 0, False),
        (TimeoutError(), 0, False),
        (RuntimeError("closed"), 0, False),
    ],
)
def test_a_stumble_of_the_host_is_no_failure_of_the_upstream(error, status, here):
    """LiteLLM raises Python's own errors at nonsense that a client sends; the network raises others."""
    assert made_here(error, status) is here


@pytest.mark.parametrize("status", [402, 403])
@pytest.mark.parametrize(
    "text",
    [
        "You exceeded your current quota",
        "insufficient_quota",
        "Usage limit reached for 5 hours",
        "rate limit",
        "rate_limit_exceeded",
        "Insufficient balance",
        "billing hard limit reached",
        "Your credit balance is too low",
    ],
)
def test_a_refused_payment_is_a_quota_answer(status, text):
    """402 and 403 with the words of a quota are no fault of the request."""
    assert try_next(Failure(status, text))


@pytest.mark.parametrize(
    ("text", "next_one"),
    [
        ("Your credit balance is too low to access the Anthropic API.", True),
        ("billing_hard_limit_reached", True),
        ("Billing hard limit has been reached", True),
        ("You exceeded your current quota", True),
        ("quota", False),
        ("rate limit", False),
        ("insufficient detail in messages", False),
    ],
)
def test_a_400_is_a_quota_answer_only_in_the_providers_own_words(text, next_one):
    """Some providers answer 400 for a used-up account; a word alone may be the request's."""
    assert try_next(Failure(400, text)) is next_one


@pytest.mark.parametrize("status", [400, 413, 500])
def test_context_overflow_may_be_tried_elsewhere(status):
    """An input that is too long for this model may fit another."""
    assert try_next(Failure(status, "maximum context length", context_overflow=True))


@pytest.mark.parametrize(
    ("failed", "candidate", "larger"),
    [
        ({"context": 4096}, {"context": 8192}, True),
        ({"context": 4096}, {"context": 4096}, False),
        ({"context": 8192}, {"context": 4096}, False),
        ({}, {"context": 8192}, False),
        ({"context": 4096}, {}, False),
        ({"gpu_residency": {"vram_mb": 1, "num_ctx": 4096}}, {"context": 8192}, True),
        ({"context": 8192, "gpu_residency": {"vram_mb": 1, "num_ctx": 4096}}, {"context": 8000}, False),
    ],
)
def test_overflow_leads_only_to_a_context_known_to_be_larger(failed, candidate, larger):
    """Both sizes must be known; the registry's `context` outranks num_ctx."""
    assert larger_context(model(**failed), model(**candidate)) is larger


@pytest.mark.parametrize(
    ("more", "tokens"),
    [({}, None), ({"gpu_residency": {"vram_mb": 1}}, None), ({"gpu_residency": {"vram_mb": 1, "num_ctx": 7}}, 7)],
)
def test_the_context_is_what_the_registry_says(more, tokens):
    """An unsaid context is unknown, never a guess."""
    assert context_of(model(**more)) == tokens


@pytest.mark.parametrize(
    ("failure", "reason", "seconds"),
    [
        (Failure(0), "did not answer", None),
        (Failure(0, "Connection refused"), "did not answer: Connection refused", None),
        (Failure(429, "slow\n  down", 7.0), "answered 429: slow down", 7.0),
        (Failure(500, "x" * 400), "answered 500: " + "x" * MAX_TEXT + "…", None),
    ],
)
def test_a_failed_attempt_is_a_member_that_was_not_available(failure, reason, seconds):
    """The reason is what the upstream did and said, on one line and cut; its Retry-After is kept."""
    assert as_skip(model(), failure) == Skip("m", "model_unavailable", reason, seconds)
