"""`general_settings.custom_auth: litellm_registry_hook.user_api_key_auth`: virtual keys without a database.

LiteLLM's own authentication is bypassed where custom_auth is set, the master key included, so both kinds of key are
decided here. What a key may do is then checked by LiteLLM (routes, models, expiry) and by the gates.
"""

from __future__ import annotations

import hmac
import os
from datetime import datetime, timezone
from functools import lru_cache
from typing import Any, Final
from urllib.parse import parse_qs

from litellm_registry_hook.adapter import host, host_keys
from litellm_registry_hook.core.virtual_key import VirtualKey, token_of
from litellm_registry_hook.core.when import show_moment
from litellm_registry_hook.edges.store.mirror import KeyMirror
from litellm_registry_hook.edges.store.place import VARIABLE, open_state
from litellm_registry_hook.edges.store.port import State

UNAUTHORIZED: Final = 401
FORBIDDEN: Final = 403
UNAVAILABLE: Final = 503


def _open_state() -> State:
    from litellm_registry_hook.wiring import load_registry  # noqa: PLC0415

    # LITELLM_REGISTRY_STATE outranks the registry, which then need not be read.
    return open_state(os.environ, None if os.environ.get(VARIABLE) else load_registry().state)


MIRROR: Final = KeyMirror(_open_state)


async def user_api_key_auth(request: Any, api_key: Any) -> host.UserAPIKeyAuth:
    """Say who is calling: the admin, or a live embedded key.

    Args:
        request: Starlette's request.
        api_key: the bearer, as LiteLLM took it from any of its headers.

    Raises:
        ProxyException: 401 unknown, revoked or expired; 403 the path or query names a model that the key may not use;
            503 the store or the settings cannot vouch for any key.

    """
    key = api_key if isinstance(api_key, str) else ""
    token = token_of(key)
    master = host_keys.master_key()
    if master is not None and hmac.compare_digest(token, _token_of_master(master)):
        return host_keys.admin_auth()
    if not key.startswith("sk-"):
        what = "is none of this proxy's: they begin with sk-" if key else "is missing; send Authorization: Bearer sk-…"
        raise host_keys.auth_error(f"the virtual key {what}", "auth_error", UNAUTHORIZED)
    missing = ["general_settings.master_key"] if master is None else host_keys.missing_auth_switches()
    if missing:
        # Without them LiteLLM checks neither routes nor models of a key: everybody would be admin.
        what = f"virtual keys are off until the proxy's config has {' and '.join(missing)}"
        raise host_keys.auth_error(f"{what} (generate-litellm-config writes the switches)", "auth_error", UNAVAILABLE)
    found = await MIRROR.find(token)
    if found is None and not MIRROR.readable:
        raise host_keys.auth_error("the store of virtual keys cannot be read; try again", "auth_error", UNAVAILABLE)
    if found is None or not hmac.compare_digest(found.token, token):
        what = "this virtual key is not known here; ask the proxy's operator for one"
        raise host_keys.auth_error(what, "token_not_found_in_db", UNAUTHORIZED)
    _still_live(found, datetime.now(timezone.utc))
    auth = host_keys.key_auth(key, found.alias, found.models, found.expires)
    await _may_use(auth, names_outside_the_body(request.scope))
    return auth


def is_ours() -> bool:
    """Say whether the proxy authenticates with this very function."""
    return host_keys.custom_auth() is user_api_key_auth


def embedded_live(token: str) -> bool:
    """Say whether a token is a live embedded key, as last seen; a caller authenticated here has been looked up."""
    found = MIRROR.get(token)
    return found is not None and found.live(datetime.now(timezone.utc))


def names_outside_the_body(scope: Any) -> tuple[str, ...]:
    """Return the models that path and query name.

    They win over the body's (http_parsing_utils.py:39), the only one that LiteLLM compares with the key's list.
    """
    query = scope.get("query_string") or b""
    named = parse_qs(query.decode("latin-1")).get("model", []) if b"model" in query else []
    in_path = (scope.get("path_params") or {}).get("model")
    return (*named, in_path) if isinstance(in_path, str) and in_path else tuple(named)


@lru_cache(maxsize=1)
def _token_of_master(master: str) -> str:
    return token_of(master)


def _still_live(found: VirtualKey, now: datetime) -> None:
    if found.revoked is not None:
        what = (
            f"this virtual key was revoked on {show_moment(found.revoked)}; ask the proxy's operator for its successor"
        )
        raise host_keys.auth_error(what, "auth_error", UNAUTHORIZED)
    if found.expires is not None and not found.live(now):
        what = f"this virtual key expired on {show_moment(found.expires)}; ask the proxy's operator for a new one"
        raise host_keys.auth_error(what, "expired_key", UNAUTHORIZED)


async def _may_use(auth: host.UserAPIKeyAuth, names: tuple[str, ...]) -> None:
    if not auth.models:
        return
    for name in names:
        if not await host_keys.key_may_call(name, auth):
            what = f"this virtual key may not use {name!r}; its list of models does not have it"
            raise host_keys.auth_error(what, "key_model_access_denied", FORBIDDEN, param="model")
