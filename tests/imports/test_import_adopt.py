"""After `generate-litellm-config --adopt` each config has the entries it had, as the registry's, and the rest untouched."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from litellm_registry_hook.core.plan import pools_of
from litellm_registry_hook.core.registry import Registry
from litellm_registry_hook.core.sync import is_owned
from litellm_registry_hook.edges.config_file import read_config, sync_config
from litellm_registry_hook.edges.start.render import document
from tests.imports.import_kit import cases, imported

# What an entry says in other words afterwards; api_base and model are compared on their own.
ELSEWHERE = {"order", "weight", "base_url", "api_base", "model"}


def adopted(name: str, folder: Path) -> tuple[dict[str, Any], dict[str, Any], Registry]:
    """Return the config before and after, and the registry."""
    path, options = cases()[name]
    file = folder / "litellm-config.yaml"
    shutil.copy(path, file)
    registry = Registry.model_validate(document(imported(file, **options)))
    synced = sync_config(registry, read_config(file), adopt=True)
    return yaml.safe_load(file.read_text()), yaml.safe_load(synced.text), registry


def address(params: dict[str, Any]) -> str:
    return str(params.get("base_url") or params.get("api_base") or "").rstrip("/")


def carries(entry: dict[str, Any], old: dict[str, Any]) -> bool:
    """Say whether a generated entry calls what an old one called, with everything it said."""
    new_params, old_params = entry["litellm_params"], old["litellm_params"]
    credential = old_params.get("litellm_credential_name")
    return (
        new_params["model"].rpartition("/")[2] == old_params["model"].rpartition("/")[2]
        and (address(new_params) == address(old_params) or (credential is not None and not address(old_params)))
        and all(
            new_params.get(key) == value or str(new_params.get(key)).startswith("os.environ/")
            for key, value in old_params.items()
            if key not in ELSEWHERE
        )
    )


@pytest.mark.parametrize("name", cases())
def test_every_entry_that_came_over_is_generated_with_all_it_said(name: str, tmp_path: Path) -> None:
    """Behind each old name stands a generated entry of the same model, address, key and parameters, for every old entry."""
    before, after, registry = adopted(name, tmp_path)
    pools = pools_of(registry)
    aliases = (before.get("router_settings") or {}).get("model_group_alias") or {}
    generated = [entry for entry in after["model_list"] if is_owned(entry)]

    for old in before["model_list"]:
        known = old.get("model_name")
        if known not in pools or known in aliases and aliases[known] != known:
            continue
        listed = {one for tier in (registry.routing.tiers.get(known, ()), (known,)) for one in tier}
        assert any(entry["model_name"] in listed and carries(entry, old) for entry in generated), old


@pytest.mark.parametrize("name", cases())
def test_every_other_value_is_as_it_was(name: str, tmp_path: Path) -> None:
    """Entries that stay foreign are there in their order, and no section has lost a value."""
    before, after, registry = adopted(name, tmp_path)
    names = {*pools_of(registry)}

    stays = [old for old in before["model_list"] if old.get("model_name") not in names]
    assert [entry for entry in after["model_list"] if not is_owned(entry)] == stays
    for section, value in before.items():
        if section == "model_list" or section not in after:
            assert section == "model_list"
        elif isinstance(value, dict):
            kept = {key: after[section].get(key) for key in value if key != "callbacks"}
            assert kept == {key: item for key, item in value.items() if key != "callbacks"}
            assert set(value.get("callbacks", ())) <= set(after[section].get("callbacks", ()))
        else:
            assert after[section] == value


@pytest.mark.parametrize("name", cases())
def test_a_generated_config_is_imported_as_the_same_names(name: str, tmp_path: Path) -> None:
    """Importing what the generator wrote, without old fallbacks and aliases, finds its models under their ids again."""
    _, after, registry = adopted(name, tmp_path)
    after.pop("router_settings", None)
    after["litellm_settings"].pop("default_fallbacks", None)
    after["litellm_settings"].pop("fallbacks", None)
    file = tmp_path / "again.yaml"
    file.write_text(yaml.safe_dump(after, sort_keys=False))

    again = imported(file, free=[model.id for model in registry.models if not model.metered])

    wanted = {model.id for model in registry.models if model.effective_mode != "embedding"}
    assert {model.id for model in again.models} >= wanted
