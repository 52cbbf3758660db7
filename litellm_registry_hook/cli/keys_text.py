"""What the `keys` commands say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from shlex import quote

from litellm_registry_hook.core.consent import entry_covers
from litellm_registry_hook.core.findings import redact
from litellm_registry_hook.core.registry import OptIn, Registry
from litellm_registry_hook.core.suggest import nearest
from litellm_registry_hook.core.virtual_key import TOKEN_PREFIX, VirtualKey, short
from litellm_registry_hook.core.when import show_moment

# Words of LiteLLM's teams: as a key's only model they mean "all" or "none" there (auth_checks.py).
TEAM_WORDS = frozenset({"all-team-models", "all-proxy-models", "no-default-models"})


def state_of(key: VirtualKey, now: datetime) -> str:
    """Return live, expired or revoked."""
    if key.revoked is not None:
        return "revoked"
    return "live" if key.live(now) else "expired"


def row_of(key: VirtualKey, now: datetime) -> tuple[str, ...]:
    """Return a key's line of the table."""
    return (
        key.alias,
        short(key.token),
        ", ".join(key.models) if key.models is not None else "all",
        show_moment(key.created),
        show_moment(key.expires) if key.expires is not None else "never",
        state_of(key, now),
        key.note or "",
    )


def data_of(key: VirtualKey, now: datetime) -> dict[str, object]:
    """Return a key for --json; never the key itself, which nobody has."""
    return {
        "alias": key.alias,
        "token": short(key.token),
        "models": list(key.models) if key.models is not None else None,
        "created": key.created.isoformat(),
        "expires": key.expires.isoformat() if key.expires is not None else None,
        "revoked": key.revoked.isoformat() if key.revoked is not None else None,
        "state": state_of(key, now),
        "note": key.note,
    }


def made(key: str, row: VirtualKey) -> str:
    """Return what is printed, once, about a new key: itself alone on the first line, then how to use it."""
    models = ", ".join(row.models) if row.models is not None else "all"
    ends = show_moment(row.expires) if row.expires is not None else "never"
    return (
        f"{key}\n\n"
        f"alias:    {row.alias}\n"
        f"models:   {models}\n"
        f"expires:  {ends}\n\n"
        "This is the only time that the key is shown: only its hash is kept. Clients send it as\n"
        "`Authorization: Bearer KEY`, or set it as the api_key of their SDK."
    )


def unknown_models(registry: Registry, models: Sequence[str]) -> Iterator[str]:
    """Return a warning for each name that the registry does not have; a model of the proxy's own config may have it."""
    known = {*registry.routing.tiers, *registry.routing.aliases, *registry.by_id}
    for name in models:
        if name not in known:
            close = nearest(name, known)
            guess = f"; did you mean `{close}`?" if close is not None else ""
            yield (
                f"the registry has no tier, alias or model `{redact(name)}`{guess} "
                "(a model of litellm-config.yaml that is not in the registry may be meant)"
            )


def opt_in_notes(registry: Registry, old: VirtualKey, new: VirtualKey, now: datetime) -> Iterator[str]:
    """Say what a rotation means for the entries of metered_opt_in that let the old key in."""
    pinned = f"{TOKEN_PREFIX}{old.token}"
    for number, entry in enumerate(registry.routing.metered_opt_in):
        where = f"routing.metered_opt_in[{number}]"
        token = entry if isinstance(entry, str) and entry.startswith(TOKEN_PREFIX) else getattr(entry, "token", None)
        if token == pinned:
            yield (
                f"{where} is pinned to the old key and no longer lets `{new.alias}` in; to move it: "
                f"litellm-registry opt-in add {new.alias}{_options(entry)} "
                f"and litellm-registry opt-in remove {pinned}"
            )
        elif token is None and (entry if isinstance(entry, str) else entry.key) == new.alias:
            models = entry.models if isinstance(entry, OptIn) else None
            still = entry_covers(entry, frozenset({new.alias}), models[0] if models else "", now)
            yield f"{where} lists `{new.alias}` by its alias and " + ("goes on" if still else "has expired")


def _options(entry: str | OptIn) -> str:
    if isinstance(entry, str):
        return ""
    options = "".join(f" --model {model}" for model in entry.models or ())
    if entry.expires is not None:
        options += f" --expires {quote(entry.expires)}"
    if entry.max_calls is not None:
        options += f" --max-calls {entry.max_calls}"
    return options + (f" --note {quote(entry.note)}" if entry.note is not None else "")
