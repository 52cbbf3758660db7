"""Access groups of `model_info`: LiteLLM's own, carried into the config by the generator."""

from __future__ import annotations

from pathlib import Path

import pytest
from litellm.proxy import proxy_server
from litellm.proxy._types import UserAPIKeyAuth
from contract.kit import router_on

from litellm_registry_hook.adapter.host_keys import key_may_call
from litellm_registry_hook.core.deployments import deployments_of
from litellm_registry_hook.core.sync_entry import entry_of
from litellm_registry_hook.edges.registry_file import load_registry

pytestmark = pytest.mark.filterwarnings("ignore")  # pydantic warns of what LiteLLM builds lazily
REGISTRY = Path(__file__).parents[1] / "registries/good/model-info.yaml"


def test_the_generator_writes_what_the_registry_says_of_a_model() -> None:
    """model_info of the registry stands in the entry, behind what the generator writes there itself."""
    registry = load_registry(REGISTRY)
    [model] = registry.models
    [deployment] = deployments_of(model)

    assert entry_of(registry, model, deployment)["model_info"] == {
        "id": "a@0",
        "managed_by": "litellm-registry-hook",
        "mode": "chat",
        "access_groups": ["beta", "staff"],
        "supports_vision": True,
        "max_input_tokens": 32768,
    }


@pytest.mark.parametrize(
    ("listed", "name", "may"),
    [
        (["beta"], "a", True),
        (["staff", "other"], "a", True),
        (["other"], "a", False),
        (["beta"], "t", False),
        (["t"], "t", True),
        (["t"], "a", False),
    ],
)
async def test_a_key_that_lists_an_access_group_may_name_its_models(
    listed: list[str], name: str, may: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LiteLLM resolves the group to the model's id; a tier is a name of its own and is listed as such."""
    registry = load_registry(REGISTRY)
    [model] = registry.models
    entries = [entry_of(registry, model, one) for one in deployments_of(model)]
    monkeypatch.setattr(proxy_server, "llm_router", router_on(*entries, model_group_alias={"t": "t"}))

    assert await key_may_call(name, UserAPIKeyAuth(models=listed)) is may
