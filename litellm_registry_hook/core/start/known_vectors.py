"""What the names of embedding models tell, for servers that do not: that they are some, and how long their vectors are.

The lengths are from the models' cards on the Hugging Face hub; what is not here is asked for.
"""

from __future__ import annotations

import re
from typing import Final

_KNOWN: Final = (
    (r"bge-m3", 1024),
    (r"bge-small", 384),
    (r"bge-base", 768),
    (r"bge-large", 1024),
    (r"(gte|e5)-small|multilingual-e5-small", 384),
    (r"(gte|e5)-base|multilingual-e5-base", 768),
    (r"(gte|e5)-large|multilingual-e5-large", 1024),
    (r"all-minilm-l(6|12)|paraphrase-multilingual-minilm", 384),
    (r"all-mpnet-base|nomic-embed-text|jina-embeddings-v2-base|embeddinggemma", 768),
    (r"jina-embeddings-v3|mxbai-embed-large|snowflake-arctic-embed-l|qwen3-embedding-0\.6b", 1024),
    (r"text-embedding-3-small|text-embedding-ada-002", 1536),
    (r"text-embedding-3-large", 3072),
)


_EMBEDS: Final = re.compile(
    r"embed|minilm|mpnet|multilingual-e5|(?:^|[/:_.-])(?:bge|gte|e5|mxbai|nomic-bert|voyage)[-:_.0-9]"
)


def sounds_embedding(name: str) -> bool:
    """Say whether a model makes vectors, by its name alone.

    >>> sounds_embedding("BAAI/bge-m3"), sounds_embedding("qwen3:4b")
    (True, False)
    """
    return _EMBEDS.search(name.lower()) is not None


def known_length(name: str) -> int | None:
    """Return the length of a model's vectors; None where it is not known.

    >>> known_length("BAAI/bge-small-en-v1.5"), known_length("acme/own")
    (384, None)
    """
    low = name.lower()
    return next((length for pattern, length in _KNOWN if re.search(rf"(^|[/_.-])(?:{pattern})", low)), None)
