"""Eyes and hands together on the stand-in with a real scheduler: what is loaded is seen, by its own weights and sizes."""

from __future__ import annotations

import time

import pytest
from ollama_sim.homelab import small_home
from ollama_sim.server import OllamaServer

from litellm_registry_hook.core.gpu.facts import Shape
from litellm_registry_hook.core.gpu.names import slot_of
from litellm_registry_hook.core.gpu.verdict import Want
from litellm_registry_hook.core.registry import Registry
from litellm_registry_hook.edges.gpu.eyes import MachineEyes
from litellm_registry_hook.edges.gpu.hands import OllamaHands

GEMMA = "registry.ollama.ai/library/gemma3:4b"
BGE = "registry.ollama.ai/library/bge-m3:latest"


def test_load_see_and_unload():
    """Both kinds of model are loaded without a prompt, seen with expiry and shape, and unloaded again."""
    with OllamaServer(small_home(clock=time.time)) as ollama:
        base = {"lifecycle": "always-on", "metered": False, "endpoints": [{"api_base": ollama.url}]}
        gemma = {**base, "id": "gemma", "role": "chat", "litellm": {"model": "ollama_chat/gemma3:4b"}}
        bge = {**base, "id": "bge", "role": "embedder", "dimensions": 1024, "litellm": {"model": "ollama/bge-m3"}}
        gemma["gpu_residency"] = {"vram_mb": 3300}
        bge["gpu_residency"] = {"vram_mb": 1200, "never_evict": True}
        registry = Registry.model_validate({"version": 1, "models": [gemma, bge], "routing": {"tiers": {}}})
        eyes = MachineEyes(lambda: registry, {}, time.time)
        hands = OllamaHands({})
        wants = {one.id: Want(one, slot_of(one, ollama.url)) for one in registry.models}
        assert eyes.look().servers[ollama.url].loaded == ()
        assert [hands.load(wants[name], 20) for name in ("bge", "gemma")] == [None, None]
        server = eyes.look().servers[ollama.url]
        loaded = {one.name: one for one in server.loaded}
        assert set(loaded) == {GEMMA, BGE}
        assert loaded[BGE].expires_at is None
        assert loaded[GEMMA].expires_at == pytest.approx(time.time() + 300, abs=60)
        assert loaded[GEMMA].context == 4096
        assert server.files[GEMMA].shape == Shape(34, 8, 4, 2560, embedding=False, train_context=131072)
        assert server.files[BGE].shape is not None
        assert server.files[BGE].shape.embedding
        assert len({server.files[name].blob for name in (GEMMA, BGE)} - {""}) == 2
        assert hands.unload(wants["bge"], 5) is None
        ollama.wait(lambda sim: "bge-m3:latest" not in sim.names())
        assert [one.name for one in eyes.look().servers[ollama.url].loaded] == [GEMMA]
        ollama.down()
        gone = eyes.look().servers[ollama.url]
        assert (gone.state, gone.loaded) == ("gone", ())
        eyes.close()
