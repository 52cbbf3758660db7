"""The files that the doctor looks into, each with the tree that gives the lines of its findings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from litellm_registry_hook.edges.config_file import read_config
from litellm_registry_hook.edges.config_tree import Document, Node, line_of, read_document
from litellm_registry_hook.errors import ConfigError

_INDEX = re.compile(r"^\[(\d+)\]")


@dataclass(frozen=True, slots=True)
class Looked:
    """A file that was read.

    Attributes:
        name: what findings call it. path: where it is. document: its text and tree.

    """

    name: str
    path: Path
    document: Document

    @property
    def content(self) -> Mapping[str, Any]:
        """The parsed content; empty where it is no mapping."""
        return self.document.data if isinstance(self.document.data, Mapping) else {}

    def line(self, path: str) -> int:
        """Return the line of a place, written as `general_settings.master_key` or `model_list[3].model_info`.

        A place that is not there has the line of the nearest one above it; 0 where that is the whole file.
        """
        root = self.document.root
        place = _find(root, path) if root is not None and path else None
        return line_of(self.document.text, place) if place is not None else 0


def look(name: str, path: Path) -> Looked:
    """Read a YAML file.

    Raises:
        ConfigError: it cannot be read, or is not one YAML document.

    """
    return Looked(name, path, read_document(read_config(path).text, name))


def look_with_included(name: str, path: Path) -> tuple[Looked, ...]:
    """Read a LiteLLM config and what it includes, in LiteLLM's order; what cannot be read is left out.

    The generator's `included_unreadable` names what was left out; an included file goes by its bare name there too.

    Raises:
        ConfigError: the config itself cannot be read.

    """
    found = [look(name, path)]
    seen = {path.absolute()}
    waiting = _includes(found[0])
    while waiting:
        file = waiting.pop(0)
        if file in seen:
            continue
        seen.add(file)
        if not file.exists():
            continue
        try:
            looked = look(file.name, file)
        except ConfigError:
            continue
        found.append(looked)
        waiting.extend(_includes(looked))
    return tuple(found)


def _includes(file: Looked) -> list[Path]:
    names = file.content.get("include")
    listed: Sequence[Any] = names if isinstance(names, list) else ()
    return [(file.path.parent / one).absolute() for one in listed if isinstance(one, str)]


def _find(root: Node, path: str) -> int | None:
    """Return where a place begins, or the nearest above it; a key may itself hold dots."""
    node, at = root, None
    while path:
        number = _INDEX.match(path)
        if number is not None:
            index = int(number[1])
            if node.kind != "sequence" or index >= len(node.items):
                return at
            node, path = node.items[index], path[number.end() :].lstrip(".")
            at = node.start
            continue
        keys = [(key, value) for key, value in node.pairs if _leads(key.value, path)]
        if not keys:
            return at
        key, node = max(keys, key=lambda pair: len(pair[0].value))
        path = path[len(key.value) :].removeprefix(".")
        at = key.start
    return at


def _leads(key: str, path: str) -> bool:
    return bool(key) and path.startswith(key) and path[len(key) :][:1] in {"", ".", "["}
