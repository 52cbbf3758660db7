"""Each finding alone, on the shipped files with one thing changed."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from doctor_kit import NOW, ROOT, STRONG, House

from litellm_registry_hook.core.doctor import CODES, RULES, examine
from litellm_registry_hook.core.doctor_case import Case, Facts, FileState, Part
from litellm_registry_hook.core.doctor_config import PASS_THROUGH_KEYS
from litellm_registry_hook.core.doctor_known import GENERATOR
from litellm_registry_hook.core.registry import Registry
from litellm_registry_hook.core.routes import classify
from litellm_registry_hook.core.sync_findings import CODES as GENERATOR_CODES
from litellm_registry_hook.core.virtual_key import VirtualKey, token_of
from litellm_registry_hook.edges.store import virtual_keys
from litellm_registry_hook.edges.store.database import Database

TOKEN = "sha256:" + "a" * 64
OURS = {
    "general_settings": {
        "custom_auth": "litellm_registry_hook.user_api_key_auth",
        "custom_auth_run_common_checks": True,
    },
    "litellm_settings": {"enable_post_custom_auth_checks": True},
}
THEIRS = {
    "general_settings": {"custom_auth": "house_keys.auth", "custom_auth_run_common_checks": True},
    "litellm_settings": {"enable_post_custom_auth_checks": True},
}
CONFIG, REG, ENV = "litellm-config.yaml", "model-registry.yaml", "environment"

# registry changes, config changes, environment changes, everything that is found
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, str | None], list[tuple[str, str, str]]]] = {
    "clean": ({}, {}, {}, []),
    "our custom_auth and no key yet": (
        {}, OURS, {}, [("no_virtual_keys", CONFIG, "general_settings.custom_auth")],
    ),
    "somebody's custom_auth, checked": ({}, THEIRS, {}, []),
    "provider key": ({}, {}, {"OPENAI_API_KEY": "x"}, [("provider_key_in_environment", ENV, "OPENAI_API_KEY")]),
    "provider key that the config sets": (
        {}, {"environment_variables": {"MISTRAL_API_KEY": "x"}}, {},
        [("provider_key_in_environment", CONFIG, "environment_variables.MISTRAL_API_KEY")],
    ),
    "provider key, foreign models denied": ({"routing": {"unlisted_models": "deny"}}, {}, {"OPENAI_API_KEY": "x"}, []),
    "provider key of a closed route": ({}, {}, {"GROQ_API_KEY": "x", "AZURE_API_KEY": "y"}, []),
    "pass-through": (
        {}, {"general_settings": {"pass_through_endpoints": [{"path": "/x", "target": "https://x.example"}]}}, {},
        [("pass_through_endpoints", CONFIG, "general_settings.pass_through_endpoints")],
    ),
    "pass-through without a key": (
        {}, {"general_settings": {"pass_through_endpoints": [{"path": "/x", "auth": True}, {"path": "/y", "auth": False}]}}, {},
        [
            ("pass_through_without_auth", CONFIG, "general_settings.pass_through_endpoints[1].auth"),
            ("pass_through_endpoints", CONFIG, "general_settings.pass_through_endpoints"),
        ],
    ),
    "assistants": (
        {}, {"assistant_settings": {"custom_llm_provider": "openai"}}, {},
        [("assistant_settings", CONFIG, "assistant_settings")],
    ),
    "files": (
        {}, {"files_settings": [{"custom_llm_provider": "openai"}]}, {}, [("files_settings", CONFIG, "files_settings")],
    ),
    "fine-tuning": (
        {}, {"finetune_settings": [{"custom_llm_provider": "openai"}]}, {},
        [("files_settings", CONFIG, "finetune_settings")],
    ),
    "v1 strategy": (
        {}, {"router_settings": {"routing_strategy": "usage-based-routing"}}, {},
        [("usage_based_routing", CONFIG, "router_settings.routing_strategy")],
    ),
    "models in the database": (
        {}, {"general_settings": {"store_model_in_db": True}}, {},
        [("models_in_db", CONFIG, "general_settings.store_model_in_db")],
    ),
    "models in the database by the environment": (
        {}, {}, {"STORE_MODEL_IN_DB": "True"}, [("models_in_db", ENV, "STORE_MODEL_IN_DB")],
    ),
    "models in the database switched off": ({}, {}, {"STORE_MODEL_IN_DB": "False"}, []),
    "no admin key": ({}, {}, {"LITELLM_MASTER_KEY": None}, [("master_key_missing", ENV, "LITELLM_MASTER_KEY")]),
    "no admin key, by another name": (
        {}, {"general_settings": {"master_key": "os.environ/ADMIN"}}, {}, [("master_key_missing", ENV, "ADMIN")],
    ),
    "no setting, but the variable": ({}, {"general_settings": {"master_key": None}}, {}, []),
    "no admin key with somebody's custom_auth": ({}, THEIRS, {"LITELLM_MASTER_KEY": None}, []),
    "no admin key with our custom_auth": (
        {}, OURS, {"LITELLM_MASTER_KEY": None},
        [
            ("master_key_missing", ENV, "LITELLM_MASTER_KEY"),
            ("no_virtual_keys", CONFIG, "general_settings.custom_auth"),
        ],
    ),
    "short admin key": ({}, {}, {"LITELLM_MASTER_KEY": "sk-1234"}, [("master_key_weak", ENV, "LITELLM_MASTER_KEY")]),
    "dull admin key in the file": (
        {}, {"general_settings": {"master_key": "sk-" + "ab" * 20}}, {},
        [("master_key_weak", CONFIG, "general_settings.master_key")],
    ),
    "weak admin key that the config sets": (
        {}, {"environment_variables": {"LITELLM_MASTER_KEY": 1234}}, {},
        [("master_key_weak", CONFIG, "environment_variables.LITELLM_MASTER_KEY")],
    ),
    "weak admin key permitted": (
        {}, {"general_settings": {"dangerously_permit_weak_or_unset_master_key": True}}, {},
        [("weak_master_key_permitted", CONFIG, "general_settings.dangerously_permit_weak_or_unset_master_key")],
    ),
    "weak admin key permitted by the environment": (
        {}, {}, {"LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true"},
        [("weak_master_key_permitted", ENV, "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY")],
    ),
    "client credentials": (
        {}, {"general_settings": {"allow_client_side_credentials": True}}, {},
        [("client_credentials", CONFIG, "general_settings.allow_client_side_credentials")],
    ),
    "fallback access": (
        {}, {"general_settings": {"enforce_fallback_model_access": False}}, {},
        [("fallback_access_off", CONFIG, "general_settings.enforce_fallback_model_access")],
    ),
    "fallback access written out": ({}, {"general_settings": {"enforce_fallback_model_access": True}}, {}, []),
    "headers": (
        {}, {"general_settings": {"forward_client_headers_to_llm_api": True}}, {},
        [("headers_forwarded", CONFIG, "general_settings.forward_client_headers_to_llm_api")],
    ),
    "headers of a group": (
        {}, {"litellm_settings": {"model_group_settings": {"forward_client_headers_to_llm_api": ["kimi"]}}}, {},
        [("headers_forwarded", CONFIG, "litellm_settings.model_group_settings.forward_client_headers_to_llm_api")],
    ),
    "completion_model": (
        {}, {"general_settings": {"completion_model": "kimi"}}, {},
        [("model_replaced", CONFIG, "general_settings.completion_model")],
    ),
    "model_group_alias": (
        {}, {"router_settings": {"model_group_alias": {"cheap": "paid-fallback"}}}, {},
        [("model_group_alias", CONFIG, "router_settings.model_group_alias.cheap")],
    ),
    "fallbacks": (
        {}, {"router_settings": {"fallbacks": [{"kimi": ["paid-fallback"]}]}}, {},
        [("metered_fallback", CONFIG, "router_settings.fallbacks")],
    ),
    "default_fallbacks": (
        {}, {"litellm_settings": {"default_fallbacks": ["paid-fallback"]}}, {},
        [("metered_fallback", CONFIG, "litellm_settings.default_fallbacks")],
    ),
    "a cache": ({}, {"litellm_settings": {"cache": True, "cache_params": {"type": "local"}}}, {}, []),
    "a shared cache": (
        {}, {"router_settings": {"caching_groups": [["kimi", "local-small"], ["kimi", "paid-fallback"]]}}, {},
        [("shared_cache", CONFIG, "router_settings.caching_groups[1]")],
    ),
    "no callback": (
        {}, {"litellm_settings": {"callbacks": ["prometheus"]}}, {},
        [("callback_missing", CONFIG, "litellm_settings.callbacks")],
    ),
    "health probes": (
        {}, {"general_settings": {"health_check_skip_disabled_background_models": None}}, {},
        [("health_probes", CONFIG, "general_settings.health_check_skip_disabled_background_models")],
    ),
    "custom_auth without checks": (
        {}, {"general_settings": {"custom_auth": "house_keys.auth"}}, {},
        [
            ("custom_auth_unchecked", CONFIG, "general_settings.custom_auth_run_common_checks"),
            ("custom_auth_unchecked", CONFIG, "litellm_settings.enable_post_custom_auth_checks"),
        ],
    ),
    "unlisted models": (
        {"routing": {"unlisted_models": "allow"}}, {}, {}, [("unlisted_allowed", REG, "routing.unlisted_models")],
    ),
    "observe": ({"routing": {"mode": "observe"}}, {}, {}, [("observe_mode", REG, "routing.mode")]),
    "master key metered": (
        {"routing": {"master_key_metered": True}}, {}, {}, [("master_key_metered", REG, "routing.master_key_metered")],
    ),
    "somebody's custom_auth trusted": (
        {"routing": {"trust_custom_auth": True}}, THEIRS, {},
        [("foreign_auth_trusted", REG, "routing.trust_custom_auth")],
    ),
    "custom_auth trusted and none there": ({"routing": {"trust_custom_auth": True}}, {}, {}, []),
    "alias without effect": (
        {"routing": {"metered_opt_in": [TOKEN, "agent:torgash", {"key": "agent:two", "token": TOKEN}, {"key": "three"}]}}, {}, {},
        [
            ("alias_without_effect", REG, "routing.metered_opt_in[1]"),
            ("alias_without_effect", REG, "routing.metered_opt_in[3]"),
        ],
    ),
    "alias for the taking": (
        {"routing": {"metered_opt_in": ["agent:torgash"], "trust_key_alias": True}}, {}, {},
        [("alias_for_the_taking", REG, "routing.metered_opt_in[0]")],
    ),
    "grant expired": (
        {"routing": {"metered_opt_in": [{"token": TOKEN, "expires": "2026-11-30T12:00:00Z"}, {"token": TOKEN, "expires": "2026-12-01"}]}},
        {}, {}, [("grant_expired", REG, "routing.metered_opt_in[0]")],
    ),
    "grant not needed": (
        {"routing": {"metered_opt_in": [{"token": TOKEN, "models": ["kimi"]}]}}, {}, {},
        [("grant_not_needed", REG, "routing.metered_opt_in[0].models[0]")],
    ),
    "state elsewhere": (
        {"state": "redis://127.0.0.1:1"}, {}, {"LITELLM_REGISTRY_STATE": None}, [("state_unusable", REG, "state")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_each_finding_alone(house: House, name: str) -> None:
    """One change gives its findings, with their places, and no other."""
    registry, config, environ, expected = CASES[name]
    house.write(registry, config)
    house.environ = {key: value for key, value in {**house.environ, **environ}.items() if value is not None}

    assert house.places() == expected


ENTRIES: dict[str, tuple[dict[str, Any], str, str]] = {
    "wildcard": ({"model_name": "openai/*", "litellm_params": {"model": "openai/*"}}, "wildcard_entry", "model_list[5]"),
    "shadow": ({"model_name": "large", "litellm_params": {"model": "openai/x"}}, "shadowed_entry", "model_list[5]"),
    "client address": (
        {"model_name": "x", "litellm_params": {"model": "openai/x", "configurable_clientside_auth_params": ["api_base"]}},
        "client_address", "model_list[5].litellm_params.configurable_clientside_auth_params",
    ),
    "pass-through key": (
        {"model_name": "x", "litellm_params": {"model": "openai/x", "use_in_pass_through": True}},
        "pass_through_credentials", "model_list[5].litellm_params.use_in_pass_through",
    ),
    "silent model": (
        {"model_name": "x", "litellm_params": {"model": "openai/x", "silent_model": "paid-fallback"}},
        "silent_model", "model_list[5].litellm_params.silent_model",
    ),
    "drift": (
        {"model_name": "gone", "model_info": {"id": "gone@0", "managed_by": "litellm-registry-hook"}},
        "drift", "model_list[5]",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ENTRIES)
def test_each_finding_of_an_entry(house: House, name: str) -> None:
    """One further entry gives its one finding, at its place."""
    entry, code, path = ENTRIES[name]
    house.add_entries(entry)

    assert house.places() == [(code, CONFIG, path)]


def test_two_deployments_with_one_id(house: House) -> None:
    """An id that two entries carry is named at the second, in an included file too."""
    house.add_entries(
        {"model_name": "x", "model_info": {"id": "one"}}, {"model_name": "y", "model_info": {"id": "one"}}
    )
    house.include("more.yaml", {"model_list": [{"model_name": "z", "model_info": {"id": "one"}}]})

    assert [(one.code, one.path, one.message) for one in house.findings()] == [
        ("duplicate_deployment_id", "model_list[6].model_info.id", "model_list[5] has the id 'one' too, so LiteLLM knows only one of the two by it"),
        ("duplicate_deployment_id", "model_list[0].model_info.id", f"model_list[5] of {house.config_file} has the id 'one' too, so LiteLLM knows only one of the two by it"),
    ]  # fmt: skip


def test_drift_is_one_finding_an_entry(house: House) -> None:
    """What differs is named by its keys, without values; a missing entry is one finding too."""
    text = house.config_file.read_text().replace("https://api.kimi.com/coding/v1", "http://elsewhere.example")
    house.config_file.write_text(text.replace("disable_background_health_check: true", "tpm: 5", 1))
    config = house.config_file.read_text()
    start, end = config.index("- model_name: bge-m3"), config.index("- model_name: tei-reranker")
    house.config_file.write_text(config[:start] + config[end:])

    assert [(one.code, one.path, one.message) for one in house.findings()] == [
        (
            "drift",
            "model_list[0]",
            "the entry kimi@0 differs from the registry: litellm_params.api_base, "
            "model_info.disable_background_health_check, model_info.tpm",
        ),
        ("drift", "model_list", "the entry bge-m3@0 is missing, so this model is not served"),
    ]


def test_a_free_looking_openrouter_model(house: House) -> None:
    """A `:free` model of a provider that bills is no free model by its name."""
    registry = {
        "models": [{"id": "x", "role": "chat", "lifecycle": "always-on", "metered": False, "litellm": {"model": "openrouter/x:free"}}],
        "routing": {"tiers": None}, "gpu_residency_policy": None,
    }  # fmt: skip
    house.write(registry)
    content = house.registry_file.read_text().replace("routing:\n", "routing:\n  tiers: {small: [x]}\n")
    house.registry_file.write_text(content.replace("aliases:\n    embedder: embed", "aliases: {}"))

    found = [(one.code, one.severity, one.path) for one in house.findings() if one.code != "drift"]
    assert found == [("priced_not_metered", "high", "models[0].metered")]


def test_a_secret_in_the_registry(house: House) -> None:
    """A key written into the registry is named and not shown."""
    text = house.registry_file.read_text().replace("os.environ/PAID_API_KEY", STRONG)
    house.registry_file.write_text(text)
    house.config_file.write_text(house.config_file.read_text().replace("os.environ/PAID_API_KEY", STRONG))

    assert house.places() == [("secret_in_file", REG, "models[4].litellm.api_key")]
    assert STRONG not in repr(house.findings())


def test_included_sections_hide_settings(house: House) -> None:
    """An included section takes the place of the main one: what gets lost is named, and what counts is what is left."""
    house.include(
        "more.yaml",
        {
            "litellm_settings": {"callbacks": ["litellm_registry_hook.proxy_handler_instance"]},
            "general_settings": {"health_check_skip_disabled_background_models": True, "store_model_in_db": True},
        },
    )
    house.include("gone.yaml", {})
    (house.folder / "gone.yaml").unlink()

    assert house.places() == [
        ("section_hidden", CONFIG, "litellm_settings"),
        ("section_hidden", CONFIG, "general_settings"),
        ("included_unreadable", CONFIG, "include"),
        ("models_in_db", "more.yaml", "general_settings.store_model_in_db"),
    ]


def test_an_included_section_without_the_gates(house: House) -> None:
    """An included section that drops the callback is one finding, not two."""
    house.include("more.yaml", {"litellm_settings": {"drop_params": False}})

    assert house.places() == [
        ("included_settings", "more.yaml", "litellm_settings"),
        ("section_hidden", CONFIG, "litellm_settings"),
    ]


def test_grants_to_keys_that_are_not_there(house: House) -> None:
    """With embedded keys a grant wants a live key of that token or alias."""
    live, ended = f"sk-live-{'x' * 20}", f"sk-ended-{'x' * 20}"
    database = Database(house.state_file)
    virtual_keys.add(database, VirtualKey(token_of(live), "agent:live", None, NOW))
    virtual_keys.add(database, VirtualKey(token_of(ended), "agent:ended", None, NOW, revoked=NOW))
    database.close()
    house.write(
        {
            "routing": {
                "metered_opt_in": [
                    f"sha256:{token_of(live)}", "agent:live", f"sha256:{token_of(ended)}", TOKEN, "agent:ended",
                    {"key": "agent:live", "token": TOKEN},
                ]
            }
        },
        OURS,
    )  # fmt: skip

    assert [(one.code, one.path, one.message) for one in house.findings()] == [
        ("grant_to_nobody", "routing.metered_opt_in[2]", f"the key sha256:{token_of(ended)[:8]}… has ended or was revoked"),
        ("grant_to_nobody", "routing.metered_opt_in[3]", "the key sha256:aaaaaaaa… is not in the store"),
        ("grant_to_nobody", "routing.metered_opt_in[4]", "no live key is called 'agent:ended': the next one to get that alias is opted in"),
        ("grant_to_nobody", "routing.metered_opt_in[5]", "the key sha256:aaaaaaaa… is not in the store"),
    ]  # fmt: skip


def test_files_that_anybody_can_change(house: House) -> None:
    """A file or folder that is open to all is named; a folder where only owners may remove is not."""
    house.registry_file.chmod(0o666)
    assert house.places() == [("file_writable", REG, "")]

    house.registry_file.chmod(0o644)
    house.folder.chmod(0o777)
    assert house.places() == [("file_writable", CONFIG, ""), ("file_writable", REG, "")]

    house.folder.chmod(0o1777)
    assert house.places() == []


def test_a_state_that_others_can_read(house: House) -> None:
    """The state's mode is reported and left as it is."""
    database = Database(house.state_file)
    database.version()
    database.close()
    assert house.places() == []

    house.state_file.chmod(0o640)
    assert [(one.code, one.message) for one in house.findings()] == [
        ("state_open", "other users can get at the keys, revocations and call counts (mode 640)")
    ]
    assert house.state_file.stat().st_mode & 0o777 == 0o640


