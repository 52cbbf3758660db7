"""One OpenAI-compatible server: GET /v1/models, which vLLM, llama.cpp, LM Studio and others answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from litellm_registry_hook.core.start.found import OpenAiModel, OpenAiSeen
from litellm_registry_hook.edges.start.ask import Asking, NotThatError
from litellm_registry_hook.edges.start.ollama import whole


def read_openai(asking: Asking, key_env: str = "") -> OpenAiSeen:
    """Read a server.

    Args:
        asking: at its address without /v1. key_env: name of the variable that holds its key.

    Raises:
        NotThatError: it is no such server.
        SilentError: it does not answer, or not in time.

    """
    listed = asking.json("/v1/models")
    data = listed.get("data") if isinstance(listed, Mapping) else None
    if not isinstance(data, list) or not all(isinstance(one, Mapping) for one in data):
        raise NotThatError("/v1/models is no list of models")
    names = [one.get("id") for one in data]
    if not all(isinstance(name, str) and name.strip("/ ") for name in names):
        raise NotThatError("/v1/models has an entry without an id")
    models = {str(one["id"]): _model(one) for one in data}
    return OpenAiSeen(f"{asking.base}/v1", tuple(models.values()), key_env)


def _model(entry: Mapping[str, Any]) -> OpenAiModel:
    # vLLM: max_model_len. llama.cpp: meta, of the file (tools/server/server.cpp).
    meta = entry.get("meta")
    meta = meta if isinstance(meta, Mapping) else {}
    params = meta.get("n_params")
    known = isinstance(params, (int, float)) and not isinstance(params, bool) and 0 < params < 1e15  # noqa: PLR2004
    return OpenAiModel(
        name=str(entry["id"]).strip(),
        context=whole(entry.get("max_model_len")) or whole(meta.get("n_ctx")),
        width=whole(meta.get("n_embd")),
        params=float(params) if known and params is not None else 0.0,
        owner=str(entry.get("owned_by") or ""),
    )
