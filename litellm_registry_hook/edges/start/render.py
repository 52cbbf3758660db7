"""A proposal as the text of a registry, with its comments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from litellm_registry_hook.core.start.proposal import Left, Proposal, ProposedModel
from litellm_registry_hook.edges.config_emit import flow, scalar

WIDTH: Final = 120


def render(proposal: Proposal) -> str:
    """Return the registry as YAML: what the proposal says, its notes and marks as comments."""
    lines = [*_comments(proposal.notes, ""), "version: 1", "", *_models(proposal.models), "", "routing:"]
    lines += _tiers(proposal)
    lines += _mapping("aliases", proposal.aliases, "  ", {}) if proposal.aliases else []
    for key, value in proposal.routing.items():
        lines += _mapping(key, value, "  ", {})
    if proposal.policy:
        lines += ["", "gpu_residency_policy:"]
        for key, value in proposal.policy.items():
            lines += _mapping(key, value, "  ", {})
    if proposal.left:
        lines += ["", "# Seen, and not in here:", *(_left(one) for one in proposal.left)]
    return "\n".join(lines) + "\n"


def document(proposal: Proposal) -> dict[str, Any]:
    """Return what the text of a proposal says once it is read."""
    routing: dict[str, Any] = {"tiers": {tier: list(ids) for tier, ids in proposal.tiers.items()}}
    if proposal.aliases:
        routing["aliases"] = dict(proposal.aliases)
    whole = {
        "version": 1,
        "models": [dict(model.entry) for model in proposal.models],
        "routing": {**routing, **proposal.routing},
    }
    return {**whole, "gpu_residency_policy": dict(proposal.policy)} if proposal.policy else whole


def comment(text: str) -> str:
    """Return text that stays on its line: YAML breaks lines at more than a line feed."""
    return "".join(char if char.isprintable() else " " if char.isspace() else "�" for char in text).strip()


def _comments(notes: Sequence[str], indent: str) -> list[str]:
    return [f"{indent}# {comment(note)}".rstrip() for note in notes]


def _models(models: Sequence[ProposedModel]) -> list[str]:
    if not models:
        return ["models: []"]
    lines = ["models:"]
    for number, model in enumerate(models):
        if number:
            lines.append("")
        lines += _comments(model.notes, "  ")
        first = True
        for key, value in model.entry.items():
            below = {path: mark for path, mark in model.marks.items() if path.partition(".")[0] == key}
            for line in _mapping(str(key), value, "    ", below):
                lines.append(f"  - {line[4:]}" if first else line)
                first = False
    return lines


def _tiers(proposal: Proposal) -> list[str]:
    if not proposal.tiers:
        return ["  tiers: {}"]
    lines = ["  tiers:"]
    for tier, ids in proposal.tiers.items():
        if note := proposal.tier_notes.get(tier):
            lines += _comments([note], "    ")
        lines += _mapping(tier, list(ids), "    ", {})
    return lines


def _mapping(key: Any, value: Any, indent: str, marks: Mapping[str, str], path: str = "") -> list[str]:
    """Return `key: value`: on one line where it fits and no line below it has a mark.

    Args:
        key, value: plain data. indent: of the key.
        marks: those at or below this key, by dotted path from the entry. path: of the mapping that holds the key.

    """
    own = f"{path}{key}"
    mark = f"  # {comment(marks[own])}" if own in marks else ""
    deeper = {where: text for where, text in marks.items() if where.startswith(f"{own}.")}
    lead = f"{indent}{scalar(key)}:"
    line = f"{lead} {flow(value)}"
    if isinstance(value, Mapping) and value and (deeper or len(line) > WIDTH):
        found = [lead + mark]
        for name, below in value.items():
            found += _mapping(name, below, f"{indent}  ", deeper, f"{own}.")
        return found
    if isinstance(value, (list, tuple)) and len(value) > 1 and len(line) > WIDTH:
        return [lead + mark, *(f"{indent}  - {flow(item)}" for item in value)]
    # What has no line of its own is said at the line that holds it.
    texts = dict.fromkeys([*([marks[own]] if own in marks else []), *deeper.values()])
    return [f"{line}  # {'; '.join(map(comment, texts))}" if texts else line]


def _left(left: Left) -> str:
    text = f"#   {left.what}: {left.why}" + (f" ({left.fix})" if left.fix else "")
    return f"#   {comment(text[4:])}"


def texts_of(left: Sequence[Left]) -> Iterator[str]:
    """Return each as one line."""
    for one in left:
        yield comment(f"{one.what}: {one.why}" + (f" ({one.fix})" if one.fix else ""))
