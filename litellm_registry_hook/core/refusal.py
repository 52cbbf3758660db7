"""A "no" as a value: which model, which rule, how to mend it, and how it looks on the wire.

Codes and statuses are fixed words that clients' scripts use; docs/refusals.md explains each.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

Shape = Literal["openai", "anthropic", "gemini"]

STATUS: Final[dict[str, int]] = {
    "metered_consent_missing": 403,
    "metered_key_not_opted_in": 403,
    "metered_cap_reached": 403,
    "unlisted_model": 403,
    "route_not_governed": 403,
    "model_not_allowed_for_key": 403,
    "quota_exhausted": 429,
    "gpu_no_headroom": 503,
    "gpu_state_unknown": 503,
    "model_unavailable": 503,
    "gate_failed": 503,
    "unknown_model": 400,
    "bad_consent": 400,
    "bad_wait": 400,
    "bad_fallbacks": 400,
    "bad_model_list": 400,
    "bad_batch_file": 400,
    "batch_file_unchecked": 403,
}
"""HTTP status by refusal code."""

MAX_SKIPPED_BYTES: Final = 2048
_ANTHROPIC_TYPE: Final = {400: "invalid_request_error", 403: "permission_error", 429: "rate_limit_error"}
_OPENAI_TYPE: Final = {400: "invalid_request_error", 403: "permission_error", 429: "rate_limit_error"}
_GEMINI_STATUS: Final = {400: "INVALID_ARGUMENT", 403: "PERMISSION_DENIED", 429: "RESOURCE_EXHAUSTED"}


@dataclass(frozen=True, slots=True)
class Skip:
    """A pool member passed over, and why.

    Attributes:
        model: registry id.
        code: one of STATUS.
        reason: one sentence for people: the rule and the fix.
        retry_after_s: seconds after which it may work, where known.

    """

    model: str
    code: str
    reason: str
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request that is not served.

    Attributes:
        code: one of STATUS.
        message: names model, rule and fix.
        status: HTTP status.
        retry_after_s: seconds, where a time is known.
        tier: the tier asked for; None for a named model.
        candidates: every member passed over, in pool order.
        waited: whether the client asked to wait for capacity.

    """

    code: str
    message: str
    status: int
    retry_after_s: float | None = None
    tier: str | None = None
    candidates: tuple[Skip, ...] = ()
    waited: bool = False


def refuse(code: str, message: str, *, tier: str | None = None, candidates: Iterable[Skip] = ()) -> Refusal:
    """Build a refusal with the status of its code."""
    return Refusal(code, message, STATUS[code], None, tier, tuple(candidates))


def all_refused(asked: str, tier: str | None, skips: Sequence[Skip]) -> Refusal:
    """Say no for a whole pool.

    The answer is that of the member with the earliest known Retry-After; without one, 503 before 429 before 403.
    """
    timed = [skip for skip in skips if skip.retry_after_s is not None]
    if timed:
        lead = min(timed, key=lambda skip: skip.retry_after_s or 0.0)
    else:
        by_status = {503: 0, 429: 1, 403: 2, 400: 3}
        lead = min(skips, key=lambda skip: by_status[STATUS[skip.code]])
    if len(skips) == 1:
        who = "" if skips[0].model == asked else f"{skips[0].model}: "
        message = f"{_subject(asked, tier)}: {who}{skips[0].reason}"
    else:
        listed = "; ".join(f"{skip.model}: {skip.code}: {skip.reason}" for skip in skips)
        message = f"{_subject(asked, tier)} has no model for this request. {listed}"
    return Refusal(lead.code, message, STATUS[lead.code], lead.retry_after_s, tier, tuple(skips))


def _subject(asked: str, tier: str | None) -> str:
    return f"model {asked!r}" if tier is None else f"tier {tier!r}"


def body_of(refusal: Refusal, shape: Shape) -> dict[str, Any]:
    """Render the error body in the shape of the route; `error.code` is ours in each."""
    error: dict[str, Any] = {"message": refusal.message}
    if shape == "anthropic":
        error["type"] = _ANTHROPIC_TYPE.get(refusal.status, "overloaded_error")
    elif shape == "gemini":
        error["status"] = _GEMINI_STATUS.get(refusal.status, "UNAVAILABLE")
    else:
        error["type"] = _OPENAI_TYPE.get(refusal.status, "service_unavailable_error")
        error["param"] = "model" if refusal.status == 400 else None  # noqa: PLR2004
    error["code"] = refusal.code
    if refusal.candidates:
        error["candidates"] = [
            {"model": skip.model, "code": skip.code, "reason": skip.reason} for skip in refusal.candidates
        ]
    return {"type": "error", "error": error} if shape == "anthropic" else {"error": error}


def headers_of(refusal: Refusal) -> dict[str, str]:
    """Return the headers a refusal adds: Retry-After in whole seconds, and that a client need not repeat it.

    The OpenAI SDK repeats a 429 and a 503 on its own unless `x-should-retry: false` is there. A client that asked to
    wait for capacity may repeat: it wants the answer late rather than not at all.
    """
    headers = {} if refusal.waited else {"x-should-retry": "false"}
    if refusal.retry_after_s is not None:
        headers["retry-after"] = str(max(1, math.ceil(refusal.retry_after_s)))
    return headers


def skipped_header(skips: Sequence[Skip]) -> str:
    """Return `id=code, id=code` in pool order, cut at a whole entry to 2 kB."""
    text = ", ".join(f"{skip.model}={skip.code}" for skip in skips)
    return text if len(text) <= MAX_SKIPPED_BYTES else text[: MAX_SKIPPED_BYTES + 2].rpartition(", ")[0]
