"""`litellm-registry resolve`."""

from __future__ import annotations

import click

from litellm_registry_hook.cli.names import opted_in, tier_names
from litellm_registry_hook.cli.options import common_options, example, read_registry
from litellm_registry_hook.cli.output import error, print_json


@click.command("resolve", epilog=example("litellm-registry resolve --tier large"))
@click.option(
    "--tier", required=True, metavar="TIER", shell_complete=tier_names, help="A tier of routing.tiers, or an alias."
)
@click.option("--allow-metered", is_flag=True, help="This call may cost money.")
@click.option(
    "--opted-in",
    metavar="KEY",
    shell_complete=opted_in,
    help="Who calls: an alias, sha256:<hex>, or sk-… (hashed at once, never stored).",
)
@common_options
def resolve(tier: str, allow_metered: bool, opted_in: str | None) -> int:
    """Print the first usable model of a tier, as its JSON entry.

    Nothing is asked of any server. Exit code 1: no model of the tier may be used.
    """
    from litellm_registry_hook import wiring  # noqa: PLC0415
    from litellm_registry_hook.cli.run import EXIT_NO  # noqa: PLC0415
    from litellm_registry_hook.core.resolve import NothingUsableError  # noqa: PLC0415

    registry = read_registry()
    try:
        model = wiring.resolve(registry, tier, allow_metered=allow_metered, opted_in_key=opted_in)
    except NothingUsableError as refusal:
        error(str(refusal))
        return EXIT_NO
    print_json(dict(model))
    return 0
