"""Puts the doctor's case together from files and environment, and gives each finding its line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from litellm_registry_hook.core.doctor import examine
from litellm_registry_hook.core.doctor_case import Case, Diagnosis, Facts, Live, Part
from litellm_registry_hook.core.registry import Registry
from litellm_registry_hook.edges.config_file import read_config, sync_config
from litellm_registry_hook.edges.doctor_facts import gather
from litellm_registry_hook.edges.doctor_files import look, look_with_included
from litellm_registry_hook.edges.registry_file import check_file, invalid
from litellm_registry_hook.errors import ConfigError


def diagnose(
    registry_file: Path,
    config_file: Path,
    environ: Mapping[str, str],
    now: datetime,
    look_live: Callable[[Registry, Mapping[str, str]], Live | None] | None = None,
) -> tuple[Diagnosis, ...]:
    """Return every finding about a registry, a LiteLLM config and the environment, the gravest first.

    Nothing is changed, no model is called, no secret gets into a finding.

    Args:
        registry_file: the registry. config_file: the LiteLLM config.
        environ: the proxy's environment.
        now: an aware moment.
        look_live: looks at GPUs and model servers; None: they are left alone.

    Raises:
        RegistryError: the registry cannot be read or is not valid.
        ConfigError: the config is missing, cannot be read, or is built so that its entries cannot be compared.

    """
    registry, problems = check_file(registry_file, environ)
    if registry is None:
        raise invalid(registry_file, problems)
    file = read_config(config_file)
    if not file.exists:
        raise ConfigError(f"there is no LiteLLM config {config_file}; write one with: generate-litellm-config")
    synced = sync_config(registry, file)
    configs = look_with_included(str(config_file), config_file)
    parts = tuple(Part(one.name, one.content) for one in configs)
    differences, name = synced.plan.differences, str(registry_file)
    case = Case(registry, name, problems, parts, differences, synced.warnings, Facts(), now)
    files = {one.name: one for one in (*configs, look(name, registry_file))}
    facts = gather(case, environ, {one.name: one.path for one in files.values()})
    if look_live is not None:
        facts = replace(facts, live=look_live(registry, environ))
    return tuple(
        replace(found, line=files[found.file].line(found.path)) if found.file in files else found
        for found in examine(replace(case, facts=facts))
    )
