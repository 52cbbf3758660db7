"""docs/gpu.md as written: every command of it runs in the home of the shipped registry."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

from gpu_cli_kit import SCRIPT, Home

PAGE = Path(__file__).resolve().parents[2] / "docs" / "gpu.md"
COMMANDS = {
    "litellm-registry warm": (0, "bge: loaded\nreranker: was loaded already\n"),
    "litellm-registry preload-check --id local-small --live": (0, None),
    "litellm-registry calibrate": (1, None),
}


def test_the_commands_of_the_page(home: Home) -> None:
    """The never-evict set is loaded, the chat model would fit, and nothing is measured on a GPU that is in use unasked."""
    blocks = re.findall(r"```sh\n(.*?)\n```", PAGE.read_text(), re.DOTALL)
    assert blocks == list(COMMANDS)
    home.file.write_text(
        home.file.read_text().replace("id: small\n", "id: local-small\n").replace("[small,", "[local-small,")
    )
    path = f"{Path(SCRIPT).parent}{os.pathsep}{home.environ['PATH']}"
    seen = {}
    for block in blocks:
        done = subprocess.run(
            ["sh", "-c", block], cwd=home.folder, env={**home.environ, "PATH": path}, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        seen[block] = (done.returncode, done.stdout, done.stderr)
    for block, (code, out) in COMMANDS.items():
        assert seen[block][0] == code, seen[block]
        assert out is None or seen[block][1] == out
    assert json.loads(seen["litellm-registry preload-check --id local-small --live"][1])["ok"] is True
    assert "--yes" in seen["litellm-registry calibrate"][2]
    assert home.loaded() == ["bge-m3:latest"]
