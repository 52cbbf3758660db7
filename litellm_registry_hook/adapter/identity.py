"""Who is calling, from LiteLLM's authenticated object and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from litellm_registry_hook.adapter.host_keys import MASTER_KEY_TOKEN, UserAPIKeyAuth
from litellm_registry_hook.core.consent import ANONYMOUS, TOKEN_RE, Caller, read_permission

PERMISSION = "metered_opt_in"
NONE: frozenset[str] = frozenset()
Revoked = Mapping[str, frozenset[str]]
NOTHING_REVOKED: Revoked = MappingProxyType({})


def caller_of(
    auth: object, revoked: Revoked = NOTHING_REVOKED, embedded: Callable[[str], bool] | None = None
) -> Caller:
    """Translate LiteLLM's authenticated object.

    Args:
        auth: what LiteLLM authenticated; anything that is no UserAPIKeyAuth is nobody.
        revoked: removed grants by token.
        embedded: where the proxy's custom_auth is ours, says whether a token is a live key of our store.

    `via_virtual_key` and `authenticated_by_custom_auth` are set by LiteLLM after validation and are stripped from
    anything a client or a custom_auth sends (types/proxy/auth/user_api_key_auth.py:177-187). A 64-hex token without
    `via_virtual_key` is no virtual key: without a master key a client's bearer string arrives as the token.
    """
    if not isinstance(auth, UserAPIKeyAuth):
        return ANONYMOUS
    token = auth.token or auth.api_key or ""
    alias = auth.key_alias or ""
    if token == MASTER_KEY_TOKEN:
        # LiteLLM's own path, or our custom_auth, which makes the same object for the admin key.
        genuine = _admin(auth) and (not _custom(auth) or embedded is not None)
        return Caller("master_key", "", alias) if genuine else ANONYMOUS
    if not TOKEN_RE.fullmatch(token):
        return ANONYMOUS
    permissions = auth.permissions if isinstance(auth.permissions, Mapping) else {}
    rest = (token, alias, read_permission(permissions.get(PERMISSION)), revoked.get(token, NONE))
    if getattr(auth, "via_virtual_key", False) is True:
        return Caller("virtual_key", *rest)
    if not _custom(auth):
        return ANONYMOUS
    if embedded is None:
        return Caller("custom_auth", *rest)
    if embedded(token):
        return Caller("embedded", *rest)
    return ANONYMOUS


def _admin(auth: UserAPIKeyAuth) -> bool:
    return str(getattr(auth.user_role, "value", auth.user_role)) == "proxy_admin"


def _custom(auth: UserAPIKeyAuth) -> bool:
    return getattr(auth, "authenticated_by_custom_auth", False) is True


def auth_in(kwargs: Mapping[str, Any] | None) -> UserAPIKeyAuth | None:
    """Find the authenticated object in a router call's buckets: an instance counts, a dict never does.

    A dict fallback can replace a bucket (fallback_event_handlers.py `kwargs.update(mg)`), and then holds a dict.
    """
    for bucket in ("metadata", "litellm_metadata"):
        inner = (kwargs or {}).get(bucket)
        if isinstance(inner, dict):
            auth = inner.get("user_api_key_auth")
            if isinstance(auth, UserAPIKeyAuth):
                return auth
    return None
