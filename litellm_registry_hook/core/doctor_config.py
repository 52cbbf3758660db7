"""Rules about the settings of the LiteLLM config."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from litellm_registry_hook.core.doctor_case import ENVIRONMENT, Case, Rule, Sign, as_map
from litellm_registry_hook.core.sync_settings import HANDLER, SettingEdit, setting_edits

# What LiteLLM's pass-through routes take their key from (`{PROVIDER}_API_KEY`, passthrough_endpoint_router.py:394),
# for the routes that core/routes.py leaves reachable. All other provider routes are closed.
PASS_THROUGH_KEYS = {
    "OPENAI_API_KEY": "/openai/v1/chat/completions",
    "ANTHROPIC_API_KEY": "/anthropic/v1/messages",
    "GEMINI_API_KEY": "/gemini/v1beta/models/any:generateContent",
    "COHERE_API_KEY": "/cohere/v2/chat",
    "MISTRAL_API_KEY": "/mistral/v1/chat/completions",
    "OPENROUTER_API_KEY": "/openrouter/v1/chat/completions",
}
DB_MODELS_SWITCH = "STORE_MODEL_IN_DB"
WEAK_KEY_SWITCH = "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY"
NEW_KEY = "python3 -c 'import secrets; print(\"sk-\" + secrets.token_urlsafe(32))'"
REPLACED_MODELS = ("completion_model", "image_generation_model", "moderation_model")


def provider_key(case: Case) -> Iterator[Sign]:
    """Find a provider's key under the name that LiteLLM's pass-through routes look for."""
    if case.registry.routing.unlisted_models == "deny":
        return
    written = as_map(case.section("environment_variables"))
    for name, route in PASS_THROUGH_KEYS.items():
        prefix = route.split("/")[1]
        if name in written or name in case.facts.names:
            yield Sign(
                case.file_of("environment_variables") if name in written else ENVIRONMENT,
                f"environment_variables.{name}" if name in written else name,
                f"LiteLLM's pass-through routes /{prefix}/* call the provider with this key, and no model of the "
                "registry is behind them",
                "give the key another name and write that into the registry (api_key: os.environ/…), or set "
                "routing.unlisted_models: deny",
            )


def open_pass_through(case: Case) -> Iterator[Sign]:
    """Find a pass-through route that asks for no key."""
    listed = case.section("general_settings").get("pass_through_endpoints")
    for index, end in enumerate(listed if isinstance(listed, list) else ()):
        if "auth" in as_map(end) and str(end["auth"]).lower() != "true":
            yield case.setting(
                "general_settings",
                f"pass_through_endpoints[{index}].auth",
                "this route forwards calls with the proxy's own headers and asks for no key",
                "write auth: true, or remove the route",
            )


def files_settings(case: Case) -> Iterator[Sign]:
    """Find keys for files, batches and fine-tuning."""
    for section in ("files_settings", "finetune_settings"):
        if any(part.content.get(section) for part in case.parts):
            yield Sign(
                case.file_of(section),
                section,
                "fine-tuning calls a provider outside the router, and a batch runs on another account than that which "
                "this section uploads its file to: the gates refuse both",
                "remove this section; upload batch files with ?model=ID",
            )


def models_in_db(case: Case) -> Iterator[Sign]:
    """Find the switch in the environment that does what store_model_in_db does."""
    if DB_MODELS_SWITCH in case.facts.switched_on:
        yield Sign(
            ENVIRONMENT,
            DB_MODELS_SWITCH,
            "models can be added in LiteLLM's database, where the config does not show them",
            "unset it, or compare /model/info with the registry from time to time",
        )


def master_key_missing(case: Case) -> Iterator[Sign]:
    """Find no admin key where LiteLLM's own authentication, or ours, needs one."""
    if case.facts.admin_key.missing and (not case.custom_auth or case.embedded_keys):
        key = case.facts.admin_key
        yield Sign(key.file, key.path, "there is no admin key; LiteLLM then serves everybody", f"make one: {NEW_KEY}")


def master_key_weak(case: Case) -> Iterator[Sign]:
    """Find an admin key that can be guessed."""
    key = case.facts.admin_key
    if key.weak:
        yield Sign(
            key.file,
            key.path,
            f"the admin key can be guessed: {key.weak}; who has it can opt keys in",
            f"make a new one: {NEW_KEY}",
        )


def weak_key_permitted(case: Case) -> Iterator[Sign]:
    """Find the switch that lets LiteLLM start without a proper admin key."""
    message = "LiteLLM starts with a well-known admin key or with none; without one everybody is let in"
    if case.section("general_settings").get("dangerously_permit_weak_or_unset_master_key"):
        yield case.setting("general_settings", "dangerously_permit_weak_or_unset_master_key", message, "remove it")
    if WEAK_KEY_SWITCH in case.facts.switched_on:
        yield Sign(ENVIRONMENT, WEAK_KEY_SWITCH, message, "unset it")


def client_credentials(case: Case) -> Iterator[Sign]:
    """Find that callers may bring their own address and key."""
    if case.section("general_settings").get("allow_client_side_credentials"):
        yield case.setting(
            "general_settings",
            "allow_client_side_credentials",
            "a caller can send a foreign model's key and messages to an address of its own",
            "remove it",
        )


