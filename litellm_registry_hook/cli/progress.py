"""A progress bar on stderr, where that is a terminal; rich leaves colours out where NO_COLOR says so."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


@final
class Bar:
    """A context manager; without a terminal it shows nothing."""

    def __init__(self, total: int) -> None:
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        if total and sys.stderr.isatty():
            from rich.console import Console  # noqa: PLC0415
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

            self._progress = Progress(
                BarColumn(20),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("{task.description}", markup=False),
                console=Console(stderr=True),
                transient=True,
            )
            self._task = self._progress.add_task("", total=total)

    def __enter__(self) -> Bar:
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._progress is not None:
            self._progress.stop()

    def say(self, text: str) -> None:
        """Show what is being done."""
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, description=text)

    def step(self) -> None:
        """One more is done."""
        if self._progress is not None and self._task is not None:
            self._progress.advance(self._task)
