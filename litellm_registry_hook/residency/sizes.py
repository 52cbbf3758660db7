"""Sizes for models that have none in the registry, guessed so that the gate may be asked about them once."""

from __future__ import annotations

import math
from typing import Final

from litellm_registry_hook.core.gpu.compare import gpu_homes
from litellm_registry_hook.core.gpu.facts import ModelFile, Snapshot
from litellm_registry_hook.core.gpu.place import fresh_copy
from litellm_registry_hook.core.gpu.predict import predict
from litellm_registry_hook.core.gpu.resident import server_of
from litellm_registry_hook.core.registry import GpuResidency, Model, Registry

MARGIN: Final = 1.1
MARGIN_MB: Final = 300.0


def with_guesses(registry: Registry, snapshot: Snapshot) -> Registry:
    """Return the registry with a guessed gpu_residency for each Ollama model without one whose file is known."""
    guessed: dict[str, Model] = {}
    for home in gpu_homes(registry):
        server = server_of(snapshot, home.api_base)
        if home.model.gpu_residency is None and home.slot is not None and server is not None:
            file = server.files.get(home.slot.name)
            if file is not None and not file.remote:
                guessed[home.model.id] = _guess(home.model, file, server.version)
    if not guessed:
        return registry
    return fresh_copy(registry, {"models": tuple(guessed.get(model.id, model) for model in registry.models)})


def _guess(model: Model, file: ModelFile, version: tuple[int, ...]) -> Model:
    sized = fresh_copy(model, {"gpu_residency": GpuResidency(vram_mb=1)})
    mb = predict(sized, file, version) * MARGIN + MARGIN_MB
    return fresh_copy(sized, {"gpu_residency": GpuResidency(vram_mb=math.ceil(mb))})
