"""What is written about the file agrees with what the code does."""

import ast
import json
import re
from pathlib import Path

import jsonschema
import pytest
import yaml

from litellm_registry_hook.core.key_docs import KEY_DOCS, key_tables
from litellm_registry_hook.core.keys import every_key
from litellm_registry_hook.core.schema import registry_schema, schema_text

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "litellm_registry_hook"
MAKERS = {"Finding", "Problem", "whole", "issue"}


def codes_in_code() -> set[str]:
    """Return every code that a problem of the registry file can have."""
    files = [
        *(PACKAGE / "core").rglob("*.py"),
        *(PACKAGE / "edges").glob("yaml_*.py"),
        PACKAGE / "edges/registry_file.py",
    ]
    found = set()
    for path in files:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
                name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                if name in MAKERS:
                    found.add(node.args[0].value)
    return found


def codes_in_docs() -> list[str]:
    """Return every code that docs/errors.md has a row for."""
    text = (ROOT / "docs/errors.md").read_text(encoding="utf-8")
    return re.findall(r"^\| `([a-z0-9_]+)` \|", text, flags=re.MULTILINE)


def test_every_code_is_documented_once() -> None:
    """The codes in the code are the codes of docs/errors.md, each once."""
    documented = codes_in_docs()

    assert sorted(documented) == sorted(codes_in_code())
    assert len(documented) == len(set(documented))


def test_every_code_is_shown_by_a_file_or_a_warning_test() -> None:
    """Each code occurs in an expected report, or is one of the few that need more than a file."""
    reports = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests/registries/bad").glob("*.txt"))
    shown = {code for code in codes_in_docs() if re.search(rf": {code}: ", reports)}

    assert set(codes_in_docs()) - shown == {
        "file_unreadable",
        "env_missing",
        "secret_in_file",
        "grant_not_needed",
        "stale_readings",
        "mixed_modes",
        "embedders_in_one_tier",
    }


def test_every_key_is_documented() -> None:
    """The key table has exactly the keys of the values, and docs/registry.md holds its current tables."""
    assert set(KEY_DOCS) == set(every_key())
    assert (ROOT / "docs/registry.md").read_text(encoding="utf-8").endswith(key_tables())


def test_the_checked_in_schema_is_current() -> None:
    """The JSON Schema in the package is what the values give."""
    assert (PACKAGE / "model-registry.schema.json").read_text(encoding="utf-8") == schema_text()


@pytest.mark.parametrize("path", sorted((ROOT / "tests/registries/good").iterdir()), ids=lambda path: path.name)
def test_good_files_fit_the_schema(path: Path) -> None:
    """Every file that loads fits the JSON Schema too."""
    text = path.read_text(encoding="utf-8-sig")
    tree = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)

    # JSON has text keys only: a GPU's index becomes text on the way.
    jsonschema.Draft202012Validator(registry_schema()).validate(json.loads(json.dumps(tree)))


@pytest.mark.parametrize("name", ["missing-keys", "wrong-types", "bad-values"])
def test_files_of_a_wrong_shape_do_not_fit_the_schema(name: str) -> None:
    """The schema refuses what the shape check refuses."""
    tree = yaml.safe_load((ROOT / f"tests/registries/bad/{name}.yaml").read_text(encoding="utf-8"))

    assert not jsonschema.Draft202012Validator(registry_schema()).is_valid(tree)
