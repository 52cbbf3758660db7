"""`litellm-registry list`."""

from __future__ import annotations

import click

from litellm_registry_hook.cli.options import common_options, example, read_registry, wants_json
from litellm_registry_hook.cli.output import print_json, print_table


@click.command("list", epilog=example("litellm-registry list --json"))
@common_options
def list_models() -> int:
    """List the models: tiers, role, lifecycle, and which cost money."""
    registry = read_registry()
    tiers: dict[str, list[str]] = {model.id: [] for model in registry.models}
    for tier, ids in registry.routing.tiers.items():
        for model_id in ids:
            tiers[model_id].append(tier)
    if wants_json():
        print_json(
            [
                {
                    "id": model.id,
                    "tiers": tiers[model.id],
                    "role": list(model.role),
                    "lifecycle": model.lifecycle,
                    "metered": model.metered,
                    "mode": model.effective_mode,
                }
                for model in registry.models
            ]
        )
        return 0
    rows = [
        (
            model.id,
            ", ".join(tiers[model.id]) or "-",
            ", ".join(model.role),
            model.lifecycle,
            "metered" if model.metered else "-",
            model.effective_mode,
        )
        for model in registry.models
    ]
    print_table(("ID", "TIERS", "ROLE", "LIFECYCLE", "METERED", "MODE"), rows)
    return 0
