"""The demo's own registry and LiteLLM config, in a folder that nobody else can read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from litellm_registry_hook.core.registry import Registry
from litellm_registry_hook.core.sync import wanted_entries
from litellm_registry_hook.core.sync_settings import setting_edits

# Admin key by environment only; no retries: each failure is shown as it is.
BASE_CONFIG: dict[str, Any] = {
    "general_settings": {"master_key": "os.environ/LITELLM_MASTER_KEY"},
    "litellm_settings": {"callbacks": []},
}


def litellm_config(registry: Registry) -> dict[str, Any]:
    """Return the LiteLLM config of a registry as the generator makes its entries and settings."""
    config: dict[str, Any] = {section: dict(settings) for section, settings in BASE_CONFIG.items()}
    for edit in setting_edits(config):
        settings = config.setdefault(edit.section, {})
        settings[edit.key] = [*settings.get(edit.key, []), edit.value] if edit.action == "append" else edit.value
    return {"model_list": [_plain(wanted.content) for wanted in wanted_entries(registry, config)], **config}


def write_yaml(path: Path, content: Mapping[str, Any]) -> None:
    """Write a file of the demo, mode 600."""
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(dict(content), sort_keys=False, allow_unicode=True), encoding="utf-8")


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value
