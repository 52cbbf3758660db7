"""The place that touches LiteLLM: each internal we rely on has a name here and a contract test.

Beside it: host_keys.py its keys, host_spend.py its records of spend, host_parts.py whether it is as we know it.

Line numbers are LiteLLM 1.108.7's.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi import HTTPException

from litellm_registry_hook.adapter.host_parts import STREAM_PARTS, imported, lacks, needed, part
from litellm_registry_hook.core.compatibility import Verdict, judge
from litellm_registry_hook.core.failure import Failure
from litellm_registry_hook.core.match import Seen, resolve_env
from litellm_registry_hook.core.registry import Model
from litellm_registry_hook.errors import HostError

with imported():
    import litellm
    from litellm._version import version as litellm_version
    from litellm.exceptions import ContextWindowExceededError
    from litellm.integrations.custom_logger import CustomLogger
    from litellm.litellm_core_utils.get_llm_provider_logic import get_llm_provider
    from litellm.llms.azure.common_utils import BaseAzureLLM, get_azure_credentials
    from litellm.llms.openai.common_utils import get_openai_credentials
    from litellm.llms.openai.openai import OpenAIChatCompletion
    from litellm.proxy import proxy_server
    from litellm.proxy._types import LiteLLMRoutes, UserAPIKeyAuth
    from litellm.proxy.middleware.per_request_root_path_middleware import get_server_root_paths
    from litellm.proxy.pass_through_endpoints.pass_through_endpoints import InitPassThroughEndpointHelpers
    from litellm.router import Router
    from litellm.router_utils.fallback_event_handlers import (
        MID_STREAM_FALLBACK_CONTROLS_KEY,
        per_request_fallback_controls,
    )
    from litellm.types.router import CustomRoutingStrategyBase

__all__ = [
    "CustomLogger",
    "CustomRoutingStrategyBase",
    "HTTPException",
    "Router",
    "UserAPIKeyAuth",
    "check_host",
    "failure_of",
    "list_names",
    "litellm_version",
    "live_deployment",
    "masked",
    "once_only",
    "original_moderation",
    "original_pick",
    "original_pick_sync",
    "original_walk",
    "proxy_app",
    "running_router",
    "seen_deployments",
]

supports_stream_options, stream_usage_updates = (part(name, older=True) for name in STREAM_PARTS)
managed_file_in = needed(
    "litellm.proxy.openai_files_endpoints.common_utils:is_base64_encoded_unified_file_id",
    "a managed file would be taken for a provider's",
)
HEALTH_CHECK_ALIAS = "litellm-internal-health-check"
# "litellm.RateLimitError: RateLimitError: OpenAIException - …": the words after it are the upstream's.
_PREFIX = re.compile(r"^(?:litellm\.\w+: )?(?:\w+: )?(?:\w+Exception - )?")
MIN_SECRET = 4
BAD_REQUEST, TOO_MANY, SERVER_ERROR = 400, 429, 500
_ADDRESS = re.compile(
    r"https?://[^\s'\"<>)\]]+|\bhost \S+:\d+ ssl:(?:<[^>]*>|\S+)(?: \[[^\]]*\])?|<ssl\.SSLContext[^>]*>"
    r"|\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b"
)
_SECRET = re.compile(r"(?i)\b(sk-|bearer\s+|key[=:]\s*)[A-Za-z0-9_\-*.]{4,}")


def running_router() -> Any:
    """Return the router of this worker; None until the config is loaded (proxy_server.py:7136)."""
    return proxy_server.llm_router


def proxy_app() -> Any:
    """Return the proxy's FastAPI app."""
    return proxy_server.app


def check_host() -> Verdict:
    """Make sure that this LiteLLM has what the gates stand on.

    Returns:
        what is to be said once where it is not a release that we know.

    Raises:
        HostError: names what is missing, or that the release is compromised; the proxy must not start.

    """
    found = judge(litellm_version, lacks())
    if not found.starts:
        raise HostError(found.text)
    return found


def original_walk(router: Any) -> Any:
    """Return LiteLLM's own `async_function_with_fallbacks`, bound: the funnel of router calls (router.py:8251)."""
    return type(router).async_function_with_fallbacks.__get__(router)


def original_moderation(router: Any) -> Any:
    """Return LiteLLM's own moderation call: the one family that does not go through the funnel (router.py:7262)."""
    return router.amoderation


def original_pick(router: Any) -> Any:
    """Return LiteLLM's own async deployment choice, bound (router.py:14393)."""
    return type(router).async_get_available_deployment.__get__(router)


def original_pick_sync(router: Any) -> Any:
    """Return LiteLLM's own sync deployment choice, bound."""
    return type(router).get_available_deployment.__get__(router)


def seen_deployments(router: Any) -> list[Seen]:
    """Return every deployment the router has."""
    return [seen_of(entry) for entry in router.model_list]


