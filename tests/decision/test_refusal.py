"""Refusals as values and on the wire."""

from __future__ import annotations

import pytest

from litellm_registry_hook.core.refusal import (
    MAX_SKIPPED_BYTES,
    Refusal,
    Skip,
    all_refused,
    body_of,
    headers_of,
    refuse,
    skipped_header,
)

BUSY = Skip("local", "gpu_no_headroom", "no room", 12.0)
USED_UP = Skip("kimi", "quota_exhausted", "the week is used up", 3600.0)
USED_UP_UNTIMED = Skip("kimi", "quota_exhausted", "the week is used up")
PAID = Skip("paid", "metered_consent_missing", "costs money")
DEAD = Skip("mid", "model_unavailable", "answered 500")
DENIED = refuse("route_not_governed", "route POST /v1/threads is closed")


@pytest.mark.parametrize(
    ("skips", "lead"),
    [
        ((USED_UP, BUSY, PAID), BUSY),
        ((USED_UP, DEAD), USED_UP),
        ((PAID, USED_UP_UNTIMED, DEAD), DEAD),
        ((PAID, USED_UP_UNTIMED), USED_UP_UNTIMED),
        ((PAID,), PAID),
        ((DEAD, Skip("b", "gate_failed", "x")), DEAD),
        ((Skip("a", "model_unavailable", "x", 0.0), BUSY), Skip("a", "model_unavailable", "x", 0.0)),
    ],
    ids=["earliest time", "a time beats 503", "503", "then 429", "then 403", "first of equals", "now is a time"],
)
def test_the_answer_of_a_pool_is_that_of_its_leading_member(skips, lead):
    """The earliest known Retry-After leads, else 503 before 429 before 403; the first of equals."""
    refusal = all_refused("large", "large", skips)

    assert (refusal.code, refusal.retry_after_s, refusal.candidates) == (lead.code, lead.retry_after_s, skips)


def test_a_refused_pool_lists_every_member():
    """The message names the tier and each member with code and reason, in pool order."""
    assert all_refused("big", "large", (USED_UP, BUSY)) == Refusal(
        "gpu_no_headroom",
        "tier 'large' has no model for this request. kimi: quota_exhausted: the week is used up; "
        "local: gpu_no_headroom: no room",
        503,
        12.0,
        "large",
        (USED_UP, BUSY),
    )


def test_a_named_model_is_not_named_twice():
    """A refused model id reads `model 'kimi': reason`."""
    assert all_refused("kimi", None, (USED_UP,)).message == "model 'kimi': the week is used up"


OPENAI = {
    "error": {
        "message": "tier 'large': local: no room",
        "type": "service_unavailable_error",
        "param": None,
        "code": "gpu_no_headroom",
        "candidates": [{"model": "local", "code": "gpu_no_headroom", "reason": "no room"}],
    }
}
ANTHROPIC = {
    "type": "error",
    "error": {
        "message": "tier 'large': local: no room",
        "type": "overloaded_error",
        "code": "gpu_no_headroom",
        "candidates": [{"model": "local", "code": "gpu_no_headroom", "reason": "no room"}],
    },
}
GEMINI = {
    "error": {
        "message": "tier 'large': local: no room",
        "status": "UNAVAILABLE",
        "code": "gpu_no_headroom",
        "candidates": [{"model": "local", "code": "gpu_no_headroom", "reason": "no room"}],
    }
}


@pytest.mark.parametrize(("shape", "body"), [("openai", OPENAI), ("anthropic", ANTHROPIC), ("gemini", GEMINI)])
def test_the_body_has_the_shape_of_its_route(shape, body):
    """Each shape carries our code, the message and the members."""
    assert body_of(all_refused("large", "large", (BUSY,)), shape) == body


@pytest.mark.parametrize(
    ("code", "openai", "anthropic", "gemini"),
    [
        ("unknown_model", "invalid_request_error", "invalid_request_error", "INVALID_ARGUMENT"),
        ("unlisted_model", "permission_error", "permission_error", "PERMISSION_DENIED"),
        ("quota_exhausted", "rate_limit_error", "rate_limit_error", "RESOURCE_EXHAUSTED"),
        ("gpu_state_unknown", "service_unavailable_error", "overloaded_error", "UNAVAILABLE"),
    ],
)
def test_the_type_follows_the_status(code, openai, anthropic, gemini):
    """400, 403, 429 and 503 have the words that each provider's clients know; without members there is no list."""
    refusal = refuse(code, "no")
    param = "model" if refusal.status == 400 else None

    assert [body_of(refusal, shape) for shape in ("openai", "anthropic", "gemini")] == [
        {"error": {"message": "no", "type": openai, "param": param, "code": code}},
        {"type": "error", "error": {"message": "no", "type": anthropic, "code": code}},
        {"error": {"message": "no", "status": gemini, "code": code}},
    ]


@pytest.mark.parametrize(("seconds", "header"), [(0.0, "1"), (0.2, "1"), (7.0, "7"), (7.1, "8"), (3600.0, "3600")])
def test_retry_after_is_whole_seconds_and_at_least_one(seconds, header):
    """A time is rounded up: a client that waits so long does not come too early."""
    refusal = all_refused("m", None, (Skip("m", "gpu_no_headroom", "x", seconds),))

    assert headers_of(refusal) == {"x-should-retry": "false", "retry-after": header}


def test_without_a_known_time_there_is_no_retry_after():
    """A refusal that time does not mend only says that a client need not repeat it."""
    assert headers_of(DENIED) == {"x-should-retry": "false"}


def test_the_skipped_header_lists_members_in_order():
    """`id=code, id=code`."""
    assert skipped_header((USED_UP, PAID)) == "kimi=quota_exhausted, paid=metered_consent_missing"


def test_nothing_skipped_is_an_empty_header():
    """No member passed over, no text."""
    assert skipped_header(()) == ""


def test_a_long_skipped_header_is_cut_at_a_whole_entry():
    """At most 2 kB, and never half an entry."""
    many = [Skip(f"model-{n:03}", "model_unavailable", "x") for n in range(200)]
    whole = [f"{skip.model}={skip.code}" for skip in many]

    text = skipped_header(many)
    kept = text.split(", ")

    assert (kept, len(text) <= MAX_SKIPPED_BYTES, len(text) + len(whole[0]) + 2 > MAX_SKIPPED_BYTES) == (
        whole[: len(kept)],
        True,
        True,
    )


def test_a_skipped_header_of_just_two_kilobytes_is_whole():
    """The limit itself is allowed."""
    entry = Skip("a" * (MAX_SKIPPED_BYTES - len("=gate_failed")), "gate_failed", "x")

    assert len(skipped_header((entry,))) == MAX_SKIPPED_BYTES


@pytest.mark.parametrize("over", [1, 2])
def test_an_entry_that_ends_at_the_limit_is_kept(over):
    """What fits whole stays, also where the cut falls between two entries."""
    first = Skip("a" * (MAX_SKIPPED_BYTES - len("=gate_failed") + 1 - over), "gate_failed", "x")

    assert skipped_header((first, PAID)) == f"{first.model}=gate_failed"
