"""Deployment ids and their numbers."""

from __future__ import annotations

import pytest

from litellm_registry_hook.core.deployments import Deployment, deployment_id, deployments_of, split_deployment_id
from litellm_registry_hook.core.registry import Model


def model(*bases: str, litellm: dict[str, str] | None = None) -> Model:
    return Model(
        id="m",
        role="chat",
        lifecycle="always-on",
        metered=False,
        litellm=litellm or {"model": "openai/m"},
        endpoints=[{"api_base": base} for base in bases],
    )


def test_numbers_count_in_file_order() -> None:
    """Without anything known the numbers are 0, 1, 2 in file order."""
    assert deployments_of(model("http://a", "http://b")) == (
        Deployment("m@0", "m", 0, "http://a"),
        Deployment("m@1", "m", 1, "http://b"),
    )


def test_a_known_address_keeps_its_number() -> None:
    """An address keeps its number wherever it stands, and a new one takes the smallest that nobody has."""
    found = deployments_of(model("http://new", "http://b", "http://newer"), {"http://a": 0, "http://b": 2})

    assert [(d.api_base, d.n) for d in found] == [("http://new", 1), ("http://b", 2), ("http://newer", 3)]


def test_a_number_in_use_is_not_given_again() -> None:
    """A new address does not take the number of a known one, even of one that the model no longer has."""
    assert [d.id for d in deployments_of(model("http://b"), {"http://a": 0})] == ["m@1"]


def test_a_providers_own_address() -> None:
    """A model without an address has one deployment with no api_base, known by the empty string."""
    assert deployments_of(model()) == (Deployment("m@0", "m", 0, None),)
    assert deployments_of(model(), {"": 4}) == (Deployment("m@4", "m", 4, None),)


def test_the_address_in_litellm_counts() -> None:
    """litellm.api_base is the only endpoint where none are listed."""
    found = deployments_of(model(litellm={"model": "openai/m", "api_base": "http://z"}))

    assert found == (Deployment("m@0", "m", 0, "http://z"),)


def test_one_address_twice_is_one_deployment() -> None:
    """The same address listed twice is one deployment."""
    assert [d.id for d in deployments_of(model("http://a", "http://a"))] == ["m@0"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kimi@0", ("kimi", 0)),
        ("a@b@12", ("a@b", 12)),
        ("kimi@00", None),
        ("kimi@-1", None),
        ("kimi@", None),
        ("@0", None),
        ("kimi", None),
        ("", None),
        ("kimi@1234567", None),
        ("ki mi@1", None),
        ("kimi@\u0661", None),
    ],
)
def test_split(text: str, expected: tuple[str, int] | None) -> None:
    """Only what deployment_id writes is split; the last @ counts."""
    assert split_deployment_id(text) == expected


def test_split_takes_back_what_deployment_id_wrote() -> None:
    """split_deployment_id is the inverse of deployment_id."""
    assert split_deployment_id(deployment_id("org/model:4b@eu", 7)) == ("org/model:4b@eu", 7)
