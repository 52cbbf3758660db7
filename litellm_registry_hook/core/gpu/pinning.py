"""keep_alive and runner options of a model, as the registry says: the same at the deployment and in our own loads.

Ollama reloads a model whose runner options differ from those it was loaded with, so there is one source for both.
"""

from __future__ import annotations

import copy
import re
from typing import Any, Final

from litellm_registry_hook.core.registry import DEFAULT_CHAT_NUM_CTX, DEFAULT_NUM_BATCH, Model

DEFAULT_KEEP_ALIVE: Final = "5m"
FOREVER: Final = -1
# A load is asked for by requests that come after it: it must not leave before they are there.
SHORTEST_LOAD_S: Final = 60.0
GENERATING_MODES: Final = frozenset({"chat", "completion", "responses"})
# api.Runner of Ollama: a difference in one of these reloads the model; sampling options do not.
RUNNER_OPTIONS: Final = (
    "num_ctx",
    "num_batch",
    "num_gpu",
    "main_gpu",
    "use_mmap",
    "use_mlock",
    "num_thread",
    "low_vram",
    "f16_kv",
    "vocab_only",
)
_UNITS_S: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]+)?(?:ns|us|µs|μs|ms|s|m|h))+")
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ns|us|µs|μs|ms|s|m|h)")


def keep_alive_of(model: Model) -> str | int:
    """Return keep_alive as Ollama takes it: a Go duration, or -1 for ever.

    A never-evict model is always -1. Ollama refuses a bare number in text ("300"), so seconds get their unit.
    """
    residency = model.gpu_residency
    if residency is not None and residency.never_evict:
        return FOREVER
    value = residency.keep_alive if residency is not None else None
    if value is None:
        return DEFAULT_KEEP_ALIVE
    if isinstance(value, int):
        return FOREVER if value < 0 else f"{value}s"
    if value.startswith("-"):
        return FOREVER
    return "0s" if value == "0" else value


def keep_seconds_of(model: Model) -> float | None:
    """Return how many seconds after its last use a model stays loaded; None: for ever."""
    value = keep_alive_of(model)
    return None if isinstance(value, int) else go_seconds(value)


def load_keep_alive_of(model: Model) -> str | int:
    """Return the keep_alive of a load without a request: as keep_alive_of, and at least a minute.

    With 0 Ollama would unload at once what it was asked to load; the request that follows brings the registry's own.
    """
    seconds = keep_seconds_of(model)
    if seconds is not None and seconds < SHORTEST_LOAD_S:
        return f"{SHORTEST_LOAD_S:g}s"
    return keep_alive_of(model)


def options_of(model: Model) -> dict[str, Any]:
    """Return the runner options of a model; a fresh dict in the order they are written in.

    num_ctx: of gpu_residency, else of litellm, else 4096 for models that generate; an embedding model keeps the
    server's choice. num_batch: 512 if unset. Then runner options that stand in `litellm`; what gpu_residency.options
    says wins.
    A model without gpu_residency has only those of `litellm`.
    """
    residency = model.gpu_residency
    given: dict[str, Any] = {name: model.litellm[name] for name in RUNNER_OPTIONS if name in model.litellm}
    if residency is None:
        return copy.deepcopy(given)
    found: dict[str, Any] = {}
    if residency.num_ctx is not None:
        found["num_ctx"] = residency.num_ctx
    elif model.effective_mode in GENERATING_MODES:
        found["num_ctx"] = given.get("num_ctx", DEFAULT_CHAT_NUM_CTX)
    found["num_batch"] = given.get("num_batch", DEFAULT_NUM_BATCH)
    return copy.deepcopy({**found, **{name: given[name] for name in given if name not in found}, **residency.options})


def go_seconds(duration: str) -> float:
    """Return the seconds of a Go duration.

    >>> go_seconds("1h30m"), go_seconds("1.5s"), go_seconds("0s")
    (5400.0, 1.5, 0.0)

    Raises:
        ValueError: not a duration.

    """
    if _DURATION.fullmatch(duration) is None:
        raise ValueError(f"{duration!r} is no duration like 5m or 1h30m")
    seconds = sum(float(number) * _UNITS_S[unit] for number, unit in _PART.findall(duration))
    return -seconds if duration.startswith("-") else seconds
