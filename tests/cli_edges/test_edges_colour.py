"""Colours: on a terminal only; NO_COLOR forbids, FORCE_COLOR asks, TERM=dumb has none. Answers are the same text."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

SCRIPT = str(Path(sys.executable).parent / "litellm-registry")
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
COLOURED = {"status": ["status"], "explain": ["explain", "--tier", "large"]}
PLAIN = {
    "list": ["list"],
    "keys": ["keys", "list"],
    "audit": ["audit"],
    "decisions": ["decisions"],
    "doctor": ["doctor"],
    "validate": ["validate"],
    "error": ["explain", "--tier", "nothing"],
    "help": ["--help"],
}
COMMANDS = COLOURED | PLAIN


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    model = {
        "id": "kimi", "role": "chat", "lifecycle": "always-on", "metered": False,
        "litellm": {"model": "openai/k", "api_base": "http://127.0.0.1:9/v1"},
    }  # fmt: skip
    data = {"version": 1, "models": [model], "routing": {"tiers": {"large": ["kimi"]}}}
    (tmp_path / "model-registry.yaml").write_text(yaml.safe_dump(data))
    key = ["keys", "create", "--alias", "agent"]
    subprocess.run([SCRIPT, *key], cwd=tmp_path, env=environment(tmp_path), capture_output=True, check=True)
    return tmp_path


def environment(folder: Path, **more: str) -> dict[str, str]:
    state = {"LITELLM_REGISTRY_STATE": f"sqlite:///{folder}/state.sqlite"}
    return {"PATH": os.environ["PATH"], "HOME": str(folder), "TERM": "xterm-256color", **state, **more}


def piped(folder: Path, words: list[str], **env: str) -> str:
    done = subprocess.run([SCRIPT, *words], cwd=folder, env=environment(folder, **env), capture_output=True, text=True)
    return done.stdout + done.stderr


def at_a_terminal(folder: Path, words: list[str], **env: str) -> str:
    fd, child = pty.openpty()
    whole = environment(folder, COLUMNS="200", LINES="50", **env)
    process = subprocess.Popen([SCRIPT, *words], cwd=folder, env=whole, stdin=child, stdout=child, stderr=child)
    os.close(child)
    text = b""
    while True:
        try:
            data = os.read(fd, 65536)
        except OSError:
            break
        if not data:
            break
        text += data
    process.wait(60)
    os.close(fd)
    return text.decode()


@pytest.mark.parametrize("name", COMMANDS)
def test_a_pipe_has_no_colours(folder: Path, name: str) -> None:
    """Programs read text."""
    assert ESCAPE.findall(piped(folder, COMMANDS[name])) == []


@pytest.mark.parametrize("name", COLOURED)
def test_a_terminal_has_colours(folder: Path, name: str) -> None:
    """Where people look."""
    assert "\x1b[" in at_a_terminal(folder, COMMANDS[name])


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {"NO_COLOR": "1", "FORCE_COLOR": "1"}])
@pytest.mark.parametrize("name", COMMANDS)
def test_a_terminal_that_wants_none(folder: Path, name: str, env: dict[str, str]) -> None:
    """NO_COLOR, also against FORCE_COLOR, and a terminal that knows no control sequences."""
    assert ESCAPE.findall(at_a_terminal(folder, COMMANDS[name], **env)) == []


@pytest.mark.parametrize("name", COLOURED)
def test_forced_into_a_pipe(folder: Path, name: str) -> None:
    """FORCE_COLOR colours a pipe too, and the text between is the same."""
    forced = piped(folder, COMMANDS[name], FORCE_COLOR="1")
    assert "\x1b[" in forced
    assert shape(ESCAPE.sub("", forced)) == shape(piped(folder, COMMANDS[name]))
    assert ESCAPE.findall(piped(folder, COMMANDS[name], FORCE_COLOR="1", NO_COLOR="1")) == []


def shape(text: str) -> list[str]:
    """The words without numbers: ages and times are others each time."""
    return re.sub(r"[0-9]+", "N", text).split()


@pytest.mark.parametrize("name", COLOURED)
def test_json_has_no_colours(folder: Path, name: str) -> None:
    """Whatever is asked for."""
    assert ESCAPE.findall(piped(folder, [*COMMANDS[name], "--json"], FORCE_COLOR="1")) == []
