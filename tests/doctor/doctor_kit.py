"""Shared by the doctor's tests: the shipped pair of files with changes, in a folder of its own."""

from __future__ import annotations

import copy
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import yaml

from litellm_registry_hook.core.doctor_case import Diagnosis
from litellm_registry_hook.edges.doctor_case import diagnose

ROOT = Path(__file__).parents[2]
REGISTRY: dict[str, Any] = yaml.safe_load((ROOT / "model-registry.yaml").read_text())
CONFIG: dict[str, Any] = yaml.safe_load((ROOT / "litellm-config.yaml").read_text())
STRONG = "sk-4fTq0Zr8WnPx2LkVb7Yd"
NOW = datetime(2026, 11, 30, 12, tzinfo=timezone.utc)


def merged(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """A copy with changes: mappings are merged, anything else is replaced, None takes a key out."""
    found = copy.deepcopy(base)
    for key, value in changes.items():
        if value is None:
            found.pop(key, None)
        elif isinstance(value, dict) and isinstance(found.get(key), dict):
            found[key] = merged(found[key], value)
        else:
            found[key] = value
    return found


class House:
    """A folder with a registry, a config and a state file still to be made."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.registry_file, self.config_file = folder / "model-registry.yaml", folder / "litellm-config.yaml"
        self.state_file = folder / "state.sqlite"
        self.environ = {"LITELLM_MASTER_KEY": STRONG, "LITELLM_REGISTRY_STATE": f"sqlite:///{self.state_file}"}
        self.write()

    def write(self, registry: dict[str, Any] | None = None, config: dict[str, Any] | None = None) -> None:
        """Write the shipped files with changes."""
        self.registry_file.write_text(yaml.safe_dump(merged(REGISTRY, registry or {}), sort_keys=False))
        self.config_file.write_text(yaml.safe_dump(merged(CONFIG, config or {}), sort_keys=False))

    def add_entries(self, *entries: dict[str, Any]) -> None:
        """Put further entries at the end of model_list."""
        config = yaml.safe_load(self.config_file.read_text())
        config["model_list"].extend(entries)
        self.config_file.write_text(yaml.safe_dump(config, sort_keys=False))

    def include(self, name: str, content: dict[str, Any]) -> None:
        """Write a file and include it."""
        (self.folder / name).write_text(yaml.safe_dump(content, sort_keys=False))
        config = yaml.safe_load(self.config_file.read_text())
        config.setdefault("include", []).append(name)
        self.config_file.write_text(yaml.safe_dump(config, sort_keys=False))

    def findings(self) -> tuple[Diagnosis, ...]:
        """What the doctor finds."""
        return diagnose(self.registry_file, self.config_file, self.environ, NOW)

    def places(self) -> list[tuple[str, str, str]]:
        """The findings as (code, file name, path)."""
        return [(found.code, Path(found.file).name, found.path) for found in self.findings()]
