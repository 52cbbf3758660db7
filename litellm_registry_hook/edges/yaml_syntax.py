"""What PyYAML says about text that is no document, in words that help."""

from __future__ import annotations

import re
from collections.abc import Iterator

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from litellm_registry_hook.core.findings import Finding, redact

MAX_DEPTH = 64
_NOT_PRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def whole(code: str, message: str, hint: str, line: int = 1, column: int = 1) -> Finding:
    """Make a finding about the whole document."""
    return Finding(code, (), message, hint, line=line, column=column)


def syntax_finding(error: yaml.YAMLError, text: str) -> Finding:
    """Say what keeps a text from being one YAML document."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    said = str(getattr(error, "problem", None) or getattr(error, "reason", None) or "cannot be parsed")
    if mark is None:
        wrong = _NOT_PRINTABLE.search(text)
        if wrong is None:
            return whole("yaml_syntax", f"not YAML: {redact(said)}", "mend the text")
        line = text.count("\n", 0, wrong.start()) + 1
        column = wrong.start() - text.rfind("\n", 0, wrong.start())
        message = f"the character U+{ord(wrong.group()):04X} is not allowed in YAML"
        return whole("yaml_syntax", message, "remove it", line, column)
    line, column = mark.line + 1, mark.column + 1
    if "expected a single document" in str(error):
        return whole(
            "several_documents", "the file holds more than one YAML document", "keep one; remove `---`", line, column
        )
    if "nesting depth" in said:
        return whole("too_deep", f"the document nests deeper than {MAX_DEPTH} levels", "flatten it", line, column)
    if "undefined alias" in said:
        return whole(
            "yaml_alias", "an alias refers to no anchor", "define the anchor (`&name`) above its use", line, column
        )
    lines = text.split("\n")
    here = lines[mark.line] if mark.line < len(lines) else ""
    if "\t" in here[: len(here) - len(here.lstrip())] or here[mark.column : mark.column + 1] == "\t":
        return whole("yaml_tab", "a tab character stands where YAML wants spaces", "indent with spaces", line, column)
    return whole("yaml_syntax", f"not YAML: {redact(said)}", "mend the text here or just above", line, column)


def depth_finding(root: Node) -> Finding:
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
                return whole("recursive_alias", message, "write out what is meant", mark.line + 1, mark.column + 1)
            if id(child) not in done and not isinstance(child, ScalarNode):
                stack.append((child, _below(child)))
                still_open.add(id(child))
                break
        else:
            stack.pop()
            still_open.discard(id(node))
            done.add(id(node))
    return whole("too_deep", f"the document nests deeper than {MAX_DEPTH} levels", "flatten it")


def _below(node: Node) -> Iterator[Node]:
    if isinstance(node, MappingNode):
        for key, value in node.value:
            yield key
            yield value
    elif isinstance(node, SequenceNode):
        yield from node.value
