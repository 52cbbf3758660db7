"""Values as they may be shown: secrets never."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

MASK = "***"
_SECRET_KEY_RE = re.compile(
    r"key|token|secret|passw|credential|authorization|cookie|connection_string|dsn", re.IGNORECASE
)
_HEADERS_RE = re.compile(r"headers?$", re.IGNORECASE)
_COUNT_RE = re.compile(r"tokens?$|^(?:input|output|cache)_.*_(?:cost|token)|cost_per", re.IGNORECASE)
_ENV_RE = re.compile(r"^os\.environ/[A-Za-z_][A-Za-z0-9_]*$")
_USERINFO_RE = re.compile(r"(?<=://)[^/?#\s\"'@]+@")
_QUERY_RE = re.compile(
    r"(?i)([?&][a-z0-9_.-]*(?:key|token|secret|passw|sig)[a-z0-9_.-]*=)[^&#\s\"']+",
)
_BEARER_RE = re.compile(r"\b(?:sk|pk|rk|xai|gsk|hf|ghp)[-_][A-Za-z0-9_-]{6,}|(?i:\bbearer\s+)[A-Za-z0-9._~+/=-]{6,}")
_ASSIGNED_RE = re.compile(
    r"(?i)(\b[a-z0-9_.-]*(?:key|token|secret|password|passwd)[\"']?\s*[:=]\s*[\"']?)(?!os\.environ/)([^\s\"',}\]]{3,})"
)


def is_secret_path(path: tuple[str, ...]) -> bool:
    """Say whether what stands at a path of keys is a secret: a key's name says so, or it is a header."""
    return any(_SECRET_KEY_RE.search(key) or _HEADERS_RE.search(key) for key in path)


def shown(value: Any, path: tuple[str, ...] = ()) -> Any:
    """Return a value with every secret in it masked; names of environment variables stay."""
    if isinstance(value, Mapping):
        return {key: shown(item, (*path, str(key))) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [shown(item, path) for item in value]
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        if _ENV_RE.match(value):
            return value
        return MASK if is_secret_path(path) else shown_text(value)
    return MASK if is_secret_path(path) and not (path and _COUNT_RE.search(path[-1])) else value


def shown_text(text: str) -> str:
    """Return free text without the user part of URLs and without what looks like a key."""
    return _BEARER_RE.sub(MASK, _QUERY_RE.sub(rf"\1{MASK}", _USERINFO_RE.sub(f"{MASK}@", text)))


def shown_comment(text: str) -> str:
    """Return a comment of a config with values assigned to secret names masked too (`# api_key: abc`)."""
    return _ASSIGNED_RE.sub(rf"\1{MASK}", shown_text(text))
