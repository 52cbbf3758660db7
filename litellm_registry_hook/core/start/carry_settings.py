"""Settings of a config that mean something else, or nothing, for models of the registry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from litellm_registry_hook.core.start.carry_entries import as_list, as_map
from litellm_registry_hook.core.start.proposal import Left
from litellm_registry_hook.core.sync_settings import CUSTOM_AUTH

_ORDER: Final = "the order of the tier, and of a model's endpoints, decides which deployment is called"
_ONCE: Final = "a failing deployment is tried once, then the next member of the tier: there are no hidden retries"
_CIRCUIT: Final = "the registry learns from failures itself and does not ask LiteLLM's cooldown"
_REPLACED: Final = "LiteLLM puts this model in the place of every other, before the registry sees the request"
# (section, key): why it does not decide about registry models any more, what to do.
_SETTINGS: Final = {
    ("router_settings", "routing_strategy"): (_ORDER, "sort the tier as calls should go"),
    ("router_settings", "routing_strategy_args"): (_ORDER, ""),
    ("router_settings", "routing_groups"): (_ORDER, "write a tier for each"),
    ("router_settings", "num_retries"): (_ONCE, "list a second member in the tier where one is needed"),
    ("litellm_settings", "num_retries"): (_ONCE, "list a second member in the tier where one is needed"),
    ("router_settings", "retry_after"): (_ONCE, ""),
    ("router_settings", "retry_policy"): (_ONCE, ""),
    ("router_settings", "model_group_retry_policy"): (_ONCE, ""),
    ("router_settings", "allowed_fails"): (_CIRCUIT, ""),
    ("litellm_settings", "allowed_fails"): (_CIRCUIT, ""),
    ("router_settings", "allowed_fails_policy"): (_CIRCUIT, ""),
    ("router_settings", "cooldown_time"): (_CIRCUIT, ""),
    ("litellm_settings", "cooldown_time"): (_CIRCUIT, ""),
    ("router_settings", "disable_cooldowns"): (_CIRCUIT, ""),
    ("router_settings", "enable_pre_call_checks"): (
        f"{_ORDER}; a too long input goes on to a member with a larger `context`",
        "write `context` at the models",
    ),
    ("router_settings", "optional_pre_call_checks"): (_ORDER, ""),
    ("router_settings", "enable_tag_filtering"): (f"{_ORDER}; tags choose nothing", "write a tier for each tag"),
    ("router_settings", "enable_weighted_failover"): (_ORDER, ""),
    ("router_settings", "provider_budget_config"): (
        f"{_ORDER}; LiteLLM leaves out deployments over budget only where it chooses itself",
        "give paid models a budget in the registry: quota.field and quota.limit",
    ),
    ("general_settings", "store_model_in_db"): (
        "models in LiteLLM's database are not seen here; they stay foreign",
        "add them to this file, or to the registry",
    ),
    ("general_settings", "pass_through_endpoints"): (
        "pass-through routes name no model and count as metered",
        "see docs/generate.md",
    ),
    ("general_settings", "completion_model"): (_REPLACED, "remove it"),
    ("general_settings", "image_generation_model"): (_REPLACED, "remove it"),
    ("general_settings", "moderation_model"): (_REPLACED, "remove it"),
    ("litellm_settings", "model_alias_map"): (
        "it changes the model after a deployment was chosen, and a tier lists deployments",
        "write the model that is meant into the entry",
    ),
}  # fmt: skip


def settings_left(config: Mapping[str, Any]) -> Iterator[Left]:
    """Yield what settings no longer do for models of the registry."""
    for (section, key), (why, fix) in _SETTINGS.items():
        if as_map(config.get(section)).get(key):
            yield Left(f"{section}.{key}", why, fix)
    for section in ("router_settings", "litellm_settings"):
        if as_map(config.get(section)).get("content_policy_fallbacks"):
            yield Left(
                f"{section}.content_policy_fallbacks",
                "a refusal for its content is an answer: the next member is not asked",
                "list the other model as a tier of its own for clients to name",
            )
    auth = as_map(config.get("general_settings")).get("custom_auth")
    if auth and auth != CUSTOM_AUTH:
        yield Left(
            "general_settings.custom_auth",
            "who comes through it counts as nobody where a model is metered",
            "set routing.trust_custom_auth: true if it hands out one token for each caller",
        )
    for index, name in enumerate(as_list(config.get("include"))):
        yield Left(
            f"include[{index}] ({name})",
            "entries of included files are not imported: the generator edits this file only",
            "move its model_list into this file and import again",
        )
    if config.get("assistant_settings"):
        yield Left("assistant_settings", "assistants call a provider outside the router and are refused", "remove it")
