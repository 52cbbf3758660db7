"""`litellm-registry preload-check`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from litellm_registry_hook.cli.names import model_ids
from litellm_registry_hook.cli.options import common_options, example, read_registry
from litellm_registry_hook.cli.output import print_json

if TYPE_CHECKING:
    from litellm_registry_hook.core.registry import Model, Registry


@click.command(
    "preload-check",
    epilog=example(
        "litellm-registry preload-check --id local-small --headroom-mb 4000",
        "litellm-registry preload-check --id local-small --live",
    ),
)
@click.option(
    "--id", "model_id", required=True, metavar="ID", shell_complete=model_ids, help="The id of the model to load."
)
@click.option("--headroom-mb", type=click.FloatRange(min=0), metavar="N", help="Free memory of its GPU, in MB.")
@click.option("--live", is_flag=True, help="Ask the live gate instead; loads nothing.")
@click.option(
    "--resident", multiple=True, metavar="ID", shell_complete=model_ids, help="A model that is loaded; may be repeated."
)
@common_options
def preload_check(model_id: str, headroom_mb: float | None, live: bool, resident: tuple[str, ...]) -> int:
    """Say whether a model may be loaded: prints {"ok": …, "reason": …}.

    With --live the answer is that of the proxy's gate now: it reads the GPUs, the Ollama servers and the state, loads
    nothing, and prints the numbers too where they are known (needed_mb, free_mb, reserved_mb, promised_mb).

    Exit codes: 0 it may, 1 it may not, 2 error.
    """
    from litellm_registry_hook import wiring  # noqa: PLC0415
    from litellm_registry_hook.cli.run import EXIT_NO  # noqa: PLC0415

    if live and headroom_mb is not None:
        raise click.UsageError("give --headroom-mb N or --live, not both: --live reads the free memory itself")
    if headroom_mb is None and not live:
        raise click.UsageError("give --headroom-mb N (free memory in MB) or --live")
    registry = read_registry()
    for other in resident:
        wiring.get_model(registry, other)
    if headroom_mb is None:
        return _live(registry, wiring.get_model(registry, model_id), resident)
    ok, reason = wiring.preload_check(registry, model_id, headroom_mb, resident or None)
    print_json({"ok": ok, "reason": reason})
    return 0 if ok else EXIT_NO


def _live(registry: Registry, model: Model, resident: tuple[str, ...]) -> int:
    from litellm_registry_hook.cli.gpu_worker import aside_of  # noqa: PLC0415
    from litellm_registry_hook.cli.run import EXIT_NO  # noqa: PLC0415
    from litellm_registry_hook.residency.foresee import foresee  # noqa: PLC0415

    with aside_of(registry) as aside:
        answer = foresee(aside, model, resident)
    numbers = {name: value for name, value in asdict(answer).items() if value is not None}
    print_json(numbers)
    return 0 if answer.ok else EXIT_NO
