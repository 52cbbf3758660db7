"""Whether a model may be loaded, by arithmetic on given numbers. All memory in MB.

The live gate of the proxy is stricter: it also knows loads in flight and what Ollama would evict.
"""

from __future__ import annotations

from collections.abc import Iterable

from litellm_registry_hook.core.lookup import get_model
from litellm_registry_hook.core.registry import Registry


def never_evict_mb(registry: Registry) -> dict[str, int]:
    """Return the memory of every never-evict model, by id."""
    return {
        model.id: model.gpu_residency.vram_mb
        for model in registry.models
        if model.gpu_residency is not None and model.gpu_residency.never_evict
    }


def preload_check(
    registry: Registry,
    id: str,  # noqa: A002 - the name is part of the interface
    headroom_mb: float,
    resident_ids: Iterable[str] | None = None,
) -> tuple[bool, str]:
    """Say whether a model may be loaded into the free memory there is.

    Args:
        registry: the registry.
        id: the model to load.
        headroom_mb: free memory of its GPU.
        resident_ids: models known to be loaded; None = none is known to be.

    Returns:
        whether it may be loaded: always without gpu_residency and for a never-evict model, else where
        headroom_mb >= vram_mb; and the reason with the numbers.

    Raises:
        RegistryError: no such model.

    """
    model = get_model(registry, id)
    required = model.gpu_residency.vram_mb if model.gpu_residency is not None else 0
    resident = frozenset(resident_ids or ())
    waiting = {
        other: size for other, size in never_evict_mb(registry).items() if other != model.id and other not in resident
    }
    names = f" ({', '.join(f'{other} {size}' for other, size in waiting.items())})" if waiting else ""
    reserved = f"never-evict models not resident yet reserve {sum(waiting.values())} MB{names}"
    numbers = f"headroom {headroom_mb:g} MB, required {required} MB, {reserved}"
    if model.gpu_residency is None:
        return True, f"{model.id} takes no GPU memory, it has no gpu_residency: {numbers}"
    if model.gpu_residency.never_evict:
        return True, f"{model.id} is never-evict, it is always loaded: {numbers}"
    if headroom_mb >= required:
        return True, f"{model.id} fits: {numbers}"
    return False, f"{model.id} does not fit: {numbers}"
