"""The library: loading, looking up, and what a model looks like."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import litellm_registry_hook
from litellm_registry_hook import RegistryError, get_model, load_registry

SHIPPED = Path(__file__).parents[2] / "model-registry.yaml"


def test_importing_the_package_imports_neither_litellm_nor_pydantic() -> None:
    """The package's names are resolved on use; its functions never import LiteLLM."""
    code = (
        "import sys, litellm_registry_hook as h\n"
        "early = [name for name in ('litellm', 'pydantic', 'yaml') if name in sys.modules]\n"
        "h.load_registry, h.get_model, h.resolve, h.to_probe_config, h.to_probe_configs, h.preload_check, h.RegistryError\n"
        "print(early, 'litellm' in sys.modules)"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "[] False\n"


def test_an_unknown_name_of_the_package_is_an_attribute_error() -> None:
    """A name that the package does not have is refused as Python does."""
    with pytest.raises(AttributeError, match="^module 'litellm_registry_hook' has no attribute 'nothing'$"):
        litellm_registry_hook.nothing


def test_the_package_lists_its_names() -> None:
    """dir() shows the lazy names too."""
    assert set(litellm_registry_hook.__all__) <= set(dir(litellm_registry_hook))


def test_the_path_is_the_argument_then_the_variable_then_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """load_registry takes its argument, else LITELLM_REGISTRY, else model-registry.yaml in the working directory."""
    monkeypatch.chdir(tmp_path)
    for name, tier in (("given.yaml", "g"), ("variable.yaml", "v"), ("model-registry.yaml", "d")):
        (tmp_path / name).write_text(
            f"version: 1\nmodels: []\nrouting: {{tiers: {{}}, aliases: {{}}, max_wait_s: {ord(tier)}}}\n"
        )

    monkeypatch.delenv("LITELLM_REGISTRY", raising=False)
    default = load_registry().routing.max_wait_s
    monkeypatch.setenv("LITELLM_REGISTRY", "variable.yaml")
    variable = load_registry().routing.max_wait_s
    given = load_registry("given.yaml").routing.max_wait_s

    assert (default, variable, given) == (ord("d"), ord("v"), ord("g"))


def test_a_missing_file_is_named() -> None:
    """The error names the file and how to name another."""
    with pytest.raises(RegistryError) as caught:
        load_registry("nowhere/r.yaml")

    assert str(caught.value) == (
        "the registry nowhere/r.yaml is not valid, 1 problem:\n"
        "nowhere/r.yaml:0:0: file_unreadable: the file cannot be read: No such file or directory "
        "(name the file with --registry or LITELLM_REGISTRY)"
    )


def test_a_folder_is_no_registry(tmp_path: Path) -> None:
    """A folder is reported as unreadable, not raised as an OSError."""
    with pytest.raises(RegistryError, match="Is a directory"):
        load_registry(tmp_path)


def test_dict_of_a_model_is_its_entry_in_the_file() -> None:
    """dict(m) is the YAML entry as written, and m["id"] is m.id."""
    registry = load_registry(SHIPPED)
    entries = yaml.safe_load(SHIPPED.read_text())["models"]

    assert [dict(model) for model in registry.models] == entries
    assert [model["id"] for model in registry.models] == [model.id for model in registry.models]


def test_registry_and_models_are_frozen() -> None:
    """Nothing of a registry can be set, and changing what dict(m) gave changes no model."""
    registry = load_registry(SHIPPED)
    model = registry.models[0]

    with pytest.raises(ValueError, match="frozen"):
        registry.version = 2  # type: ignore[assignment,misc]
    with pytest.raises(ValueError, match="frozen"):
        model.metered = True  # type: ignore[misc]
    dict(model)["litellm"]["model"] = "other/model"
    model["litellm"]["model"] = "other/model"

    assert (model.metered, model["litellm"]["model"]) == (False, "openai/kimi-for-coding")


def test_get_model_names_what_is_missing() -> None:
    """An unknown id is refused with the nearest id, or the ids there are."""
    registry = load_registry(SHIPPED)

    assert get_model(registry, "kimi").id == "kimi"
    with pytest.raises(RegistryError, match="^the registry has no model `local-smal`; did you mean `local-small`\\?$"):
        get_model(registry, "local-smal")
    with pytest.raises(RegistryError) as caught:
        get_model(registry, "zzz")
    assert str(caught.value) == (
        "the registry has no model `zzz`; model ids: bge-m3, kimi, local-small, paid-fallback, tei-reranker"
    )
