"""One Ollama server: /api/version, /api/tags, /api/ps and /api/show, which load nothing."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from litellm_registry_hook.core.gpu.facts import ModelFile
from litellm_registry_hook.core.gpu.names import full_name, short_name
from litellm_registry_hook.core.start.found import OllamaModel, OllamaSeen
from litellm_registry_hook.core.start.known_vectors import sounds_embedding
from litellm_registry_hook.core.start.name import params_in
from litellm_registry_hook.edges.gpu.ollama_parse import (
    NotOllamaError,
    files_of,
    loaded_of,
    shape_of,
    spellings_of,
    version_of,
)
from litellm_registry_hook.edges.start.ask import Asking, NotThatError

_NUM_CTX: Final = re.compile(r"^num_ctx\s+([1-9][0-9]{0,8})\s*$", re.MULTILINE)


def read_ollama(asking: Asking, step: Callable[[str], None]) -> OllamaSeen:
    """Read a server.

    Args:
        asking: at its address. step: told what is looked at.

    Raises:
        NotThatError: it is no Ollama.
        SilentError: it does not answer, or not in time.

    """
    version = asking.json("/api/version")
    if not isinstance(version, Mapping) or not isinstance(version.get("version"), str):
        raise NotThatError("/api/version is not Ollama's")
    tags = asking.json("/api/tags")
    try:
        files, spelled = files_of(tags), spellings_of(tags)
        loaded = loaded_of(asking.json("/api/ps"), time.time())
    except NotOllamaError as error:
        raise NotThatError(f"its answers are not Ollama's: {error}") from error
    entries = {full_name(str(entry.get("name") or entry.get("model"))): entry for entry in tags["models"] or ()}
    models = []
    for name, file in files.items():
        step(f"{short_name(name)} at {asking.base}")
        shown = None if file.remote else asking.maybe("/api/show", {"model": spelled[name]})
        models.append(_model(spelled[name].strip(), file, entries.get(name, {}), shown))
    return OllamaSeen(asking.base, version_of(version), tuple(models), loaded)


def _model(name: str, file: ModelFile, tag: Mapping[str, Any], shown: Any) -> OllamaModel:
    told = shown if isinstance(shown, Mapping) else {}
    shape = shape_of(told)
    remote = file.remote or bool(told.get("remote_host") or told.get("remote_model"))
    listed = told.get("capabilities") or tag.get("capabilities")
    abilities = tuple(one for one in listed if isinstance(one, str)) if isinstance(listed, list) else ()
    embedding = "embedding" in abilities if abilities else _embeds(told, name)
    info = told.get("model_info")
    info = info if isinstance(info, Mapping) else {}
    width = info.get(f"{info.get('general.architecture')}.embedding_length")
    details = told.get("details") or tag.get("details")
    details = details if isinstance(details, Mapping) else {}
    return OllamaModel(
        name=name,
        file=replace(file, shape=shape, remote=remote),
        abilities=abilities,
        embedding=embedding,
        width=whole(width) if embedding else None,
        params=_params(info.get("general.parameter_count")) or params_in(str(details.get("parameter_size") or "")),
        num_ctx=_num_ctx(told.get("parameters")),
    )


def _embeds(told: Mapping[str, Any], name: str) -> bool:
    """Say whether an old server's model makes vectors: it has no list of abilities, but pooling."""
    info = told.get("model_info")
    pooling = isinstance(info, Mapping) and f"{info.get('general.architecture')}.pooling_type" in info
    return pooling or (not told and sounds_embedding(name))


def _params(value: Any) -> float:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if number and math.isfinite(value) and 0 < value < 1e15 else 0.0  # noqa: PLR2004


def _num_ctx(text: Any) -> int | None:
    found = _NUM_CTX.search(text) if isinstance(text, str) else None
    return int(found[1]) if found else None


def whole(value: Any) -> int | None:
    """Return a positive whole number below a milliard; None for anything else."""
    if isinstance(value, float) and math.isfinite(value) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**9 else None
