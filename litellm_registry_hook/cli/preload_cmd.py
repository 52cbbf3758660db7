"""`litellm-registry preload-check`."""

from __future__ import annotations

import click

from litellm_registry_hook.cli.options import common_options, read_registry
from litellm_registry_hook.cli.output import print_json


@click.command("preload-check")
@click.option("--id", "model_id", required=True, metavar="ID", help="The id of the model to load.")
@click.option("--headroom-mb", type=click.FloatRange(min=0), metavar="N", help="Free memory of its GPU, in MB.")
@click.option("--live", is_flag=True, help="Ask the live gate instead.")
@click.option("--resident", multiple=True, metavar="ID", help="A model that is loaded; may be repeated.")
@common_options
def preload_check(model_id: str, headroom_mb: float | None, live: bool, resident: tuple[str, ...]) -> int:
    """Say whether a model may be loaded: prints {"ok": …, "reason": …}; exit code 1 where it may not."""
    from litellm_registry_hook import wiring  # noqa: PLC0415
    from litellm_registry_hook.cli.run import EXIT_NO  # noqa: PLC0415

    if live:
        raise click.UsageError("--live: the live gate is not in this version yet; give --headroom-mb N")
    if headroom_mb is None:
        raise click.UsageError("give --headroom-mb N (free memory in MB) or --live")
    registry = read_registry()
    for other in resident:
        wiring.get_model(registry, other)
    ok, reason = wiring.preload_check(registry, model_id, headroom_mb, resident or None)
    print_json({"ok": ok, "reason": reason})
    return 0 if ok else EXIT_NO
