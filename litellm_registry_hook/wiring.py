"""Where core and edges are joined: the library's functions."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone

from litellm_registry_hook.core import resolve as _resolve
from litellm_registry_hook.core.lookup import get_model
from litellm_registry_hook.core.preload import preload_check
from litellm_registry_hook.core.probe_config import to_probe_config, to_probe_configs
from litellm_registry_hook.core.registry import Model, Registry
from litellm_registry_hook.edges.registry_file import load_registry

__all__ = ["get_model", "load_registry", "preload_check", "resolve", "to_probe_config", "to_probe_configs"]


def resolve(
    registry: Registry,
    tier: str,
    allow_metered: bool = False,
    opted_in_key: str | None = None,
    probe_check: Callable[[Model], bool] | None = None,
) -> Model:
    """Return the first usable model of a tier's pool.

    Args:
        registry: the registry.
        tier: a tier of routing.tiers, or an alias.
        allow_metered: whether this call may cost money.
        opted_in_key: who calls: an alias, `sha256:<hex>`, or the virtual key itself (`sk-…`, hashed at once). A metered
            model is a candidate only with both this and allow_metered.
        probe_check: says whether a model is available now; asked in pool order, and only about permitted models.

    Raises:
        RegistryError: no such tier, or nothing left; names the tiers, and each candidate with why it was passed over.

    """
    return _resolve.resolve(
        registry,
        tier,
        now=datetime.now(timezone.utc),
        allow_metered=allow_metered,
        opted_in_key=opted_in_key,
        probe_check=probe_check,
    )
