"""Replace a file at once: a reader sees the old bytes or the new ones, never a part."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from litellm_registry_hook.errors import ConfigError

LOCK_SECONDS = 10.0
_NEW_FILE_MODE = 0o644


def replace_bytes(path: Path, content: bytes) -> None:
    """Replace a file's content, or make the file; mode and owner stay, a symlink keeps pointing where it did.

    The new content is written beside the file that is really meant, flushed to disk and renamed over it. Where the file
    is a mount of its own (a single file handed into a container) it cannot be renamed over; it is written in place.

    Raises:
        OSError: the folder cannot be written to.

    """
    target = Path(os.path.realpath(path))
    try:
        status = target.stat()
    except FileNotFoundError:
        status = None
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fchmod(file.fileno(), _NEW_FILE_MODE & ~_umask() if status is None else status.st_mode & 0o7777)
            if status is not None:
                with contextlib.suppress(PermissionError):  # only root may give a file away
                    os.fchown(file.fileno(), status.st_uid, status.st_gid)
            os.fsync(file.fileno())
        try:
            Path(temporary).replace(target)
        except OSError as error:
            if error.errno not in {errno.EBUSY, errno.EXDEV}:
                raise
            _write_in_place(target, content)
            Path(temporary).unlink()
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            Path(temporary).unlink()
        raise
    _sync_folder(target.parent)


@contextlib.contextmanager
def one_writer(path: Path) -> Iterator[None]:
    """Hold the lock of a file against other runs of ours; it lies in the temporary folder, not beside the file.

    Raises:
        ConfigError: another run holds it for longer than 10 seconds.

    """
    target = os.path.realpath(path)
    digest = hashlib.sha256(os.fsencode(target)).hexdigest()[:16]
    lock = Path(tempfile.gettempdir()) / f"litellm-registry-hook-{os.getuid()}-{digest}.lock"
    try:
        with FileLock(lock, timeout=LOCK_SECONDS):
            yield
    except Timeout:
        raise ConfigError(
            f"{path}: another run has been writing it for {LOCK_SECONDS:.0f} seconds (lock {lock}): try again"
        ) from None


def _write_in_place(target: Path, content: bytes) -> None:
    with target.open("r+b") as file:
        file.write(content)
        file.truncate()
        file.flush()
        os.fsync(file.fileno())


def _umask() -> int:
    current = os.umask(0o077)
    os.umask(current)
    return current


def _sync_folder(folder: Path) -> None:
    """Flush the rename itself; some file systems refuse it, and the content is safe all the same."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
