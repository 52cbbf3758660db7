"""Stand-in vectors: a hash-seeded direction for each word, summed and brought to length 1.

Equal texts are equal and texts that share words are nearer. They carry no meaning beyond that and cannot be compared
with the vectors of a real model.
"""

from __future__ import annotations

import math
import random
import re
from functools import lru_cache

WORD_RE = re.compile(r"\w+")


def words(text: str) -> list[str]:
    """Return the words of a text, lower-case, a plural s left out.

    >>> words("Two cats, one cat.")
    ['two', 'cat', 'one', 'cat']
    """
    found = WORD_RE.findall(text.lower())
    return [word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word for word in found]  # noqa: PLR2004


@lru_cache(maxsize=4096)
def _direction(word: str, dimensions: int) -> tuple[float, ...]:
    seeded = random.Random(f"{word}\0{dimensions}")  # noqa: S311
    return tuple(seeded.gauss(0.0, 1.0) for _ in range(dimensions))


def vector(text: str, dimensions: int) -> list[float]:
    """Return the unit vector of a text; a text without words has one of its own."""
    total = [0.0] * dimensions
    for word in words(text) or [f"\0{text}"]:
        for index, part in enumerate(_direction(word, dimensions)):
            total[index] += part
    length = math.sqrt(sum(part * part for part in total)) or 1.0
    return [part / length for part in total]


def overlap(query: str, text: str) -> float:
    """Score how well a text answers a query, 0 to 1: mostly the share of the query's words that it has."""
    asked, given = set(words(query)), set(words(text))
    if not asked or not given:
        return 0.0
    shared = len(asked & given)
    return 0.8 * shared / len(asked) + 0.2 * shared / len(asked | given)
