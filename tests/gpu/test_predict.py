"""What Ollama predicts for a load before it starts it."""

import pytest

from litellm_registry_hook.core.gpu.facts import ModelFile, Shape
from litellm_registry_hook.core.gpu.predict import context_of, default_context, on_cpu, predict
from tests.gpu.world import BGE, GEMMA, entry, registry

NEW = (0, 33, 0)
GEMMA_FILE = ModelFile("gemma", "", 3184.0, "", GEMMA)
BGE_FILE = ModelFile("bge", "", 1100.0, "", BGE)


def model(vram_mb=3300, **more):
    """One model of a registry."""
    return registry(entry("m", vram_mb, **more)).models[0]


@pytest.mark.parametrize(
    ("residency", "file", "version", "expected"),
    [
        # 34 layers, 4 KV heads of 320: 170 kB a token.
        ({"num_ctx": 8192}, GEMMA_FILE, NEW, 3184 + 1360),
        ({"num_ctx": 4096}, GEMMA_FILE, NEW, 3184 + 680),
        ({}, GEMMA_FILE, NEW, 3184 + 680),
        ({"options": {"num_ctx": 8192}}, GEMMA_FILE, NEW, 3184 + 1360),
        ({"num_ctx": 8192, "predict_mb": 3900}, GEMMA_FILE, NEW, 3900),
        ({"options": {"num_batch": 1023}}, GEMMA_FILE, NEW, 3184 + 680),
        ({"options": {"num_batch": 1024}}, GEMMA_FILE, NEW, 3184 + 680 + 768),
        ({"options": {"num_batch": 2048}}, GEMMA_FILE, NEW, 3184 + 680 + 2048),
        ({"options": {"num_gpu": 0}}, GEMMA_FILE, NEW, 0),
        # an explicit num_ctx is cut to the train context of 131,072
        ({"num_ctx": 200_000}, GEMMA_FILE, NEW, 3184 + 680 * 32),
        # 24 layers, 16 KV heads of 64; no num_ctx is sent: the default of a card of 8 GB
        ({"role": "embedder"}, BGE_FILE, NEW, 1100 + 384),
        ({"role": "embedder", "options": {"num_batch": 2048}}, BGE_FILE, NEW, 1100 + 384),
        # any other version: the surcharge always, and never less than the model really takes
        ({"role": "embedder", "options": {"num_batch": 2048}}, BGE_FILE, (0, 29, 9), 1100 + 384 + 2048),
        ({"vram_mb": 1200, "role": "embedder", "options": {"num_batch": 1024}}, BGE_FILE, (), 1100 + 384 + 768),
        ({"num_ctx": 4096}, GEMMA_FILE, (), 3184 + 680),
        ({"vram_mb": 5000}, GEMMA_FILE, (0, 12, 6), 5000),
        ({"vram_mb": 5000}, GEMMA_FILE, (0, 30), 3184 + 680),
        # no shape, no file
        ({}, ModelFile("m", "", 3184.0), NEW, 3300 * 1.2 + 1024),
        ({"vram_mb": 1000}, ModelFile("m", "", 3184.0), NEW, 3184 * 1.2 + 1024),
        ({}, None, NEW, 3300 * 1.2 + 1024),
        ({}, ModelFile("m", "", 3184.0, "", Shape(34, 0, 4, 2560)), NEW, 3300 * 1.2 + 1024),
        ({}, ModelFile("m", "", 0.0, "", GEMMA), NEW, 3300 * 1.2 + 1024),
    ],
)
def test_prediction(residency, file, version, expected):
    """File size, KV for the context that is sent, a surcharge by batch; each doubt only ever adds."""
    assert predict(model(**residency), file, version, 8192) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("machine_mb", "expected"), [(0, 4096), (23 * 1024 - 1, 4096), (23 * 1024, 32_768), (47 * 1024, 262_144)]
)
def test_default_context(machine_mb, expected):
    """Without num_ctx Ollama takes more context on a larger machine."""
    assert default_context(machine_mb) == expected


def test_default_context_is_cut_to_the_train_context():
    """An embedding model on a machine of 24 GB is predicted with its own 8192 tokens, not with 32,768."""
    assert predict(model(1200, role="embedder"), BGE_FILE, NEW, 24 * 1024) == pytest.approx(1100 + 768)


@pytest.mark.parametrize(
    ("more", "shape", "expected"),
    [
        ({}, None, 4096),
        ({"num_ctx": 8192}, None, 8192),
        ({"num_ctx": 8192, "options": {"num_ctx": 2048}}, None, 2048),
        ({"num_ctx": 200_000}, GEMMA, 131_072),
        ({"role": "embedder"}, BGE, None),
        ({"role": "embedder", "num_ctx": 9000}, BGE, 8192),
        ({"vram_mb": None}, None, None),
        ({"options": {"num_ctx": 0}}, None, None),
    ],
)
def test_context_that_is_sent(more, shape, expected):
    """The registry's num_ctx, 4096 for chat, nothing for embedding models and models without gpu_residency."""
    assert context_of(model(**more), shape) == expected


def test_context_of_what_is_not_on_ollama():
    """A model that the registry does not know, or that is spoken to with another provider, is sent no num_ctx."""
    other = entry("m", 3300)
    other["litellm"] = {"model": "openai/gemma3:4b"}

    assert (context_of(None), context_of(registry(other).models[0])) == (None, None)


def test_models_kept_off_the_gpu():
    """num_gpu 0 asks for no GPU; any other number of layers does."""
    assert (on_cpu(model(options={"num_gpu": 0})), on_cpu(model(options={"num_gpu": 9}))) == (True, False)
