"""Shell completion: what the shells get, from the registry that the command would read, fast and without a word."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent
REGISTRY = """
version: 1
models:
  - {id: kimi, role: chat, lifecycle: quota-gated, metered: false}
  - {id: bge-m3, role: embedder, lifecycle: always-on}
  - {id: paid-fallback, lifecycle: cost-gated, metered: true}
routing:
  tiers: {large: [kimi, paid-fallback], embed: [bge-m3]}
  aliases: {embedder: embed}
  metered_opt_in: [agent, {key: other}, 7]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model-registry.yaml").write_text(REGISTRY)
    return tmp_path


def completed(folder: Path, line: str, *, script: str = "litellm-registry", **env: str) -> tuple[list[str], str]:
    """Ask as bash does for what goes on after a line; a line that ends in a blank begins a new word."""
    whole = {
        "PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(folder), "COMP_WORDS": f"{script} {line}",
        "COMP_CWORD": str(len(line.split()) + line.endswith(" ")) if line else "1",
        f"_{script.replace('-', '_').upper()}_COMPLETE": "bash_complete", **env,
    }  # fmt: skip
    done = subprocess.run([BIN / script], cwd=folder, env=whole, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line], done.stderr


EXPECTED = {
    "exp": ["explain"],
    "explain --t": ["--tier"],
    "explain --tier ": ["large", "embed", "embedder"],
    "explain --tier e": ["embed", "embedder"],
    "resolve --tier l": ["large"],
    "explain --model ": ["kimi", "bge-m3", "paid-fallback"],
    "probe-config --id b": ["bge-m3"],
    "preload-check --resident k": ["kimi"],
    "calibrate kimi b": ["bge-m3"],
    "decisions --tier lar": ["large"],
    "opt-in add agent --model ": ["paid-fallback"],
    "opt-in rem": ["remove"],
    "opt-in remove ": ["agent", "other"],
    "keys create --models la": ["large"],
    "audit --kind r": ["removed", "refused"],
    "completion z": ["zsh"],
    "validate --registry mod": ["mod"],
}


@pytest.mark.parametrize("line", EXPECTED)
def test_what_is_completed(folder: Path, line: str) -> None:
    """Commands, options, ids, tiers, aliases, keys and choices; nothing on stderr."""
    assert completed(folder, line) == (EXPECTED[line], "")


def test_the_registry_that_the_command_would_read(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """--registry, before or after the command, and LITELLM_REGISTRY say where the names come from."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    file = str(folder / "model-registry.yaml")
    for line in (f"--registry {file} resolve --tier l", f"resolve --registry {file} --tier l"):
        assert completed(elsewhere, line) == (["large"], "")
    assert completed(elsewhere, "resolve --tier l", LITELLM_REGISTRY=file) == (["large"], "")
    assert completed(elsewhere, "resolve --tier l") == ([], "")


@pytest.mark.parametrize(
    "text",
    ["", "[", "version: 1\nmodels: 7\nrouting: [x]", "models: [1, {id: [2]}, {id: kimi}]\nrouting: {tiers: 3}", "\x00"],
)
def test_a_broken_file_is_silent(folder: Path, text: str) -> None:
    """Whatever the file holds: no message in the middle of somebody's command line."""
    (folder / "model-registry.yaml").write_text(text)
    expected = ["kimi"] if "kimi" in text else []
    assert completed(folder, "explain --model ") == (expected, "")
    assert completed(folder, "explain --tier ") == ([], "")


def test_generate_litellm_config(folder: Path) -> None:
    """Its options, and files where it takes a file."""
    assert completed(folder, "--ru", script="generate-litellm-config") == (["--running"], "")
    assert completed(folder, "--config li", script="generate-litellm-config") == (["li"], "")


def test_it_imports_little(folder: Path) -> None:
    """Neither LiteLLM nor pydantic is imported for a name: a key stroke must not wait for them."""
    code = (
        "import sys\n"
        "from litellm_registry_hook.cli.main import main\n"
        "main([])\n"
        "print(sorted({'litellm', 'pydantic', 'httpx', 'rich'} & sys.modules.keys()), file=sys.stderr)\n"
    )
    env = {
        "PATH": os.environ["PATH"], "COMP_WORDS": "litellm-registry explain --tier l", "COMP_CWORD": "3",
        "_LITELLM_REGISTRY_COMPLETE": "bash_complete",
    }  # fmt: skip
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, env=env, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("plain,large\n", "[]\n")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script(folder: Path, shell: str) -> None:
    """It is for both console scripts; a shell that is there reads it."""
    done = subprocess.run([BIN / "litellm-registry", "completion", shell], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert "_LITELLM_REGISTRY_COMPLETE" in done.stdout
    assert "_GENERATE_LITELLM_CONFIG_COMPLETE" in done.stdout
    if shutil.which(shell):
        (folder / "script").write_text(done.stdout)
        assert subprocess.run([shell, "-n", "script"], cwd=folder, capture_output=True, text=True).stderr == ""


BASH = {
    "litellm-registry explain --tier em": ["embed", "embedder"],
    "litellm-registry explain --tier=em": ["embed", "embedder"],
    "litellm-registry exp": ["explain"],
    "litellm-registry explain --tier ": ["large", "embed", "embedder"],
    "litellm-registry --json explain --model g": ["gemma3:4b", "gemma3:12b"],
    "litellm-registry explain --model gemma3:": ["4b", "12b"],
    "litellm-registry explain --model gemma3:1": ["12b"],
    "litellm-registry explain --model=gemma3:1": ["12b"],
    "litellm-registry opt-in remove agent:t": ["torgash"],
    "generate-litellm-config --adm": ["--admin-key-env"],
}


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.parametrize("line", BASH)
def test_bash_uses_it(folder: Path, line: str) -> None:
    """The script, read by bash, fills in the answer: of a word with a colon what comes after it, as bash wants it."""
    text = REGISTRY.replace("models:\n", "models:\n  - {id: 'gemma3:4b'}\n  - {id: 'gemma3:12b'}\n")
    (folder / "model-registry.yaml").write_text(text.replace("[agent,", "['agent:torgash',"))
    script = line.split()[0]
    lines = (
        f'eval "$(litellm-registry completion bash)"; COMP_LINE=$1; COMP_POINT=${{#1}}; '
        f'_{script.replace("-", "_")}_completion {script}; printf "%s\\n" "${{COMPREPLY[@]}}"'
    )
    env = {"PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(folder)}
    words = ["bash", "-c", lines, "bash", line]
    done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, timeout=60)
    assert (done.stdout.splitlines(), done.stderr) == (BASH[line], "")
