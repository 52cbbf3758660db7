"""The project's own readers and the real pynvml on the stand-in: what they read is what the scheduler knows."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from litellm_registry_hook.core.gpu.facts import Loaded, ModelFile, Shape
from litellm_registry_hook.core.gpu.names import full_name, slot_of
from litellm_registry_hook.core.gpu.pinning import options_of
from litellm_registry_hook.core.gpu.predict import predict
from litellm_registry_hook.core.gpu.verdict import Want
from litellm_registry_hook.core.registry import Registry
from litellm_registry_hook.edges.gpu.hands import OllamaHands
from litellm_registry_hook.edges.gpu.ollama import OllamaReader
from nvml import stub
from ollama_sim import wire
from ollama_sim.homelab import BGE, GEMMA, QWEN, small_house

SHIPPED = Path(__file__).parents[2] / "model-registry.yaml"
READ_USED = """
import pynvml
pynvml.nvmlInit()
memory = pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(0))
print(memory.total >> 20, memory.free >> 20)
"""


@pytest.fixture
def house(tmp_path):
    """The small house."""
    with small_house(tmp_path) as made:
        yield made


@pytest.fixture
def reader(house):
    """The project's reader of its Ollama."""
    made = OllamaReader(house.ollama.url)
    yield made
    made.close()


def shipped(model_id):
    """A model of the shipped registry, or of one that has qwen:4b as its chat model."""
    document = yaml.safe_load(SHIPPED.read_text())
    if model_id == "qwen":
        document["models"][1]["litellm"]["model"] = "ollama_chat/qwen:4b"
        model_id = "local-small"
    return next(model for model in Registry.model_validate(document).models if model.id == model_id)


def file_of(model):
    """A model of the stand-in as the reader has to see it."""
    shape = Shape(model.layers, model.heads, model.kv_heads, model.width, model.embedding, model.train_ctx)
    return ModelFile(full_name(model.name), wire.digest(model), model.file_mb, model.blob_digest, shape)


def test_the_reader_sees_names_sizes_shapes_and_blobs(house, reader):
    """And what is loaded; a pinned model without an end."""
    for name, keep_alive in (("gemma3:4b", "5m"), ("bge-m3", -1)):
        ticket = house.ollama.do(lambda sim, name=name, keep_alive=keep_alive: sim.begin(name, keep_alive))
        house.ollama.wait(lambda sim, ticket=ticket: ticket.state == "running")
        house.ollama.do(lambda sim, ticket=ticket: sim.finish(ticket))
    house.ollama.wait(lambda sim: sim.ps_blocked_until < sim.clock())
    names = [full_name(model.name) for model in (GEMMA, BGE, QWEN)]
    server = reader.read(time.time(), names)
    assert (server.state, server.version) == ("up", (0, 33, 0))
    assert {name: server.files[name] for name in names} == {
        full_name(model.name): file_of(model) for model in (GEMMA, BGE, QWEN)
    }
    ends = house.ollama.look(lambda sim: {full_name(entry.name): entry.expires_at for entry in sim.ps()})
    assert [(one.name, one.vram_mb, one.size_mb, one.context) for one in server.loaded] == [
        (names[1], 1200, 1200, 4096),
        (names[0], 3300, 3300, 4096),
    ]
    assert isinstance(server.loaded[0], Loaded)
    assert server.loaded[0].expires_at is None
    assert server.loaded[1].expires_at == pytest.approx(ends[names[0]], abs=0.001)


@pytest.mark.parametrize(
    ("model_id", "name"), [("local-small", "gemma3:4b"), ("bge-m3", "bge-m3"), ("qwen", "qwen:4b")]
)
def test_the_decision_predicts_what_the_server_predicts(house, reader, model_id, name):
    """With the options that the registry sends."""
    model = shipped(model_id)
    server = reader.read(time.time(), [full_name(name)])
    found = predict(model, server.files[full_name(name)], server.version, 8192)
    assert found == house.ollama.look(lambda sim: sim.predict_mb(name, options_of(model)))


@pytest.mark.parametrize(("model_id", "name"), [("local-small", "gemma3:4b"), ("bge-m3", "bge-m3:latest")])
def test_the_hands_load_and_unload(house, model_id, name):
    """A chat model by an empty prompt, an embedding model by an empty input."""
    model = shipped(model_id)
    want = Want(model, slot_of(model, house.ollama.url))
    hands = OllamaHands({})
    assert hands.load(want, 10) is None
    assert house.ollama.look(lambda sim: sim.names()) == [name]
    assert hands.unload(want, 10) is None
    house.ollama.wait(lambda sim: sim.said("memory_back"))
    assert house.ollama.look(lambda sim: [event.why for event in sim.left(name)]) == ["asked"]


def test_the_real_pynvml_sees_the_card(house, tmp_path):
    """Through the stub library and the file that follows the card."""
    library = stub.build(tmp_path)
    env = {**os.environ, **stub.environment(library, house.nvml.path)}

    def read():
        return subprocess.run([sys.executable, "-c", READ_USED], env=env, check=True, capture_output=True, text=True)

    assert read().stdout.split() == ["8192", "6392"]
    ticket = house.ollama.do(lambda sim: sim.begin("bge-m3"))
    house.ollama.wait(lambda sim: ticket.state == "running")
    assert read().stdout.split() == ["8192", "5192"]
