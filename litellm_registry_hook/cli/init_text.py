"""What `litellm-registry init` prints when it is done."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from litellm_registry_hook.cli.output import notice, print_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from litellm_registry_hook.core.problems import Problem
    from litellm_registry_hook.core.start.found import Found
    from litellm_registry_hook.core.start.proposal import Left, Proposal

_SHOWN = 12
_MOST = 40
_ALIKE = 3
CONFIG = "litellm-config.yaml"


def next_commands(path: Path, imported: str | None = None) -> list[str]:
    """Return the two commands that come after; `imported`: the config whose entries were carried over."""
    from litellm_registry_hook.edges.registry_file import registry_path  # noqa: PLC0415

    option = "" if path == registry_path(None) else f" --registry {shlex.quote(str(path))}"
    named = "" if imported in {None, CONFIG} else f" --config {shlex.quote(str(imported))}"
    adopt = "" if imported is None else " --adopt"
    return [f"generate-litellm-config{option}{named}{adopt}", f"litellm-registry{option} serve{named}"]


def as_json(
    path: Path, proposal: Proposal, found: Found, warnings: Sequence[Problem], imported: str | None = None
) -> dict[str, Any]:
    """Return the answer of --json."""
    return {
        "file": str(path),
        "models": [
            {
                "id": model.id,
                "role": model.entry.get("role"),
                "tiers": [tier for tier, ids in proposal.tiers.items() if model.id in ids],
                "metered": model.entry.get("metered"),
                "vram_mb": (model.entry.get("gpu_residency") or {}).get("vram_mb"),
                "vram": model.marks.get("gpu_residency.vram_mb"),
            }
            for model in proposal.models
        ],
        "tiers": {tier: list(ids) for tier, ids in proposal.tiers.items()},
        "aliases": dict(proposal.aliases),
        "never_evict_ids": list(proposal.policy.get("never_evict_ids", ())),
        "gpus": {str(key): value for key, value in proposal.policy.get("gpus", {}).items()},
        "tried": list(found.tried),
        "left": [_left(one) for one in proposal.left],
        "warnings": [
            {"code": one.code, "path": one.path, "message": one.message, "hint": one.hint} for one in warnings
        ],
        "next": next_commands(path, imported),
    }


def _left(left: Left) -> dict[str, str]:
    return {"what": left.what, "why": left.why, "fix": left.fix}


def nothing(found: Found, left: Sequence[Left], *, json: bool) -> None:
    """Say that there is nothing to propose: what was tried, what was left out and why, and the options."""
    from litellm_registry_hook.core.start.own import same_server  # noqa: PLC0415
    from litellm_registry_hook.core.start.proposal import Left  # noqa: PLC0415
    from litellm_registry_hook.edges.start.render import texts_of  # noqa: PLC0415

    if json:
        print_json({"file": None, "models": [], "tried": list(found.tried), "left": [_left(one) for one in left]})
    told = {one.what: one for one in left}
    tried = []
    for base in found.tried:
        answers = any(same_server(base, one) for one in found.bases)
        why = "it answers, and has no model to propose" if answers else "connection refused"
        tried.append(told.get(base, Left(base, why)))
    notice("nothing to propose was found, and nothing was written. Tried:")
    for line in texts_of([*tried, *(one for one in left if one not in tried)]):
        notice(f"  {line}")
    notice(
        "name your servers with --ollama URL, --tei URL and --openai URL, or import a LiteLLM config with --from-config"
    )


def show(
    path: Path, proposal: Proposal, found: Found, warnings: Sequence[Problem], imported: str | None = None
) -> None:
    """Print the summary."""
    from rich import box  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    from litellm_registry_hook.cli.screen import show as put  # noqa: PLC0415
    from litellm_registry_hook.cli.screen import words  # noqa: PLC0415
    from litellm_registry_hook.edges.start.render import texts_of  # noqa: PLC0415

    put(
        words(
            f"{path} is written: {_count(len(proposal.models), 'model')} of {_count(len(found.bases), 'server')}",
            "bold",
        )
    )
    table = Table(box=box.SIMPLE, pad_edge=False, show_edge=False)
    for head in ("tier", "model", "MB on the GPU", ""):
        table.add_column(head, justify="right" if head.startswith("MB") else "left")
    entries = {model.id: model for model in proposal.models}
    stay = set(proposal.policy.get("never_evict_ids", ()))
    for tier, ids in proposal.tiers.items():
        for number, one in enumerate(ids[:_SHOWN]):
            model = entries[one]
            size = (model.entry.get("gpu_residency") or {}).get("vram_mb")
            said = [
                *(["metered: each call may cost money"] if model.entry.get("metered") else []),
                *(["never evicted"] if one in stay else []),
                model.marks.get("gpu_residency.vram_mb", ""),
            ]
            cells = ("" if number else tier, one, "" if size is None else str(size), "; ".join(filter(None, said)))
            table.add_row(*map(words, cells))
        if len(ids) > _SHOWN:
            table.add_row("", words(f"and {len(ids) - _SHOWN} more"), "", "")
    listed = {one for ids in proposal.tiers.values() for one in ids}
    for number, one in enumerate([one for one in entries if one not in listed][:_SHOWN]):
        table.add_row("" if number else "none", words(one), "", "by its name only")
    put(table)
    gpus = proposal.policy.get("gpus", {})
    if gpus:
        put(words("GPU memory: " + ", ".join(f"{key} {size['total_mb']} MB" for key, size in gpus.items())))
    elif not found.gpus_asked:
        put(words("GPU memory: not looked at (--no-gpu), so nothing is kept from being loaded"))
    elif any("gpu_residency" in model.entry for model in proposal.models):
        put(words("GPU memory: not known, so nothing is kept from being loaded (docs/init.md says how to tell it)"))
    same = [f"{name} is {target}" for name, target in proposal.aliases.items() if target in entries]
    if same:
        put(words(f"aliases of models: {', '.join(same)}"))
    put(words(f"never evicted: {', '.join(proposal.policy.get('never_evict_ids', ())) or 'nothing'}"))
    lines = [*texts_of(proposal.left)]
    if lines:
        put(words("left out:", "bold"), *(words(f"  {line}") for line in lines[:_MOST]))
        if len(lines) > _MOST:
            put(words(f"  and {len(lines) - _MOST} more, at the end of the file"))
    for line in _summed(warnings):
        notice(line)
    put(words("next:", "bold"), *(words(f"  {line}") for line in next_commands(path, imported)))
    if "LITELLM_MASTER_KEY" not in os.environ:
        put(words("  (a proxy wants its own key first: export LITELLM_MASTER_KEY=sk-…)"))


def _summed(warnings: Sequence[Problem]) -> list[str]:
    """Return a line a warning; of many alike the first, and how many there are."""
    kinds: dict[str, list[Problem]] = {}
    for warning in warnings:
        kinds.setdefault(warning.code, []).append(warning)
    lines = []
    for code, alike in kinds.items():
        told = alike if len(alike) <= _ALIKE else alike[:1]
        lines += [f"warning: {code}: {one.path}: {one.message} ({one.hint})" for one in told]
        if len(told) < len(alike):
            lines.append(f"warning: {code}: {len(alike) - 1} more; litellm-registry validate lists them")
    return lines


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
