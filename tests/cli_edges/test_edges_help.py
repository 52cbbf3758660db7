"""Every command's help fits a screen and ends with a command line that the command takes; slips are told what was meant."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from litellm_registry_hook.cli.generate import generate
from litellm_registry_hook.cli.main import COMMANDS, cli, main

SCREEN, LONG, WIDTH = 24, 40, 80
# They have more options than a screen has lines.
LONGER = {"litellm-registry", "litellm-registry init"}


def commands() -> Iterator[tuple[str, click.Command]]:
    yield "generate-litellm-config", generate
    yield "litellm-registry", cli
    context = click.Context(cli)
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        yield f"litellm-registry {name}", command
        if isinstance(command, click.Group):
            for below, one in command.commands.items():
                yield f"litellm-registry {name} {below}", one


EVERY = dict(commands())


def help_of(name: str) -> list[str]:
    program, *words = name.split()
    command = generate if program == "generate-litellm-config" else cli
    done = CliRunner().invoke(command, [*words, "--help"], prog_name=program, env={"COLUMNS": "80"})
    assert done.exit_code == 0
    return done.output.splitlines()


def test_every_command_is_looked_at() -> None:
    """The table's commands and those of the groups."""
    assert {f"litellm-registry {name}" for name in COMMANDS} <= EVERY.keys()
    assert "litellm-registry opt-in add" in EVERY


@pytest.mark.parametrize("name", EVERY)
def test_help_fits_a_screen_and_ends_with_an_example(name: str) -> None:
    """24 lines of 80 columns, a few 40; the last line is a command line of that command, with options that it has."""
    lines = help_of(name)
    assert len(lines) <= (LONG if name in LONGER else SCREEN)
    assert max(map(len, lines)) <= WIDTH
    example = next(line.strip() for line in reversed(lines) if line.strip())
    if name == "litellm-registry init":  # its examples stand before its many options
        example = next(line.strip() for line in lines if line.strip().startswith(name))
    words = shlex.split(example, comments=True)
    if name == "litellm-registry completion":
        words = shlex.split(words[1].removeprefix("$(").removesuffix(")"))
    assert " ".join(words).startswith(name)
    told = "\n".join(lines)
    if name not in {"litellm-registry", "litellm-registry keys", "litellm-registry opt-in"}:
        assert [word for word in words if word.startswith("--") and f"  {word} " not in told] == []


REGISTRY = """
version: 1
models:
  - {id: kimi, role: chat, lifecycle: always-on, metered: false,
     litellm: {model: openai/k, api_base: "http://127.0.0.1:9/v1"}}
  - {id: local-small, role: chat, lifecycle: always-on, metered: false, litellm: {model: ollama_chat/g},
     endpoints: [{api_base: "http://127.0.0.1:9"}]}
  - {id: paid-fallback, role: chat, lifecycle: cost-gated, metered: true, litellm: {model: openai/p}}
routing: {tiers: {large: [kimi, paid-fallback], small: [local-small]}, aliases: {big: large}}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "model-registry.yaml").write_text(REGISTRY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LITELLM_REGISTRY", raising=False)
    monkeypatch.setenv("LITELLM_REGISTRY_STATE", f"sqlite:///{tmp_path}/state.sqlite")
    return tmp_path


MODEL = "error: the registry has no model `kimy`; did you mean `kimi`?"
TIER = "error: the registry has no tier `larg`; did you mean `large`? tiers: large, small"
SLIPS = {
    "exlain": "error: No such command 'exlain'. Did you mean 'explain'? (see `litellm-registry --help`)",
    "preload_check": "error: No such command 'preload_check'. Did you mean 'preload-check'? (see `litellm-registry --help`)",
    "nothing-like-it": "error: No such command 'nothing-like-it'. (see `litellm-registry --help`)",
    "explain --tier larg": TIER,
    "resolve --tier larg": TIER,
    "explain --tier bigg": "error: the registry has no tier `bigg`; did you mean `big`? tiers: large, small",
    "explain --model kimy": MODEL,
    "probe-config --id kimy": MODEL,
    "preload-check --id kimy --headroom-mb 1": MODEL,
    "preload-check --id kimi --headroom-mb 1 --resident kimy": MODEL,
    "calibrate kimy": MODEL,
    "decisions --tier larg": "no decisions in STATE; did you mean the tier `large`?",
    "decisions --tier unlike": "no decisions in STATE; the registry has no tier 'unlike'",
    "decisions --tier large": "no decisions in STATE",
    "opt-in add agent --model paid-falback --unpinned": (
        "error: the registry has no model 'paid-falback'; did you mean `paid-fallback`? "
        "(for a model of the proxy alone say `foreign`)"
    ),
}


@pytest.mark.parametrize("line", SLIPS)
def test_a_slip_is_told_what_was_meant(line: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The nearest command, tier, alias or id, on stderr."""
    code = main(shlex.split(line))
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", SLIPS[line].replace("STATE", f"{folder}/state.sqlite") + "\n")
    assert code == (0 if line.startswith("decisions") else 2)


@pytest.mark.parametrize("line", ["explain --teir x", "warm --timeot 3", "keys creat", "opt-in lst"])
def test_options_and_commands_of_groups(line: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """click itself names the nearest option, and the nearest command of a group."""
    assert main(shlex.split(line)) == 2
    assert "Did you mean" in capsys.readouterr().err


def test_a_mistyped_alias_of_a_key(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The nearest alias among the keys that there are."""
    assert main(["keys", "create", "--alias", "agent"]) == 0
    capsys.readouterr()
    assert main(["keys", "revoke", "agnet"]) == 1
    told = "there is no key with alias `agnet`; did you mean `agent`? `litellm-registry keys list` shows all\n"
    assert capsys.readouterr().err == told
