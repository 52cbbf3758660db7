"""LiteLLM's keys and admins: the other half of the only door to LiteLLM (`host.py` is the first).

Line numbers are LiteLLM 1.108.7's.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from litellm_registry_hook.adapter.host import running_router
from litellm_registry_hook.adapter.host_parts import imported, needed
from litellm_registry_hook.core.sync_settings import GENERAL_SWITCHES, HANDLER

with imported():
    import litellm
    from litellm.proxy import proxy_server
    from litellm.proxy._types import LitellmUserRoles, ProxyException, UserAPIKeyAuth
    from litellm.proxy.auth.auth_checks import can_key_call_model

__all__ = [
    "MASTER_KEY_TOKEN",
    "UserAPIKeyAuth",
    "admin_auth",
    "auth_error",
    "custom_auth",
    "database",
    "has_key_database",
    "is_proxy_admin",
    "key_auth",
    "key_may_call",
    "master_key",
    "missing_auth_switches",
    "name_of_admin",
    "settings_in_force",
    "signed_in",
]

can_object_call_model = needed(
    "litellm.proxy.auth.auth_checks:can_object_call_model", "a team's list of models would not be asked"
)
MASTER_KEY_TOKEN = "litellm_proxy_master_key"  # noqa: S105  the literal that stands in for the master key's hash


async def key_may_call(name: str, auth: UserAPIKeyAuth) -> bool:
    """Ask LiteLLM's own rule whether the key, and its team, list a model (auth_checks.py:5417)."""
    router = running_router()
    try:
        if auth.models:
            await can_key_call_model(name, router.model_list if router is not None else None, auth, router)
        if auth.team_models:
            can_object_call_model(
                model=name, llm_router=router, models=auth.team_models, team_id=auth.team_id, object_type="team"
            )
    except Exception:  # noqa: BLE001  whatever it raises is a no
        return False
    return True


def custom_auth() -> Any:
    """Return the function that general_settings.custom_auth names (proxy_server.py:6915)."""
    return proxy_server.user_custom_auth


def master_key() -> str | None:
    """Return the admin key as LiteLLM resolved it; None where there is none."""
    found = proxy_server.master_key
    return found if isinstance(found, str) and found else None


def settings_in_force() -> dict[str, dict[str, Any]]:
    """Return the settings that the gates rely on as this worker has them, in the shape of a config.

    The callback is there, or nobody would ask.
    """
    general: Any = proxy_server.general_settings or {}
    return {
        "litellm_settings": {
            "callbacks": [HANDLER],
            "enable_post_custom_auth_checks": getattr(litellm, "enable_post_custom_auth_checks", None),
        },
        "general_settings": {name: general.get(name) for name in (*GENERAL_SWITCHES, "custom_auth")},
    }


def missing_auth_switches() -> list[str]:
    """Return the settings without which LiteLLM opens every route to custom_auth (user_api_key_auth.py:3520)."""
    found = []
    if proxy_server.general_settings.get("custom_auth_run_common_checks") is not True:
        found.append("general_settings.custom_auth_run_common_checks: true")
    if getattr(litellm, "enable_post_custom_auth_checks", False) is not True:
        found.append("litellm_settings.enable_post_custom_auth_checks: true")
    return found


def admin_auth() -> UserAPIKeyAuth:
    """Return the admin as LiteLLM's own path makes it: a fixed word in place of the key (user_api_key_auth.py:2710)."""
    return UserAPIKeyAuth(
        api_key=MASTER_KEY_TOKEN,
        user_role=LitellmUserRoles.PROXY_ADMIN,
        user_id=proxy_server.litellm_proxy_admin_name,
    )


def key_auth(key: str, alias: str, models: tuple[str, ...] | None, expires: datetime | None) -> UserAPIKeyAuth:
    """Return a virtual key's authenticated object: what a key of LiteLLM's own type `llm_api` without a user has.

    The route group is what keeps it off routes that LiteLLM leaves to their handlers, such as /model/new.
    """
    return UserAPIKeyAuth(
        api_key=key,
        key_alias=alias,
        models=list(models or ()),
        expires=expires,
        user_role=LitellmUserRoles.INTERNAL_USER,
        allowed_routes=["llm_api_routes"],
    )


def auth_error(message: str, kind: str, status: int, *, param: str = "key") -> Exception:
    """Return the exception that LiteLLM renders as its own `{"error": …}` (_types.py:3755)."""
    return ProxyException(message=message, type=kind, param=param, code=status)


def signed_in() -> Any:
    """Return LiteLLM's own authentication, for `Depends` of a route of ours (auth/user_api_key_auth.py)."""
    from litellm.proxy.auth.user_api_key_auth import user_api_key_auth  # noqa: PLC0415

    return user_api_key_auth


def is_proxy_admin(auth: object) -> bool:
    """Say whether LiteLLM authenticated a proxy admin.

    Asked by each route of ours: LiteLLM itself lets others pass where a key's allowed_routes names the path, without a
    master key, and with a custom_auth whose common checks are off.
    """
    return isinstance(auth, UserAPIKeyAuth) and auth.user_role == LitellmUserRoles.PROXY_ADMIN


def name_of_admin(auth: UserAPIKeyAuth) -> str:
    """Name who is calling, for the audit trail: the key's alias, `master key`, else the user's id."""
    if auth.key_alias:
        return auth.key_alias
    is_master = MASTER_KEY_TOKEN in {auth.token, auth.api_key}
    return "master key" if is_master else auth.user_id or "proxy admin"


def database() -> Any:
    """Return the client of LiteLLM's database; None without one, and until the proxy has connected to it."""
    return proxy_server.prisma_client


def has_key_database() -> bool:
    """Say whether LiteLLM keeps virtual keys of its own (proxy_server.py: prisma_client)."""
    return proxy_server.prisma_client is not None
