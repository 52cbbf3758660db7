"""Edits of `routing.metered_opt_in` in a registry's text: in its own style, every other byte as it was."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from litellm_registry_hook.core.opt_in import Entry, ListEdit
from litellm_registry_hook.edges.config_flow import add_members, remove_members
from litellm_registry_hook.edges.config_tree import Node
from litellm_registry_hook.edges.yaml_splice import Splicer
from litellm_registry_hook.errors import ConfigError

SECTION: Final = "routing"
KEY: Final = "metered_opt_in"


class GrantText(Splicer):
    """The grants of one registry text."""

    def carry_out(self, edit: ListEdit) -> None:
        """Change the list: replacements, then removals, then what is new."""
        for index, entry in edit.replace.items():
            self._change(index, entry)
        for index in sorted(edit.remove, reverse=True):
            self._take_out(index)
        for entry in edit.append:
            self._append(entry)

    @property
    def entries(self) -> list[Any]:
        """The list as it stands in the text."""
        return list((self.document.data.get(SECTION) or {}).get(KEY) or [])

    def _grants(self) -> Node:
        """Return the list's node; a missing list is made, empty."""
        section = self._section(SECTION)
        if section is None:
            raise ConfigError(f"{self._name}: {SECTION} must be a mapping")
        if section.get(KEY) is None:
            if KEY in self.document.data[SECTION]:
                message = f"{SECTION}.{KEY} comes from a merge key (<<): write the list out in {SECTION}"
                raise self._error(section, message)
            self._add_to_section(SECTION, section, KEY, [])
            section = self._section(SECTION)
            assert section is not None
        node = self._value_of(section, KEY, shared=f"{SECTION}.{KEY}")
        if node is None or node.kind != "sequence":
            raise ConfigError(f"{self._name}: {SECTION}.{KEY} must be a list")
        return node

    def _append(self, entry: Entry) -> None:
        node = self._grants()
        if node.flow and not node.items and self._block_fits(node):
            # One grant a line: `[]` gives way to a list below its key, and comes back with the last removal.
            colon = self._colon(node)
            column = self._column(self._owner(node)[1].start) + 2
            self._insert_lines(self._next_line(node.end), self._block_items([entry], column, in_braces=True))
            self._apply([(colon + 1, node.end, "")])
        elif node.flow:
            root = self.document.root
            first = self._inner_indent(node) if root is not None and root.flow else None
            edits = add_members(
                self._brackets(node),
                len(node.items) - 1,
                lambda indent, spread: self._flow_entries([entry], indent, spread=spread),
                self._newline,
                first,
            )
            self._apply(edits)
        else:
            column = self._column(self._dash(node, 0))
            text = self._block_items([entry], column, in_braces=_in_braces(node))
            self._insert_lines(self._after(node.items[-1]), text)

    def _take_out(self, index: int) -> None:
        node = self._grants()
        item = node.items[index]
        self._guarded(item)
        if node.flow:
            self._apply(remove_members(self._brackets(node), index, index))
            return
        start = self._line_start(self._dash(node, index))
        end = self._next_line(self._content_end(item))
        if not self.text[:end].endswith("\n") and start > 0:  # the last line of a file without a final line end
            start -= 2 if self.text[:start].endswith("\r\n") else 1
        if len(node.items) > 1:
            self._apply([(start, end, "")])
            return
        behind = node.start + 1 + len(node.name) if node.name is not None else self._colon(node) + 1
        self._apply([(start, end, ""), (behind, behind, " []")])

    def _change(self, index: int, entry: Entry) -> None:
        node = self._grants()
        item, was = node.items[index], self.entries[index]
        if item.kind == "mapping" and isinstance(was, Mapping) and self._change_keys(index, was, entry):
            return
        start, end = self._guarded(self._grants().items[index])
        if node.flow:
            spread = "\n" in self.text[start:end]
            indent = " " * self._column(start) if self._starts_line(start) else ""
            self._apply([(start, end, self._flow_entries([entry], indent, spread=spread)[0])])
            return
        dash = self._dash(node, index)
        braces = item.flow if item.kind == "mapping" else _in_braces(node)
        text = self._block_items([entry], self._column(dash), in_braces=braces)
        self._apply([(dash, self._content_end(item), text.lstrip(" "))])

    def _change_keys(self, index: int, was: Mapping[str, Any], entry: Entry) -> bool:
        """Change keys of a mapping one by one, so that its comments stay; False where it must be written anew."""
        item = self._grants().items[index]
        gone = [key for key in was if key not in entry]
        changed = [key for key in entry if key in was and was[key] != entry[key]]
        for key in (*gone, *changed):
            value = item.get(key)
            if value is None or value.name is not None or value.block_scalar:
                return False
            if (key in gone or value.kind in {"mapping", "sequence"}) and not (item.flow or value.flow or key in gone):
                return False
            if key in gone and not item.flow and not self._own_line(item, key):
                return False
        for key in changed:
            value = self._key_value(index, key)
            self._apply([(value.start, value.end, self._flow(entry[key]))])
        for key in gone:
            self._drop_key(index, key)
        for key in entry:
            if key not in was:
                self._put_key(index, key, entry[key])
        return True

    def _key_value(self, index: int, key: str) -> Node:
        value = self._grants().items[index].get(key)
        assert value is not None
        return value

    def _own_line(self, item: Node, key: str) -> bool:
        """Say whether a key of a block mapping has its line to itself; the first stands behind the dash."""
        return any(name.value == key and self._starts_line(name.start) for name, _ in item.pairs[1:])

    def _drop_key(self, index: int, key: str) -> None:
        item = self._grants().items[index]
        at = next(number for number, (name, _) in enumerate(item.pairs) if name.value == key)
        if item.flow:
            self._apply(remove_members(self._brackets(item), at, at))
            return
        name, value = item.pairs[at]
        self._apply([(self._line_start(name.start), self._next_line(self._content_end(value)), "")])

    def _put_key(self, index: int, key: str, value: Any) -> None:
        item = self._grants().items[index]
        written = f"{self._key(key)}: {self._flow(value)}"
        if item.flow:
            box = self._brackets(item)
            self._apply(add_members(box, len(box.members) - 1, lambda _indent, _spread: [written], self._newline, None))
            return
        indent = " " * self._column(item.pairs[0][0].start)
        self._insert_lines(self._after(item), indent + written)

    def _block_fits(self, node: Node) -> bool:
        """Say whether an empty `[]` may become a block list: it stands behind its key, in a block mapping."""
        parent, key = self._owner(node)
        between = self.text[key.end : node.end]
        return not parent.flow and node.name is None and "\n" not in between and between.strip(" :") == "[]"

    def _owner(self, node: Node) -> tuple[Node, Node]:
        """Return the mapping that holds a node, and its key there."""
        assert self.document.root is not None
        for mapping in self.document.root.walk():
            for key, value in mapping.pairs:
                if value is node:
                    return mapping, key
        raise self._error(node, f"{SECTION}.{KEY} must be the value of a key")

    def _colon(self, node: Node) -> int:
        return self.text.index(":", self._owner(node)[1].end)


def _in_braces(node: Node) -> bool:
    """Say whether new items of a block list are written in braces: unless others are written key by key."""
    return not any(item.kind == "mapping" and not item.flow for item in node.items)
