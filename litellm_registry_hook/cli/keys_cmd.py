"""`litellm-registry keys`: the embedded virtual keys of a proxy without a database."""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import click

from litellm_registry_hook.cli.names import every_name
from litellm_registry_hook.cli.options import common_options, example, wants_json
from litellm_registry_hook.cli.output import error, notice, print_json, print_table

if TYPE_CHECKING:
    from litellm_registry_hook.core.virtual_key import VirtualKey
    from litellm_registry_hook.edges.store.port import State

EXIT_NO = 1
ALIAS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,127}")
EXPIRES = "When it ends: 30m, 12h, 7d, 18:00, 2027-01-31, an ISO time; UTC. Default: never."


class UsedAliasError(Exception):
    """A key that has not ended holds the alias."""


@click.group("keys", epilog=example("litellm-registry keys create --alias agent --models small"))
def keys() -> None:
    """Make, list, end and renew virtual keys of a proxy without a database.

    KEY is an alias, sha256:TOKEN, or the key itself.
    """


@keys.command("create", epilog=example("litellm-registry keys create --alias agent --models small --expires 30d"))
@click.option("--alias", metavar="NAME", required=True, help="What the key is called; unique among live keys.")
@click.option(
    "--models",
    metavar="NAME,…",
    multiple=True,
    shell_complete=every_name,
    help="Tiers, aliases and ids that it may use. Default: all.",
)
@click.option("--expires", metavar="WHEN", help=EXPIRES)
@click.option("--note", metavar="TEXT", help="Why it exists.")
@click.argument("more", metavar="", nargs=-1)
@common_options
def create(alias: str, models: tuple[str, ...], expires: str | None, note: str | None, more: tuple[str, ...]) -> int:
    """Make a key and print it, once; only its hash is kept."""
    from litellm_registry_hook.cli.keys_store import open_store, registry_if_readable, say_where  # noqa: PLC0415
    from litellm_registry_hook.cli.keys_text import unknown_models  # noqa: PLC0415
    from litellm_registry_hook.core.virtual_key import VirtualKey, token_of  # noqa: PLC0415

    now = datetime.now(timezone.utc)
    names = _names(models, more)
    _check_alias(alias)
    ends = _when(expires, now)
    registry = registry_if_readable()
    state = open_store(registry)
    key = new_key()
    row = VirtualKey(token_of(key), alias, names, now, ends, None, note)
    try:
        retired = store(state, row, now)
    except UsedAliasError:
        error(
            f"alias `{alias}` has a live key; end it first (litellm-registry keys revoke {alias}), "
            f"or give it a new key (litellm-registry keys rotate {alias})"
        )
        return 2
    # First of all the key: it is stored, and nobody can print it again.
    _print_key(key, row)
    for text in unknown_models(registry, names or ()) if registry is not None else ():
        notice(f"warning: {text}")
    if retired:
        notice(f"the expired key of `{alias}` is revoked")
    say_where(state, now)
    return 0


@keys.command("list", epilog=example("litellm-registry keys list --json"))
@common_options
def list_keys() -> int:
    """List the keys: who, for what, until when. The keys themselves are not kept."""
    from litellm_registry_hook.cli.keys_store import open_store, registry_if_readable  # noqa: PLC0415
    from litellm_registry_hook.cli.keys_text import data_of, row_of  # noqa: PLC0415

    now = datetime.now(timezone.utc)
    state = open_store(registry_if_readable())
    # Reading makes no store where there is none.
    found = state.virtual_keys() if state.exists() else []
    if wants_json():
        print_json([data_of(one, now) for one in found])
        return 0
    if not found:
        notice(f"no keys in {state.place}")
        return 0
    head = ("ALIAS", "TOKEN", "MODELS", "CREATED", "EXPIRES", "STATE", "NOTE")
    print_table(head, [row_of(one, now) for one in found])
    return 0


@keys.command("revoke", epilog=example("litellm-registry keys revoke agent"))
@click.argument("key")
@common_options
def revoke(key: str) -> int:
    """End a key; every worker refuses it within two seconds.

    Exit codes: 0 ended, 1 there is no live one.
    """
    from litellm_registry_hook.cli.keys_store import open_store, registry_if_readable, say_where  # noqa: PLC0415

    now = datetime.now(timezone.utc)
    state = open_store(registry_if_readable())
    found = _find(state, key, now)
    if isinstance(found, str):
        return _no(found)
    if not state.revoke_key(found.token, now):
        return _no(f"the key of `{found.alias}` was revoked a moment ago")
    say_where(state, now)
    _say({"alias": found.alias, "token": found.token}, f"`{found.alias}` is revoked, in every worker within 2 seconds")
    return 0


