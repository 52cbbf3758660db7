"""What a client may not say: routing levers that would lead past the decision.

Works in place on the body that the host hands to its hooks. Source of the list: the levers that were seen to move a
request to another model or credential on LiteLLM 1.108.7 (`route_llm_request.py`, `litellm_pre_call_utils.py`,
`main.py` around `deployment_id`).
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Any, Final

from litellm_registry_hook.core.refusal import Refusal, refuse

HEADER_CONSENT: Final = "x-registry-allow-metered"
HEADER_WAIT: Final = "x-registry-wait"
CONSENT_KEY: Final = "allow_metered"
MAX_SHOWN: Final = 120
HEADER_PREFIX: Final = "x-registry-"
_YES: Final = frozenset({"true", "1"})
_NO: Final = frozenset({"false", "0", ""})

DROPPED: Final = frozenset(
    {
        "router_settings_override",
        "deployment_id",
        "azure",
        "custom_llm_provider",
        "_excluded_deployment_ids",
        "_retry_skipped_deployment_ids",
        "_target_order",
        "specific_deployment",
        "disable_fallbacks",
        "max_fallbacks",
        "fallback_depth",
        "attempted_targets",
        "num_retries",
        "max_retries",
        "model_group_retry_policy",
        "api_key",
        "api_base",
        "base_url",
        "api_version",
        "organization",
        "litellm_credential_name",
        "model_list",
        "user_config",
        "model_info",
        "base_model",
        "silent_model",
        "input_cost_per_token",
        "output_cost_per_token",
        "input_cost_per_second",
        "output_cost_per_second",
        "cost_per_query",
        "cache_key",
        "models",
        "route",
        "litellm_params",
    }
)
"""Body keys that are dropped: each picks a deployment, a credential, an address, a price, a number of tries, or
somebody else's cached answer."""

AUTH_HEADERS: Final = frozenset({"authorization", "api-key", "x-api-key", "x-goog-api-key", "host"})
FALLBACK_KEYS: Final = ("fallbacks", "context_window_fallbacks", "content_policy_fallbacks")

RUNNER_OPTIONS: Final = frozenset(
    {
        "keep_alive",
        "options",
        "num_ctx",
        "num_batch",
        "num_gpu",
        "main_gpu",
        "num_thread",
        "num_keep",
        "low_vram",
        "f16_kv",
        "logits_all",
        "vocab_only",
        "use_mmap",
        "use_mlock",
        "numa",
    }
)
"""What loads or reloads an Ollama model: the registry's word alone (Ollama `needsReload`, server/sched.go)."""


def read_consent(value: object) -> bool | None:
    """Read a boolean word: true/1, false/0; None for anything else."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return {1: True, 0: False}.get(value)
    if isinstance(value, str):
        word = value.strip().lower()
        return True if word in _YES else (False if word in _NO else None)
    return None


def take_consent(data: MutableMapping[str, Any], header: str | None) -> bool | Refusal:
    """Read and remove this request's consent: header, `metadata.allow_metered` or top-level `allow_metered`.

    Returns:
        whether any of them says yes; a `bad_consent` refusal where one is no boolean word.

    """
    found: list[tuple[str, object]] = [] if header is None else [(f"header {HEADER_CONSENT}", header)]
    if CONSENT_KEY in data:
        found.append((CONSENT_KEY, data.pop(CONSENT_KEY)))
    for bucket in ("metadata", "litellm_metadata", "extra_body"):
        inner = data.get(bucket)
        if isinstance(inner, dict) and CONSENT_KEY in inner:
            found.append((f"{bucket}.{CONSENT_KEY}", inner.pop(CONSENT_KEY)))
    consent = False
    for where, value in found:
        word = read_consent(value)
        if word is None:
            return refuse("bad_consent", f"{where} must be true or false, not {shown(value)}")
        consent = consent or word
    return consent


def read_wait(header: str | None) -> float | Refusal:
    """Read x-registry-wait in seconds; 0 where it is not sent."""
    if header is None:
        return 0.0
    try:
        seconds = float(header)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        return refuse("bad_wait", f"header {HEADER_WAIT} must be a number of seconds, not {header!r}")
    return seconds


def drop_levers(data: MutableMapping[str, Any]) -> None:
    """Remove the routing levers and the credentials a client tries to bring."""
    # isdisjoint makes no set: this runs on every request, and most bring nothing.
    if not DROPPED.isdisjoint(data):
        for key in DROPPED & data.keys():
            del data[key]
    for key in ("extra_headers", "headers"):
        headers = data.get(key)
        if isinstance(headers, dict):
            data[key] = {
                name: value
                for name, value in headers.items()
                if str(name).lower() not in AUTH_HEADERS and not str(name).lower().startswith(HEADER_PREFIX)
            }
    extra = data.get("extra_body")
    if isinstance(extra, dict):
        for key in (DROPPED | {"model", "fallbacks", CONSENT_KEY}) & extra.keys():
            del extra[key]


def drop_runner_options(data: MutableMapping[str, Any]) -> None:
    """Remove what a client says about keep_alive and runner options, also inside extra_body."""
    if not RUNNER_OPTIONS.isdisjoint(data):
        for key in RUNNER_OPTIONS & data.keys():
            del data[key]
    extra = data.get("extra_body")
    if isinstance(extra, dict) and not RUNNER_OPTIONS.isdisjoint(extra):
        data["extra_body"] = {key: value for key, value in extra.items() if key not in RUNNER_OPTIONS}


def take_fallbacks(data: MutableMapping[str, Any], known: Callable[[str], bool]) -> tuple[str, ...] | Refusal:
    """Read and remove the client's fallbacks: plain registry names are kept, anything else is a 400.

    Dicts are refused because LiteLLM merges them into the hop, metadata and so identity included
    (`router_utils/fallback_event_handlers.py`, `kwargs.update(mg)`).
    """
    names: list[str] = []
    for key in FALLBACK_KEYS:
        entries = data.pop(key, None)
        if entries is None:
            continue
        for entry in entries if isinstance(entries, list) else [entries]:
            if not isinstance(entry, str) or not known(entry):
                return refuse(
                    "bad_fallbacks",
                    f"{key} takes names of tiers, aliases or models of the registry, not {shown(entry)}",
                )
            names.append(entry)
    return tuple(names)


def shown(value: object) -> str:
    """Quote what a client sent, cut to a length for an error message."""
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "…"


def split_names(model: str) -> tuple[str, ...]:
    """Split a comma list of models as LiteLLM does for chat (`route_llm_request.py`)."""
    return tuple(part.strip() for part in model.split(",")) if "," in model else (model,)
