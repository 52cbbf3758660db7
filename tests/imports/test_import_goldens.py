"""Each config of tests/imports/configs becomes exactly the registry that is committed beside it.

After a change that is meant: `python -m tests.imports.test_import_goldens` writes them anew; read the diff.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from litellm_registry_hook.edges.registry_file import check_bytes
from litellm_registry_hook.edges.start.render import document
from tests.imports.import_kit import CONFIGS, cases, golden, imported, text_of


@pytest.mark.parametrize("name", cases())
def test_a_config_becomes_the_registry_beside_it(name: str) -> None:
    """The whole proposal, comments, tiers, aliases and what is left out included, is what the golden file says."""
    path, options = cases()[name]

    text = text_of(imported(path, **options))

    assert text == golden(name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", cases())
def test_what_is_proposed_is_a_valid_registry(name: str) -> None:
    """The text reads back as what was proposed, and has no error."""
    path, options = cases()[name]
    proposal = imported(path, **options)

    text = text_of(proposal)
    registry, problems = check_bytes(text.encode())

    assert [problem for problem in problems if problem.severity == "error"] == []
    assert registry is not None
    assert yaml.safe_load(text) == document(proposal)


def test_there_is_no_golden_without_a_config() -> None:
    """A golden file that nothing is compared with would be no test."""
    assert sorted(path.name for path in CONFIGS.glob("*.registry.yaml")) == sorted(
        f"{name}.registry.yaml" for name in cases()
    )


def secrets_in(value: Any) -> list[str]:
    return [line for line in str(value).split() if "4f9a7c2e" in line or "1b2c3d4e" in line]


@pytest.mark.parametrize("name", [name for name in cases() if name.startswith("credentials")])
def test_a_key_of_the_config_is_nowhere_in_the_registry(name: str) -> None:
    """Neither entries nor comments repeat a key that stands in the config, with --secrets-to-env or without."""
    path, options = cases()[name]

    assert secrets_in(path.read_text()) != []
    assert secrets_in(text_of(imported(path, **options))) == []


def write_goldens() -> None:
    for name, (path, options) in cases().items():
        Path(golden(name)).write_text(text_of(imported(path, **options)), encoding="utf-8")


if __name__ == "__main__":
    write_goldens()
