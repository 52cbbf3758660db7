"""Cards, models on disk, runners, requests, and what happened. Sizes in MB, moments in seconds since 1970."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ollama_sim.rules import kv_mb

State = Literal["queued", "loading", "running", "done", "failed", "cancelled"]


class VirtualClock:
    """A clock that moves when told, and only forward."""

    def __init__(self, at: float = 1_790_000_000.0) -> None:
        self.at = at

    def __call__(self) -> float:
        return self.at

    def move(self, to: float) -> None:
        """Go to a moment."""
        self.at = max(self.at, to)


class Card:
    """A GPU: who holds how much of it. Several schedulers may share one.

    Attributes:
        total_mb: of the device. name, uuid: as NVML prints them.
        uses: MB by holder.
        watchers: called after each change.

    """

    def __init__(self, total_mb: float, name: str = "NVIDIA Stand-in", uuid: str = "GPU-stub-0") -> None:
        self.total_mb = total_mb
        self.name = name
        self.uuid = uuid
        self.uses: dict[Any, float] = {}
        self.watchers: list[Callable[[], None]] = []

    @property
    def used_mb(self) -> float:
        """All that is held, never more than the card has."""
        return min(self.total_mb, sum(self.uses.values()))

    @property
    def free_mb(self) -> float:
        """What the driver reports as free."""
        return self.total_mb - self.used_mb

    def hold(self, holder: Any, mb: float) -> None:
        """Set what a holder has; 0 gives it all back."""
        if mb > 0:
            self.uses[holder] = mb
        else:
            self.uses.pop(holder, None)
        for watcher in self.watchers:
            watcher()


@dataclass(frozen=True)
class SimModel:
    """A model on disk.

    Attributes:
        name: as it was pulled; a missing tag is `latest`.
        file_mb: size of the file.
        vram_mb: what it truly takes, at num_ctx `vram_ctx` and OLLAMA_NUM_PARALLEL 1.
        layers, heads, kv_heads, width: its shape, from which the server predicts its size.
        embedding: whether it is an embedding model. dimensions: length of its vectors.
        blob: digest of the weights; two models of one blob share a runner. Empty: one of its own.
        train_ctx: tokens it was trained with.
        family: the architecture that /api/show names.
        params: options of its Modelfile.
        growth: how much of the predicted KV beyond vram_ctx is really taken.
        shown_mb: the size /api/ps claims; None: the true one.
        load_s, recovery_s: duration of a load, and from an unload until the memory is back; None: as in Settings.

    """

    name: str
    file_mb: float
    vram_mb: float
    layers: int = 16
    heads: int = 8
    kv_heads: int = 2
    width: int = 1024
    embedding: bool = False
    dimensions: int = 64
    blob: str = ""
    train_ctx: int = 32768
    family: str = "llama"
    params: Mapping[str, Any] = field(default_factory=dict)
    vram_ctx: int = 4096
    growth: float = 1.0
    shown_mb: float | None = None
    load_s: float | None = None
    recovery_s: float | None = None

    @property
    def blob_digest(self) -> str:
        """`sha256-` and 64 hex digits."""
        return self.blob or f"sha256-{hashlib.sha256(self.name.encode()).hexdigest()}"

    def kv(self, tokens: int) -> float:
        """Return the predicted KV size."""
        return kv_mb(self.layers, self.heads, self.kv_heads, self.width, tokens)

    def true_mb(self, tokens: int) -> float:
        """Return what it takes with that many tokens of context over all parallel requests."""
        return max(1.0, self.vram_mb + self.growth * (self.kv(tokens) - self.kv(self.vram_ctx)))


@dataclass(frozen=True)
class Settings:
    """The server's environment, and the durations.

    Attributes:
        max_loaded: OLLAMA_MAX_LOADED_MODELS; 0: 3 x GPUs. max_queue: OLLAMA_MAX_QUEUE.
        parallel: OLLAMA_NUM_PARALLEL. keep_alive_s: OLLAMA_KEEP_ALIVE.
        auto_num_batch: num_batch of a chat model whose request names none; 0: chosen as the server does. A fixed 2048
            lets a caller that does not send num_batch feel what it leaves to chance.
        load_s: duration of a load. recovery_s: from an unload until the memory is back (S9).
        spawn_s, exit_s: how long /api/ps stalls at the start of a load and of an unload (S8).

    """

    max_loaded: int = 0
    max_queue: int = 512
    parallel: int = 1
    keep_alive_s: float = 300.0
    auto_num_batch: int = 0
    load_s: float = 2.0
    recovery_s: float = 0.5
    spawn_s: float = 0.1
    exit_s: float = 0.1


@dataclass(frozen=True)
class Wanted:
    """The runner options of a request, with what fills the gaps.

    Attributes:
        num_ctx, num_batch: tokens. auto_ctx, auto_batch: whether the request named none.
        num_gpu: layers on the GPU; -1: all, or as many as fit.
        rest: other options that a runner is started with.

    """

    num_ctx: int
    auto_ctx: bool
    num_batch: int
    auto_batch: bool
    num_gpu: int = -1
    rest: tuple[tuple[str, Any], ...] = ()


@dataclass(eq=False)
class Runner:
    """A model in memory, or on its way there.

    Attributes:
        model: the entry that it was loaded by. wanted: its options.
        shares: MB on each card by index, when it is all there. cpu_mb: the rest.
        session_s: keep_alive; 0: leaves when idle. expires_at: set when it gets idle, old while it is used.
        refs: requests on it. doomed: it leaves when idle, whatever keep_alive says by then.
        why, by: what makes it leave, and for which model.

    """

    model: SimModel
    wanted: Wanted
    shares: dict[int, float]
    cpu_mb: float
    session_s: float = 0.0
    expires_at: float | None = None
    refs: int = 0
    loading: bool = True
    doomed: bool = False
    why: str = ""
    by: str = ""
    timer: int = 0
    tickets: set[Ticket] = field(default_factory=set)

    @property
    def vram_mb(self) -> float:
        """Its part on GPUs."""
        return sum(self.shares.values())

    @property
    def size_mb(self) -> float:
        """All it takes."""
        return self.vram_mb + self.cpu_mb


@dataclass(eq=False)
class Ticket:
    """One request.

    Attributes:
        name: as asked for. model: what that is; None: unknown. keep_s: its keep_alive, None where it sent none.
        state: queued, loading (its load runs), running, done, failed or cancelled.
        status, error: HTTP status and message of a failure; status 0: the connection broke.
        began_at, running_at, ended_at: moments.
        changed: called on each change of state, from inside the scheduler: only set a flag there.

    """

    name: str
    model: SimModel | None
    keep_s: float | None
    wanted: Wanted | None
    began_at: float
    state: State = "queued"
    status: int = 200
    error: str = ""
    running_at: float | None = None
    ended_at: float | None = None
    runner: Runner | None = None
    retried: bool = False
    changed: Callable[[], None] | None = None

    def to(self, state: State) -> None:
        """Change the state."""
        self.state = state
        if self.changed is not None:
            self.changed()


@dataclass(frozen=True)
class Event:
    """Something that happened.

    Attributes:
        at: when. model: its short name.
        kind: load_begin, load_end, load_failed, load_aborted, oom, runtime_oom, evict, expire (by keep_alive or because it was
            asked to), memory_back, use, finish, refused, restart.
        why: of evict: fit, count, reload, oom, runtime_oom; of expire: keep_alive, asked; else a message.
        by: the model that an eviction was for.

    """

    at: float
    kind: str
    model: str
    why: str = ""
    by: str = ""


@dataclass(frozen=True)
class PsEntry:
    """One line of /api/ps.

    Attributes:
        name: the short name it was loaded by. model: that entry.
        size_mb, vram_mb: what the server claims. expires_at: may lie in the past. context: None where not shown.

    """

    name: str
    model: SimModel
    size_mb: float
    vram_mb: float
    expires_at: float
    context: int | None


@dataclass(frozen=True)
class Load:
    """One load, for asserting that two do not overlap. end: math.inf while it runs; ok: None then."""

    model: str
    begin: float
    end: float = math.inf
    ok: bool | None = None
