"""Where everything stands in a YAML text: a tree of nodes with exact places, built from PyYAML's events.

`yaml.compose` gives an alias the place of its anchor and a block collection an end behind the comments that follow it;
the events give both exactly. Places are indexes into the text, which must not begin with a BOM (the C and the Python
scanner count it differently).
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import yaml

from litellm_registry_hook.errors import ConfigError

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(slots=True)
class Node:
    """One node.

    Attributes:
        kind: what it is. An alias is a node of its own.
        start, end: the text is `text[start:end]`; a block collection ends with its last leaf.
        flow: a collection in brackets.
        name: the anchor set here, or the anchor an alias refers to.
        value: text of a scalar. plain: the scalar is not quoted.
        block_scalar: written with `|` or `>`: its end may be the start of a later line.
        pairs: of a mapping. items: of a sequence. dashes: place of the `-` of each item of a block sequence.

    """

    kind: Literal["scalar", "mapping", "sequence", "alias"]
    start: int
    end: int
    flow: bool = False
    name: str | None = None
    value: str = ""
    plain: bool = False
    block_scalar: bool = False
    pairs: list[tuple[Node, Node]] = field(default_factory=list)
    items: list[Node] = field(default_factory=list)
    dashes: list[int] = field(default_factory=list)

    @property
    def is_null(self) -> bool:
        """Whether it is an absent value or a written null."""
        return self.kind == "scalar" and self.plain and self.value in {"", "~", "null", "Null", "NULL"}

    def get(self, key: str) -> Node | None:
        """Return the value of a key of a mapping, the last one where it is there twice (as PyYAML does)."""
        return next(
            (value for name, value in reversed(self.pairs) if name.kind == "scalar" and name.value == key), None
        )

    def key_count(self, key: str) -> int:
        """Return how often a key stands in a mapping."""
        return sum(name.kind == "scalar" and name.value == key for name, _ in self.pairs)

    def walk(self) -> Iterator[Node]:
        """Yield this node and all below it, in file order."""
        yield self
        for key, value in self.pairs:
            yield from key.walk()
            yield from value.walk()
        for item in self.items:
            yield from item.walk()


@dataclass(frozen=True, slots=True)
class Document:
    """One YAML text.

    Attributes:
        text: the text. data: its value, as LiteLLM reads it. root: its tree; None where there is only comment.
        end: where the document's content may go on, before a `...` line.

    """

    text: str
    data: Any
    root: Node | None
    end: int


def read_document(text: str, name: str, loader: Any = None) -> Document:
    """Parse a text that holds one YAML document.

    Args:
        text: the text, without a BOM.
        name: what to call it in errors.
        loader: a PyYAML loader class.

    Raises:
        ConfigError: it is not YAML, or holds several documents.

    """
    loader = loader or _LOADER
    try:
        data = yaml.load(text, Loader=loader)  # noqa: S506  # a safe loader, C where there is one
        root, end = _build(text, loader)
    except yaml.YAMLError as error:
        raise ConfigError(_yaml_message(error, text, name)) from None
    except RecursionError:
        raise ConfigError(f"{name}: nested too deeply to read") from None
    except ValueError as error:  # a date or number that PyYAML takes for one and Python does not, `2026-13-45`
        raise ConfigError(f"{name}: {error}") from None
    return Document(text, data, root, end)


def line_of(text: str, index: int) -> int:
    """Return the line number of a place, from 1."""
    return text.count("\n", 0, index) + 1


def _yaml_message(error: yaml.YAMLError, text: str, name: str) -> str:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is not None:
        problem = getattr(error, "problem", None) or getattr(error, "context", None) or "not YAML"
        if "single document" in str(getattr(error, "context", "")):
            problem = "a second YAML document starts here; LiteLLM reads one document per file, so split the file"
        return f"{name}:{mark.line + 1}: {problem}"
    position = getattr(error, "position", None)
    if isinstance(position, int):
        return f"{name}:{line_of(text, position)}: a character that YAML does not allow"
    return f"{name}: {str(error).splitlines()[0]}"


def _build(text: str, loader: Any) -> tuple[Node | None, int]:
    root: Node | None = None
    end = len(text)
    open_nodes: list[Node] = []
    keys: list[Node | None] = []
    for event in yaml.parse(text, Loader=loader):
        assert event.start_mark is not None
        assert event.end_mark is not None
        start, stop = event.start_mark.index, event.end_mark.index
        if isinstance(event, yaml.DocumentEndEvent) and event.explicit:
            end = start
        if isinstance(event, (yaml.SequenceEndEvent, yaml.MappingEndEvent)):
            closed = open_nodes.pop()
            keys.pop()
            closed.end = stop if closed.flow else _last_end(closed)
            continue
        node = _node(event, start, stop)
        if node is None:
            continue
        if not open_nodes:
            root = node
        elif open_nodes[-1].kind == "sequence":
            open_nodes[-1].items.append(node)
        elif keys[-1] is None:
            keys[-1] = node
        else:
            open_nodes[-1].pairs.append((keys[-1], node))
            keys[-1] = None
        if node.kind in {"mapping", "sequence"}:
            open_nodes.append(node)
            keys.append(None)
    if root is not None:
        _place_dashes(root, text, loader)
    return root, end


def _node(event: Any, start: int, stop: int) -> Node | None:
    if isinstance(event, yaml.AliasEvent):
        return Node("alias", start, stop, name=event.anchor)
    if isinstance(event, yaml.ScalarEvent):
        return Node(
            "scalar",
            start,
            stop,
            name=event.anchor,
            value=event.value,
            plain=event.style in {None, ""} and event.tag is None,
            block_scalar=event.style in {"|", ">"},
        )
    if isinstance(event, yaml.MappingStartEvent):
        return Node("mapping", start, stop, flow=bool(event.flow_style), name=event.anchor)
    if isinstance(event, yaml.SequenceStartEvent):
        return Node("sequence", start, stop, flow=bool(event.flow_style), name=event.anchor)
    return None


def _last_end(node: Node) -> int:
    if node.pairs:
        return node.pairs[-1][1].end
    return node.items[-1].end if node.items else node.end


def _place_dashes(root: Node, text: str, loader: Any) -> None:
    """Find the `-` of every item of a block sequence: it is in no event, only in the tokens."""
    entries = [token.start_mark.index for token in yaml.scan(text, Loader=loader) if _is_entry(token)]
    for node in root.walk():
        if node.kind == "sequence" and not node.flow:
            node.dashes = [entries[bisect.bisect_left(entries, item.start) - 1] for item in node.items]


def _is_entry(token: Any) -> bool:
    return isinstance(token, yaml.BlockEntryToken)
