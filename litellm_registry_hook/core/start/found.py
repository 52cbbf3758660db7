"""What was seen of a house: servers, their models, GPUs; told by calls that load nothing and cost nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from litellm_registry_hook.core.gpu.facts import Loaded, ModelFile, Nvml
from litellm_registry_hook.core.start.proposal import Left

TeiKind = Literal["embedder", "reranker", "classifier", "unknown"]


@dataclass(frozen=True, slots=True)
class OllamaModel:
    """One model of an Ollama server, from /api/tags and /api/show.

    Attributes:
        name: as the server writes it.
        file: size, digest, shape; `remote` for a cloud model, which runs elsewhere and costs money.
        abilities: what /api/show lists, `completion`, `tools`, `vision`, `embedding`, …; empty where it lists none.
        embedding: whether it makes vectors.
        width: length of its vectors, where it is an embedding model. params: number of parameters; 0 where not known.
        num_ctx: of its Modelfile; None where that says nothing.

    """

    name: str
    file: ModelFile
    abilities: tuple[str, ...] = ()
    embedding: bool = False
    width: int | None = None
    params: float = 0.0
    num_ctx: int | None = None


@dataclass(frozen=True, slots=True)
class OllamaSeen:
    """One Ollama server.

    Attributes:
        base: its address without a trailing slash. version: (0, 30, 1).
        models: in the server's order. loaded: what /api/ps lists.

    """

    base: str
    version: tuple[int, ...] = ()
    models: tuple[OllamaModel, ...] = ()
    loaded: tuple[Loaded, ...] = ()


@dataclass(frozen=True, slots=True)
class TeiSeen:
    """One text-embeddings-inference server, which has one model.

    Attributes:
        base: its address. model: `BAAI/bge-m3`. kind: what /info says it does. max_input: tokens.

    """

    base: str
    model: str
    kind: TeiKind
    max_input: int | None = None


@dataclass(frozen=True, slots=True)
class OpenAiModel:
    """One entry of GET /v1/models.

    Attributes:
        name: its id. context: tokens, where told (vLLM, llama.cpp).
        width: length of its vectors, where told (llama.cpp).
        params: number of parameters; 0 where not known.
        owner: `owned_by`; empty where not told.

    """

    name: str
    context: int | None = None
    width: int | None = None
    params: float = 0.0
    owner: str = ""


@dataclass(frozen=True, slots=True)
class OpenAiSeen:
    """One OpenAI-compatible server.

    Attributes:
        base: its address, which ends in /v1. models: what it lists.
        key_env: name of the environment variable that holds its key; empty where it needs none.

    """

    base: str
    models: tuple[OpenAiModel, ...] = ()
    key_env: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """Everything seen.

    Attributes:
        ollamas, teis, openais: the servers, in the order in which they were named.
        nvml: the GPUs of this machine.
        gpus_asked: whether NVML was asked; with --no-gpu nothing is said of GPUs.
        left: addresses that gave nothing to propose. tried: every address that was asked.

    """

    ollamas: tuple[OllamaSeen, ...] = ()
    teis: tuple[TeiSeen, ...] = ()
    openais: tuple[OpenAiSeen, ...] = ()
    nvml: Nvml = field(default_factory=Nvml)
    gpus_asked: bool = True
    left: tuple[Left, ...] = ()
    tried: tuple[str, ...] = ()

    @property
    def bases(self) -> tuple[str, ...]:
        """The addresses of the servers that answered."""
        ollamas = (one.base for one in self.ollamas)
        return (*ollamas, *(one.base for one in self.teis), *(one.base for one in self.openais))