def seen_of(entry: Mapping[str, Any]) -> Seen:
    """Translate one element of router.model_list."""
    info = entry.get("model_info") or {}
    params = entry.get("litellm_params") or {}
    return Seen(
        id=str(info.get("id") or ""),
        managed_by=str(info.get("managed_by") or ""),
        model=str(params.get("model") or ""),
        api_base=str(params.get("api_base") or ""),
        group=str(entry.get("model_name") or ""),
    )


def list_names(router: Any, names: tuple[str, ...]) -> None:
    """Make the router accept further names, and show them in /v1/models (proxy_server.py:11959 asks get_model_names).

    Each is its own alias target: a key that lists a member does not get the tier with it (auth_checks.py:4874), and
    without the plugin the name leads nowhere.
    """
    aliases = dict(router.model_group_alias or {})
    aliases.update({name: name for name in names})
    router.model_group_alias = aliases
    original = type(router).get_model_names.__get__(router)
    router.get_model_names = lambda team_id=None: list(dict.fromkeys([*original(team_id), *names]))


def once_only(kwargs: dict[str, Any]) -> None:
    """Turn off LiteLLM's own retries and fallbacks for one attempt, mid-stream ones too.

    The mid-stream ones read a copy of these settings made when the call came in
    (router_utils/fallback_event_handlers.py:374).
    """
    off = {"num_retries": 0, "max_retries": 0, "disable_fallbacks": True, "fallbacks": []}
    kwargs.update(off)
    if MID_STREAM_FALLBACK_CONTROLS_KEY in kwargs:
        kwargs[MID_STREAM_FALLBACK_CONTROLS_KEY] = per_request_fallback_controls(off)


def live_deployment(router: Any, deployment_id: str) -> dict[str, Any] | None:
    """Return the element of router.model_list with this `model_info.id`."""
    at = router.model_id_to_deployment_index_map.get(deployment_id)
    if at is None or at >= len(router.model_list):
        return None
    entry: dict[str, Any] = router.model_list[at]
    return entry if (entry.get("model_info") or {}).get("id") == deployment_id else None


def count_stream(data: dict[str, Any], groups: Iterable[str]) -> None:
    """Ask for the usage of a chat stream once its model is known, as LiteLLM does for a model that it knows by name.

    LiteLLM decides that before the pre-call hook, on the client's name (common_request_processing.py:2404): a tier has
    no deployments then, and the stream would be logged with no tokens and no cost.
    """
    if supports_stream_options is None or stream_usage_updates is None:
        return
    router = running_router()

    def all_can() -> bool:
        return all(supports_stream_options(group, router, None) for group in groups)

    data.update(
        stream_usage_updates(
            data=data,
            general_settings=proxy_server.general_settings,
            route_type="acompletion",
            supports_stream_options=all_can,
        )
    )


def cost_of(kwargs: Mapping[str, Any]) -> tuple[str, str, float, str, str]:
    """Return (deployment id, call id, dollars, token, alias) of a finished call, from LiteLLM's logging payload."""
    payload = kwargs.get("standard_logging_object") or {}
    metadata = payload.get("metadata") or {}
    return (
        str(payload.get("model_id") or ""),
        str(kwargs.get("litellm_call_id") or ""),
        float(payload.get("response_cost") or 0.0),
        str(metadata.get("user_api_key_hash") or ""),
        str(metadata.get("user_api_key_alias") or ""),
    )


def root_paths() -> tuple[str, ...]:
    """Return the prefixes that LiteLLM's own outermost middleware takes off a path (SERVER_ROOT_PATHS)."""
    return tuple(get_server_root_paths())


@dataclass(frozen=True, slots=True)
class HostAccount:
    """Where a file or a batch goes.

    Attributes:
        provider: LiteLLM's word. api_base: resolved, without a trailing slash. secret: the key's hash.

    """

    provider: str
    api_base: str
    secret: str

    def same_place(self, other: HostAccount) -> bool:
        """Say whether two accounts are at one address, with whatever key."""
        return (self.provider, self.api_base) == (other.provider, other.api_base)


def account_of(kwargs: Mapping[str, Any]) -> HostAccount:
    """Return the account of a file or batch call, resolved as LiteLLM will (files/main.py, batches/main.py:259)."""
    provider = str(kwargs.get("custom_llm_provider") or "openai")
    base, key = kwargs.get("api_base"), kwargs.get("api_key")
    if provider == "openai":
        openai = get_openai_credentials(api_base=base, api_key=key)
        base, key = openai.api_base, openai.api_key
    elif provider == "azure":
        azure = get_azure_credentials(api_base=base, api_key=key)
        base, key = azure.api_base, azure.api_key
    return HostAccount(provider, str(base or "").rstrip("/"), hashlib.sha256(str(key or "").encode()).hexdigest())


def account_of_deployment(router: Any, deployment_id: str) -> HostAccount | None:
    """Return the account of a deployment, by the look-up with which LiteLLM's file routes make their calls."""
    found = router.get_deployment_credentials_with_provider(model_id=deployment_id)
    return account_of(found) if found is not None else None


def upstream_name(model: Model) -> str:
    """Return the provider's own name of a registry model."""
    return str(get_llm_provider(model=model.litellm_model)[0])


