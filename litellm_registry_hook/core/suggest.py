"""The nearest known name, for the hint of a misspelled one."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from heapq import nsmallest

from litellm_registry_hook.core.findings import redact

_SLIP = 4
_COMPARED = 50
_LISTED = 12


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known name that `word` most likely meant, or None."""
    folded = word.lower().replace("-", "_")
    # Comparing is slow, and a file may hold thousands of names: a slip keeps the length nearly, and an end.
    ends = (folded[:1], folded[-1:])
    close = {
        name.lower().replace("-", "_"): name
        for name in known
        if abs(len(name) - len(word)) <= _SLIP and (name[:1].lower() == ends[0] or name[-1:].lower() == ends[1])
    }
    if folded in close:
        return close[folded]
    found = get_close_matches(folded, sorted(close)[:_COMPARED], n=1, cutoff=0.7)
    return close[found[0]] if found else None


def did_you_mean(word: str, known: Iterable[str], *, what: str) -> str:
    """Write a hint: the nearest name, else the names there are."""
    names = known if isinstance(known, (set, frozenset, dict)) else set(known)
    close = nearest(word, names)
    if close is not None:
        return f"did you mean `{redact(close)}`?"
    if not names:
        return f"there are no {what}"
    listed = ", ".join(redact(name) for name in nsmallest(_LISTED, names))
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"{what}: {listed}{more}"
