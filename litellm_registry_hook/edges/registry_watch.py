"""Notices that the registry file was edited, replaced, or that the link to it was turned."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

Signature = tuple[int, int, int, int]
GONE: Final[Signature] = (0, 0, 0, 0)


class RegistryWatch:
    """Looks at one file; a stat each time, no watcher service to run out of.

    Follows links: editors replace the file, and a mounted config map turns a link.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen = self._look()

    def changed(self) -> bool:
        """Say whether the file differs from the last time it was asked about."""
        now = self._look()
        if now == self._seen:
            return False
        self._seen = now
        return True

    def _look(self) -> Signature:
        try:
            found = os.stat(self.path)  # noqa: PTH116  follows links, raises OSError alone
        except OSError:
            return GONE
        return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size