def is_managed_file(file_id: str) -> bool:
    """Say whether an id is one of LiteLLM's managed files (openai_files_endpoints/common_utils.py:136)."""
    return managed_file_in(file_id) is not False


def balances_batches() -> bool:
    """Whether LiteLLM sends files and batches through its router (proxy/batches_endpoints/endpoints.py:268)."""
    return getattr(litellm, "enable_loadbalancing_on_batch_endpoints", None) is True


def is_pass_through(path: str) -> bool:
    """Say whether the operator has made this path a pass-through endpoint; the pre-call hook sees each call of it.

    LiteLLM's own provider routes (/bedrock, /azure, /vllm) count as registered too; not all of them come by the hook.
    """
    if any(path.startswith(own) for own in LiteLLMRoutes.mapped_pass_through_routes.value):
        return False
    return bool(InitPassThroughEndpointHelpers.is_registered_pass_through_route(path))


def try_once(in_attempt: Callable[[], bool]) -> None:
    """Keep the OpenAI SDK from repeating a call inside an attempt of ours.

    `max_retries=0` does not reach it on embeddings, images and moderations (llms/openai/openai.py:1420, :1576, :509),
    nor on Azure's transcriptions (llms/azure/audio_transcriptions.py:131).
    """
    for owner, name in ((OpenAIChatCompletion, "_get_openai_client"), (BaseAzureLLM, "get_azure_openai_client")):
        original = getattr(owner, name)
        if not getattr(original, "registry_once", False):
            setattr(owner, name, _once(original, in_attempt))


def _once(make: Callable[..., Any], in_attempt: Callable[[], bool]) -> Callable[..., Any]:
    @functools.wraps(make)
    def once(self: Any, *args: Any, **kwargs: Any) -> Any:
        client = make(self, *args, **kwargs)
        if client is not None and in_attempt():
            client.max_retries = 0
        return client

    once.registry_once = True  # type: ignore[attr-defined]
    return once


def environment() -> Mapping[str, str]:
    """Return the environment that LiteLLM resolves `os.environ/NAME` from."""
    return os.environ


def masked(text: str, secrets: Iterable[str] = ()) -> str:
    """Hide keys, addresses inside the house, and everything from a traceback on."""
    text = text.partition("Traceback (most recent call last)")[0].rstrip()
    for secret in secrets:
        if len(secret) >= MIN_SECRET:
            text = text.replace(secret, "***")
    text = _ADDRESS.sub("***", text)
    return _SECRET.sub(r"\1***", text)


def without_addresses(text: str) -> str:
    """Hide addresses inside the house: where a model is served is not a client's to know."""
    return _ADDRESS.sub("***", text)


def failure_of(error: BaseException, secrets: Iterable[str] = ()) -> Failure:
    """Translate an exception of an attempt; `secrets` are masked in its words.

    LiteLLM maps a refused connection to a 500 and a timeout to a 408; both are no answer for the walk.
    """
    original = getattr(error, "original_exception", None)
    if isinstance(original, Exception) and getattr(original, "status_code", None) is not None:
        error = original
    status = getattr(error, "status_code", None)
    headers = (
        getattr(error, "litellm_response_headers", None)
        or getattr(getattr(error, "response", None), "headers", None)
        or getattr(error, "headers", None)
        or {}
    )
    if not isinstance(headers, Mapping) and not hasattr(headers, "items"):
        headers = {}
    cause = getattr(error.__cause__ or error.__context__, "status_code", None)
    if status == TOO_MANY and isinstance(cause, int) and BAD_REQUEST <= cause < SERVER_ERROR:
        # LiteLLM makes a 429 of any error that quotes "rate limit" (exception_mapping_utils.py), a client's 400 too.
        status = cause
    said = getattr(error, "message", None) or getattr(error, "detail", None) or error
    text = masked(_words_of(str(said)), secrets)
    return Failure(
        status=status if isinstance(status, int) else 0,
        text=text,
        retry_after_s=_retry_after(headers),
        context_overflow=isinstance(error, ContextWindowExceededError),
        headers={str(name).lower(): str(value) for name, value in headers.items()},
    )


def _words_of(message: str) -> str:
    """Keep the upstream's own sentence: without LiteLLM's class names, out of the usual JSON error body."""
    text = _PREFIX.sub("", message)
    try:
        body = json.loads(text)
    except ValueError:
        return text
    error = body.get("error") if isinstance(body, dict) else None
    inner = error.get("message") if isinstance(error, dict) else error
    return inner if isinstance(inner, str) else text


def _retry_after(headers: Mapping[str, Any]) -> float | None:
    try:
        value = float(headers.get("retry-after") or headers.get("llm_provider-retry-after") or "")
    except (TypeError, ValueError):
        return None
    return value if 0 <= value < 86400 * 31 else None


def resolved_base(api_base: str) -> str:
    """Resolve an `os.environ/NAME` address."""
    return resolve_env(api_base, os.environ)


def config_file() -> Path | None:
    """Return the config that this proxy was started with (proxy_server.py:2850); None where it has none in a file."""
    found = proxy_server.user_config_file_path
    return Path(found) if found else None
