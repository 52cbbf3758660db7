"""One registry file says which models there are; a LiteLLM proxy obeys it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from litellm_registry_hook._version import __version__

if TYPE_CHECKING:
    from litellm_registry_hook.errors import RegistryError
    from litellm_registry_hook.wiring import (
        get_model,
        load_registry,
        preload_check,
        resolve,
        to_probe_config,
        to_probe_configs,
    )

    # The object that LiteLLM is given by `callbacks: ["litellm_registry_hook.proxy_handler_instance"]`.
    proxy_handler_instance: Any
    # The function that LiteLLM is given by `custom_auth: litellm_registry_hook.user_api_key_auth`.
    user_api_key_auth: Any

__all__ = [
    "RegistryError",
    "__version__",
    "get_model",
    "load_registry",
    "preload_check",
    "proxy_handler_instance",
    "resolve",
    "to_probe_config",
    "to_probe_configs",
    "user_api_key_auth",
]

_HOMES = {
    "RegistryError": "litellm_registry_hook.errors",
    "user_api_key_auth": "litellm_registry_hook.adapter.custom_auth",
}
_WIRED = frozenset({"get_model", "load_registry", "preload_check", "resolve", "to_probe_config", "to_probe_configs"})


def __getattr__(name: str) -> Any:
    # PEP 562: a command line that only prints its version imports neither pydantic nor LiteLLM.
    if name == "proxy_handler_instance":
        value = import_module("litellm_registry_hook.adapter.entry").proxy_handler_instance()
    elif name in _WIRED:
        value = getattr(import_module("litellm_registry_hook.wiring"), name)
    elif name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
