"""Children that end with the demo, however it ends.

`python -m litellm_registry_hook.demo.tether COMMAND …` asks the kernel for SIGTERM when its parent dies (Linux:
prctl(2), PR_SET_PDEATHSIG, which outlives execve) and becomes the command.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def die_with_parent(signum: int = signal.SIGTERM) -> None:
    """Have this process signalled when its parent dies; does nothing where the kernel is not Linux."""
    if not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signum)


def tethered(command: list[str]) -> list[str]:
    """Return the command that runs a command under a tether."""
    return [sys.executable, "-m", "litellm_registry_hook.demo.tether", str(os.getpid()), *command]


def main(argv: list[str]) -> None:
    """Tether this process, then become the command."""
    parent, *command = argv
    die_with_parent()
    if os.getppid() != int(parent):  # it died before the kernel was asked
        raise SystemExit(1)
    os.execvp(command[0], command)  # noqa: S606


if __name__ == "__main__":
    main(sys.argv[1:])
