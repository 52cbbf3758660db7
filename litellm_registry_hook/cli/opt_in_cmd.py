"""`litellm-registry opt-in`: who may reach what costs money."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from litellm_registry_hook.cli.names import metered_ids, opted_in
from litellm_registry_hook.cli.opt_in_options import desk_of, proxy_options
from litellm_registry_hook.cli.options import common_options, example, wants_json
from litellm_registry_hook.cli.output import notice, print_json

if TYPE_CHECKING:
    from litellm_registry_hook.edges.registry_edit_desk import Desk, Done

EXIT_NO = 1
MODEL = click.option(
    "--model",
    "models",
    metavar="ID",
    multiple=True,
    shell_complete=metered_ids,
    help="A metered model; repeatable. Default: all of them.",
)
FOREIGN = click.option("--foreign", is_flag=True, help="The models are the proxy's alone, not the registry's.")


@click.group("opt-in", epilog=example("litellm-registry opt-in add agent --model paid-fallback --expires 7d"))
def opt_in() -> None:
    """Opt virtual keys in to metered models, and out again.

    KEY is an alias, sha256:TOKEN (accepted unseen), or the key itself (hashed at once, never stored).
    """


@opt_in.command("add", epilog=example("litellm-registry opt-in add agent --model paid-fallback --expires 7d"))
@click.argument("key")
@MODEL
@click.option("--expires", metavar="WHEN", help="When it ends: 12h, 7d, 2027-01-31, an ISO time; UTC. Or never.")
@click.option("--note", metavar="TEXT", help="Why.")
@click.option("--max-calls", metavar="N", help="Calls a day and model, or unlimited.")
@click.option("--permission", is_flag=True, help="Write the key's permissions in LiteLLM instead.")
@click.option("--unpinned", is_flag=True, help="Opt the alias in, whoever has it.")
@FOREIGN
@proxy_options
@common_options
def add(  # noqa: PLR0917  click gives options by name
    key: str,
    models: tuple[str, ...],
    expires: str | None,
    note: str | None,
    max_calls: str | None,
    permission: bool,
    unpinned: bool,
    foreign: bool,
    proxy: str | None,
    admin_key_env: str,
) -> int:
    """Opt a key in. Adding it again joins the models and sets the limits named.

    Exit codes: 0 opted in, 2 error; then nothing was written.
    """
    from litellm_registry_hook.edges.registry_edit_desk import Wish  # noqa: PLC0415

    desk = desk_of(proxy, admin_key_env)
    done = desk.add(Wish(key, models, expires, max_calls, note, permission, foreign, unpinned))
    _show(desk, done)
    return 0


@opt_in.command("remove", epilog=example("litellm-registry opt-in remove agent"))
@click.argument("key", shell_complete=opted_in)
@MODEL
@FOREIGN
@proxy_options
@common_options
def remove(key: str, models: tuple[str, ...], foreign: bool, proxy: str | None, admin_key_env: str) -> int:
    """Opt a key out, of some models or of all; in force in every worker within two seconds.

    Exit codes: 0 it is not opted in any more, 2 error.
    """
    desk = desk_of(proxy, admin_key_env)
    done = desk.remove(key, models, foreign=foreign)
    _show(desk, done, removed=True)
    return 0


@opt_in.command("list", epilog=example("litellm-registry opt-in list --json"))
@proxy_options
@common_options
def list_grants(proxy: str | None, admin_key_env: str) -> int:
    """List every grant: who, for what, since when, until when, why, and its calls of today."""
    from litellm_registry_hook.cli.opt_in_text import show_rows  # noqa: PLC0415
    from litellm_registry_hook.edges.registry_edit_list import rows  # noqa: PLC0415

    desk = desk_of(proxy, admin_key_env)
    found = rows(desk)
    if wants_json():
        print_json([row.as_data() for row in found])
    elif found:
        show_rows(found)
    else:
        notice(f"nobody is opted in by {desk.registry_file}: every metered model is unreachable")
    return 0


@opt_in.command("check", epilog=example("litellm-registry opt-in check agent --model paid-fallback"))
@click.argument("key", shell_complete=opted_in)
@MODEL
@FOREIGN
@proxy_options
@common_options
def check(key: str, models: tuple[str, ...], foreign: bool, proxy: str | None, admin_key_env: str) -> int:
    """Say whether a key is opted in now: for every model named, or without --model for any.

    Exit codes: 0 opted in, 1 not, 2 error.
    """
    from litellm_registry_hook.cli.opt_in_text import answer_data, answer_line  # noqa: PLC0415
    from litellm_registry_hook.edges import registry_edit_list  # noqa: PLC0415

    answer = registry_edit_list.check(desk_of(proxy, admin_key_env), key, models, foreign=foreign)
    if wants_json():
        print_json(answer_data(answer))
    else:
        click.echo(answer_line(answer))
    return 0 if answer.opted_in else EXIT_NO


def _show(desk: Desk, done: Done, *, removed: bool = False) -> None:
    """Print what is in force now, what the person should know, and where the state is."""
    from litellm_registry_hook.cli.keys_store import say_where  # noqa: PLC0415
    from litellm_registry_hook.cli.opt_in_text import name_of, show_rows  # noqa: PLC0415
    from litellm_registry_hook.edges.registry_edit_list import rows_of  # noqa: PLC0415

    found = rows_of(desk, done.keys)
    if wants_json():
        keys = [{"key": key.alias or None, "token": key.pinned or None} for key in done.keys]
        print_json({"keys": keys, "grants": [row.as_data() for row in found], "notes": list(done.notes)})
    elif found:
        show_rows(found)
    elif removed:
        click.echo(f"{' and '.join(name_of(key) for key in done.keys)}: not opted in")
    for note in done.notes:
        notice(f"note: {note}")
    say_where(desk.state, desk.now())
