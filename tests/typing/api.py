"""The public functions with their types; checked by mypy, never run."""

from __future__ import annotations

from typing import Any

from litellm_registry_hook import (
    RegistryError,
    get_model,
    load_registry,
    preload_check,
    resolve,
    to_probe_config,
    to_probe_configs,
)
from litellm_registry_hook.core.problems import Problem
from litellm_registry_hook.core.registry import Model, Registry

registry: Registry = load_registry()
registry = load_registry("model-registry.yaml")
model: Model = get_model(registry, "kimi")
first: Model = resolve(registry, "large")
paid: Model = resolve(
    registry, "large", allow_metered=True, opted_in_key="sha256:00", probe_check=lambda candidate: candidate.metered
)
probe: dict[str, Any] = to_probe_config(registry, model.id)
probes: list[dict[str, Any]] = to_probe_configs(registry, model.id)
answer: tuple[bool, str] = preload_check(registry, model.id, 4000)
answer = preload_check(registry, model.id, 4000.5, resident_ids={"bge-m3"})
entry: dict[str, Any] = dict(model)
try:
    load_registry("x")
except RegistryError as error:
    problems: tuple[Problem, ...] = error.problems
