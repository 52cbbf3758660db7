"""How much memory a draft takes, and how we know: measured where it is loaded now, else Ollama's own prediction."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from litellm_registry_hook.core.gpu.facts import ModelFile
from litellm_registry_hook.core.gpu.predict import predict
from litellm_registry_hook.core.registry import DEFAULT_CHAT_NUM_CTX, GpuResidency, Model
from litellm_registry_hook.core.start.choices import Choices
from litellm_registry_hook.core.start.draft import Draft

MEASURED: Final = "measured: resident now"
ESTIMATED: Final = "estimated: run litellm-registry calibrate"
GIVEN: Final = "given with --size"
# A TEI server does not tell; this is what bge-reranker-v2-m3 took on a GTX 1070.
TEI_MB: Final = 1700
TEI_ESTIMATED: Final = "estimated: nvidia-smi shows what the server really takes"


@dataclass(frozen=True, slots=True)
class Size:
    """Memory of one model.

    Attributes:
        mb: on a GPU, whole MB. mark: how it is known. num_ctx: tokens it holds for; None: not told to the server.

    """

    mb: int
    mark: str
    num_ctx: int | None = None


def size_of(draft: Draft, choices: Choices, machine_mb: float) -> Size | None:
    """Return the size of a draft; None for what takes no memory that anybody can tell.

    Args:
        draft: the model. choices: sizes given by hand, and num_ctx.
        machine_mb: memory of the GPU, for the context that Ollama takes by itself.

    """
    given = choices.sizes.get(draft.id)
    if not draft.own:
        return None
    if draft.ollama is None:
        if given:
            return Size(given, GIVEN)
        return Size(TEI_MB, TEI_ESTIMATED) if draft.health else None
    num_ctx = _num_ctx(draft, choices)
    if given:
        return Size(given, GIVEN, num_ctx)
    resident = draft.resident
    if resident is not None and (draft.kind == "embed" or num_ctx == (resident.context or num_ctx)):
        taken = max(resident.vram_mb, resident.size_mb)
        if taken > 0:
            part = "" if resident.vram_mb >= resident.size_mb else f", {resident.vram_mb:.0f} MB of it on a GPU"
            return Size(math.ceil(taken), MEASURED + part, num_ctx)
    return Size(max(1, math.ceil(predicted(draft, num_ctx, machine_mb))), ESTIMATED, num_ctx)


def predicted(draft: Draft, num_ctx: int | None, machine_mb: float) -> float:
    """Return the MB that Ollama predicts for a load of a draft; it evicts others above 80 % of what is free."""
    file = draft.ollama.file if draft.ollama is not None else ModelFile(draft.name)
    role, length = ("embedder", draft.length or 1) if draft.kind == "embed" else ("chat", None)
    model = Model(
        id="draft",
        role=(role,),
        lifecycle="always-on",
        metered=False,
        litellm={"model": draft.litellm},
        dimensions=length,
        gpu_residency=GpuResidency(vram_mb=1, num_ctx=num_ctx),
    )
    return predict(model, file, draft.version, machine_mb)


def _num_ctx(draft: Draft, choices: Choices) -> int | None:
    """Return the context to load with: another one than it is loaded with now would reload it."""
    if draft.kind == "embed":
        return None
    ollama, resident = draft.ollama, draft.resident
    wanted = choices.num_ctx or (resident.context if resident is not None else None)
    wanted = wanted or (ollama.num_ctx if ollama is not None else None) or DEFAULT_CHAT_NUM_CTX
    return min(wanted, draft.context) if draft.context else wanted
