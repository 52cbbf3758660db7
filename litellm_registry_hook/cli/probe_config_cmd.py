"""`litellm-registry probe-config`."""

from __future__ import annotations

import click

from litellm_registry_hook.cli.names import model_ids
from litellm_registry_hook.cli.options import common_options, example, read_registry
from litellm_registry_hook.cli.output import print_json


@click.command("probe-config", epilog=example("litellm-registry probe-config --id kimi --all"))
@click.option("--id", "model_id", required=True, metavar="ID", shell_complete=model_ids, help="The id of a model.")
@click.option("--all", "every", is_flag=True, help="Print the list of all probes: one per window, and the GPU's.")
@common_options
def probe_config(model_id: str, every: bool) -> int:
    """Print what must be asked to know whether a model can be used, as JSON."""
    from litellm_registry_hook import wiring  # noqa: PLC0415

    registry = read_registry()
    print_json(wiring.to_probe_configs(registry, model_id) if every else wiring.to_probe_config(registry, model_id))
    return 0
