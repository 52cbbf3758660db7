"""Two keys for one lock: a metered model wants this request's consent and an opted-in virtual key.

Who is calling is decided by the host's authenticated object alone (`adapter/identity.py` translates it into a
`Caller`); nothing in here reads anything that a client can set.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from litellm_registry_hook.core.registry import OptIn, Registry, parse_moment

TOKEN_RE = re.compile(r"[0-9a-f]{64}")
EVERY = "*"
CallerKind = Literal["virtual_key", "embedded", "custom_auth", "master_key", "anonymous"]


@dataclass(frozen=True, slots=True)
class Grant:
    """What opts a key in.

    Attributes:
        models: ids it covers; None for every metered model.
        expires: when it ends, aware; None for never.
        max_calls: calls a day and model; None for no limit.
        source: where it stands.

    """

    models: tuple[str, ...] | None = None
    expires: datetime | None = None
    max_calls: int | None = None
    source: Literal["registry", "permission", "master_key"] = "registry"

    def covers(self, model_id: str, now: datetime) -> bool:
        """Say whether it counts for a model at a moment."""
        return (self.models is None or model_id in self.models) and (self.expires is None or now < self.expires)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who the host says is calling.

    Attributes:
        kind: how the host authenticated the caller; `embedded` is a live key of our own store.
        token: 64 hex digits, the sha256 of the virtual key; empty where there is none.
        alias: the key's alias; for people only where anybody may take one, as in LiteLLM's database.
        permission: the key's own `permissions.metered_opt_in`, which only a proxy admin can write.
        revoked: models, or EVERY, whose removal outranks a permission that LiteLLM still has in its key cache.

    """

    kind: CallerKind = "anonymous"
    token: str = ""
    alias: str = ""
    permission: Grant | None = None
    revoked: frozenset[str] = frozenset()


ANONYMOUS = Caller()


def entry_covers(entry: str | OptIn, names: frozenset[str], model_id: str, now: datetime) -> bool:
    """Say whether one entry of metered_opt_in opts one of `names` in for a model at the moment `now`.

    Args:
        entry: a string entry, or a map entry with key, token, models and expires.
        names: what the caller may be called: `sha256:<hex>`, and its alias where aliases count.
        model_id: the metered model.
        now: an aware moment.

    """
    if isinstance(entry, str):
        return entry in names
    # A pinned entry names its key by the hash; the alias beside it is for people.
    named = entry.token in names if entry.token is not None else entry.key in names
    return named and grant_of(entry).covers(model_id, now)


def grant_of(entry: str | OptIn) -> Grant:
    """Return what an entry of the registry grants."""
    return Grant() if isinstance(entry, str) else Grant(entry.models, entry.expires_at, entry.max_calls)


def names_opted_in(registry: Registry, names: frozenset[str], model_id: str, now: datetime) -> bool:
    """Say whether routing.metered_opt_in has one of these names for this model."""
    return any(entry_covers(entry, names, model_id, now) for entry in registry.routing.metered_opt_in)


def read_permission(value: object) -> Grant | None:
    """Read `permissions.metered_opt_in`: true, or {models, expires, max_calls}; None for anything else."""
    if value is True:
        return Grant(source="permission")
    if not isinstance(value, Mapping) or set(value) - {"models", "expires", "max_calls"}:
        return None
    models, expires, cap = value.get("models"), value.get("expires"), value.get("max_calls")
    if models is not None and not (isinstance(models, (list, tuple)) and all(isinstance(one, str) for one in models)):
        return None
    if cap is not None and (not isinstance(cap, int) or isinstance(cap, bool) or cap < 1):
        return None
    try:
        ends = parse_moment(_text(expires)) if expires is not None else None
    except (TypeError, ValueError):
        return None
    return Grant(tuple(models) if models is not None else None, ends, cap, "permission")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def grant_for(registry: Registry, caller: Caller, model_id: str, now: datetime) -> Grant | None:
    """Return what opts a caller in for a metered model at a moment; None where nothing does.

    A key of LiteLLM's own or of our store counts by its hash. Another custom_auth counts only with
    routing.trust_custom_auth, the master key only with routing.master_key_metered, an alias only where aliases are ours
    (embedded keys) or with routing.trust_key_alias.
    """
    routing = registry.routing
    if caller.kind == "master_key":
        return Grant(source="master_key") if routing.master_key_metered else None
    if caller.kind == "custom_auth" and not routing.trust_custom_auth:
        return None
    if caller.kind == "anonymous" or not TOKEN_RE.fullmatch(caller.token):
        return None
    names = [f"sha256:{caller.token}"]
    if caller.alias and (routing.trust_key_alias or caller.kind == "embedded"):
        names.append(caller.alias)
    for name in names:
        for entry in routing.grants_by_name.get(name, ()):
            grant = grant_of(entry)
            if grant.covers(model_id, now):
                return grant
    own = caller.permission
    if own is None or caller.revoked & {model_id, EVERY} or not own.covers(model_id, now):
        return None
    return own


def caller_opted_in(registry: Registry, caller: Caller, model_id: str, now: datetime) -> bool:
    """Say whether anything opts a caller in for a metered model at a moment."""
    return grant_for(registry, caller, model_id, now) is not None
