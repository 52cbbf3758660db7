"""The pages that are made of the code are up to date, and name all that the code has."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from litellm_registry_hook.cli.main import COMMANDS
from litellm_registry_hook.core.header_docs import ANSWER, REQUEST
from litellm_registry_hook.core.metrics import METRICS

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "litellm_registry_hook"


def sources(*folders: str) -> str:
    """The text of all modules of some folders."""
    return "\n".join(path.read_text() for folder in folders for path in sorted((PACKAGE / folder).rglob("*.py")))


def test_the_reference_is_made_of_the_code_as_it_is() -> None:
    """Commands, metrics, headers, keys and schema in docs/ are what scripts/reference.py writes now."""
    done = subprocess.run(
        [sys.executable, ROOT / "scripts/reference.py", "--check"], capture_output=True, text=True, cwd=ROOT
    )

    assert (done.stdout, done.returncode) == ("", 0), done.stderr


def test_every_command_has_a_section() -> None:
    """Each command of the help is described, those below a group too."""
    told = re.findall(
        r"^#+ (litellm-registry [\w -]+|generate-litellm-config)$", (ROOT / "docs/commands.md").read_text(), re.M
    )

    assert {name.split()[1] for name in told if " " in name} == set(COMMANDS)
    assert {"generate-litellm-config", "litellm-registry opt-in add", "litellm-registry keys rotate"} <= set(told)


def test_the_headers_of_the_page_are_those_of_the_code() -> None:
    """No header of ours is read or sent that the tables do not have, and none of them is made up."""
    named = {name.partition(":")[0] for name in (*REQUEST, *ANSWER)} - {"Retry-After", "x-should-retry"}
    used = set(re.findall(r"[\"'](x-registry-[a-z-]+)[\"']", sources("adapter", "core").replace('b"x-', '"x-')))

    assert used - {"x-registry-"} == named


def test_every_metric_is_made() -> None:
    """Each metric of the table is made in the adapter, by its name."""
    text = sources("adapter")
    made = {name for name in METRICS if f'"{name}"' in text or f'"{name.removeprefix("gpu_")}"' in text}

    assert made == set(METRICS)
