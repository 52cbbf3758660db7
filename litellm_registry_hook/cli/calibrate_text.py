"""What `calibrate` prints."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from litellm_registry_hook.cli.options import wants_json
from litellm_registry_hook.cli.output import notice, print_json, print_table

if TYPE_CHECKING:
    from litellm_registry_hook.core.registry import Registry
    from litellm_registry_hook.residency.calibrate import Measured

HEAD = ("ID", "HOW", "DECLARED", "OLLAMA", "NVML", "OFF", "")


@dataclass(slots=True)
class Outcome:
    """What came of a run.

    Attributes:
        measured: one a model and server. failed: name and why. written: whether the registry was.

    """

    measured: list[Measured] = field(default_factory=list)
    failed: list[tuple[str, str]] = field(default_factory=list)
    written: bool = False

    def sizes(self) -> dict[str, int]:
        """Return the vram_mb to write by id; of several servers the largest."""
        found: dict[str, int] = {}
        largest: dict[str, int] = {}
        for one in self.measured:
            largest[one.id] = max(one.real_mb, largest.get(one.id, 0))
        for one in self.measured:
            if one.proposed_mb == largest[one.id]:
                found[one.id] = one.proposed_mb
        return found


def show(outcome: Outcome, registry: Registry) -> None:
    """Print it."""
    edits = list(_edits(outcome, registry))
    if wants_json():
        print_json(
            {
                "measured": [_data(one) for one in outcome.measured],
                "failed": [{"id": name, "reason": reason} for name, reason in outcome.failed],
                "edits": [{"id": name, "path": path, "old": old, "new": new} for name, path, old, new in edits],
                "written": outcome.written,
            }
        )
        return
    if outcome.measured:
        print_table(HEAD, [_row(one) for one in outcome.measured])
    for one in outcome.measured:
        if one.note:
            notice(f"{one.id}: {one.note}")
    for name, reason in outcome.failed:
        click.echo(f"{name}: not measured: {reason}")
    for name, path, old, new in edits:
        click.echo(f"{path}: {old if old is not None else 'none'} -> {new}  # {name}")
    if outcome.written:
        notice("written; a running proxy takes it within a second")
    elif edits:
        notice("nothing was written; --write does it")


def _edits(outcome: Outcome, registry: Registry) -> list[tuple[str, str, int | None, int]]:
    sizes = outcome.sizes()
    return [
        (
            model.id,
            f"models[{number}].gpu_residency.vram_mb",
            model.gpu_residency.vram_mb if model.gpu_residency is not None else None,
            sizes[model.id],
        )
        for number, model in enumerate(registry.models)
        if model.id in sizes
    ]


def _row(one: Measured) -> tuple[str, ...]:
    nvml = f"{one.nvml_mb:.0f} MB" if one.nvml_mb is not None else "-"
    declared = f"{one.declared_mb} MB" if one.declared_mb is not None else "-"
    off = f"{one.percent:+.0f} %" if one.percent is not None else "-"
    return one.id, one.how, declared, f"{one.vram_mb:.0f} MB", nvml, off, "WRONG" if one.marked else ""


def _data(one: Measured) -> dict[str, Any]:
    return {
        "id": one.id,
        "api_base": one.api_base,
        "how": one.how,
        "declared_mb": one.declared_mb,
        "size_mb": round(one.size_mb, 1),
        "size_vram_mb": round(one.vram_mb, 1),
        "nvml_mb": None if one.nvml_mb is None else round(one.nvml_mb, 1),
        "measured_mb": one.real_mb,
        "off_percent": None if one.percent is None else round(one.percent, 1),
        "wrong": one.marked,
        "proposed_mb": one.proposed_mb,
        "note": one.note,
    }