def fallback_access(case: Case) -> Iterator[Sign]:
    """Find that a key's list of models does not hold for fallbacks."""
    if case.section("general_settings").get("enforce_fallback_model_access") is False:
        yield case.setting(
            "general_settings",
            "enforce_fallback_model_access",
            "a fallback between models that the registry does not know ignores a key's list of models",
            "remove it: pools of the registry do not need it",
        )


def headers_forwarded(case: Case) -> Iterator[Sign]:
    """Find that the client's headers go upstream."""
    groups = as_map(case.section("litellm_settings").get("model_group_settings"))
    message = "headers of the client reach the provider, among them keys and names that were meant for the proxy"
    if case.section("general_settings").get("forward_client_headers_to_llm_api"):
        yield case.setting("general_settings", "forward_client_headers_to_llm_api", message, "remove it")
    if groups.get("forward_client_headers_to_llm_api"):
        key = "model_group_settings.forward_client_headers_to_llm_api"
        yield case.setting("litellm_settings", key, message, "remove it")


def model_replaced(case: Case) -> Iterator[Sign]:
    """Find a setting that puts one model in the place of whatever was asked for."""
    for key in REPLACED_MODELS:
        if case.section("general_settings").get(key):
            yield case.setting(
                "general_settings",
                key,
                "LiteLLM puts this model in the place of the one asked for, so no tier is ever reached",
                "remove it: tiers of the registry do this openly",
            )


def shared_cache(case: Case) -> Iterator[Sign]:
    """Find caching groups that hand a paid model's answers to callers of another."""
    groups = case.section("router_settings").get("caching_groups")
    for index, group in enumerate(groups if isinstance(groups, list) else ()):
        names = [name for name in group if isinstance(name, str)] if isinstance(group, list) else []
        paid = sorted(case.metered.intersection(names))
        if paid and set(names) - set(paid):
            yield case.setting(
                "router_settings",
                f"caching_groups[{index}]",
                f"cached answers of {', '.join(paid)} are handed to callers of the other models, without their consent",
                "take the metered model out of the group",
            )


def callback_missing(case: Case) -> Iterator[Sign]:
    """Find that the gates are not loaded."""
    for edit in _lacking(case):
        if edit.value == HANDLER:
            yield Sign(
                case.config_file,
                edit.path,
                f"{HANDLER} is not in the list: the proxy starts without any gate",
                "run generate-litellm-config and restart the proxy",
            )


def health_probes(case: Case) -> Iterator[Sign]:
    """Find that health checks call models that were told to be left alone."""
    for edit in _lacking(case):
        if edit.key == "health_check_skip_disabled_background_models":
            yield Sign(
                case.config_file,
                edit.path,
                "it is not true: GET /health, open to any key, then calls every model; only the gates stop it",
                "run generate-litellm-config and restart the proxy",
            )


def custom_auth_unchecked(case: Case) -> Iterator[Sign]:
    """Find that nothing more of a key is checked: with a custom_auth LiteLLM does so only when told to."""
    if not case.custom_auth:
        return
    for section, key, what in (
        ("general_settings", "custom_auth_run_common_checks", "which routes a key may use, those of the admin too"),
        ("litellm_settings", "enable_post_custom_auth_checks", "which models a key may use"),
    ):
        if case.section(section).get(key) is not True:
            yield case.setting(
                section, key, f"with custom_auth and without this LiteLLM does not check {what}", f"write {key}: true"
            )


def section_hidden(case: Case) -> Iterator[Sign]:
    """Find settings that an included file's section takes the place of."""
    for number, part in enumerate(case.parts[1:], start=1):
        for section, content in part.content.items():
            if not isinstance(content, Mapping):
                continue
            before = next((p for p in reversed(case.parts[:number]) if section in p.content), None)
            lost = sorted(str(key) for key in as_map(before.content[section]) if key not in content) if before else []
            if before and lost:
                yield Sign(
                    before.name,
                    section,
                    f"{part.name} has a section of this name, which takes the place of this one: "
                    f"{', '.join(lost)} {'has' if len(lost) == 1 else 'have'} no effect",
                    "keep the section in one file",
                )


def _lacking(case: Case) -> Iterator[SettingEdit]:
    """Return the required settings that the config lacks; what an included file takes away has a finding already."""
    included: Sequence[str] = [name for part in case.parts[1:] for name in part.content]
    return (edit for edit in setting_edits(case.parts[0].content) if edit.section not in included)


RULES = (
    Rule("provider_key_in_environment", "medium", provider_key),
    Rule("pass_through_without_auth", "high", open_pass_through),
    Rule("files_settings", "medium", files_settings),
    Rule("models_in_db", "medium", models_in_db),
    Rule("master_key_missing", "high", master_key_missing),
    Rule("master_key_weak", "high", master_key_weak),
    Rule("weak_master_key_permitted", "high", weak_key_permitted),
    Rule("client_credentials", "medium", client_credentials),
    Rule("fallback_access_off", "medium", fallback_access),
    Rule("headers_forwarded", "medium", headers_forwarded),
    Rule("model_replaced", "medium", model_replaced),
    Rule("shared_cache", "high", shared_cache),
    Rule("callback_missing", "high", callback_missing),
    Rule("health_probes", "medium", health_probes),
    Rule("custom_auth_unchecked", "high", custom_auth_unchecked),
    Rule("section_hidden", "medium", section_hidden),
)
