"""Which keys stand where: the containers of the file and the values that hold them."""

from __future__ import annotations

from collections.abc import Iterator

from litellm_registry_hook.core.findings import Path
from litellm_registry_hook.core.registry import (
    Baseline,
    CoResidencyGroup,
    Endpoint,
    GpuResidency,
    GpuResidencyPolicy,
    GpuSize,
    Model,
    OnUnknown,
    OptIn,
    Quota,
    QuotaWindow,
    Registry,
    Routing,
    Value,
)

# `[]` stands for any index, `*` for any key.
CONTAINERS: dict[tuple[str, ...], type[Value]] = {
    (): Registry,
    ("models", "[]"): Model,
    ("models", "[]", "endpoints", "[]"): Endpoint,
    ("models", "[]", "quota"): Quota,
    ("models", "[]", "quota", "windows", "[]"): QuotaWindow,
    ("models", "[]", "gpu_residency"): GpuResidency,
    ("routing",): Routing,
    ("routing", "metered_opt_in", "[]"): OptIn,
    ("routing", "on_unknown"): OnUnknown,
    ("gpu_residency_policy",): GpuResidencyPolicy,
    ("gpu_residency_policy", "co_residency_groups", "[]"): CoResidencyGroup,
    ("gpu_residency_policy", "baseline"): Baseline,
    ("gpu_residency_policy", "gpus", "*"): GpuSize,
}


def _pattern(path: Path) -> tuple[str, ...]:
    if path[:-1] == ("gpu_residency_policy", "gpus"):
        return ("gpu_residency_policy", "gpus", "*")
    return tuple("[]" if isinstance(step, int) else step for step in path)


def container_at(path: Path) -> type[Value] | None:
    """Return the value type whose keys stand at a path; None where the keys are free."""
    return CONTAINERS.get(_pattern(path))


def write_pattern(pattern: tuple[str, ...]) -> str:
    """Write a container pattern as `models[].quota`."""
    return ".".join(pattern).replace(".[]", "[]")


def homes_of(key: str) -> list[str]:
    """Return where a key belongs, as `models[].gpu_residency`."""
    return [write_pattern(pattern) for pattern, value in CONTAINERS.items() if pattern and key in value.model_fields]


def every_key() -> Iterator[str]:
    """Return every key of the file, as `models[].quota.windows[].name`."""
    for pattern, value in CONTAINERS.items():
        for key in value.model_fields:
            yield write_pattern((*pattern, key))
