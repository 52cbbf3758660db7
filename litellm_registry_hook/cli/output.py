"""What commands print: answers on stdout, notices on stderr."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import click


def print_json(value: Any) -> None:
    """Print a value as JSON; values that JSON lacks become text."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print columns that are as wide as their longest cell."""
    for line in table_lines(head, rows):
        click.echo(line)


def table_lines(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Return the lines of a table."""
    lines = [list(head), *(list(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    for line in lines:
        yield "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()


def notice(text: str) -> None:
    """Print a notice on stderr."""
    click.echo(text, err=True)


def error(text: str) -> None:
    """Print an error on stderr."""
    click.echo(f"error: {text}", err=True)
