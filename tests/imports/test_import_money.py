"""What an import takes for free, and what may cost money until a person says otherwise."""

from __future__ import annotations

import pytest

from litellm_registry_hook.core.start.carry import Choices, carry
from litellm_registry_hook.core.start.carry_model import inferred_provider
from litellm_registry_hook.core.start.carry_money import metered_because

CLOUD = (True, "a cloud model of Ollama: it runs elsewhere and costs money")


@pytest.mark.parametrize(
    ("provider", "model", "base", "said"),
    [
        ("ollama_chat", "ollama_chat/gpt-oss:120b-cloud", "http://127.0.0.1:11434", CLOUD),
        ("openai", "openai/glm-4.6:cloud", "http://127.0.0.1:11434/v1", CLOUD),
        ("ollama_chat", "ollama_chat/cloud-7b:q4", "http://127.0.0.1:11434", (False, "a server of this house")),
        (
            "openai",
            "openai/x",
            "http://134744072/v1",
            (True, "134744072 is a public address of which nothing is known"),
        ),
        ("openai", "openai/x", "http://api.openai.com./v1", (True, "api.openai.com. bills each call")),
        (
            "openai",
            "openai/x",
            "http://192.0.2.1/v1",
            (True, "192.0.2.1 is a public address of which nothing is known"),
        ),
        ("openai", "openai/x", "http://ollama.default.svc:1/v1", (False, "a server of this house")),
        ("openai", "openai/x", "http://localhost.:1/v1", (False, "a server of this house")),
    ],
)
def test_what_costs_money(provider: str, model: str, base: str, said: tuple[bool, str]) -> None:
    """A cloud model is metered wherever it is asked, and an address only where nobody outside answers it."""
    assert metered_because(provider, model, (base,)) == said


def test_a_person_can_say_that_a_cloud_model_is_free() -> None:
    """--free NAME is the person's word."""
    entry = {"model_name": "big", "litellm_params": {"model": "ollama_chat/gpt-oss:120b-cloud"}}

    [model] = carry({"model_list": [entry]}, Choices(free=frozenset({"big"}))).models

    assert (model.entry["metered"], model.marks["metered"]) == (False, "as --free said")


@pytest.mark.parametrize(
    ("model", "listed", "provider"),
    [
        ("text-embedding-004", "vertex_ai-embedding-models", None),
        ("gpt-3.5-turbo-instruct", "text-completion-openai", "text-completion-openai"),
        ("claude-sonnet-4-5-20250929-v1:0", "bedrock", "bedrock"),
        ("gpt-4o", "openai", "openai"),
        ("gpt-9", None, "openai"),
        ("text-embedding-005", None, None),
    ],
)
def test_the_price_list_goes_before_the_look_of_a_name(model: str, listed: str | None, provider: str | None) -> None:
    """A bare name gets the provider that LiteLLM takes it for, and none where that is not certain."""
    catalogue = {model: {"litellm_provider": listed}} if listed else {}

    assert inferred_provider(model, Choices(catalogue=catalogue)) == provider
