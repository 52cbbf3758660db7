"""YAML text to plain values, keeping the nodes so that the line of a problem can be found.

The parser is PyYAML's, as in LiteLLM, so both read a file alike. Values are built here instead of by PyYAML's
constructor because that one hides what people stumble over: duplicate keys, and the words and digits that YAML 1.1
reads as something else (`no`, `010`, `1:30`). Lines are looked up for problems only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from litellm_registry_hook.core.findings import Finding, Path, redact
from litellm_registry_hook.edges.yaml_places import DECIMAL, INT, MERGE, TAG, find_node, key_of, paths
from litellm_registry_hook.edges.yaml_syntax import MAX_DEPTH, depth_finding, syntax_finding, whole

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# Aliases may repeat a part; text of n characters has fewer than n nodes of its own.
ALIAS_ALLOWANCE = 100_000

_STR, _FLOAT, _BOOL, _NULL, _MAP, _SEQ = (TAG + word for word in ("str", "float", "bool", "null", "map", "seq"))
_POINT = re.compile(r"^[-+]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$")


class _TooDeepError(Exception):
    pass


class _TooManyError(Exception):
    pass


@dataclass
class PlainYaml:
    """Plain values of a document, and where they stand.

    Attributes:
        value: mappings, lists, text, numbers, booleans and None; None where nothing could be read.
        findings: what is wrong with the text itself.
        root: the composed document.

    """

    value: Any
    findings: list[Finding] = field(default_factory=list)
    root: Node | None = None

    def place(self, path: Path, at: str = "value") -> tuple[int, int]:
        """Return line and column (from 1) of a path; the nearest place above it where it is absent."""
        if self.root is None:
            return 0, 0
        node, _ = find_node(self.root, path, at)
        return node.start_mark.line + 1, node.start_mark.column + 1

    def source(self, path: Path, at: str = "value") -> str | None:
        """Return the text of a scalar as written, without quotes; None where there is none."""
        if self.root is None:
            return None
        node, found = find_node(self.root, path, at)
        return str(node.value) if found and isinstance(node, ScalarNode) else None


def read_yaml(text: str) -> PlainYaml:
    """Read one YAML document; never raises."""
    try:
        root = yaml.compose(text, Loader=LOADER)
    except yaml.YAMLError as error:
        return PlainYaml(None, [syntax_finding(error, text)])
    except RecursionError:
        return PlainYaml(None, [whole("too_deep", f"the document nests deeper than {MAX_DEPTH} levels", "flatten it")])
    if root is None:
        return PlainYaml(None, [whole("empty_file", "the file is empty", "write `version: 1`, `models` and `routing`")])
    walker = _Walker(len(text) + ALIAS_ALLOWANCE)
    try:
        value = walker.plain(root, 0)
    except _TooDeepError:
        return PlainYaml(None, [depth_finding(root)], root)
    except _TooManyError:
        message = "aliases repeat so much that the file grows without measure"
        return PlainYaml(None, [whole("too_many_aliases", message, "write out what is meant")], root)
    tree = PlainYaml(value, root=root)
    if walker.issues:
        known = dict(paths(root))
        for code, node, message, hint in walker.issues:
            mark = node.start_mark
            path = known.get(id(node), ())
            tree.findings.append(Finding(code, path, message, hint, line=mark.line + 1, column=mark.column + 1))
    return tree


class _Walker:
    """Builds plain values; hot, so text scalars are taken without a call."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.issues: list[tuple[str, Node, str, str]] = []

    def plain(self, node: Node, depth: int) -> Any:
        if type(node) is ScalarNode:
            return node.value if node.tag == _STR else self.scalar(node)
        if depth > MAX_DEPTH:
            raise _TooDeepError
        self.budget -= len(node.value)
        if self.budget < 0:
            raise _TooManyError
        if type(node) is MappingNode and node.tag == _MAP:
            return self.mapping(node, depth + 1)
        if type(node) is SequenceNode and node.tag == _SEQ:
            plain, below = self.plain, depth + 1
            return [
                item.value if item.tag == _STR and type(item) is ScalarNode else plain(item, below)
                for item in node.value
            ]
        self.issue("yaml_tag", node, f"the tag `{_short(node.tag)}` has no meaning here", "remove the tag")
        return None

    def mapping(self, node: MappingNode, depth: int) -> dict[Any, Any]:
        out: dict[Any, Any] = {}
        merges: list[Node] = []
        for key_node, value_node in node.value:
            if key_node.tag == _STR and type(key_node) is ScalarNode:
                key = key_node.value
            elif key_node.tag == MERGE:
                merges.append(value_node)
                continue
            else:
                key = self.key(key_node)
            if value_node.tag == _STR and type(value_node) is ScalarNode:
                value = value_node.value
            else:
                value = self.plain(value_node, depth)
            if key in out:
                message = f"the key `{redact(str(key))}` stands twice in one mapping"
                self.issue("duplicate_key", key_node, message, "keep one of the two")
                continue
            out[key] = value
        for merge in merges:
            self.merge(merge, out, depth)
        return out

    def merge(self, node: Node, out: dict[Any, Any], depth: int) -> None:
        # As in PyYAML: own keys win, then the first of the merged mappings.
        parts = node.value if isinstance(node, SequenceNode) else [node]
        for part in parts:
            if not isinstance(part, MappingNode):
                self.issue(
                    "yaml_merge", part, "`<<` wants a mapping or a list of mappings", "give it an alias of a mapping"
                )
                continue
            for key, value in self.plain(part, depth).items() if part.tag == _MAP else ():
                out.setdefault(key, value)

    def key(self, node: Node) -> str | int:
        if not isinstance(node, ScalarNode):
            self.issue("yaml_key", node, "a mapping or a list cannot be a key", "use text as the key")
            return key_of(node)
        if node.tag == INT and DECIMAL.match(node.value):
            return int(node.value)
        if node.tag == _NULL:
            self.issue("yaml_key", node, "a key is missing", "write the key before the colon")
        elif node.tag in _READINGS:
            self.issue("yaml_surprise", node, _reading(node), _quote(node))
        elif node.tag not in {_STR, TAG + "value"}:
            self.issue("yaml_tag", node, f"the tag `{_short(node.tag)}` has no meaning here", "remove the tag")
        return str(node.value)

    def scalar(self, node: ScalarNode) -> Any:
        text, tag = node.value, node.tag
        if tag == _NULL:
            return None
        if tag == _BOOL:
            word = text.lower()
            if word in {"true", "false"}:
                return word == "true"
            meant = word in {"yes", "on"}
            if meant or word in {"no", "off"}:
                self.issue("yaml_surprise", node, _reading(node), f"write {str(meant).lower()}, or {_quote(node)}")
                return meant
        elif tag in (INT, _FLOAT):
            if tag == INT and DECIMAL.match(text):
                return int(text)
            if tag == _FLOAT and _POINT.match(text):
                number = float(text)
                if abs(number) != float("inf"):
                    return number
            self.issue("yaml_surprise", node, _reading(node), f"{_quote(node)}, or write a plain decimal number")
            return text
        elif tag == TAG + "timestamp":
            self.issue("yaml_surprise", node, _reading(node), _quote(node))
            return text
        elif tag in {TAG + "value", MERGE}:
            return text
        self.issue("yaml_tag", node, f"the tag `{_short(tag)}` has no meaning here", "remove the tag")
        return text

    def issue(self, code: str, node: Node, message: str, hint: str) -> None:
        self.issues.append((code, node, message, hint))


_READINGS = {_BOOL: "true or false", INT: "a number", _FLOAT: "a number", TAG + "timestamp": "a date"}


def _reading(node: ScalarNode) -> str:
    """Say how YAML 1.1 reads a plain scalar."""
    what = _READINGS[node.tag]
    if node.tag == _BOOL:
        what = str(node.value.lower() in {"yes", "on", "true"}).lower()
    if node.tag == INT and not DECIMAL.match(node.value):
        try:
            what = f"the number {yaml.constructor.SafeConstructor().construct_yaml_int(node)}"
        except (ValueError, IndexError):  # `!!int x` is no number at all
            what = "a number"
    return f"YAML 1.1 reads `{redact(node.value)}` as {redact(what)}"


def _quote(node: ScalarNode) -> str:
    return f'quote it: "{redact(node.value)}"'


def _short(tag: str) -> str:
    return redact(tag.replace(TAG, "!!"))
