"""The 8 GB card of the shipped registry, and a second chat model beside it."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import pytest
import yaml
from ollama_sim.homelab import TEI_MB, small_home
from residency.world import TEI, World, reason

from litellm_registry_hook.residency.ticket import Granted
from tests.host.proxy import ROOT

QWEN = {
    "id": "second-chat", "role": "chat", "lifecycle": "on-demand", "metered": False,
    "litellm": {"model": "ollama_chat/qwen:4b"}, "endpoints": [{"api_base": "http://127.0.0.1:11434"}],
    "gpu_residency": {"vram_mb": 3400, "num_ctx": 4096},
}  # fmt: skip


def shipped(**policy: Any) -> dict[str, Any]:
    registry = yaml.safe_load((ROOT / "model-registry.yaml").read_text())
    registry["models"].append(copy.deepcopy(QWEN))
    registry["gpu_residency_policy"].update(policy)
    return registry


def never_left(world: World) -> bool:
    return world.sim.left("bge-m3") == [] and world.sim.ooms == 0


@pytest.mark.parametrize("order", list(itertools.permutations(["local-small", "bge-m3", "tei-reranker"])), ids="-".join)
def test_after_a_reboot_the_three_come_up_in_any_order(order: tuple[str, ...]) -> None:
    """Whichever of the three comes first, all are served, and none is pushed out for another."""
    world = World(shipped(), small_home(), keep=False)
    world.sim.cards[0].hold("tei", 0)
    world.eyes.health[TEI] = "gone"
    for model_id in order:
        if model_id == "tei-reranker":
            world.sim.foreign(0, TEI_MB, "tei")
            world.eyes.health[TEI] = "up"
            world.run(6)
            continue
        request = world.serve(model_id)
        assert isinstance(request.answer, Granted), reason(request)
    assert world.sim.names() == ["bge-m3:latest", "gemma3:4b"]
    assert (never_left(world), world.sim.evictions) == (True, [])


def test_a_chat_model_that_has_expired_is_loaded_again() -> None:
    """gemma3:4b expires after its five minutes and comes back without touching bge-m3."""
    world = World(shipped(), small_home())
    world.run(10)
    assert isinstance(world.serve("local-small").answer, Granted)
    world.run(400)
    assert world.sim.names() == ["bge-m3:latest"]
    assert isinstance(world.serve("local-small").answer, Granted)
    assert (never_left(world), world.sim.evictions) == (True, [])


def test_two_chat_models_take_turns_by_our_swaps() -> None:
    """Alternating chat models are all served; each swap is ours, the server evicts nothing."""
    world = World(shipped(), small_home())
    world.run(10)
    for turn in range(10):
        request = world.serve(["local-small", "second-chat"][turn % 2])
        assert isinstance(request.answer, Granted), (turn, reason(request))
    assert (never_left(world), world.sim.evictions) == (True, [])
    assert world.workers[0].board.counts["swaps"] == 9
