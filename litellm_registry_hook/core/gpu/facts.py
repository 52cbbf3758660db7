"""What is known of GPUs, Ollama servers and other model servers at one moment. "Unknown" is a state of its own.

The edges fill these in; the decision reads nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

GpuState = Literal["ok", "unknown", "unsupported"]
NvmlState = Literal["ok", "never", "failed"]
ServerState = Literal["up", "stalled", "gone"]
HealthState = Literal["up", "busy", "gone"]


class Slot(NamedTuple):
    """One place that a model can be loaded in: a runner of one Ollama server.

    Attributes:
        api_base: of the server, without a trailing slash.
        name: the model's Ollama name in full, `host/namespace/model:tag`, lower case.

    """

    api_base: str
    name: str


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU as NVML shows it.

    Attributes:
        uuid, index, name: as NVML prints them.
        total_mb, free_mb: memory of the device; 0 where the state is not ok.
        state: ok; unknown: reading it failed; unsupported: MIG or unified memory, which NVML cannot count for us.
        code: the NVML error or the feature behind the state, `gpu_lost` or `mig` say. reason: a sentence for people.

    """

    uuid: str
    index: int
    name: str = ""
    total_mb: float = 0.0
    free_mb: float = 0.0
    state: GpuState = "ok"
    code: str = "ok"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Nvml:
    """The driver's answer.

    Attributes:
        state: ok; never: it has not worked in this process yet, sizes are as declared; failed: it worked before.
        code: ok or the error's name, `library_not_found`, `driver_not_loaded`, `no_permission`, … reason: a sentence.
        gpus: every device it has.

    """

    state: NvmlState = "never"
    code: str = "not_read"
    reason: str = "NVML has not been asked yet"
    gpus: tuple[Gpu, ...] = ()


@dataclass(frozen=True, slots=True)
class Loaded:
    """One entry of /api/ps.

    Attributes:
        name: in full and lower case, as in Slot. digest: of the manifest; empty where the server gives none.
        size_mb: memory it takes in all. vram_mb: the part of it on a GPU; less than size_mb: partly on the CPU.
        expires_at: when it leaves unless it is used; None: pinned (more than a year ahead, or keep_alive -1).
        context: tokens it was loaded with; None where the server does not say.

    """

    name: str
    digest: str = ""
    size_mb: float = 0.0
    vram_mb: float = 0.0
    expires_at: float | None = None
    context: int | None = None


@dataclass(frozen=True, slots=True)
class Shape:
    """What Ollama's prediction needs of a model, from /api/show.

    Attributes:
        layers, heads, kv_heads, width: of the architecture. embedding: whether it is an embedding model.
        train_context: tokens it was trained with; an explicit num_ctx is cut to it.

    """

    layers: int
    heads: int
    kv_heads: int
    width: int
    embedding: bool = False
    train_context: int | None = None


@dataclass(frozen=True, slots=True)
class ModelFile:
    """One entry of /api/tags.

    Attributes:
        name: in full and lower case. digest: of the manifest. size_mb: on disk.
        blob: of the weights, from /api/show; two names with one blob share a runner. Empty: not known.
        shape: None where it could not be read.
        remote: a cloud model, which takes no memory here.

    """

    name: str
    digest: str = ""
    size_mb: float = 0.0
    blob: str = ""
    shape: Shape | None = None
    remote: bool = False


@dataclass(frozen=True, slots=True)
class Server:
    """One Ollama server.

    Attributes:
        api_base: without a trailing slash.
        state: up; stalled: it answers too late, what was loaded is what it said last; gone: connection refused.
        reason: a sentence where it is not up.
        version: (0, 30, 1); empty where not known.
        loaded: /api/ps. read_at: the moment of that answer; 0 where there never was one.
        files: /api/tags and /api/show, by full name.

    """

    api_base: str
    state: ServerState
    reason: str = ""
    version: tuple[int, ...] = ()
    loaded: tuple[Loaded, ...] = ()
    read_at: float = 0.0
    files: Mapping[str, ModelFile] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything known at one moment.

    Attributes:
        at: when it was read.
        nvml: the driver's answer.
        servers: Ollama servers by api_base.
        health: other model servers with gpu_residency by api_base; busy: it timed out or answered 5xx and still holds
            its memory.
        machine: name of this machine, for loopback addresses.

    """

    at: float
    nvml: Nvml = field(default_factory=Nvml)
    servers: Mapping[str, Server] = field(default_factory=dict)
    health: Mapping[str, HealthState] = field(default_factory=dict)
    machine: str = "localhost"


@dataclass(frozen=True, slots=True)
class Claim:
    """A load in flight, booked before it starts.

    Attributes:
        slot: what is loaded, and where. model: registry id.
        mb: memory booked for it. gpu: UUID or index where it is known, else empty.
        owner: the worker that loads. began: when it was booked. until: it lapses then unless renewed.

    """

    slot: Slot
    model: str
    mb: float
    gpu: str
    owner: str
    began: float
    until: float


@dataclass(frozen=True, slots=True)
class Usage:
    """What the proxy's own traffic says.

    Attributes:
        busy: requests in flight by slot. last_used: when the last one ended or began, by slot.

    """

    busy: Mapping[Slot, int] = field(default_factory=dict)
    last_used: Mapping[Slot, float] = field(default_factory=dict)
