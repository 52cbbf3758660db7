"""One text-embeddings-inference server: GET /info tells its model and what that does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from litellm_registry_hook.core.start.found import TeiKind, TeiSeen
from litellm_registry_hook.edges.start.ask import Asking, NotThatError
from litellm_registry_hook.edges.start.ollama import whole

# router/src/lib.rs of text-embeddings-inference: model_type is a map with one of these keys; older ones wrote a word.
_KINDS: Final[Mapping[str, TeiKind]] = {
    "embedding": "embedder",
    "reranker": "reranker",
    "classifier": "classifier",
}


def read_tei(asking: Asking) -> TeiSeen:
    """Read a server.

    Raises:
        NotThatError: it is no TEI.
        SilentError: it does not answer, or not in time.

    """
    info = asking.json("/info")
    name = info.get("model_id") if isinstance(info, Mapping) else None
    if not isinstance(info, Mapping) or not isinstance(name, str) or not name.strip() or "model_type" not in info:
        raise NotThatError("/info is not TEI's")
    return TeiSeen(asking.base, name.strip(), _kind(info["model_type"]), whole(info.get("max_input_length")))


def _kind(value: Any) -> TeiKind:
    words = [value] if isinstance(value, str) else list(value) if isinstance(value, Mapping) else []
    return next((_KINDS[str(word).lower()] for word in words if str(word).lower() in _KINDS), "unknown")
