"""The demo's own registry and LiteLLM config, in a folder that nobody else can read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from litellm_registry_hook.core.registry import Registry
from litellm_registry_hook.edges.config_file import read_config, sync_config, write_config


def write_registry(path: Path, document: Mapping[str, Any]) -> None:
    """Write a registry, mode 600."""
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(dict(document), sort_keys=False, allow_unicode=True), encoding="utf-8")


def write_litellm_config(path: Path, registry: Registry) -> None:
    """Write the config that generate-litellm-config makes where there is none; its admin key is LITELLM_MASTER_KEY.

    Raises:
        ConfigError: the file cannot be written.

    """
    write_config(sync_config(registry, read_config(path)))
    path.chmod(0o600)
