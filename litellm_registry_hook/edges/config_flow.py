"""Edits inside brackets: add and remove members of a flow collection, commas and comments kept in order.

An edit is `(start, end, new text)`. What adding writes, removing takes away to the byte.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

Edit = tuple[int, int, str]
Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Brackets:
    """A flow collection in a text.

    Attributes:
        text: the whole text. start, end: `[` … `]`, or `{` … `}`; an anchor or tag may stand before the bracket.
        members: spans of its members; of a mapping, from key to value.

    """

    text: str
    start: int
    end: int
    members: Sequence[Span]


def add_members(
    box: Brackets, after: int, write: Callable[[str, bool], list[str]], newline: str, first_indent: str | None
) -> list[Edit]:
    """Return the edits that put new members after member `after` (-1: first).

    Args:
        box: the collection.
        after: index of a member, or -1.
        write: gives the members' texts for an indent, on several lines or on one.
        newline: the file's line end.
        first_indent: indent of the members of an empty collection; None puts them on one line.

    """
    text = box.text
    if not box.members:
        opening = box.end - 1
        while text[opening] not in "[{":
            opening -= 1
        if first_indent is None:
            return [(opening + 1, opening + 1, ", ".join(write("", False)))]
        lead = newline + first_indent
        return [(opening + 1, opening + 1, lead + f",{lead}".join(write(first_indent, True)))]
    start, end = box.members[max(after, 0)]
    indent = _own_line_indent(text, start)
    spread = "\n" in text[start:end]
    separator = " " if indent is None else newline + indent
    written = write(indent or "", spread)
    if after < 0:
        return [(start, start, "".join(f"{member},{separator}" for member in written))]
    comma = _comma(text, end, box.end - 1)
    rest_from = end if comma is None else comma + 1
    line_end = _line_end(text, rest_from)
    if indent is not None and line_end < box.end and text[rest_from:line_end].lstrip(" \t").startswith("#"):
        # The comment behind the member belongs to it: go on below.
        if comma is None:
            return [(end, end, ","), (line_end, line_end, separator + f",{separator}".join(written))]
        return [(line_end, line_end, "".join(f"{separator}{member}," for member in written))]
    return [(end, end, "".join(f",{separator}{member}" for member in written))]


def remove_members(box: Brackets, first: int, last: int) -> list[Edit]:
    """Return the edits that take the members `first` … `last` out."""
    text, members = box.text, box.members
    start, end = members[first][0], members[last][1]
    before = members[first - 1][1] if first > 0 else None
    follows = members[last + 1][0] if last + 1 < len(members) else None
    if before is not None and _is_clean(text, before, members[first : last + 1], end):
        return [(before, end, "")]
    if before is None and follows is not None and _is_clean(text, start, members[first : last + 1], follows):
        return [(start, follows, "")]
    if before is None and follows is None:
        opening = start
        while text[opening] not in "[{" or opening == start:
            opening -= 1
        if _is_clean(text, opening + 1, members, end):
            comma = _comma(text, end, box.end - 1)
            return [(opening + 1, end if comma is None else comma + 1, "")]
    edits: list[Edit] = []
    for index in range(first, last + 1):
        edits.extend(_remove_one(box, index))
    if before is not None and follows is None and _comma(text, end, box.end - 1) is None:
        # The last ones go, and no comma stood behind them: the one before them goes too.
        comma = _comma(text, before, start)
        assert comma is not None, "YAML demands a comma between members"
        edits.append((comma, comma + 1, ""))
    return edits


def _remove_one(box: Brackets, index: int) -> list[Edit]:
    """Take one member and its comma out from between comments, with its line where it stands alone on it."""
    text = box.text
    start, end = box.members[index]
    limit = box.members[index + 1][0] if index + 1 < len(box.members) else box.end - 1
    comma = _comma(text, end, limit)
    stop = end if comma is None else comma + 1
    line_end = _line_end(text, stop)
    if _own_line_indent(text, start) is not None and not text[stop:line_end].strip():
        lead = text.rfind("\n", 0, start)
        lead -= text[lead - 1 : lead] == "\r"
        return [(lead, line_end, "")]
    edits: list[Edit] = [(start, end, "")]
    if comma is not None:
        edits.append((comma, comma + 1, ""))
    return edits


def _is_clean(text: str, start: int, members: Sequence[Span], end: int) -> bool:
    """Say whether only blanks and commas stand around the members between two places."""
    outside, at = "", start
    for member_start, member_end in members:
        outside += text[at:member_start]
        at = member_end
    return not (outside + text[at:end]).strip(" \t\r\n,")


def _comma(text: str, start: int, end: int) -> int | None:
    """Return the first comma between two places that is not in a comment."""
    at = start
    while at < end:
        if text[at] == ",":
            return at
        at = _line_end(text, at) if text[at] == "#" else at + 1
    return None


def _own_line_indent(text: str, start: int) -> str | None:
    """Return the blanks before a place where nothing else stands before it on its line."""
    lead = text[text.rfind("\n", 0, start) + 1 : start]
    return lead if not lead.strip() else None


def _line_end(text: str, start: int) -> int:
    """Return where the line of a place ends, before its line end."""
    at = text.find("\n", start)
    if at < 0:
        return len(text)
    return at - 1 if at > start and text[at - 1] == "\r" else at
