"""Fallbacks: our reading of them against LiteLLM's own Router, and the rules that a few configs show."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from litellm_registry_hook.core.start.carry import carry
from litellm_registry_hook.core.start.carry_chains import hops, overflow_of, read_chains
from litellm_registry_hook.core.start.proposal import Left
from tests.host.proxy import clean_env
from tests.upstreams import Upstream

NAMES = ["a", "b", "c", "d", "e", "f", "g", "h"]
# A name with its provider finds the chain of the name without it, and the other way round; `fast/a` is no such name.
PROVIDERS = [
    "openai/gpt-4o",
    "openai/gpt-4o-mini",
    "gpt-4o-mini",
    "anthropic/a",
    "fast/a",
    "a",
    "claude-opus-4-1-20250805",
]
KEYS = [*PROVIDERS, "gpt-4o", "anthropic/claude-opus-4-1-20250805"]


def graphs(count: int) -> list[dict[str, Any]]:
    """Random fallbacks, some under `*` and some in circles."""
    dice = random.Random(20)
    found = []
    for _ in range(count):
        heads = dice.sample([*NAMES, "x"], dice.randint(1, 6))
        chains = [{head: dice.sample([*NAMES, "x"], dice.randint(1, 3))} for head in heads]
        if dice.random() < 0.3:
            chains.append({"*": dice.sample(NAMES, 2)})
        found.append(
            {"names": NAMES, "fallbacks": chains, "aliases": {"x": "a"}, "ask": dice.choice([*NAMES[:3], "x"])}
        )
    for _ in range(count):
        heads = dice.sample(KEYS, dice.randint(2, 6))
        chains = [{head: dice.sample(PROVIDERS, dice.randint(1, 3))} for head in heads]
        found.append({"names": PROVIDERS, "fallbacks": chains, "aliases": {}, "ask": dice.choice(PROVIDERS)})
    return found


@pytest.mark.host
def test_names_are_tried_in_the_order_in_which_the_router_tries_them() -> None:
    """For eighty random graphs the Router, with every model failing, calls exactly the names that hops() gives."""
    work = graphs(40)
    with Upstream("failing") as up:
        up.fail(500)
        subprocess.run(
            [sys.executable, str(Path(__file__).with_name("router_walk.py"))],
            input=json.dumps({"base": up.openai_base, "graphs": work}), text=True, check=True, env=clean_env(),
            capture_output=True,
        )  # fmt: skip
        seen: list[list[str]] = [[] for _ in work]
        for call in up.generating_calls:
            seen[int(call.json["messages"][0]["content"])].append(call.model or "")

    wanted = []
    for graph in work:
        chains, _ = read_chains({"router_settings": {"fallbacks": graph["fallbacks"]}})
        asked = [graph["ask"], *hops(chains, graph["ask"])]
        wanted.append([graph["aliases"].get(name, name) for name in asked])

    assert seen == wanted


def test_router_settings_win_over_litellm_settings() -> None:
    """As in LiteLLM, fallbacks of litellm_settings count only where router_settings have none."""
    both = {
        "router_settings": {"fallbacks": [{"a": ["b"]}]},
        "litellm_settings": {"fallbacks": [{"a": ["c"]}], "default_fallbacks": ["d"]},
    }

    chains, left = read_chains(both)

    assert (hops(chains, "a"), hops(chains, "z"), left) == (("b",), ("d",), ())


def test_what_only_a_wildcard_serves_is_not_called_missing() -> None:
    """LiteLLM calls it today: nobody is told to take the fallback or the alias out."""
    config = {
        "model_list": [
            {"model_name": "openai/*", "litellm_params": {"model": "openai/*"}},
            {"model_name": "a", "litellm_params": {"model": "openai/a", "api_base": "http://127.0.0.1:9/v1"}},
        ],
        "router_settings": {
            "fallbacks": [{"a": ["openai/gpt-4o", "nobody"]}],
            "model_group_alias": {"gpt-4": "openai/gpt-4", "gone": "nobody"},
        },
    }
    assert carry(config).left[1:] == (
        Left(
            "fallbacks: a -> openai/gpt-4o",
            "only the wildcard openai/* serves openai/gpt-4o, and a tier lists models of the registry",
            "write an entry openai/gpt-4o into the config and import again",
        ),
        Left(
            "fallbacks: a -> nobody",
            "the config has no entry 'nobody'",
            "take it out, or add the model to the registry",
        ),
        Left(
            "model_group_alias: gpt-4 -> openai/gpt-4",
            "only the wildcard openai/* serves openai/gpt-4, so LiteLLM resolves the alias,"
            " under the same routing.unlisted_models",
        ),
        Left("model_group_alias: gone -> nobody", "the config has no entry 'nobody'", "remove it"),
    )


def test_an_id_goes_before_an_alias_of_the_same_name() -> None:
    """LiteLLM looks a name up among the ids of deployments first: the name goes on calling that deployment."""
    base = {"api_base": "http://127.0.0.1:9/v1", "api_key": "none"}
    config = {
        "model_list": [
            {"model_name": "a", "litellm_params": {"model": "openai/a", **base}, "model_info": {"id": "a-one"}},
            {"model_name": "b", "litellm_params": {"model": "openai/b", **base}},
        ],
        "router_settings": {"model_group_alias": {"a-one": "b"}},
    }
    proposal = carry(config)
    assert (proposal.aliases, [one.what for one in proposal.left]) == (
        {"a-one": "a"}, ["model_group_alias: a-one -> b"],
    )  # fmt: skip


def test_a_too_long_input_finds_its_chain_as_a_failure_does() -> None:
    """The chain of `gpt-4o` helps `openai/gpt-4o` here as well."""
    chains, _ = read_chains({"litellm_settings": {"context_window_fallbacks": [{"gpt-4o": ["long"]}]}})
    assert [overflow_of(chains, name) for name in ("gpt-4o", "openai/gpt-4o", "fast/gpt-4o")] == [
        ("long",),
        ("long",),
        (),
    ]


def test_a_chain_that_helps_a_name_with_its_provider_is_not_called_unused() -> None:
    """The tier of `openai/gpt-4o` has the fallbacks of `gpt-4o`, and nothing is said to be left out."""
    config = {
        "model_list": [
            {"model_name": name, "litellm_params": {"model": f"openai/{name}-up", "api_base": "http://127.0.0.1:9/v1"}}
            for name in ("openai/gpt-4o", "b")
        ],
        "router_settings": {"fallbacks": [{"gpt-4o": ["b"]}]},
    }
    proposal = carry(config)
    assert (dict(proposal.tiers), proposal.left) == ({"openai/gpt-4o": ("openai-openai-gpt-4o-up", "b")}, ())
