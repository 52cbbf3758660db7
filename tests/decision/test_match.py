"""Which running deployments are the registry's own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from litellm_registry_hook.core.match import Seen, match, match_all, place_of, resolve_env, same_base
from litellm_registry_hook.core.plan import Running
from tests.strategies import model_entry, registry_of

REGISTRY = registry_of(
    model_entry("kimi", bases=("http://kimi/v1",)),
    model_entry("far", bases=("os.environ/FAR_BASE",)),
    model_entry("cloud"),
)
OWN = Seen("kimi@0", "litellm-registry-hook", "openai/kimi-up", "http://kimi/v1", "kimi")
ENV = {"FAR_BASE": "http://far/v1"}


def test_our_own_deployment_is_the_registrys_model():
    """Mark, id, group, model and address agree."""
    assert match(REGISTRY, OWN, ENV) == Running("kimi@0", REGISTRY.by_id["kimi"], "http://kimi/v1")


@pytest.mark.parametrize(
    "change",
    [
        {"managed_by": ""},
        {"managed_by": "somebody"},
        {"id": "kimi"},
        {"id": "other@0"},
        {"id": ""},
        {"group": "other"},
        {"model": "openai/gpt-4o"},
        {"model": "kimi-up"},
        {"api_base": "http://evil/v1"},
        {"api_base": ""},
        {"api_base": "http://kimi/v1/x"},
    ],
    ids=str,
)
def test_anything_else_is_foreign(change):
    """A deployment that differs in one of them only bears our name."""
    assert match(REGISTRY, replace(OWN, **change), ENV) is None


def test_a_trailing_slash_is_no_difference():
    """The registry's spelling of the address is kept."""
    assert match(REGISTRY, replace(OWN, api_base="http://kimi/v1/"), ENV) == match(REGISTRY, OWN, ENV)


def test_an_address_from_the_environment_is_resolved():
    """os.environ/NAME in the registry is the value that LiteLLM has."""
    seen = Seen("far@0", "litellm-registry-hook", "openai/far-up", "http://far/v1", "far")

    assert match(REGISTRY, seen, ENV) == Running("far@0", REGISTRY.by_id["far"], "os.environ/FAR_BASE")


def test_an_unset_environment_name_matches_no_address():
    """Without the variable the deployment is not the registry's."""
    seen = Seen("far@0", "litellm-registry-hook", "openai/far-up", "http://far/v1", "far")

    assert match(REGISTRY, seen, {}) is None


def test_a_provider_model_has_no_address():
    """An entry without an address matches a deployment without one, and no other."""
    cloud = Seen("cloud@0", "litellm-registry-hook", "openai/cloud-up", "", "cloud")

    assert (match(REGISTRY, cloud, ENV), match(REGISTRY, replace(cloud, api_base="http://x"), ENV)) == (
        Running("cloud@0", REGISTRY.by_id["cloud"], ""),
        None,
    )


def test_foreign_deployments_are_left_out():
    """Of a whole model list the registry's own remain, in order."""
    foreign = replace(OWN, managed_by="")

    assert match_all(REGISTRY, [foreign, OWN, foreign], ENV) == [match(REGISTRY, OWN, ENV)]


@pytest.mark.parametrize(
    ("one", "other", "same"), [("http://a", "http://a/", True), ("http://a", "http://b", False), ("", "/", True)]
)
def test_two_addresses(one, other, same):
    """Compared without their trailing slash."""
    assert same_base(one, other) is same


@pytest.mark.parametrize(("text", "value"), [("http://a", "http://a"), ("os.environ/X", "1"), ("os.environ/Y", "")])
def test_an_environment_name(text, value):
    """os.environ/NAME is its value, empty where it is not set; anything else is itself."""
    assert resolve_env(text, {"X": "1"}) == value


def test_the_place_is_spelt_as_in_the_registry():
    """An address that the entry lacks has no place."""
    assert (place_of(REGISTRY.by_id["kimi"], "http://kimi/v1/", ENV), place_of(REGISTRY.by_id["kimi"], "x", ENV)) == (
        "http://kimi/v1",
        None,
    )
