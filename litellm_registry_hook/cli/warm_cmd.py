"""`litellm-registry warm`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from litellm_registry_hook.cli.options import common_options, example, read_registry, wants_json
from litellm_registry_hook.cli.output import notice, print_json

if TYPE_CHECKING:
    from litellm_registry_hook.residency.warm import Warmed


@click.command("warm", epilog=example("litellm-registry warm --timeout 120"))
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    default=600.0,
    show_default=True,
    metavar="S",
    help="Seconds for all of them.",
)
@common_options
def warm(timeout_s: float) -> int:
    """Load the never-evict models now, the biggest first, and pin them.

    It asks the same gate as the proxy and may run beside it: nothing is pushed out that must stay, nothing is loaded
    that does not fit. A proxy that runs does this by itself.

    Exit codes: 0 all are loaded, 1 one is not (named, with the numbers), 2 error.
    """
    from litellm_registry_hook.cli.gpu_worker import aside_of  # noqa: PLC0415
    from litellm_registry_hook.cli.progress import Bar  # noqa: PLC0415
    from litellm_registry_hook.cli.run import EXIT_NO  # noqa: PLC0415
    from litellm_registry_hook.residency import warm as work  # noqa: PLC0415

    with aside_of(read_registry()) as aside, Bar(len(work.never_evict(aside))) as bar:
        done = work.warm(aside, timeout_s, lambda name: bar.say(f"loading {name}"), bar.step)
    _show(done)
    return EXIT_NO if done.failed else 0


def _show(done: Warmed) -> None:
    if wants_json():
        failed = [{"id": name, "reason": reason} for name, reason in done.failed]
        print_json({"loaded": done.loaded, "already": done.already, "failed": failed})
        return
    for name in done.loaded:
        click.echo(f"{name}: loaded")
    for name in done.already:
        click.echo(f"{name}: was loaded already")
    for name, reason in done.failed:
        click.echo(f"{name}: not loaded: {reason}")
    if not (done.loaded or done.already or done.failed):
        notice("the registry has no never-evict model")
