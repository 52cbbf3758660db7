"""A YAML text under edit: what stands where, and which places may be changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from litellm_registry_hook.edges.config_flow import Brackets, Edit
from litellm_registry_hook.edges.config_tree import Document, Node, line_of, read_document
from litellm_registry_hook.errors import ConfigError


class ConfigText:
    """An editing session on one YAML text: the text, its tree, and the search for places in it.

    Attributes:
        text: the text as it is now.
        removed: every piece of text taken out so far, in order. added: every piece put in.

    """

    def __init__(self, text: str, name: str, loader: Any = None) -> None:
        self.text = text
        self.removed: list[str] = []
        self.added: list[str] = []
        self._name = name
        self._loader = loader
        self._document: Document | None = None
        self._original = text
        self._history: list[tuple[int, int, int]] = []
        self._newline = "\r\n" if "\r\n" in text[: text.find("\n") + 1] else "\n"

    @property
    def document(self) -> Document:
        """The parsed text.

        Raises:
            ConfigError: the text is not one YAML document.

        """
        if self._document is None:
            self._document = read_document(self.text, self._name, self._loader)
        return self._document

    def _apply(self, edits: Sequence[Edit]) -> None:
        for start, end, new in sorted(edits, reverse=True):
            if start != end:
                self.removed.append(self.text[start:end])
            if new:
                self.added.append(new)
            self._history.append((start, end - start, len(new)))
            self.text = self.text[:start] + new + self.text[end:]
        self._document = None

    def _root(self) -> Node | None:
        root = self.document.root
        if root is None or root.is_null:
            return None
        if root.kind != "mapping":
            raise self._error(root, "the file must be a mapping (model_list:, litellm_settings:, …)")
        return root

    def _list(self, key: str) -> Node:
        root = self._root()
        node = self._value_of(root, key, shared="the list") if root is not None else None
        if node is None or node.kind != "sequence":
            raise ConfigError(f"{self._name}: {key} must be a list")
        return node

    def _section(self, section: str) -> Node | None:
        root = self._root()
        node = self._value_of(root, section, shared=section) if root is not None else None
        if node is None or node.is_null:
            return None
        if node.kind != "mapping":
            raise self._error(node, f"{section} must be a mapping")
        return node

    def _value_of(self, mapping: Node, key: str, *, shared: str) -> Node | None:
        """Return the node to edit for a key: that of the anchor where the value is an alias that nobody else uses."""
        node = mapping.get(key)
        if node is None:
            if mapping is self.document.root and key in (self.document.data or {}):
                raise self._error(mapping, f"{key} comes from a merge key (<<): write it at the top level")
            return None
        self._once(mapping, key, key)
        alias = node if node.kind == "alias" else None
        if alias is not None:
            node = self._anchored(alias)
        others = [other for other in self._aliases_of(node) if other is not alias]
        if others:
            raise self._error(
                others[0],
                f"{shared} is used here a second time (*{others[0].name}): write it out so that it is used once",
            )
        return node

    def _once(self, mapping: Node, key: str, path: str) -> None:
        if mapping.key_count(key) > 1:
            raise self._error(mapping, f"{path} stands there twice: keep one")

    def _anchored(self, alias: Node) -> Node:
        found: Node | None = None
        assert self.document.root is not None
        for node in self.document.root.walk():
            if node is alias:
                break
            if node.kind != "alias" and node.name == alias.name:
                found = node
        assert found is not None, "PyYAML refuses an alias without an anchor"
        return found

    def _aliases_of(self, anchored: Node) -> list[Node]:
        """Return the aliases that mean this node: those behind it, up to the next anchor of the same name."""
        if anchored.name is None or self.document.root is None:
            return []
        found: list[Node] = []
        seen = False
        for node in self.document.root.walk():
            if node is anchored:
                seen = True
            elif seen and node.name == anchored.name:
                if node.kind != "alias":
                    break
                found.append(node)
        return found

    def _guarded(self, node: Node) -> tuple[int, int]:
        """Return the span of a node that is about to go.

        Raises:
            ConfigError: something outside uses an anchor that is set in it.

        """
        for inner in node.walk():
            if inner.kind == "alias" or inner.name is None:
                continue
            for alias in self._aliases_of(inner):
                if not node.start <= alias.start < node.end:
                    raise self._error(
                        inner,
                        f"this has to change, but the anchor &{inner.name} set in it is used on line "
                        f"{self._line(alias.start)}: move the anchor out of it",
                    )
        return node.start, node.end

    def _error(self, node: Node, message: str) -> ConfigError:
        return ConfigError(f"{self._name}:{self._line(node.start)}: {message}")

    def _line(self, index: int) -> int:
        """Return the line that a place of the edited text has in the file as it was read."""
        for start, taken, put in reversed(self._history):
            if index >= start + put:
                index += taken - put
            elif index > start:
                index = start
        return line_of(self._original, index)

    def _brackets(self, node: Node) -> Brackets:
        spans = [(item.start, item.end) for item in node.items] or [(key.start, value.end) for key, value in node.pairs]
        return Brackets(self.text, node.start, node.end, spans)

    def _inner_indent(self, node: Node) -> str | None:
        """Return the indent for members of an empty flow collection; None where the file is written on one line."""
        root = self.document.root
        unit = 2
        if root is not None and root.flow and root.pairs:
            first = root.pairs[0][0].start
            if not self._starts_line(first):
                return None
            unit = max(self._column(first), 1)
        line = self.text[self._line_start(node.start) : node.start]
        return " " * (len(line) - len(line.lstrip(" ")) + unit)

    def _dash(self, node: Node, index: int) -> int:
        dash = node.dashes[index]
        if not self._starts_line(dash):
            raise self._error(node, "cannot edit this list: begin each item on a line of its own")
        return dash

    def _content_end(self, node: Node) -> int:
        """Return where a node's text ends: behind its last character that is not blank."""
        return node.start + len(self.text[node.start : node.end].rstrip())

    def _after(self, node: Node) -> int:
        """Return the start of the line behind a node; blank lines that belong to a block scalar stay before it."""
        end = node.end
        return end if end > 0 and self.text[end - 1] == "\n" else self._next_line(end)

    def _next_line(self, index: int) -> int:
        at = self.text.find("\n", index)
        return len(self.text) if at < 0 else at + 1

    def _line_start(self, index: int) -> int:
        return self.text.rfind("\n", 0, index) + 1

    def _column(self, index: int) -> int:
        return index - self._line_start(index)

    def _starts_line(self, index: int) -> bool:
        return not self.text[self._line_start(index) : index].strip(" ")
