"""What the `opt-in` commands say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from litellm_registry_hook.cli.output import print_table
from litellm_registry_hook.core.opt_in import KeyRef
from litellm_registry_hook.core.registry import parse_moment
from litellm_registry_hook.core.virtual_key import short
from litellm_registry_hook.core.when import show_moment
from litellm_registry_hook.edges.registry_edit_list import Answer, GrantRow

HEAD = ("KEY", "TOKEN", "MODELS", "SINCE", "UNTIL", "CALLS TODAY", "SOURCE", "NOTE", "MARKS")


def show_rows(rows: Sequence[GrantRow]) -> None:
    """Print grants as a table."""
    print_table(HEAD, [_cells(row) for row in rows])


def name_of(key: KeyRef) -> str:
    """Name a key for people."""
    return f"{key.alias} ({short(key.token)})" if key.alias and key.token else key.alias or short(key.token)


def answer_line(answer: Answer) -> str:
    """Say whether a key is opted in."""
    who = name_of(answer.key)
    yes = [model for model, covered in answer.models.items() if covered]
    no = [model for model, covered in answer.models.items() if not covered]
    if answer.opted_in:
        return f"{who}: opted in for {', '.join(yes)}"
    what = f" for {', '.join(no)}" if no else ""
    return f"{who}: not opted in{what}: {answer.reason}"


def answer_data(answer: Answer) -> dict[str, Any]:
    """Return the same for --json."""
    return {
        "key": answer.key.alias or None,
        "token": answer.key.pinned or None,
        "opted_in": answer.opted_in,
        "models": dict(answer.models),
        "reason": answer.reason or None,
    }


def _cells(row: GrantRow) -> tuple[str, ...]:
    return (
        row.key or "-",
        short(row.token.partition(":")[2]) or "-",
        ", ".join(row.models) if row.models is not None else "every metered model",
        show_moment(row.since) if row.since is not None else "-",
        show_moment(parse_moment(row.until)) if row.until is not None else "never",
        _calls(row),
        row.source,
        row.note or "-",
        ", ".join(row.marks) or "-",
    )


def _calls(row: GrantRow) -> str:
    limit = f" of {row.max_calls}" if row.max_calls is not None else ""
    if len(row.calls_today) == 1:
        return f"{next(iter(row.calls_today.values()))}{limit}"
    return ", ".join(f"{model} {count}{limit}" for model, count in row.calls_today.items()) or f"0{limit}"
