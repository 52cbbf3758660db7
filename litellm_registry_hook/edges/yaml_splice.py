"""Splice edits into a YAML text and leave every other byte as it is: never a re-dump.

All places come from PyYAML's marks (`edges/config_tree.py`); the text is parsed again after each step, so that a step
never works with places of an older text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from litellm_registry_hook.edges.config_emit import block_item, flow, flow_entry, scalar
from litellm_registry_hook.edges.config_flow import Edit, add_members, remove_members
from litellm_registry_hook.edges.config_text import ConfigText
from litellm_registry_hook.edges.config_tree import Node

Entry = Mapping[str, Any]


class Splicer(ConfigText):
    """Edits of one YAML text."""

    # -- lists of mappings at the top level ---------------------------------------------------------------------------

    def replace_items(self, key: str, replacements: Mapping[int, Sequence[Entry]]) -> None:
        """Put one or more entries in the place of items of a top-level list."""
        node = self._list(key)
        edits: list[Edit] = []
        for index, entries in replacements.items():
            item = node.items[index]
            start, end = self._guarded(item)
            if node.flow:
                indent = " " * self._column(start) if self._starts_line(start) else ""
                written = self._flow_entries(entries, indent, spread="\n" in self.text[start:end])
                separator = f",{self._newline}{indent}" if self._starts_line(start) else ", "
                edits.append((start, end, separator.join(written)))
                continue
            dash = self._dash(node, index)
            text = self._block_items(entries, self._column(dash), in_braces=item.kind == "mapping" and item.flow)
            edits.append((dash, self._content_end(item), text.lstrip(" ")))
        self._apply(edits)

    def remove_items(self, key: str, first: int, last: int) -> None:
        """Take the items `first` … `last` out of a top-level list."""
        node = self._list(key)
        for item in node.items[first : last + 1]:
            self._guarded(item)
        if node.flow:
            self._apply(remove_members(self._brackets(node), first, last))
            return
        start = self._line_start(self._dash(node, first))
        end = self._next_line(self._content_end(node.items[last]))
        if not self.text[:end].endswith("\n") and start > 0:  # the last line of a file without a final line end
            start -= 2 if self.text[:start].endswith("\r\n") else 1
        self._apply([(start, end, "")])

    def insert_items(self, key: str, after: int, entries: Sequence[Entry]) -> None:
        """Add entries to a top-level list behind item `after` (-1: at its start); a missing list is made."""
        root = self._root()
        node = self._value_of(root, key, shared="the list") if root is not None else None
        if node is None:
            self._add_to_root(key, entries)
        elif node.is_null:
            self._fill_null(node, root, entries)
        elif node.kind != "sequence":
            raise self._error(node, f"{key} must be a list")
        elif node.flow:
            edits = add_members(
                self._brackets(node),
                after,
                lambda indent, spread: self._flow_entries(entries, indent, spread=spread),
                self._newline,
                self._inner_indent(node),
            )
            self._apply(edits)
        else:
            in_braces = bool(node.items) and all(item.kind == "mapping" and item.flow for item in node.items)
            text = self._block_items(entries, self._column(self._dash(node, 0)), in_braces=in_braces)
            if after < 0:
                start = self._line_start(self._dash(node, 0))
                self._apply([(start, start, text + self._newline)])
            else:
                self._insert_lines(self._after(node.items[after]), text)

    # -- settings: keys of a top-level mapping ------------------------------------------------------------------------

    def set_value(self, section: str, key: str, value: Any) -> None:
        """Make a key of a section hold a scalar; both are made where they are missing."""
        mapping = self._section(section)
        node = mapping.get(key) if mapping is not None else None
        if mapping is None or node is None:
            self._add_to_section(section, mapping, key, value)
            return
        self._once(mapping, key, f"{section}.{key}")
        if node.start == node.end:
            self._apply([(node.end, node.end, f" {self._flow(value)}")])
            return
        if node.block_scalar or (node.kind in {"mapping", "sequence"} and not node.flow):
            raise self._error(node, f"{section}.{key} must be {self._flow(value)}: write that in its place")
        start, end = self._guarded(node)
        self._apply([(start, end, self._flow(value))])

    def append_value(self, section: str, key: str, value: str) -> None:
        """Make the list at a key of a section hold one more item; a single value becomes a list of two."""
        mapping = self._section(section)
        if mapping is not None and mapping.get(key) is None and key in (self.document.data.get(section) or {}):
            raise self._error(mapping, f"{section}.{key} comes from a merge key (<<): write the list out in {section}")
        node = self._value_of(mapping, key, shared=f"{section}.{key}") if mapping is not None else None
        if mapping is None or node is None:
            self._add_to_section(section, mapping, key, [value])
        elif node.is_null and node.start == node.end:
            self._apply([(node.end, node.end, f" {self._flow([value])}")])
        elif node.is_null:
            self._apply([(node.start, node.end, self._flow([value]))])
        elif node.kind == "sequence" and node.flow:
            edits = add_members(
                self._brackets(node),
                len(node.items) - 1,
                lambda _indent, _spread: [self._flow(value)],
                self._newline,
                None,
            )
            self._apply(edits)
        elif node.kind == "sequence":
            indent = " " * self._column(self._dash(node, 0))
            self._insert_lines(self._after(node.items[-1]), f"{indent}- {self._flow(value)}")
        elif node.kind == "scalar" and not node.block_scalar:
            self._apply([(node.start, node.start, "["), (node.end, node.end, f", {self._flow(value)}]")])
        else:
            raise self._error(node, f"{section}.{key} must be a list that holds {value}")

    @property
    def _as_json(self) -> bool:
        root = self.document.root
        return (
            root is not None
            and root.flow
            and (not root.pairs or self.text[root.pairs[0][0].start : root.pairs[0][0].start + 1] == '"')
        )

    def _flow(self, value: Any) -> str:
        return flow(value, as_json=self._as_json)

    def _key(self, key: str) -> str:
        return scalar(key, as_json=self._as_json)

    def _flow_entries(self, entries: Sequence[Entry], indent: str, *, spread: bool) -> list[str]:
        if not spread:
            return [self._flow(entry) for entry in entries]
        return [flow_entry(entry, indent, self._newline, as_json=self._as_json) for entry in entries]

    def _block_items(self, entries: Sequence[Entry], column: int, *, in_braces: bool = False) -> str:
        indent = " " * column
        if in_braces:
            return self._newline.join(f"{indent}- {flow(entry)}" for entry in entries)
        return self._newline.join(block_item(entry, indent, self._newline) for entry in entries)

    def _add_to_root(self, key: str, value: Any) -> None:
        """Add a top-level key at the end of the document: a list of entries, or a mapping."""
        root = self._root()
        if root is not None and root.flow:
            self._add_to_braces(root, key, value, self._inner_indent(root))
            return
        column = self._column(root.pairs[0][0].start) if root is not None else 0
        at = self.document.end
        self._insert_lines(at, f"{' ' * column}{self._key(key)}:{self._newline}{self._below(value, column)}")

    def _below(self, value: Any, column: int) -> str:
        """Return the block lines of a value below a key at a column."""
        if isinstance(value, Mapping):
            return self._newline.join(f"{' ' * (column + 2)}{scalar(key)}: {flow(item)}" for key, item in value.items())
        return self._block_items(value, column + 2)

    def _fill_null(self, node: Node, parent: Node | None, value: Any) -> None:
        """Give an empty top-level key its list or mapping."""
        assert parent is not None
        if parent.flow:
            text = self._flow(list(value) if not isinstance(value, Mapping) else value)
            lead = " " if node.start == node.end else ""
            self._apply([(node.start, node.end, lead + text)])
            return
        lines = self._below(value, self._column(parent.pairs[0][0].start))
        if node.start == node.end or self.text[node.start] in "&!":
            self._insert_lines(self._next_line(node.end), lines)
        else:
            # "key: null" becomes "key:" with lines below; a comment behind the null stays where it is.
            self._apply([(node.start, node.end, "")])
            self._insert_lines(self._next_line(node.start), lines)

    def _add_to_section(self, section: str, mapping: Node | None, key: str, value: Any) -> None:
        root = self._root()
        node = self._value_of(root, section, shared=section) if root is not None else None
        if node is None:
            self._add_to_root(section, {key: value})
        elif mapping is None:
            self._fill_null(node, root, {key: value})
        elif mapping.flow:
            self._add_to_braces(
                mapping, key, value, self._inner_indent(mapping) if root is not None and root.flow else None
            )
        else:
            column = self._column(mapping.pairs[0][0].start)
            self._insert_lines(self._after(mapping), f"{' ' * column}{self._key(key)}: {self._flow(value)}")

    def _add_to_braces(self, mapping: Node, key: str, value: Any, first_indent: str | None) -> None:
        def write(_indent: str, _spread: bool) -> list[str]:
            return [
                f"{self._key(key)}: {self._flow(list(value) if not isinstance(value, (Mapping, str, bool)) else value)}"
            ]

        members = self._brackets(mapping)
        self._apply(add_members(members, len(members.members) - 1, write, self._newline, first_indent))

    def _insert_lines(self, at: int, lines: str) -> None:
        """Put whole lines at the start of a line or the end of a file, whose missing final line end stays missing."""
        if at == len(self.text) and self.text and not self.text.endswith("\n"):
            self._refuse_open_scalar()
            self._apply([(at, at, self._newline + lines)])
        else:
            self._apply([(at, at, lines + self._newline)])

    def _refuse_open_scalar(self) -> None:
        root = self.document.root
        last = max((n for n in root.walk() if n.kind == "scalar"), key=lambda n: n.end, default=None) if root else None
        if last is not None and last.block_scalar and last.end == len(self.text):
            raise self._error(last, "the file ends inside this block text: end its last line with a line end")
