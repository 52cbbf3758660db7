"""docs/import.md is followed as it is written."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import yaml

from litellm_registry_hook.core.start.proposal import Proposal
from litellm_registry_hook.edges.start.render import document
from tests.imports.import_kit import imported

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/import.md").read_text(encoding="utf-8")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SH = [text for language, text in FENCE.findall(PAGE) if language == "sh"]
CONFIG, REGISTRY = (text for language, text in FENCE.findall(PAGE) if language == "yaml")


def proposal(folder: Path) -> Proposal:
    (folder / "litellm-config.yaml").write_text(CONFIG)
    return imported(folder / "litellm-config.yaml")


def test_the_config_of_the_page_becomes_the_registry_of_the_page(tmp_path: Path) -> None:
    """What the page shows is what the import proposes."""
    assert document(proposal(tmp_path)) == yaml.safe_load(REGISTRY)


def test_the_commands_of_the_page_make_a_config_that_serves_the_same_names(tmp_path: Path) -> None:
    """init writes a registry with these models in it, and --adopt replaces their entries and no other."""
    wanted = document(proposal(tmp_path))
    kept = {name: os.environ[name] for name in ("LANG", "LD_LIBRARY_PATH") if name in os.environ}
    path = f"{Path(sys.prefix) / 'bin'}{os.pathsep}{os.environ['PATH']}"
    # No server of this machine is to be found: port 9 discards.
    env = {**kept, "HOME": str(tmp_path), "PATH": path, "OLLAMA_HOST": "http://127.0.0.1:9"}
    assert [command.split()[0] for command in SH] == ["litellm-registry", "generate-litellm-config"]

    for command in SH:
        subprocess.run(["sh", "-ec", command], cwd=tmp_path, env=env, check=True, capture_output=True)

    registry = yaml.safe_load((tmp_path / "model-registry.yaml").read_text())
    assert [model for model in registry["models"] if model in wanted["models"]] == wanted["models"]
    assert registry["routing"]["tiers"].items() >= wanted["routing"]["tiers"].items()
    assert registry["routing"]["aliases"].items() >= wanted["routing"]["aliases"].items()
    entries = yaml.safe_load((tmp_path / "litellm-config.yaml").read_text())["model_list"]
    ours = {one["model_info"]["id"] for one in entries if "model_info" in one}
    assert ours >= {"fast@0", "fast@1", "openai-qwen3-235b@0", "gpt@0"}
    assert [one["model_name"] for one in entries if "model_info" not in one] == ["openrouter/*"]
