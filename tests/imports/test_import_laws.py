"""Laws of the import, over configs that nobody wrote."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from litellm_registry_hook.core.parse import parse
from litellm_registry_hook.core.plan import pools_of
from litellm_registry_hook.core.registry import Registry
from litellm_registry_hook.core.start.carry import Choices, carry
from litellm_registry_hook.core.start.proposal import Proposal
from litellm_registry_hook.core.sync import plan_sync, wanted_entries
from litellm_registry_hook.edges.start.render import document

NAMES = ("gpt-4o", "local", "openai-up-1", "embed", "openai/*", "with space", "x@1", "a/b", "gpt", "fast")
TARGETS = (*NAMES, "nobody", "openai/up-1", "*")
SECRET = "sk-1f2e3d4c5b6a7f8e9d"

params = st.fixed_dictionaries(
    {
        "model": st.sampled_from(
            ("openai/up-1", "openai/up-2", "ollama/llama3", "ollama_chat/gemma3", "azure/dep", "anthropic/claude-3",
             "gpt-4o", "strange", "openai/*", "openai/bge-m3", "voyage/voyage-3", "auto_router/x", "os.environ/M")
        )
    },
    optional={
        "api_base": st.sampled_from(
            ("http://127.0.0.1:1/v1", "http://127.0.0.1:2/v1", "https://api.example.com/v1", "os.environ/BASE", "", None,
             "no-address", "http://[::1", "http://ollama:11434/v1")
        ),
        "api_key": st.sampled_from(("none", "os.environ/KEY", SECRET, None)),
        "order": st.integers(1, 3),
        "temperature": st.just(0.5),
        "timeout": st.just(9),
        "extra_headers": st.just({"Authorization": SECRET}),
        "litellm_credential_name": st.just("cred"),
    },
)  # fmt: skip
infos = st.fixed_dictionaries(
    {},
    optional={
        "mode": st.sampled_from(("chat", "embedding", "rerank", "image_edit", "audio_speech")),
        "output_vector_size": st.just(8),
        "id": st.sampled_from(("by-hand", "gpt-4o", "local@0", "fast")),
        "team_id": st.just("t"),
        "access_groups": st.just(["g"]),
        "max_input_tokens": st.sampled_from((1000, 2000)),
    },
)
entries = st.builds(
    lambda name, par, info: {"model_name": name, "litellm_params": par, "model_info": info},
    st.sampled_from(NAMES),
    params,
    infos,
)
chains = st.lists(
    st.builds(
        lambda head, tail: {head: tail}, st.sampled_from(TARGETS), st.lists(st.sampled_from(TARGETS), max_size=3)
    ),
    max_size=4,
)
configs = st.fixed_dictionaries(
    {"model_list": st.lists(st.one_of(entries, entries, st.sampled_from((None, {}, {"model_name": 3}))), max_size=8)},
    optional={
        "router_settings": st.fixed_dictionaries(
            {},
            optional={
                "fallbacks": chains,
                "default_fallbacks": st.lists(st.sampled_from(NAMES), max_size=2),
                "context_window_fallbacks": chains,
                "model_group_alias": st.dictionaries(
                    st.sampled_from((*NAMES, "alias", "al ias")),
                    st.one_of(st.sampled_from(TARGETS), st.builds(lambda m: {"model": m, "hidden": True}, st.sampled_from(TARGETS))),
                    max_size=3,
                ),
            },
        ),
        "credential_list": st.just(
            [{"credential_name": "cred", "credential_values": {"api_base": "http://10.0.0.1/v1", "api_key": SECRET}}]
        ),
    },
)  # fmt: skip
choices = st.builds(
    Choices,
    keep_foreign=st.frozensets(st.sampled_from(NAMES), max_size=1),
    free=st.frozensets(st.sampled_from(NAMES), max_size=2),
    secrets_to_env=st.booleans(),
)


def entry(name: str, model: str = "openai/up-1", **info: Any) -> dict[str, Any]:
    return {"model_name": name, "litellm_params": {"model": model}, "model_info": info}


ALIAS_INTO_NOTHING = {"model_list": [entry("local")], "router_settings": {"model_group_alias": {"local": "gpt-4o"}}}
FOREIGN_ID = {"model_list": [entry("gpt-4o"), entry("local", id="gpt-4o", team_id="t")]}
TWO_MODES = {"model_list": [entry("gpt-4o"), entry("gpt-4o", mode="embedding", output_vector_size=8)]}


def read(proposal: Proposal) -> Registry:
    registry, findings = parse(copy.deepcopy(document(proposal)))
    assert [one for one in findings if one.severity == "error"] == []
    assert registry is not None
    return registry


def well_formed(config: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for one in config["model_list"] if one and isinstance(one.get("model_name"), str)]


@settings(max_examples=250, deadline=None)
@given(configs, choices)
@example(ALIAS_INTO_NOTHING, Choices())
@example(FOREIGN_ID, Choices())
@example(TWO_MODES, Choices())
def test_whatever_the_config_the_proposal_is_a_valid_registry(config: dict[str, Any], chosen: Choices) -> None:
    """No config makes a registry that would not load, and none changes under the import."""
    before = copy.deepcopy(config)

    read(carry(config, chosen))

    assert config == before


@settings(max_examples=250, deadline=None)
@given(configs, choices)
@example(ALIAS_INTO_NOTHING, Choices())
@example(FOREIGN_ID, Choices())
@example(TWO_MODES, Choices())
def test_every_name_resolves_afterwards_or_is_said_to_stay(config: dict[str, Any], chosen: Choices) -> None:
    """Each model_name is a name of the registry whose first model is one of its entries, or stays foreign and is listed."""
    proposal = carry(config, chosen)
    pools = pools_of(read(proposal))
    aliases = (config.get("router_settings") or {}).get("model_group_alias") or {}
    told = " ".join(one.what for one in proposal.left)
    for index, entry in enumerate(config["model_list"]):
        if not entry or not isinstance(entry.get("model_name"), str):
            assert f"model_list[{index}]" in told
            continue
        name = entry["model_name"]
        if name not in pools:
            assert f"model_list[{index}] ({name})" in told
        elif name not in aliases:
            upstreams = {
                one["litellm_params"]["model"].rpartition("/")[2]
                for one in well_formed(config)
                if one["model_name"] == name
            }
            assert pools[name].members[0].litellm_model.rpartition("/")[2] in upstreams


@settings(max_examples=250, deadline=None)
@given(configs, choices)
@example(ALIAS_INTO_NOTHING, Choices())
@example(FOREIGN_ID, Choices())
@example(TWO_MODES, Choices())
def test_adoption_takes_exactly_what_was_carried_over(config: dict[str, Any], chosen: Choices) -> None:
    """generate-litellm-config --adopt leaves every entry that stays foreign, and no entry that was carried over."""
    proposal = carry(config, chosen)
    registry = read(proposal)
    stays = {
        index for index, entry in enumerate(config["model_list"])
        if f"model_list[{index}]" in {one.what.partition(" (")[0] for one in proposal.left if "model_info." not in one.what}
    }  # fmt: skip
    names = {*pools_of(registry)}

    plan = plan_sync(registry, config, adopt=True)

    carried = {index for index, entry in enumerate(config["model_list"]) if index not in stays}
    assert set(plan.replace) == carried
    assert all(config["model_list"][index]["model_name"] in names for index in carried)
    assert {wanted.id for wanted in wanted_entries(registry, config)} == {
        wanted.id for group in (*plan.replace.values(), *plan.insert.values()) for wanted in group
    }


@settings(max_examples=200, deadline=None)
@given(configs, choices)
@example(ALIAS_INTO_NOTHING, Choices())
@example(FOREIGN_ID, Choices())
@example(TWO_MODES, Choices())
def test_no_secret_comes_over(config: dict[str, Any], chosen: Choices) -> None:
    """A key that stands in the config is nowhere in the proposal, whatever else is chosen."""
    assert SECRET not in repr(carry(config, chosen))


@settings(max_examples=200, deadline=None)
@given(configs)
@example({"model_list": [{"model_name": "a/b", "litellm_params": {"model": "strange", "api_key": SECRET}}]})
def test_a_key_is_said_to_be_replaced_only_where_it_is(config: dict[str, Any]) -> None:
    """With --secrets-to-env each key that is said to be replaced belongs to an entry that came over, and none is missing."""
    proposal = carry(config, Choices(secrets_to_env=True))

    names = {one.why.split("os.environ/")[1].split(" ")[0] for one in proposal.left if "is left out" in one.why}
    written = {
        value.removeprefix("os.environ/")
        for model in proposal.models
        for key, value in model.entry["litellm"].items()
        if key == "api_key" and value is not None and value.startswith("os.environ/")
    }
    assert written - {"KEY"} == names - {"KEY"}


@settings(max_examples=200, deadline=None)
@given(configs, choices)
@example(ALIAS_INTO_NOTHING, Choices())
@example(FOREIGN_ID, Choices())
@example(TWO_MODES, Choices())
def test_an_embedding_tier_has_embedding_models_only(config: dict[str, Any], chosen: Choices) -> None:
    """No chain of fallbacks puts another embedding model, or a chat model, behind an embedding one."""
    registry = read(carry(config, chosen))
    for tier, ids in registry.routing.tiers.items():
        modes = {registry.by_id[one].effective_mode for one in ids}
        if "embedding" in modes:
            assert modes == {"embedding"}, tier
