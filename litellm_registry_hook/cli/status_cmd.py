"""`litellm-registry status`: the present state, read by the command itself; no proxy is needed."""

from __future__ import annotations

import os
import sys
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import click

from litellm_registry_hook.cli.explain_cmd import state_of
from litellm_registry_hook.cli.options import common_options, example, registry_file, wants_json
from litellm_registry_hook.cli.output import print_json
from litellm_registry_hook.cli.run import EXIT_ERROR
from litellm_registry_hook.cli.screen import in_place

if TYPE_CHECKING:
    from collections.abc import Mapping

EVERY_S = 2.0


@click.command("status", epilog=example("litellm-registry status --watch"))
@click.option("--watch", is_flag=True, help="Show it again every two seconds, in place, until Ctrl-C.")
@common_options
def status(watch: bool) -> int:
    """Show tiers and who would serve them now, GPU memory, quotas, loads, waiting requests, workers and grants.

    Read from the registry, the state and a look at the GPUs and Ollama servers; nothing is loaded.

    Exit codes: 0 shown, 2 error, a registry that is not valid too: then what the proxies have in force is shown.
    """
    if wants_json():
        if watch:
            raise click.UsageError("--watch shows a table; without it --json prints the state once")
        data = gather()
        print_json(data)
        return _code(data)
    if watch and in_place():
        return _watch()
    return _once(watch=watch)


def _code(data: Mapping[str, Any]) -> int:
    return 0 if "tiers" in data else EXIT_ERROR


def _once(*, watch: bool) -> int:
    """Print it; with --watch into a pipe again and again, one after the other."""
    import time  # noqa: PLC0415

    from litellm_registry_hook.cli.screen import show  # noqa: PLC0415
    from litellm_registry_hook.cli.status_text import picture  # noqa: PLC0415

    while True:
        data = gather()
        show(picture(data))
        if not watch:
            return _code(data)
        sys.stdout.flush()
        time.sleep(EVERY_S)


def _watch() -> int:
    import time  # noqa: PLC0415

    from rich.live import Live  # noqa: PLC0415

    from litellm_registry_hook.cli.screen import console  # noqa: PLC0415
    from litellm_registry_hook.cli.status_text import picture  # noqa: PLC0415

    with Live(picture(gather()), console=console(), screen=True, auto_refresh=False) as live:
        while True:
            time.sleep(EVERY_S)
            live.update(picture(gather()), refresh=True)


def gather() -> dict[str, Any]:
    """Return the whole status; without tiers where the registry is not valid."""
    from litellm_registry_hook.core.explain import whole_index  # noqa: PLC0415
    from litellm_registry_hook.edges.registry_file import check_file, digest_of, registry_path, report_line  # noqa: PLC0415
    from litellm_registry_hook.why.gather import File, no_status, status_data  # noqa: PLC0415
    from litellm_registry_hook.why.looks import look  # noqa: PLC0415

    path = registry_path(registry_file())
    registry, problems = check_file(path)
    broken = tuple(report_line(path, one) for one in problems if one.severity == "error")
    file = File(str(path.absolute()), digest_of(path), None, broken)
    state = state_of(registry)
    try:
        if registry is None:
            return no_status(file, state, "", datetime.now(timezone.utc))
        return status_data(look(registry, os.environ, state), whole_index(registry), file)
    finally:
        if state is not None:
            state.close()