def test_a_state_that_is_no_state(house: House) -> None:
    """A file that SQLite cannot read is a finding, not an error, and the doctor makes no state file of its own."""
    assert house.places() == []
    assert not house.state_file.exists()

    house.state_file.write_text("not a database, and longer than the header that SQLite wants to see there" * 20)
    house.state_file.chmod(0o600)

    assert house.places() == [("state_unusable", "state.sqlite", "")]


def bare(facts: Facts, config: dict[str, Any] | None = None) -> list[str]:
    """The codes for facts that a test cannot bring about; what the empty config gives anyway is left out."""
    registry = Registry.model_validate({"version": 1, "models": [], "routing": {"tiers": {}}})
    case = Case(registry, "r.yaml", (), (Part("c.yaml", config or {}),), (), (), facts, NOW)
    without = replace(case, facts=Facts())
    return [one.code for one in examine(case) if one not in examine(without)]


def test_findings_about_the_machine() -> None:
    """Somebody else's state, a release that was not LiteLLM's own and one that nobody has checked are findings."""
    assert bare(Facts(state=FileState("s", 0o600, own=False))) == ["state_owner"]
    assert bare(Facts(state=FileState("s", 0o600, folder_open=True))) == ["state_open"]
    assert bare(Facts(litellm="1.82.7")) == ["compromised_release"]
    assert bare(Facts(litellm="1.108.7")) == []
    assert bare(Facts(litellm="1.105.7")) == ["untested_release"]


