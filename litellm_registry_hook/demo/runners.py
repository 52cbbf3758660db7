"""What an Ollama stand-in holds in memory, and for how long.

`Scheduler` is all that the HTTP side knows. `Runners` loads anything at once and never runs out of memory; a scheduler
that counts VRAM and evicts as Ollama does can take its place.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from litellm_registry_hook.demo.keep_alive import DEFAULT_S
from litellm_registry_hook.demo.ollama_names import key

Kind = Literal["chat", "embedding"]


@dataclass(frozen=True, slots=True)
class OllamaModel:
    """A model that an Ollama stand-in has on disk.

    Attributes:
        name: as the registry writes it, without the provider.
        kind: what it can do.
        file_bytes: size of its weights on disk.
        vram_bytes: what it takes on the GPU once loaded.
        dimensions: length of its vectors; 0 for a chat model.
        num_ctx: tokens of context where the request asks for none.

    """

    name: str
    kind: Kind
    file_bytes: int
    vram_bytes: int
    dimensions: int = 0
    num_ctx: int = 4096


@dataclass(slots=True)
class Runner:
    """A loaded model.

    Attributes:
        model: what is loaded.
        num_ctx: tokens of context it was loaded with.
        keep_s: seconds it stays after its last request.
        idle_since: moment (clock's seconds) its last request ended.
        in_flight: requests it is serving.

    """

    model: OllamaModel
    num_ctx: int
    keep_s: float
    idle_since: float
    in_flight: int = 0

    def expires_at(self, now: float) -> float:
        """Return the moment it leaves; while it serves, its time has not begun to run."""
        return (now if self.in_flight else self.idle_since) + self.keep_s


class Scheduler(Protocol):
    """Decides what is in memory."""

    def use(
        self, model: OllamaModel, keep_s: float | None, options: Mapping[str, Any]
    ) -> contextlib.AbstractAsyncContextManager[Runner]:
        """Load a model if need be and hold it for one request; keep_s None leaves the duration it has."""

    def expire(self, model: OllamaModel) -> None:
        """Unload a model, after its requests if it has any."""

    def loaded(self) -> list[Runner]:
        """Return what is in memory, the longest remaining first."""


class Runners:
    """A scheduler without a memory limit."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._by_key: dict[str, Runner] = {}

    @contextlib.asynccontextmanager
    async def use(self, model: OllamaModel, keep_s: float | None, options: Mapping[str, Any]) -> AsyncIterator[Runner]:
        """Load a model if need be and hold it for one request."""
        self._sweep()
        num_ctx = int(options.get("num_ctx") or model.num_ctx)
        runner = self._by_key.get(key(model.name))
        if runner is None or (runner.num_ctx != num_ctx and not runner.in_flight):
            # Other runner options reload the model; the duration it had is kept.
            had = runner.keep_s if runner is not None else DEFAULT_S
            runner = self._by_key[key(model.name)] = Runner(model, num_ctx, had, self._clock())
        if keep_s is not None:
            runner.keep_s = keep_s
        runner.in_flight += 1
        try:
            yield runner
        finally:
            runner.in_flight -= 1
            runner.idle_since = self._clock()
            self._sweep()

    def expire(self, model: OllamaModel) -> None:
        """Unload a model, after its requests if it has any."""
        runner = self._by_key.get(key(model.name))
        if runner is not None:
            runner.keep_s = 0.0
            self._sweep()

    def loaded(self) -> list[Runner]:
        """Return what is in memory, the longest remaining first."""
        self._sweep()
        now = self._clock()
        return sorted(self._by_key.values(), key=lambda runner: -runner.expires_at(now))

    def _sweep(self) -> None:
        now = self._clock()
        for name, runner in list(self._by_key.items()):
            if not runner.in_flight and runner.expires_at(now) <= now:
                del self._by_key[name]
