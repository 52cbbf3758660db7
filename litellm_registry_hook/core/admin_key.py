"""What an admin key of the proxy must be like."""

from __future__ import annotations

MIN_LENGTH = 20
MIN_DISTINCT = 8


def weakness(key: str) -> str:
    """Return why an admin key must not be used; empty where it is good.

    LiteLLM wants the `sk-`. Length and variety are ours: `sk-1234` of every tutorial is the first that is tried.
    """
    if not key.startswith("sk-"):
        return "it does not start with sk-"
    if len(key) < MIN_LENGTH:
        return f"it has {len(key)} characters, fewer than {MIN_LENGTH}"
    if len(set(key.removeprefix("sk-"))) < MIN_DISTINCT:
        return f"it has fewer than {MIN_DISTINCT} different characters"
    return ""
