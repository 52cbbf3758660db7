"""What of LiteLLM the gates stand on, by name; checked before the proxy starts.

A part can be there and never be called: so the code of the callers is looked at too, for the name that they call.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from functools import reduce
from importlib import import_module
from types import CodeType
from typing import Any

from litellm_registry_hook.core.compatibility import Lack, judge
from litellm_registry_hook.errors import HostError

PROCESSING = "litellm.proxy.common_request_processing"
ROUTER = "litellm.router:Router"
STREAM_PARTS = (
    f"{PROCESSING}:model_deployments_support_stream_options",
    f"{PROCESSING}:stream_usage_tracking_updates",
)

WALKED = "calls would go past the walk of a tier"
PICKED = "the router would choose deployments that nobody cleared"
HOOKED = "requests would be routed without the pre-call hook"
LAST_LINE = "calls would leave for a provider without the last check"

# part: what happens without it.
PARTS = {
    f"{ROUTER}.async_function_with_fallbacks": WALKED,
    f"{ROUTER}.async_get_available_deployment": PICKED,
    f"{ROUTER}.get_available_deployment": PICKED,
    f"{ROUTER}.set_custom_routing_strategy": PICKED,
    f"{ROUTER}.get_model_names": "tiers could not be listed",
    f"{ROUTER}.get_model_from_alias": "an alias of the proxy's would hide which model it leads to",
    f"{ROUTER}.get_deployment_credentials_with_provider": "the account that a batch goes to would be unknown",
    "litellm.integrations.custom_logger:CustomLogger.async_pre_call_hook": HOOKED,
    "litellm.integrations.custom_logger:CustomLogger.async_pre_call_deployment_hook": LAST_LINE,
    "litellm.utils:async_pre_call_deployment_hook": LAST_LINE,
    "litellm.proxy.utils:ProxyLogging.pre_call_hook": HOOKED,
}
# (caller, the name that it calls): what happens where it does not.
CALLS = {
    ("litellm.utils:client", "async_pre_call_deployment_hook"): LAST_LINE,
    ("litellm.utils:async_pre_call_deployment_hook", "async_pre_call_deployment_hook"): LAST_LINE,
    (f"{PROCESSING}:ProxyBaseLLMRequestProcessing.common_processing_pre_call_logic", "pre_call_hook"): HOOKED,
    ("litellm.proxy.utils:ProxyLogging.pre_call_hook", "async_pre_call_hook"): HOOKED,
    **{
        (f"{ROUTER}.{family}", "async_function_with_fallbacks"): WALKED
        for family in (
            *("acompletion", "atext_completion", "aembedding", "aimage_generation", "aspeech", "atranscription"),
            *("arerank", "_ageneric_api_call_with_fallbacks"),
        )
    },
    **{
        (f"{ROUTER}.{family}", "async_get_available_deployment"): PICKED
        for family in ("_acompletion", "_aembedding", "_arerank", "_ageneric_api_call_with_fallbacks_helper")
    },
}
# Hook: the arguments that ours takes.
ARGUMENTS = {
    "litellm.integrations.custom_logger:CustomLogger.async_pre_call_hook": (
        *("self", "user_api_key_dict", "cache", "data", "call_type"),
    ),
    "litellm.integrations.custom_logger:CustomLogger.async_pre_call_deployment_hook": ("self", "kwargs", "call_type"),
}
AUTH = "litellm.proxy._types:UserAPIKeyAuth"
IDENTITY = (
    *("token", "api_key", "key_alias", "models", "team_models", "permissions", "user_role"),
    *("via_virtual_key", "authenticated_by_custom_auth"),
)


def part(name: str, *, older: bool = False) -> Any:
    """Return an internal of LiteLLM, `module:name` or `module:Class.name`; None where it has none.

    Args:
        name: as it is called in 1.108.7.
        older: also take it by the name of earlier releases, where some had an underscore before it and were the same.

    """
    module, _, path = name.partition(":")
    try:
        home: Any = import_module(module)
    except ImportError:
        return None
    *above, last = path.split(".")
    home = reduce(lambda found, one: getattr(found, one, None), above, home)
    return getattr(home, last, getattr(home, f"_{last}", None) if older else None)


def needed(name: str, without: str) -> Any:
    """Return an internal of LiteLLM that a gate stands on, by whichever name.

    Raises:
        HostError: this LiteLLM has none.

    """
    found = part(name, older=True)
    if found is None:
        raise HostError(judge(version(), (Lack(shown(name), without),)).text)
    return found


@contextmanager
def imported() -> Iterator[None]:
    """Say of an import that fails what the proxy cannot start without.

    Raises:
        HostError: instead of the ImportError.

    """
    try:
        yield
    except ImportError as error:
        lack = Lack(f"{error.name or 'a module'} as the plugin knows it", str(error).partition(" (/")[0])
        raise HostError(judge(version(), (lack,)).text) from error


def version() -> str:
    """Return what LiteLLM says of itself."""
    return str(part("litellm._version:version") or "of an unknown version")


def lacks() -> list[Lack]:
    """Find what this LiteLLM lacks of what the gates stand on; importing it takes what a proxy has taken already."""
    found = [Lack(shown(name), without) for name, without in PARTS.items() if part(name) is None]
    missing = {lack.part for lack in found}
    walk = part(f"{ROUTER}.async_function_with_fallbacks")
    if walk is not None and not inspect.iscoroutinefunction(inspect.unwrap(walk)):
        found.append(Lack("Router.async_function_with_fallbacks as a coroutine", WALKED))
    for (caller, callee), without in CALLS.items():
        if shown(caller) not in missing and not mentions(part(caller), callee):
            found.append(Lack(f"the call of {callee} in {shown(caller)}", without))
    for name, ours in ARGUMENTS.items():
        hook = part(name)
        new = [one for one in inspect.signature(hook).parameters if one not in ours] if hook is not None else []
        found += [Lack(f"{shown(name)} without the argument {one}", "our hook would not take the call") for one in new]
    fields = getattr(part(AUTH), "model_fields", {})
    found += [Lack(f"{shown(AUTH)}.{one}", "who calls would be unknown") for one in IDENTITY if one not in fields]
    if any(part(name, older=True) is None for name in STREAM_PARTS):
        found.append(Lack("the count of a stream's tokens", "no cost is recorded of a tier's streams", gate=False))
    return found


def mentions(function: Any, name: str) -> bool:
    """Say whether the code of a function, or of one inside it, uses a name; what is no Python function does not."""
    code = getattr(inspect.unwrap(function), "__code__", None) if function is not None else None
    return isinstance(code, CodeType) and name in _names(code)


def _names(code: CodeType) -> set[str]:
    found = {*code.co_names, *(one for one in code.co_consts if isinstance(one, str))}
    return found.union(*(_names(one) for one in code.co_consts if isinstance(one, CodeType)))


def shown(name: str) -> str:
    """Render `litellm.router:Router.x` as `Router.x`, and a module's own function with its module."""
    module, _, path = name.partition(":")
    return path if "." in path or path[:1].isupper() else f"{module}.{path}"
