"""Find a model, or say which ones there are."""

from __future__ import annotations

from litellm_registry_hook.core.findings import redact
from litellm_registry_hook.core.registry import Model, Registry
from litellm_registry_hook.core.suggest import did_you_mean
from litellm_registry_hook.errors import RegistryError


def get_model(registry: Registry, id: str) -> Model:  # noqa: A002 - the name is part of the interface
    """Return the model with an id.

    Raises:
        RegistryError: there is none; names the nearest id, else the ids there are.

    """
    model = registry.by_id.get(id)
    if model is None:
        hint = did_you_mean(str(id), registry.by_id, what="model ids")
        raise RegistryError(f"the registry has no model `{redact(str(id))}`; {hint}")
    return model
