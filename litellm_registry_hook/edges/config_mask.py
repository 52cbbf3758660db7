"""A YAML text as it may be shown: every value under a secret name masked in place, the rest as it is."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

from litellm_registry_hook.core.sync_masking import MASK, is_secret_path, shown, shown_comment
from litellm_registry_hook.edges.config_tree import Node, read_document

_NUMBER_RE = re.compile(r"^-?[0-9]+(?:\.[0-9]*)?$")


def masked_diff(old: str, new: str, name: str) -> str:
    """Return the unified diff of two YAML texts with secrets masked; a secret that changes is marked as new.

    Args:
        old: the text before. new: the text after. name: what the diff calls the file.

    """
    known = frozenset(value for _, _, value in _secrets(old, name))
    lines = difflib.unified_diff(
        _masked(old, name, known).splitlines(),
        _masked(new, name, known).splitlines(),
        fromfile=name,
        tofile=f"{name} (generated)",
        lineterm="",
    )
    return "\n".join(lines)


def _masked(text: str, name: str, known: frozenset[str]) -> str:
    for start, end, value in sorted(_secrets(text, name), reverse=True):
        text = text[:start] + (MASK if value in known else f"{MASK} (new)") + text[end:]
    return shown_comment(text)


def _secrets(text: str, name: str) -> list[tuple[int, int, str]]:
    root = read_document(text, name).root
    return list(_below(root, ())) if root is not None else []


def _below(node: Node, path: tuple[str, ...]) -> Iterator[tuple[int, int, str]]:
    if node.kind == "scalar":
        if is_secret_path(path) and node.value and shown(_typed(node), path) == MASK:
            yield node.start, node.end, node.value
        return
    for key, value in node.pairs:
        yield from _below(value, (*path, key.value))
    for item in node.items:
        yield from _below(item, path)


def _typed(node: Node) -> str | float | bool | None:
    """Return a scalar as far as masking cares: a count or a switch is no secret."""
    if node.is_null:
        return None
    if node.plain and node.value.lower() in {"true", "false", "yes", "no", "on", "off"}:
        return True
    if node.plain and _NUMBER_RE.match(node.value):
        return float(node.value)
    return node.value
