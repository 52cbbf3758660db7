"""No secret of a config comes into the registry, in whatever form it stands there."""

from __future__ import annotations

from typing import Any

import pytest

from litellm_registry_hook.core.start.carry import Choices, carry
from litellm_registry_hook.core.start.proposal import Proposal
from litellm_registry_hook.edges.start.render import render

BASE = "http://127.0.0.1:9/v1"
HIDDEN = "hunter2hunter2"


def imported(params: dict[str, Any], choices: Choices | None = None, **sections: Any) -> Proposal:
    entry = {"model_name": "m", "litellm_params": {"model": "openai/m", "api_base": BASE, **params}}
    return carry({"model_list": [entry], **sections}, choices)


@pytest.mark.parametrize(
    "params",
    [
        {"api_key": 1234567890},
        {"api_key": HIDDEN},
        {"api_key": [HIDDEN]},
        {"api_key": "${OPENAI_API_KEY}"},
        {"api_key": "none", "extra_body": {"user": "me", "password": 12345678}},
        {"api_key": "none", "extra_headers": {"X-Auth": HIDDEN}},
        {"api_key": "none", "extra_headers": {"X-Session-Id": HIDDEN}},
        {"api_key": "none", "extra_headers": {"X-Auth": "12345678"}},
        {"api_key": "none", "headers": f"X-Room: {HIDDEN}"},
        {"api_key": "none", "api_base": f"http://me:{HIDDEN}@127.0.0.1:9/v1"},
    ],
)
def test_an_entry_with_a_secret_stays_foreign(params: dict[str, Any]) -> None:
    """Numbers, lists, headers that say who is calling, addresses with a password: nothing of it is carried over."""
    proposal = imported(params)

    assert (proposal.models, [one.what for one in proposal.left]) == ((), ["model_list[0] (m)"])
    assert HIDDEN not in render(proposal)


@pytest.mark.parametrize(
    "params",
    [
        {"extra_headers": {"X-Author": "me", "X-Title": "home"}},
        {"max_tokens_to_sample": 100, "input_cost_per_token": 1e-6, "token_limit": 5},
        {"extra_headers": {"X-Auth": "os.environ/WHO"}},
    ],
)
def test_what_only_sounds_like_a_secret_comes_over(params: dict[str, Any]) -> None:
    """Counts, prices, names of people, and names of environment variables are no secrets."""
    [model] = imported({"api_key": "none", **params}).models

    assert model.entry["litellm"] == {"model": "openai/m", "api_base": BASE, "api_key": "none", **params}


def test_an_address_of_credential_list_with_a_password_is_not_written() -> None:
    """The address of a credential comes into the entry, so it is looked at as the entry's own."""
    value = {"api_key": "os.environ/K", "api_base": f"http://me:{HIDDEN}@127.0.0.1:9/v1"}
    entry = {"model_name": "m", "litellm_params": {"model": "openai/m", "litellm_credential_name": "lab"}}
    proposal = carry(
        {"model_list": [entry], "credential_list": [{"credential_name": "lab", "credential_values": value}]}
    )

    [left] = proposal.left
    assert (proposal.models, left.what) == ((), "model_list[0] (m)")
    assert left.why.startswith("the address of credential_list (lab) holds a secret, ")
    assert HIDDEN not in render(proposal)


def test_a_fallback_with_a_key_is_told_without_it() -> None:
    """What is said of an item that LiteLLM refuses does not repeat the key in it."""
    items = [{"m": {"model": "n", "api_key": HIDDEN}}]
    proposal = imported({"api_key": "none"}, router_settings={"fallbacks": items})

    assert [one.what for one in proposal.left] == ["router_settings.fallbacks: {'m': {'model': 'n', 'api_key': '***'}}"]


def test_all_secrets_of_one_parameter_are_replaced() -> None:
    """With --secrets-to-env each item of a list is a name of its own, a number too."""
    [model] = imported({"api_key": [HIDDEN, 1234567890]}, Choices(secrets_to_env=True)).models

    assert model.entry["litellm"]["api_key"] == ["os.environ/M_API_KEY", "os.environ/M_API_KEY_2"]
