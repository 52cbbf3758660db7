"""`litellm-registry calibrate`."""

from __future__ import annotations

import sys
from itertools import groupby
from typing import TYPE_CHECKING

import click

from litellm_registry_hook.cli.calibrate_text import Outcome, show
from litellm_registry_hook.cli.names import model_ids
from litellm_registry_hook.cli.options import common_options, example, read_registry, registry_file
from litellm_registry_hook.cli.output import notice

if TYPE_CHECKING:
    from litellm_registry_hook.core.gpu.place import Home
    from litellm_registry_hook.core.registry import Registry
    from litellm_registry_hook.residency.aside import Aside

EXIT_NO = 1


@click.command(
    "calibrate",
    epilog=example("litellm-registry calibrate local-small", "litellm-registry calibrate --yes --write"),
)
@click.argument("ids", nargs=-1, metavar="[ID]...", shell_complete=model_ids)
@click.option("--yes", is_flag=True, help="Do not ask where the GPU is in use.")
@click.option("--write", is_flag=True, help="Write the sizes into the registry; comments stay.")
@common_options
def calibrate(ids: tuple[str, ...], yes: bool, write: bool) -> int:
    """Measure what Ollama models really take, and propose their vram_mb.

    Each model (all of the registry without ID) is loaded where the gate lets it, read with NVML and /api/ps, and
    unloaded again; one that is loaded already is only read. Meanwhile no proxy loads on that machine. A size that is
    off by more than 15 % is marked. Where the GPU is in use it asks first.

    Exit codes: 0 all were measured, 1 one was not, or the GPU is in use, 2 error.
    """
    from litellm_registry_hook.cli.gpu_worker import aside_of  # noqa: PLC0415
    from litellm_registry_hook.residency.calibrate import homes_to_measure  # noqa: PLC0415
    from litellm_registry_hook.residency.sizes import with_guesses  # noqa: PLC0415

    registry = read_registry()
    _check(registry, ids)
    with aside_of(registry) as aside:
        aside.registry = with_guesses(registry, aside.board.snapshot)
        homes = homes_to_measure(aside, ids)
        if not yes and not _may_touch(aside, homes):
            return EXIT_NO
        outcome = _measure(aside, homes)
    sizes = outcome.sizes()
    if write and sizes:
        from litellm_registry_hook.edges.registry_edit_sizes import edit_sizes  # noqa: PLC0415
        from litellm_registry_hook.edges.registry_file import registry_path  # noqa: PLC0415

        outcome.written = edit_sizes(registry_path(registry_file()), sizes).changed
    show(outcome, registry)
    return EXIT_NO if outcome.failed else 0


def _check(registry: Registry, ids: tuple[str, ...]) -> None:
    from litellm_registry_hook import wiring  # noqa: PLC0415

    for one in ids:
        if not wiring.get_model(registry, one).on_ollama:
            raise click.UsageError(f"{one} is not on an Ollama server: only those are loaded and measured")


def _may_touch(aside: Aside, homes: list[Home]) -> bool:
    """Ask before models are loaded on a machine that is in use."""
    from litellm_registry_hook.edges.gpu.nvml import Driver  # noqa: PLC0415
    from litellm_registry_hook.residency.busy import why_busy  # noqa: PLC0415
    from litellm_registry_hook.residency.calibrate import Calibration  # noqa: PLC0415
    from litellm_registry_hook.residency.warm import want_of  # noqa: PLC0415

    run = Calibration(aside)
    machines = sorted({aside.board.machine(want_of(aside, home).slot) for home in homes if run.entry(home) is None})
    driver = Driver()
    driver.read(0.0)
    reasons = {one: why for one in machines if (why := why_busy(aside, one, driver.processes))}
    for machine, why in reasons.items():
        notice(f"{machine} is in use: {'; '.join(why)}")
    if not reasons:
        return True
    if not sys.stdin.isatty():
        notice("nothing was measured: the GPU is in use; run again with --yes to load models all the same")
        return False
    return click.confirm("Load models there all the same, one at a time?", err=True)


def _measure(aside: Aside, homes: list[Home]) -> Outcome:
    from litellm_registry_hook.cli.progress import Bar  # noqa: PLC0415
    from litellm_registry_hook.residency.calibrate import Calibration, NotMeasuredError  # noqa: PLC0415
    from litellm_registry_hook.residency.warm import name_of, want_of  # noqa: PLC0415

    outcome = Outcome()
    with Bar(len(homes)) as bar:
        run = Calibration(aside, bar.say)
        for machine, group in groupby(homes, key=lambda home: aside.board.machine(want_of(aside, home).slot)):
            here = list(group)
            try:
                with run.machine(machine):
                    for home in here:
                        bar.say(f"measuring {name_of(home)}")
                        try:
                            outcome.measured.append(run.measure(home))
                        except NotMeasuredError as error:
                            outcome.failed.append((name_of(home), str(error)))
                        bar.step()
            except NotMeasuredError as error:
                outcome.failed += [(name_of(home), str(error)) for home in here]
    return outcome
