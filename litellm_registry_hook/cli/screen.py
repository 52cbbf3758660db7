"""What people see on a terminal: colours only there, and none where NO_COLOR says so; nobody's control characters."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final, Literal

import click

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

# Of a pipe: nothing is wrapped for a reader that is a program.
WIDE: Final = 200


def colours() -> bool:
    """Say whether stdout gets colours: NO_COLOR forbids them, FORCE_COLOR asks for them, else a terminal has them."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (sys.stdout.isatty() and not dumb())


def dumb() -> bool:
    """Say whether the terminal knows no control sequences."""
    return os.environ.get("TERM", "").lower() in {"dumb", "unknown"}


def in_place() -> bool:
    """Say whether a picture can be drawn again over itself."""
    return sys.stdout.isatty() and not dumb()


def console() -> Console:
    """Return stdout for tables: plain where it is no terminal."""
    from rich.console import Console  # noqa: PLC0415

    system: Literal["auto", "standard"] | None = None
    if colours():
        system = "auto" if in_place() else "standard"
    if sys.stdout.isatty():
        return Console(highlight=False, color_system=system)
    width = os.environ.get("COLUMNS", "")
    return Console(
        highlight=False,
        force_terminal=False,
        color_system=system,
        width=int(width) if width.isdigit() and int(width) else WIDE,
    )


def show(*what: RenderableType) -> None:
    """Print tables and lines; into a pipe without the blanks that fill a table up."""
    out = console()
    if out.is_terminal:
        out.print(*what, sep="\n")
        return
    with out.capture() as drawn:
        out.print(*what, sep="\n")
    click.echo("\n".join(line.rstrip() for line in drawn.get().splitlines()), color=colours())


def words(text: str, style: str = "") -> Text:
    """Return text that is shown as it is: what looks like markup is no markup."""
    from rich.text import Text  # noqa: PLC0415

    from litellm_registry_hook.cli.audit_cmd import plain  # noqa: PLC0415

    return Text(plain(text), style=style)
