"""What an upstream's served answer says beside its content."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def limits_of(answer: Any) -> Mapping[str, str] | None:
    """Return the rate-limit headers of an answer or a stream, names in lower case; None where it has none.

    LiteLLM keeps an upstream's headers as `_hidden_params["additional_headers"]`, each with `llm_provider-` before its
    name, some also without (core_helpers.py `process_response_headers`).
    """
    # A pydantic answer looks its private attributes up by raising and catching; this way it does not.
    private = getattr(answer, "__pydantic_private__", None)
    hidden = private.get("_hidden_params") if private else getattr(answer, "_hidden_params", None)
    headers = hidden.get("additional_headers") if isinstance(hidden, dict) else None
    if not headers:
        return None
    return {name.lower(): str(value) for name, value in headers.items() if "ratelimit" in name.lower()} or None