@keys.command("rotate", epilog=example("litellm-registry keys rotate agent --expires 30d"))
@click.argument("key")
@click.option("--expires", metavar="WHEN", help="When the new key ends; default: as the old one.")
@common_options
def rotate(key: str, expires: str | None) -> int:
    """Give an alias a new key, with the same models and end; the old one ends at once.

    Exit codes: 0 done, 1 there is no key to replace.
    """
    from litellm_registry_hook.cli.keys_store import open_store, registry_if_readable, say_where  # noqa: PLC0415
    from litellm_registry_hook.cli.keys_text import opt_in_notes  # noqa: PLC0415
    from litellm_registry_hook.core.virtual_key import token_of  # noqa: PLC0415

    now = datetime.now(timezone.utc)
    ends = _when(expires, now)
    registry = registry_if_readable()
    state = open_store(registry)
    old = _find(state, key, now, expired_too=ends is not None)
    if isinstance(old, str):
        return _no(old)
    fresh = new_key()
    row = replace(old, token=token_of(fresh), created=now, expires=ends or old.expires)
    if not state.rotate_key(old.token, row, now):
        return _no(f"the key of `{old.alias}` was revoked a moment ago")
    _print_key(fresh, row)
    for text in opt_in_notes(registry, old, row, now) if registry is not None else ():
        notice(text)
    say_where(state, now)
    return 0


def new_key() -> str:
    """Return a new key: 256 bits, in the form of LiteLLM's own."""
    return "sk-" + secrets.token_urlsafe(32)


def store(state: State, row: VirtualKey, now: datetime) -> bool:
    """Store a new key; an expired one of its alias makes way. Returns whether one did.

    Raises:
        UsedAliasError: a live key has the alias.

    """
    from litellm_registry_hook.edges.store.port import AliasTakenError  # noqa: PLC0415

    try:
        state.add_key(row)
    except AliasTakenError:
        holders = [one for one in state.virtual_keys() if one.alias == row.alias and one.revoked is None]
        old = next((one for one in holders if not one.live(now)), None)
        if old is None or not state.rotate_key(old.token, row, now):
            raise UsedAliasError(row.alias) from None
        return True
    return False


def _find(state: State, text: str, now: datetime, *, expired_too: bool = False) -> VirtualKey | str:
    """Return the live key that KEY means, or why there is none; what may be a key is not repeated."""
    from litellm_registry_hook.core.findings import redact  # noqa: PLC0415
    from litellm_registry_hook.core.suggest import nearest  # noqa: PLC0415
    from litellm_registry_hook.core.virtual_key import TOKEN_PREFIX, read_token, short  # noqa: PLC0415
    from litellm_registry_hook.core.when import show_moment  # noqa: PLC0415

    token = read_token(text)
    if token is None and text.startswith(TOKEN_PREFIX):
        raise click.UsageError("a token is sha256: and 64 hex digits, lower case; `keys list` shows aliases")
    name = f"token {short(token)}" if token is not None else f"alias `{redact(text)}`"
    every = state.virtual_keys() if state.exists() else []
    found = [one for one in every if (one.token == token if token is not None else one.alias == text)]
    if not found:
        close = nearest(text, {one.alias for one in every}) if token is None else None
        guess = f"did you mean `{close}`? " if close is not None else ""
        return f"there is no key with {name}; {guess}`litellm-registry keys list` shows all"
    # The latest holder of an alias: at most one of them is not revoked.
    last = next((one for one in found if one.revoked is None), found[-1])
    if last.revoked is not None:
        return f"the key with {name} was revoked on {show_moment(last.revoked)}"
    if last.expires is not None and not last.live(now) and not expired_too:
        again = f"litellm-registry keys rotate {last.alias} --expires WHEN"
        return f"the key with {name} expired on {show_moment(last.expires)}; for a new one: {again}"
    return last


def _names(models: Sequence[str], more: Sequence[str]) -> tuple[str, ...] | None:
    """Read --models: separated by commas, given several times, or followed by further names."""
    from litellm_registry_hook.cli.keys_text import TEAM_WORDS  # noqa: PLC0415

    if not models:
        if more:
            raise click.UsageError("names of models go after --models")
        return None
    names = tuple(dict.fromkeys(name.strip() for text in (*models, *more) for name in text.split(",") if name.strip()))
    if not names:
        raise click.UsageError("--models names nothing; leave it out for all models")
    words = TEAM_WORDS & set(names)
    if words:
        raise click.UsageError(f"--models: `{min(words)}` means something in LiteLLM's teams only; name models")
    return names


def _check_alias(alias: str) -> None:
    if alias.startswith(("sk-", "sha256:")):
        raise click.UsageError("--alias is a name for people, not a key or a token")
    if not ALIAS.fullmatch(alias):
        raise click.UsageError("--alias: letters, digits and ._:/@- (the first a letter or digit), at most 128")


def _when(text: str | None, now: datetime) -> datetime | None:
    from litellm_registry_hook.core.when import read_when  # noqa: PLC0415

    if text is None:
        return None
    try:
        return read_when(text, now)
    except ValueError as problem:
        raise click.UsageError(f"--expires: {problem}") from None


def _print_key(key: str, row: VirtualKey) -> None:
    from litellm_registry_hook.cli.keys_text import made  # noqa: PLC0415

    _say({"key": key, "alias": row.alias, "token": row.token}, made(key, row))


def _say(data: dict[str, str], text: str) -> None:
    if wants_json():
        print_json(data)
    else:
        click.echo(text)


def _no(text: str) -> int:
    notice(text)
    return EXIT_NO
