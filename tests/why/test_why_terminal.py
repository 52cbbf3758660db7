"""status on a terminal: colours, none with NO_COLOR, and --watch in place until Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from tests.host.shapes import chat_model

SCRIPT = str(Path(sys.executable).parent / "litellm-registry")
COLOUR, ALTERNATE, HOME = "\x1b[32m", "\x1b[?1049h", "\x1b[H"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A registry with one model at nobody's address."""
    model = chat_model("kimi", "http://127.0.0.1:9/v1")
    routing = {"tiers": {"large": ["kimi"]}, "metered_opt_in": []}
    (tmp_path / "model-registry.yaml").write_text(yaml.safe_dump({"version": 1, "models": [model], "routing": routing}))
    return tmp_path


class Terminal:
    """A command at a terminal of 100 columns."""

    def __init__(self, folder: Path, *arguments: str, **env: str) -> None:
        self.fd, child = pty.openpty()
        whole = {
            "PATH": os.environ["PATH"], "HOME": str(folder), "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40",
            "LITELLM_REGISTRY_STATE": f"sqlite:///{folder}/state.sqlite", **env,
        }  # fmt: skip
        self.process = subprocess.Popen(
            [SCRIPT, *arguments], cwd=folder, env=whole, stdin=child, stdout=child, stderr=child, start_new_session=True
        )
        os.close(child)
        self.text = ""

    def read(self, until: str = "", times: int = 1, seconds: float = 60.0) -> str:
        """Read until a text has come so many times, or to the end."""
        end = time.monotonic() + seconds
        while not until or self.text.count(until) < times:
            ready, _, _ = select.select([self.fd], [], [], max(0.0, end - time.monotonic()))
            try:
                data = os.read(self.fd, 65536) if ready else b""
            except OSError:
                data = b""
            if not data:
                break
            self.text += data.decode(errors="replace")
        return self.text

    def close(self) -> int:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGINT)
        try:
            return self.process.wait(30)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            os.close(self.fd)


def test_colours(folder: Path) -> None:
    """On a terminal there are colours."""
    one = Terminal(folder, "status")
    text = one.read()

    assert one.process.wait(30) == 0
    one.close()
    assert f"{COLOUR}kimi@0" in text


def test_no_colours(folder: Path) -> None:
    """With NO_COLOR the same words come without one escape sequence."""
    one = Terminal(folder, "status", NO_COLOR="1")
    text = one.read()

    assert one.process.wait(30) == 0
    one.close()
    assert "kimi@0" in text
    assert "\x1b" not in text


def test_watching(folder: Path) -> None:
    """--watch draws again in the same place, shows an edit, and ends with Ctrl-C, the screen as it was."""
    one = Terminal(folder, "status", "--watch")
    first = one.read("kimi@0")
    file = folder / "model-registry.yaml"
    file.write_text(file.read_text().replace("large:", "other:"))
    second = one.read("other")
    code = one.close()

    assert ALTERNATE in first
    assert "large" in first
    assert HOME in second[len(first) :]
    assert code == 130


def test_watching_into_a_pipe(folder: Path) -> None:
    """Into a pipe each picture follows the one before, in plain text."""
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "LITELLM_REGISTRY_STATE": f"sqlite:///{folder}/state.sqlite",
    }
    with subprocess.Popen(
        [SCRIPT, "status", "--watch"], cwd=folder, env=env, stdout=subprocess.PIPE, text=True
    ) as process:
        lines: list[str] = []
        for line in process.stdout:
            lines.append(line)
            if sum(one.startswith("registry ") for one in lines) == 2:
                break
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        code = process.wait(30)

    assert code == 130
    assert "\x1b" not in "".join(lines)
    assert [line for line in lines if line.startswith("large")] == ["large  kimi@0     -     -\n"]
