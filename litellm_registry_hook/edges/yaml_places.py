"""Where things stand in a composed YAML document: from paths to nodes and back, also through merge keys."""

from __future__ import annotations

import re
from collections.abc import Iterator

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from litellm_registry_hook.core.findings import Path
from litellm_registry_hook.edges.yaml_syntax import MAX_DEPTH

TAG = "tag:yaml.org,2002:"
INT, MERGE = TAG + "int", TAG + "merge"
DECIMAL = re.compile(r"^[-+]?(0|[1-9][0-9]{0,30})$")


def find_node(root: Node, path: Path, at: str) -> tuple[Node, bool]:
    """Return the node at a path, or the nearest above it; and whether it is the very one.

    Args:
        root: the document.
        path: keys and indices.
        at: `key` for the node of the last key, `value` for what stands behind it.

    """
    node = root
    for number, step in enumerate(path):
        pair = _child(node, step)
        if pair is None:
            return node, False
        key, node = pair
        if at == "key" and number == len(path) - 1 and key is not None:
            node = key
    return node, True


def key_of(node: Node) -> str | int:
    """Return the key that a node stands for."""
    if isinstance(node, ScalarNode):
        return int(node.value) if node.tag == INT and DECIMAL.match(node.value) else str(node.value)
    return f"<line {node.start_mark.line + 1}>"


def _child(node: Node, step: str | int, depth: int = 0) -> tuple[Node | None, Node] | None:
    """Return key and value below a step, also through merge keys."""
    if isinstance(node, SequenceNode):
        return (None, node.value[step]) if isinstance(step, int) and step < len(node.value) else None
    if not isinstance(node, MappingNode) or depth > MAX_DEPTH:
        return None
    for key, value in node.value:
        if key.tag != MERGE and key_of(key) == step:
            return key, value
    for key, value in node.value:
        if key.tag == MERGE:
            for part in value.value if isinstance(value, SequenceNode) else [value]:
                found = _child(part, step, depth + 1) if isinstance(part, MappingNode) else None
                if found is not None:
                    return found
    return None


def paths(root: Node) -> Iterator[tuple[int, Path]]:
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
                below = path if key.tag == MERGE else (*path, key_of(key))
                stack.append((value, below))
                yield id(key), below
        elif isinstance(node, SequenceNode):
            stack.extend((item, (*path, index)) for index, item in reversed(list(enumerate(node.value))))