def test_a_live_key_is_enough() -> None:
    """With our custom_auth one live key is enough; ended ones are none."""
    auth = {"general_settings": {"custom_auth": "litellm_registry_hook.user_api_key_auth"}}
    ended = VirtualKey("a" * 64, "a", None, NOW, expires=NOW)

    assert bare(Facts(keys=(ended,)), auth) == ["no_virtual_keys"]
    assert bare(Facts(keys=(ended, replace(ended, expires=NOW + timedelta(days=1)))), auth) == []


def test_every_code_is_shown_by_a_test_here() -> None:
    """No rule goes untested: each code stands in an expectation of this file, or of that about GPUs."""
    names = ("test_doctor_findings.py", "test_doctor_gpu.py")
    text = "".join((ROOT / "tests/doctor" / name).read_text() for name in names)

    assert [code for code in CODES if f'"{code}"' not in text] == []
    assert len(RULES) == len({(rule.code, rule.check) for rule in RULES})


def test_the_generators_warnings_are_all_taken_over() -> None:
    """A warning that the generator learns is a finding here, too; one comes only with an adoption."""
    assert set(GENERATOR) == set(GENERATOR_CODES) - {"vectors_not_comparable"}


@pytest.mark.parametrize("route", PASS_THROUGH_KEYS.values())
def test_the_named_pass_through_routes_are_reachable(route: str) -> None:
    """Each provider of the table has a route that the gates treat as pass-through, not as closed."""
    assert classify("POST", route).kind == "passthrough"
