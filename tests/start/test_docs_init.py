"""docs/init.md: its commands are run, its options are those there are. The three-command block is run by tests/start_host."""

from __future__ import annotations

import re
from pathlib import Path

from litellm_registry_hook import load_registry
from litellm_registry_hook.cli.init_cmd import init
from tests.start.init_kit import BGE, GEMMA, SCRIPT, Stand, ollama_routes
from tests.start.test_init_cli import on_a_terminal

PAGE = (Path(__file__).resolve().parents[2] / "docs/init.md").read_text(encoding="utf-8")


def test_the_page_has_every_option_and_no_other() -> None:
    """Each option of the command is explained once in a table, and none that it lacks."""
    rows = "\n".join(line for line in PAGE.splitlines() if line.startswith("|"))
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", rows)) - {"--registry"}
    has = {name for option in init.params for name in option.opts if name.startswith("--")} - {"--registry"}
    assert named == has


def test_the_bare_command(tmp_path: Path) -> None:
    """On a terminal: it finds the Ollama of $OLLAMA_HOST, asks, takes Enter for the safe answers, and writes."""
    blocks = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    assert [block.split("\n")[0].split(" --")[0] for block in blocks] == ["litellm-registry init"] * 2
    command = blocks[1].split()
    with Stand(ollama_routes({"gemma3:4b": GEMMA, "bge-m3:latest": BGE})) as ollama:
        said = on_a_terminal(
            tmp_path, [SCRIPT, *command[1:], "--no-gpu"], [("next:", "")], OLLAMA_HOST=ollama.url.removeprefix("http://")
        )  # fmt: skip
    assert "generate-litellm-config" in said and "litellm-registry serve" in said
    assert load_registry(tmp_path / "model-registry.yaml").routing.tiers["embed"] == ("bge-m3",)
