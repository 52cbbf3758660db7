"""YAML text to plain values, keeping the nodes so that the line of a problem can be found.

The parser is PyYAML's, as in LiteLLM, so both read a file alike. Values are built here instead of by PyYAML's constructor
because that one hides what people stumble over: duplicate keys, and the words and digits that YAML 1.1 reads as
something else (`no`, `010`, `1:30`). Lines are looked up for problems only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from litellm_registry_hook.core.findings import Finding, Path, redact

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
MAX_DEPTH = 64
# Aliases may repeat a part; text of n characters has fewer than n nodes of its own.
ALIAS_ALLOWANCE = 100_000

_TAG = "tag:yaml.org,2002:"
_STR, _INT, _FLOAT, _BOOL, _NULL = (_TAG + word for word in ("str", "int", "float", "bool", "null"))
_MERGE, _MAP, _SEQ = _TAG + "merge", _TAG + "map", _TAG + "seq"
_DECIMAL = re.compile(r"^[-+]?(0|[1-9][0-9]{0,30})$")
_POINT = re.compile(r"^[-+]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$")
_NOT_PRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


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
        node: Node = self.root
        for number, step in enumerate(path):
            pair = _child(node, step)
            if pair is None:
                break
            key, node = pair
            if at == "key" and number == len(path) - 1:
                node = key or node
        return node.start_mark.line + 1, node.start_mark.column + 1

    def source(self, path: Path, at: str = "value") -> str | None:
        """Return the text of a scalar as written, without quotes; None where there is none."""
        node = self.root
        for number, step in enumerate(path):
            pair = _child(node, step) if node is not None else None
            if pair is None:
                return None
            node = pair[0] if at == "key" and number == len(path) - 1 else pair[1]
        return str(node.value) if isinstance(node, ScalarNode) else None


def read_yaml(text: str) -> PlainYaml:
    """Read one YAML document; never raises."""
    try:
        root = yaml.compose(text, Loader=LOADER)
    except yaml.YAMLError as error:
        return PlainYaml(None, [_syntax(error, text)])
    except RecursionError:
        return PlainYaml(None, [_whole("too_deep", f"the document nests deeper than {MAX_DEPTH} levels", "flatten it")])
    if root is None:
        return PlainYaml(None, [_whole("empty_file", "the file is empty", "write `version: 1`, `models` and `routing`")])
    walker = _Walker(len(text) + ALIAS_ALLOWANCE)
    try:
        value = walker.plain(root, 0)
    except _TooDeepError:
        return PlainYaml(None, [_deep(root)], root)
    except _TooManyError:
        message = "aliases repeat so much that the file grows without measure"
        return PlainYaml(None, [_whole("too_many_aliases", message, "write out what is meant")], root)
    tree = PlainYaml(value, root=root)
    if walker.issues:
        paths = dict(_paths(root))
        for code, node, message, hint in walker.issues:
            mark = node.start_mark
            path = paths.get(id(node), ())
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
                item.value if item.tag == _STR and type(item) is ScalarNode else plain(item, below) for item in node.value
            ]
        self.issue("yaml_tag", node, f"the tag `{_short(node.tag)}` has no meaning here", "remove the tag")
        return None

    def mapping(self, node: MappingNode, depth: int) -> dict[Any, Any]:
        out: dict[Any, Any] = {}
        merges: list[Node] = []
        for key_node, value_node in node.value:
            if key_node.tag == _STR and type(key_node) is ScalarNode:
                key = key_node.value
            elif key_node.tag == _MERGE:
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
                self.issue("yaml_merge", part, "`<<` wants a mapping or a list of mappings", "give it an alias of a mapping")
                continue
            for key, value in self.plain(part, depth).items() if part.tag == _MAP else ():
                out.setdefault(key, value)

    def key(self, node: Node) -> str | int:
        if not isinstance(node, ScalarNode):
            self.issue("yaml_key", node, "a mapping or a list cannot be a key", "use text as the key")
            return _key_of(node)
        if node.tag == _INT and _DECIMAL.match(node.value):
            return int(node.value)
        if node.tag == _NULL:
            self.issue("yaml_key", node, "a key is missing", "write the key before the colon")
        elif node.tag in _READINGS:
            self.issue("yaml_surprise", node, _reading(node), _quote(node))
        elif node.tag not in {_STR, _TAG + "value"}:
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
        elif tag == _INT or tag == _FLOAT:
            if tag == _INT and _DECIMAL.match(text):
                return int(text)
            if tag == _FLOAT and _POINT.match(text):
                number = float(text)
                if abs(number) != float("inf"):
                    return number
            self.issue("yaml_surprise", node, _reading(node), f"{_quote(node)}, or write a plain decimal number")
            return text
        elif tag == _TAG + "timestamp":
            self.issue("yaml_surprise", node, _reading(node), _quote(node))
            return text
        elif tag in {_TAG + "value", _MERGE}:
            return text
        self.issue("yaml_tag", node, f"the tag `{_short(tag)}` has no meaning here", "remove the tag")
        return text

    def issue(self, code: str, node: Node, message: str, hint: str) -> None:
        self.issues.append((code, node, message, hint))


_READINGS = {_BOOL: "true or false", _INT: "a number", _FLOAT: "a number", _TAG + "timestamp": "a date"}


def _reading(node: ScalarNode) -> str:
    """Say how YAML 1.1 reads a plain scalar."""
    what = _READINGS[node.tag]
    if node.tag == _BOOL:
        what = str(node.value.lower() in {"yes", "on", "true"}).lower()
    if node.tag == _INT and not _DECIMAL.match(node.value):
        try:
            what = f"the number {yaml.constructor.SafeConstructor().construct_yaml_int(node)}"
        except (ValueError, IndexError):  # `!!int x` is no number at all
            what = "a number"
    return f"YAML 1.1 reads `{redact(node.value)}` as {redact(what)}"


def _quote(node: ScalarNode) -> str:
    return f'quote it: "{redact(node.value)}"'


def _short(tag: str) -> str:
    return redact(tag.replace(_TAG, "!!"))


def _whole(code: str, message: str, hint: str, line: int = 1, column: int = 1) -> Finding:
    return Finding(code, (), message, hint, line=line, column=column)


def _syntax(error: yaml.YAMLError, text: str) -> Finding:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    said = str(getattr(error, "problem", None) or getattr(error, "reason", None) or "cannot be parsed")
    if mark is None:
        wrong = _NOT_PRINTABLE.search(text)
        if wrong is None:
            return _whole("yaml_syntax", f"not YAML: {redact(said)}", "mend the text")
        line = text.count("\n", 0, wrong.start()) + 1
        column = wrong.start() - text.rfind("\n", 0, wrong.start())
        message = f"the character U+{ord(wrong.group()):04X} is not allowed in YAML"
        return _whole("yaml_syntax", message, "remove it", line, column)
    line, column = mark.line + 1, mark.column + 1
    if "expected a single document" in str(error):
        return _whole("several_documents", "the file holds more than one YAML document", "keep one; remove `---`", line, column)
    if "nesting depth" in said:
        return _whole("too_deep", f"the document nests deeper than {MAX_DEPTH} levels", "flatten it", line, column)
    if "undefined alias" in said:
        return _whole("yaml_alias", "an alias refers to no anchor", "define the anchor (`&name`) above its use", line, column)
    lines = text.split("\n")
    here = lines[mark.line] if mark.line < len(lines) else ""
    if "\t" in here[: len(here) - len(here.lstrip())] or here[mark.column : mark.column + 1] == "\t":
        return _whole("yaml_tab", "a tab character stands where YAML wants spaces", "indent with spaces", line, column)
    return _whole("yaml_syntax", f"not YAML: {redact(said)}", "mend the text here or just above", line, column)


def _deep(root: Node) -> Finding:
    """Tell a recursive alias from mere depth."""
    stack: list[tuple[Node, Iterator[Node]]] = [(root, _below(root))]
    still_open = {id(root)}
    done: set[int] = set()
    while stack:
        node, children = stack[-1]
        for child in children:
            if id(child) in still_open:
                mark = child.start_mark
                message = "an alias stands inside of what it repeats"
                return _whole("recursive_alias", message, "write out what is meant", mark.line + 1, mark.column + 1)
            if id(child) not in done and not isinstance(child, ScalarNode):
                stack.append((child, _below(child)))
                still_open.add(id(child))
                break
        else:
            stack.pop()
            still_open.discard(id(node))
            done.add(id(node))
    return _whole("too_deep", f"the document nests deeper than {MAX_DEPTH} levels", "flatten it")


def _below(node: Node) -> Iterator[Node]:
    if isinstance(node, MappingNode):
        for key, value in node.value:
            yield key
            yield value
    elif isinstance(node, SequenceNode):
        yield from node.value


def _key_of(node: Node) -> str | int:
    if isinstance(node, ScalarNode):
        return int(node.value) if node.tag == _INT and _DECIMAL.match(node.value) else str(node.value)
    return f"<line {node.start_mark.line + 1}>"


def _child(node: Node, step: str | int, depth: int = 0) -> tuple[Node | None, Node] | None:
    """Return key and value below a step, also through merge keys."""
    if isinstance(node, SequenceNode):
        return (None, node.value[step]) if isinstance(step, int) and step < len(node.value) else None
    if not isinstance(node, MappingNode) or depth > MAX_DEPTH:
        return None
    for key, value in node.value:
        if key.tag != _MERGE and _key_of(key) == step:
            return key, value
    for key, value in node.value:
        if key.tag == _MERGE:
            for part in value.value if isinstance(value, SequenceNode) else [value]:
                found = _child(part, step, depth + 1) if isinstance(part, MappingNode) else None
                if found is not None:
                    return found
    return None


def _paths(root: Node) -> Iterator[tuple[int, Path]]:
    """Return the path of every node; a key has the path of its value."""
    stack: list[tuple[Node, Path]] = [(root, ())]
    seen: set[int] = set()
    while stack:
        node, path = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield id(node), path
        if isinstance(node, MappingNode):
            for key, value in reversed(node.value):
                below = path if key.tag == _MERGE else (*path, _key_of(key))
                stack.append((value, below))
                yield id(key), below
        elif isinstance(node, SequenceNode):
            stack.extend((item, (*path, index)) for index, item in reversed(list(enumerate(node.value))))
