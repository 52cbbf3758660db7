"""Read a probe's file: its values are as old as the file."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from litellm_registry_hook.core.availability.probes import Answer

LARGEST: Final = 1024 * 1024


def ask_file(path: str) -> Answer:
    """Return what a regular file of at most 1 MB holds, with the moment it was written."""
    try:
        where = Path(path).expanduser()
        # A pipe of this name would wait for a writer.
        number = os.open(where, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError, RuntimeError) as error:
        return Answer(error=_why(error))
    try:
        about = os.fstat(number)
        if not stat.S_ISREG(about.st_mode):
            return Answer(error="probe_file is no regular file")
        with os.fdopen(number, "rb", closefd=False) as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        return Answer(error=_why(error))
    finally:
        os.close(number)
    if len(data) > LARGEST:
        return Answer(error=f"probe_file is larger than {LARGEST // 2**20} MB")
    return Answer(data.decode("utf-8-sig", errors="replace"), read_at=about.st_mtime)


def _why(error: Exception) -> str:
    return f"probe_file cannot be read: {getattr(error, 'strerror', None) or type(error).__name__}"
