"""Shared by the tests of the generator: registries, files and the proof that foreign bytes stay."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import yaml

from litellm_registry_hook.core.registry import Registry
from litellm_registry_hook.edges.config_file import ConfigFile, Synced, sync_config

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
CONFIGS = HERE.parent / "configs"
SHIPPED: dict[str, Any] = yaml.safe_load((ROOT / "model-registry.yaml").read_text())
BOM = "\ufeff"


def registry(**changes: Any) -> Registry:
    """The shipped registry, with top-level keys replaced."""
    return Registry.model_validate({**copy.deepcopy(SHIPPED), **changes})


def without(model_id: str) -> Registry:
    """The shipped registry without one model (only what the generator reads is kept consistent)."""
    return registry(models=[m for m in copy.deepcopy(SHIPPED["models"]) if m["id"] != model_id])


def with_base(model_id: str, api_base: str) -> Registry:
    """The shipped registry with another address for one model."""
    models = copy.deepcopy(SHIPPED["models"])
    for model in models:
        if model["id"] == model_id:
            model.pop("endpoints", None)
            model["litellm"]["api_base"] = api_base
    return registry(models=models)


def config(text: str, path: Path | str = "litellm-config.yaml") -> ConfigFile:
    """A config as read_config would return it."""
    return ConfigFile(Path(path), text.removeprefix(BOM), bom=text.startswith(BOM), exists=True)


def sync(text: str, reg: Registry | None = None, *, adopt: bool = False, loader: Any = None) -> Synced:
    """Sync a text with a registry, the shipped one by default."""
    return sync_config(reg or registry(), config(text), adopt=adopt, loader=loader)


def owned(text: str) -> list[dict[str, Any]]:
    """The owned entries of a config text, as LiteLLM would parse them."""
    entries = (yaml.safe_load(text) or {}).get("model_list") or []
    return [
        e
        for e in entries
        if isinstance(e, dict) and (e.get("model_info") or {}).get("managed_by") == "litellm-registry-hook"
    ]


def foreign(text: str) -> list[Any]:
    """The foreign entries of a config text."""
    entries = (yaml.safe_load(text) or {}).get("model_list") or []
    mine = owned(text)
    return [entry for entry in entries if entry not in mine]


def is_subsequence(short: str, long: str) -> bool:
    """Whether every character of one text stands in the other, in order."""
    rest = iter(long)
    return all(char in rest for char in short)
