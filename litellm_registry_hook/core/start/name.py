"""Ids for what other servers call their models."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from typing import Final

LONGEST: Final = 128
# Names of tiers and aliases of a proposal: a model may not have them.
TIERS: Final = frozenset({"large", "small", "embed", "rerank", "paid", "embedder"})
_ILLEGAL: Final = re.compile(r"[^A-Za-z0-9._:/@-]+")
_DEPLOYMENT: Final = re.compile(r"@(?=[0-9]+$)")
_BILLION: Final = re.compile(r"(?:(\d+)x)?(\d+(?:\.\d+)?)([bm])(?![a-z0-9])", re.IGNORECASE)


def legal(name: str) -> str:
    """Return a name as an id: what is illegal is a dash, and it does not look like the deployment of another (`x@1`).

    >>> legal("gemma3:4b"), legal("my model"), legal("a@1"), legal("/models/x.gguf")
    ('gemma3:4b', 'my-model', 'a-1', 'models/x.gguf')
    """
    text = _DEPLOYMENT.sub("-", _ILLEGAL.sub("-", name).lstrip("._:/@-"))[:LONGEST]
    return text or "model"


def unused(name: str, taken: Container[str], hints: Iterable[str] = ()) -> str:
    """Return an id that is not taken: the name, the name with a hint behind it, else with a number."""
    plain = legal(name)
    if plain not in taken:
        return plain
    for hint in hints:
        if (tried := _ended(plain, f"-{legal(hint)}")) not in taken:
            return tried
    number = 2
    while (tried := _ended(plain, f"-{number}")) in taken:
        number += 1
    return tried


def _ended(name: str, end: str) -> str:
    tail = end[: LONGEST // 2]
    # Once more: an end of digits behind an @ would be a deployment's name.
    return _DEPLOYMENT.sub("-", name[: LONGEST - len(tail)] + tail)


def params_in(name: str) -> float:
    """Return the number of parameters that a name tells; 0 where it tells none.

    >>> params_in("qwen3:4b"), params_in("mixtral-8x7b-instruct"), params_in("gemma3:270m"), params_in("gpt-5")
    (4000000000.0, 56000000000.0, 270000000.0, 0.0)
    """
    found = _BILLION.search(name)
    if found is None:
        return 0.0
    return float(found[1] or 1) * float(found[2]) * (1e9 if found[3].lower() == "b" else 1e6)
