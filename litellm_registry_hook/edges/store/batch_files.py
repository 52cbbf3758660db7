"""Batch input files that went through the gate: what their lines call, and how many there are."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Final

from litellm_registry_hook.edges.store.database import Database

KEPT: Final = timedelta(days=30)
"""How long a file is remembered; OpenAI's own batch files end then, too."""


@dataclass(frozen=True, slots=True)
class BatchFile:
    """One file as it left for its provider.

    Attributes:
        provider, api_base: where it lies. id: as the provider names it.
        model: what every line calls, in the provider's words.
        lines: how many there are.

    """

    provider: str
    api_base: str
    id: str
    model: str
    lines: int


def add(database: Database, file: BatchFile, at: datetime) -> None:
    """Remember a file, and forget those that are older than KEPT."""
    with database.writing() as connection:
        connection.execute("DELETE FROM batch_files WHERE at < ?", (_text(at - KEPT),))
        connection.execute(
            "INSERT OR REPLACE INTO batch_files (provider, api_base, id, model, lines, at) VALUES (?, ?, ?, ?, ?, ?)",
            (file.provider, file.api_base, file.id, file.model, file.lines, _text(at)),
        )


def find(database: Database, provider: str, api_base: str, file_id: str) -> BatchFile | None:
    """Return what is known of a file; None where it did not come through this gate."""
    with database.reading() as connection:
        row = connection.execute(
            "SELECT model, lines FROM batch_files WHERE provider = ? AND api_base = ? AND id = ?",
            (provider, api_base, file_id),
        ).fetchone()
    return None if row is None else BatchFile(provider, api_base, file_id, row[0], row[1])


def _text(at: datetime) -> str:
    return at.astimezone(timezone.utc).isoformat()
