"""The nearest known name, for the hint of a misspelled one."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from litellm_registry_hook.core.findings import redact


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known name that `word` most likely meant, or None."""
    names = sorted(known)
    by_lower = {name.lower().replace("-", "_"): name for name in names}
    folded = word.lower().replace("-", "_")
    if folded in by_lower:
        return by_lower[folded]
    found = get_close_matches(folded, list(by_lower), n=1, cutoff=0.7)
    return by_lower[found[0]] if found else None


def did_you_mean(word: str, known: Iterable[str], *, what: str) -> str:
    """Write a hint: the nearest name, else the names there are."""
    names = sorted(known)
    close = nearest(word, names)
    if close is not None:
        return f"did you mean `{redact(close)}`?"
    if not names:
        return f"there are no {what}"
    listed = ", ".join(redact(name) for name in names[:12])
    more = f" and {len(names) - 12} more" if len(names) > 12 else ""  # noqa: PLR2004
    return f"{what}: {listed}{more}"
