"""What a failed attempt means for the walk through a pool."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from litellm_registry_hook.core.refusal import Skip
from litellm_registry_hook.core.registry import Model

NEXT_STATUSES: Final = frozenset({401, 402, 404, 408, 409, 429})
QUOTA_WORDS: Final = re.compile(
    # `insufficient permissions` and `exceeded your authority` are no quotas.
    # Nor is Google's `quota project`; OpenRouter's moderation says `No credits were charged`.
    r"quota(?!.project)|usage.?limit|rate.?limit|insufficient.{0,10}(?:fund|balance|credit)|out of credit"
    r"|credit balance|\bkey limit exceeded|credits?\b(?! (?:were|was) charged)"
    r"|exceeded your.{0,30}(?:limit|plan|usage|allowance|budget)|billing",
    re.IGNORECASE,
)
# A used-up account that answers 400: Anthropic (invalid_request_error), OpenAI's images (billing_hard_limit_reached).
# Only their own phrases, for a 400 may quote the request.
SPENT_WORDS: Final = re.compile(
    r"credit balance is too low|billing.hard.limit|exceeded your current quota", re.IGNORECASE
)
# A 429 or 402 of one request's size: OpenAI and Groq (no `Used`), Anthropic's long context, OpenRouter's last credits.
SIZE_WORDS: Final = re.compile(
    r"request too large|extra usage is required for long context|more credits, or fewer max_tokens", re.IGNORECASE
)
MAX_TEXT: Final = 300


@dataclass(frozen=True, slots=True)
class Failure:
    """What the host says of one failed attempt.

    Attributes:
        status: HTTP status of the upstream or of the host's error; 0 where there was no answer at all.
        text: the upstream's words, secrets already masked by the host.
        retry_after_s: seconds from the upstream's Retry-After.
        context_overflow: the input does not fit this model's context.
        headers: of the answer, names in lower case.

    """

    status: int
    text: str = ""
    retry_after_s: float | None = None
    context_overflow: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)


def made_here(error: BaseException, status: int) -> bool:
    """Say whether an attempt failed in the host's own code, at `messages: null` say: it tells nothing of the upstream.

    Args:
        error: what the attempt raised. status: what the host says of it; 0: nothing.

    """
    stumbled = (TypeError, AttributeError, LookupError, ValueError, AssertionError, RecursionError)
    return not status and isinstance(error, stumbled) and not isinstance(error, OSError)  # a bad certificate is both


def try_next(failure: Failure) -> bool:
    """Say whether the next member may be tried.

    Refused connection, timeout, 401, 402, 404, 408, 409, 429, 5xx, a quota answer, context overflow: yes. Any other 4xx
    is the request's own fault and would only repeat.
    """
    if failure.context_overflow or failure.status in NEXT_STATUSES:
        return True
    if failure.status < 400 or failure.status >= 500:  # noqa: PLR2004
        return True
    if failure.status == 400:  # noqa: PLR2004
        return SPENT_WORDS.search(failure.text) is not None
    return failure.status == 403 and QUOTA_WORDS.search(failure.text) is not None  # noqa: PLR2004


def larger_context(failed: Model, candidate: Model) -> bool:
    """Say whether a candidate is known to take more context than the model that overflowed."""
    before, after = context_of(failed), context_of(candidate)
    return before is not None and after is not None and after > before


def context_of(model: Model) -> int | None:
    """Return the tokens of context a model is served with; None where the registry does not say."""
    if model.context is not None:
        return model.context
    return model.gpu_residency.num_ctx if model.gpu_residency is not None else None


def as_skip(model: Model, failure: Failure) -> Skip:
    """Turn a failed attempt into the reason shown to the client."""
    what = f"answered {failure.status}" if failure.status else "did not answer"
    text = " ".join(failure.text.split())
    if len(text) > MAX_TEXT:
        text = text[:MAX_TEXT] + "…"
    return Skip(model.id, "model_unavailable", f"{what}: {text}" if text else what, failure.retry_after_s)
