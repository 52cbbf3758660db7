"""What a monitor must ask to know whether a model can be used."""

from __future__ import annotations

from typing import Any

from litellm_registry_hook.core.lookup import get_model
from litellm_registry_hook.core.preload import never_evict_mb
from litellm_registry_hook.core.registry import Model, Quota, Registry
from litellm_registry_hook.errors import RegistryError

ProbeConfig = dict[str, Any]
_SOURCES = {"probe_command": "command", "probe_file": "file", "probe_url": "url", "probe_spend": "spend"}


def to_probe_config(registry: Registry, id: str) -> ProbeConfig:  # noqa: A002 - the name is part of the interface
    """Return the probe of a model; of a quota-gated one, the probe of its first window.

    Returns:
        `{"type": "always_on"}`; `{"type": "on_demand", "url"}`; `{"type": "budget", "command", "field", "limit"}`; or
        `{"type": "quota", "command", "field", "threshold_pct"}`. With probe_file, probe_url or probe_spend, `file`,
        `url` or `spend` stands in the place of `command`, and a spend has no field; a unit other than the percent
        used is added as `"unit"`.

    Raises:
        RegistryError: no such model, or a key is missing: it is named.

    """
    return _lifecycle(registry, get_model(registry, id))[0]


def to_probe_configs(registry: Registry, id: str) -> list[ProbeConfig]:  # noqa: A002
    """Return all probes of a model: one per window, and what it takes on its GPU.

    The last one is `{"type": "gpu_residency", "vram_mb", "never_evict_reserved_mb"}` (MB) where the model has
    gpu_residency; reserved is what the other never-evict models take.

    Raises:
        RegistryError: as to_probe_config.

    """
    model = get_model(registry, id)
    found = _lifecycle(registry, model)
    if model.gpu_residency is not None:
        reserved = sum(size for other, size in never_evict_mb(registry).items() if other != model.id)
        vram = model.gpu_residency.vram_mb
        found.append({"type": "gpu_residency", "vram_mb": vram, "never_evict_reserved_mb": reserved})
    return found


def _lifecycle(registry: Registry, model: Model) -> list[ProbeConfig]:
    if model.lifecycle == "always-on":
        return [{"type": "always_on"}]
    if model.lifecycle == "on-demand":
        url = model.places[0].health_url if model.places else None
        if url is None:
            raise _missing(registry, model, "endpoints[0].health_url")
        return [{"type": "on_demand", "url": url}]
    quota = model.quota
    if quota is None:
        raise _missing(registry, model, "quota")
    source = _source(registry, model, quota)
    if model.lifecycle == "cost-gated":
        if quota.field is None and quota.probe_spend is None:
            raise _missing(registry, model, "quota.field")
        if quota.limit is None:
            raise _missing(registry, model, "quota.limit")
        field = {} if quota.field is None else {"field": quota.field}
        return [{"type": "budget", **source, **field, "limit": _plain(quota.limit)}]
    if not quota.windows:
        raise _missing(registry, model, "quota.windows")
    threshold = _plain(quota.threshold_pct)
    return [
        {"type": "quota", **source, "field": window.field, "threshold_pct": threshold}
        | ({"unit": window.unit} if window.unit != "used" else {})
        for window in quota.windows
    ]


def _source(registry: Registry, model: Model, quota: Quota) -> ProbeConfig:
    for key, name in _SOURCES.items():
        value = getattr(quota, key)
        if value is not None:
            return {name: value}
    raise _missing(registry, model, "quota.probe_command")


def _plain(number: float) -> float:
    """Write 20.0 as 20, as the file does."""
    return int(number) if float(number).is_integer() else number


def _missing(registry: Registry, model: Model, key: str) -> RegistryError:
    index = registry.models.index(model)
    return RegistryError(
        f"`{model.id}` is {model.lifecycle} and cannot be probed: models[{index}].{key} is missing in the registry"
    )
