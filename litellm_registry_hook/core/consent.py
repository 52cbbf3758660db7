"""Two keys for one lock: a metered model wants this request's consent and an opted-in virtual key.

Who is calling is decided by the host's authenticated object alone (`adapter/identity.py` translates it into a
`Caller`); nothing in here reads anything that a client can set.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from litellm_registry_hook.core.registry import OptIn, Registry

TOKEN_RE = re.compile(r"^[0-9a-f]{64}$")
CallerKind = Literal["virtual_key", "custom_auth", "master_key", "anonymous"]


@dataclass(frozen=True, slots=True)
class Caller:
    """Who the host says is calling.

    Attributes:
        kind: how the host authenticated the caller.
        token: 64 hex digits, the sha256 of the virtual key; empty where there is none.
        alias: the key's alias; for people only, anybody may take one in LiteLLM's database.

    """

    kind: CallerKind = "anonymous"
    token: str = ""
    alias: str = ""


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
    if not named or (entry.models is not None and model_id not in entry.models):
        return False
    return entry.expires_at is None or now < entry.expires_at


def names_opted_in(registry: Registry, names: frozenset[str], model_id: str, now: datetime) -> bool:
    """Say whether routing.metered_opt_in has one of these names for this model."""
    return any(entry_covers(entry, names, model_id, now) for entry in registry.routing.metered_opt_in)


def caller_opted_in(registry: Registry, caller: Caller, model_id: str, now: datetime) -> bool:
    """Say whether the caller's key is opted in for a metered model.

    A key of LiteLLM's own counts by its hash. Another custom_auth counts only with routing.trust_custom_auth, the
    master key only with routing.master_key_metered, an alias only with routing.trust_key_alias.
    """
    routing = registry.routing
    if caller.kind == "master_key":
        return routing.master_key_metered
    if caller.kind == "custom_auth" and not routing.trust_custom_auth:
        return False
    if caller.kind == "anonymous" or not TOKEN_RE.match(caller.token):
        return False
    names = {f"sha256:{caller.token}"}
    if routing.trust_key_alias and caller.alias:
        names.add(caller.alias)
    return names_opted_in(registry, frozenset(names), model_id, now)
