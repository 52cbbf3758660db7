"""Run a click command: exit codes, errors as one line, never a traceback."""

from __future__ import annotations

import os
import re
import sys
import tempfile
import traceback
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

import click

from litellm_registry_hook._version import __version__
from litellm_registry_hook.cli.output import error
from litellm_registry_hook.errors import RegistryHookError

EXIT_NO = 1
EXIT_ERROR = 2
EXIT_INTERRUPTED = 130

_SECRET = re.compile(r"sk-[A-Za-z0-9_-]{8,}")


def run(command: click.Command, name: str, arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    A command answers with an int or None (= 0). Errors meant for people are printed as `error: …`; anything else is a
    bug: one line, with the details in a log file.
    """
    stdout = sys.stdout
    try:
        answer = command.main(args=arguments, prog_name=name, standalone_mode=False)
    except click.exceptions.Abort:
        return EXIT_INTERRUPTED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except click.ClickException as problem:
        error(_usage(problem))
        return EXIT_ERROR
    except RegistryHookError as problem:
        error(str(problem))
        return EXIT_ERROR
    except SystemExit as end:
        # click wraps stdout when its pipe is closed and exits with 1, which means "no" here: the reader has had enough.
        if sys.stdout is not stdout:
            return 0
        return end.code if isinstance(end.code, int) else EXIT_ERROR if end.code else 0
    except Exception as problem:  # noqa: BLE001 - the last line of defence
        error(f"a bug in litellm-registry-hook: {type(problem).__name__}; details in {_log(problem)}")
        return EXIT_ERROR
    return answer if isinstance(answer, int) else 0


def _usage(problem: click.ClickException) -> str:
    # click repeats surplus arguments, and one of them may be a key.
    text = _SECRET.sub("sk-…", problem.format_message())
    if isinstance(problem, click.UsageError) and problem.ctx is not None:
        return f"{text} (see `{problem.ctx.command_path} --help`)"
    return text


def _log(problem: Exception) -> Path:
    """Write a bug's details where its user can find them, readable by nobody else."""
    stamp = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    about = f"litellm-registry-hook {__version__}, Python {sys.version}\narguments: {len(sys.argv) - 1}\n\n"
    text = about + "".join(traceback.format_exception(problem))
    for folder in _log_folders():
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            number, name = tempfile.mkstemp(prefix=f"bug-{stamp}-", suffix=".log", dir=folder)
        except OSError:
            continue
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(text)
        return Path(name)
    return Path(os.devnull)


def _log_folders() -> tuple[Path, ...]:
    state = os.environ.get("XDG_STATE_HOME")
    home = Path(state) if state else Path("~/.local/state").expanduser()
    return home / "litellm-registry-hook", Path(tempfile.gettempdir())
