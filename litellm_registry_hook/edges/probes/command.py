"""Run a probe's command: without a shell, with next to no environment, and with an end for it and its children."""

from __future__ import annotations

import contextlib
import os
import selectors
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import IO, Final

from litellm_registry_hook.core.availability.probes import TIMEOUT_S, Answer

ALWAYS: Final = ("PATH", "HOME", "LANG")
LARGEST: Final = 1024 * 1024
SAID: Final = 200
MIN_SECRET: Final = 6
_LOOK_S: Final = 0.1
_DRAIN_S: Final = 1.0


def ask_command(command: str, names: Sequence[str], env: Mapping[str, str], *, timeout_s: float = TIMEOUT_S) -> Answer:
    """Run a command and return what it printed.

    It runs in a process group of its own, which is killed when its time is over and when it has ended, so that nothing
    it started is left. Words that need a shell are for `sh -c '…'`.

    Args:
        command: split as a shell would. names: environment variables it gets beside PATH, HOME and LANG.
        env: where they are taken from; their values do not get into errors.
        timeout_s: seconds it may run.

    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        return Answer(error=f"probe_command cannot be split: {error}")
    if not words:
        return Answer(error="probe_command is empty")
    given = {name: env[name] for name in (*ALWAYS, *names) if name in env}
    try:
        # S603: the operator's own registry names the command.
        process = subprocess.Popen(  # noqa: S603
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=given,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        return Answer(error=f"probe_command cannot be started: {why}", detail=words[0])
    secrets = [env[name] for name in names if len(env.get(name, "")) >= MIN_SECRET]
    try:
        out, err, problem = _watch(process, time.monotonic() + timeout_s)
    finally:
        _kill(process)
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
        code = process.wait()
    if problem is not None:
        return Answer(error=problem or f"no answer within {timeout_s:g} s, killed")
    if code:
        said = _hide(" ".join(err.decode(errors="replace").split()), secrets)
        said = said if len(said) <= SAID else said[: SAID - 1] + "…"
        how = f"exit {code}" if code > 0 else f"killed by signal {-code}"
        return Answer(error=how, detail=said)
    return Answer(_hide(out.decode(errors="replace"), secrets))


def _watch(process: subprocess.Popen[bytes], end: float) -> tuple[bytes, bytes, str | None]:
    """Read both pipes to their end; a problem of '' is that the time is over."""
    parts: dict[IO[bytes], bytearray] = {}
    with selectors.DefaultSelector() as selector:
        for pipe in (process.stdout, process.stderr):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
            selector.register(pipe, selectors.EVENT_READ)
            parts[pipe] = bytearray()
        found = list(parts.values())
        ended = False
        while selector.get_map():
            left = end - time.monotonic()
            if left <= 0:
                return bytes(found[0]), bytes(found[1]), None if ended else ""
            for key, _ in selector.select(min(left, _LOOK_S)):
                pipe = key.fileobj  # type: ignore[assignment]
                assert pipe is not None
                more = pipe.read(65536)
                if more:
                    parts[pipe] += more
                elif more is not None:
                    selector.unregister(pipe)
            if len(found[0]) > LARGEST or len(found[1]) > LARGEST:
                return b"", b"", f"it printed more than {LARGEST // 2**20} MB, killed"
            if not ended and _has_ended(process):
                # What it left behind may hold the pipes open for ever.
                ended = True
                _kill(process)
                end = min(end, time.monotonic() + _DRAIN_S)
        while not ended and not _has_ended(process):
            if time.monotonic() >= end:
                return b"", b"", ""
            time.sleep(_LOOK_S / 10)
        return bytes(found[0]), bytes(found[1]), None


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Say whether it has ended, and leave it unreaped: its number stays its own until the group is killed."""
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:  # somebody has reaped it
        return True


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


def _hide(text: str, secrets: Sequence[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, "***")
    return text
