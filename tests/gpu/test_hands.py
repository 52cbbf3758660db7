"""Loading and unloading, and keep_alive and options as the registry says."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from gpu.scripted import Scripted, hang_up

from litellm_registry_hook.core.deployments import deployments_of
from litellm_registry_hook.core.gpu.names import slot_of
from litellm_registry_hook.core.gpu.pinning import go_seconds, keep_alive_of, keep_seconds_of, options_of
from litellm_registry_hook.core.gpu.verdict import Want
from litellm_registry_hook.core.registry import Model
from litellm_registry_hook.edges.gpu.hands import OllamaHands

LOADED = {"model": "m", "response": "", "done": True, "done_reason": "load"}


def model(name: str = "ollama_chat/gemma3:4b", role: str = "chat", residency: Any = None, **litellm: Any) -> Model:
    entry = {"id": "m", "role": role, "lifecycle": "always-on", "metered": False, "litellm": {"model": name, **litellm}}
    return Model.model_validate({**entry, "gpu_residency": {"vram_mb": 3300} if residency is None else residency})


@pytest.fixture
def server():
    with Scripted() as found:
        found.answers |= {"/api/generate": LOADED, "/api/embed": {"embeddings": []}}
        yield found


def test_a_chat_model_is_loaded_by_an_empty_generate(server):
    """The load carries keep_alive and runner options and no prompt, so it generates nothing."""
    want = Want(model(), slot_of(model(), server.url))
    assert OllamaHands({}).load(want, 5) is None
    assert [(one.path, one.json) for one in server.asked] == [
        (
            "/api/generate",
            {
                "model": "gemma3:4b",
                "keep_alive": "5m",
                "options": {"num_ctx": 4096, "num_batch": 512},
                "stream": False,
            },
        )
    ]


def test_an_embedding_model_is_loaded_by_an_empty_embed(server):
    """Ollama refuses generate for an embedding model: it is loaded by an empty list of inputs."""
    one = model("ollama/bge-m3", "embedder", {"vram_mb": 1200, "never_evict": True})
    assert OllamaHands({}).load(Want(one, slot_of(one, server.url)), 5) is None
    assert [(one.path, one.json) for one in server.asked] == [
        ("/api/embed", {"model": "bge-m3", "keep_alive": -1, "options": {"num_batch": 512}, "input": []})
    ]


def test_a_model_that_embeds_after_all_is_loaded_too(server):
    """When the server says that the model does not generate, the embedding call loads it."""
    server.answers["/api/generate"] = (400, {"error": '"gemma3:4b" does not support generate'})
    assert OllamaHands({}).load(Want(model(), slot_of(model(), server.url)), 5) is None
    assert server.paths() == ["/api/generate", "/api/embed"]


@pytest.mark.parametrize("keep", [0, "0", "0s", 20, "30s", "59s"])
def test_a_load_stays_long_enough_to_be_used(server, keep):
    """A keep_alive under a minute would unload what was just asked for: the load itself stays a minute."""
    one = model(residency={"vram_mb": 1, "keep_alive": keep})
    OllamaHands({}).load(Want(one, slot_of(one, server.url)), 5)
    assert server.asked[0].json["keep_alive"] == "60s"


@pytest.mark.parametrize("role", ["chat", "embedder"])
def test_unload_is_one_call_for_every_kind(server, role):
    """Unloading is generate with keep_alive 0, for embedding models too, and for names outside the registry."""
    one = model("ollama/x", role)
    slot = slot_of(one, server.url)
    assert OllamaHands({}).unload(Want(one, slot), 5) is None
    assert OllamaHands({}).unload(Want(None, slot), 5) is None
    sent = {"keep_alive": 0, "stream": False}
    assert [(one.path, one.json) for one in server.asked] == [
        ("/api/generate", {"model": "x", **sent}),
        ("/api/generate", {"model": "x:latest", **sent}),
    ]


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (
            (500, {"error": "llama runner: cudaMalloc failed: out of memory"}),
            "ollama answered 500: llama runner: cudaMalloc failed: out of memory",
        ),
        ((404, {"error": "model 'gemma3:4b' not found"}), "ollama answered 404: model 'gemma3:4b' not found"),
        ((503, b"busy\n\nserver"), "ollama answered 503: busy server"),
        ((200, b"<html>"), "ollama answered something else than JSON: <html>"),
        ((200, {"error": "x"}), "ollama answered 200 with an error: x"),
        ((200, []), "ollama answered 200 with an error: []"),
        (hang_up, "ollama did not answer: RemoteProtocolError: Server disconnected without sending a response."),
    ],
)
def test_a_load_that_fails_says_why_and_is_asked_once(server, answer, sentence):
    """Every failure is one sentence, and nothing is asked a second time: it could evict others."""
    server.answers["/api/generate"] = answer
    assert OllamaHands({}).load(Want(model(), slot_of(model(), server.url)), 5) == sentence
    assert server.paths() == ["/api/generate"]


def test_a_long_error_is_cut(server):
    """A sentence has at most 300 characters."""
    server.answers["/api/generate"] = (500, {"error": "x" * 5000})
    sentence = OllamaHands({}).load(Want(model(), slot_of(model(), server.url)), 5)
    assert sentence == "ollama answered 500: " + "x" * 278 + "…"


def test_a_slow_load_is_waited_for_and_a_too_slow_one_is_given_up(server):
    """The load waits as long as it is told to, because hanging up would abort it."""
    release = server.hold("/api/generate")
    want = Want(model(), slot_of(model(), server.url))
    assert OllamaHands({}).load(want, 0.2) == "ollama did not answer: no answer within 0.2 s"
    timer = threading.Timer(0.3, release.set)
    timer.start()
    assert OllamaHands({}).load(want, 20) is None
    timer.join()


def test_a_server_that_is_gone():
    """A refused connection is a sentence."""
    with Scripted() as short:
        pass
    sentence = OllamaHands({}).load(Want(model(), slot_of(model(), short.url)), 5)
    assert sentence == "ollama did not answer: connection refused"


def test_a_model_that_the_registry_does_not_know_is_never_loaded(server):
    """Its size is not known, so nothing is sent."""
    sentence = OllamaHands({}).load(Want(None, slot_of(model(), server.url)), 5)
    assert sentence == "gemma3:4b is not in the registry: its size is not known and it is never loaded"
    assert server.asked == []


def test_the_key_of_the_deployment_goes_along(server):
    """An Ollama behind a key is asked as LiteLLM asks it; `os.environ/` names are resolved."""
    one = model(api_key="os.environ/KEY", extra_headers={"X-Team": "os.environ/TEAM"})
    OllamaHands({"KEY": "sk-test", "TEAM": "a"}).load(Want(one, slot_of(one, server.url)), 5)
    headers = server.asked[0].headers
    assert (headers["authorization"], headers["x-team"]) == ("Bearer sk-test", "a")


@pytest.mark.parametrize(
    ("residency", "keep", "seconds"),
    [
        ({}, "5m", 300.0),
        ({"never_evict": True}, -1, None),
        ({"keep_alive": -1}, -1, None),
        ({"keep_alive": "-1"}, -1, None),
        ({"keep_alive": "-5m"}, -1, None),
        ({"keep_alive": 600}, "600s", 600.0),
        ({"keep_alive": 0}, "0s", 0.0),
        ({"keep_alive": "0"}, "0s", 0.0),
        ({"keep_alive": "1h30m"}, "1h30m", 5400.0),
        ({"keep_alive": "1.5h"}, "1.5h", 5400.0),
        ({"keep_alive": "500ms"}, "500ms", 0.5),
    ],
)
def test_keep_alive(residency, keep, seconds):
    """keep_alive comes from the registry as Ollama takes it, and in seconds; None is for ever."""
    one = model(residency={"vram_mb": 1, **residency})
    assert (keep_alive_of(one), keep_seconds_of(one)) == (keep, seconds)


@pytest.mark.parametrize("text", ["", "5", "m", "5 m", "1d", "1h30", "--5m", "five"])
def test_what_is_no_duration(text):
    """Anything but Go's durations is a ValueError that shows it."""
    with pytest.raises(ValueError, match="is no duration like 5m or 1h30m"):
        go_seconds(text)


@pytest.mark.parametrize(
    ("made", "options"),
    [
        (model(), {"num_ctx": 4096, "num_batch": 512}),
        (model(residency={"vram_mb": 1, "num_ctx": 8192}), {"num_ctx": 8192, "num_batch": 512}),
        (model(role="embedder"), {"num_batch": 512}),
        (model(role="embedder", residency={"vram_mb": 1, "num_ctx": 512}), {"num_ctx": 512, "num_batch": 512}),
        (model(num_ctx=2048, num_batch=256, num_gpu=20), {"num_ctx": 2048, "num_batch": 256, "num_gpu": 20}),
        (
            model(residency={"vram_mb": 1, "num_ctx": 1024, "options": {"num_gpu": 5, "num_batch": 64}}, num_gpu=20),
            {"num_ctx": 1024, "num_batch": 64, "num_gpu": 5},
        ),
        (model(temperature=0.5), {"num_ctx": 4096, "num_batch": 512}),
    ],
)
def test_options(made, options):
    """Runner options are the same ones that the deployment sends, so that no request reloads the model."""
    assert options_of(made) == options


def test_options_are_those_of_the_deployment():
    """What the written entry sends and what a load sends is equal, option by option."""
    from litellm_registry_hook.core.registry import Registry
    from litellm_registry_hook.core.sync_entry import entry_of

    made = model(residency={"vram_mb": 1, "keep_alive": 90, "options": {"num_thread": 4}}, num_gpu=20)
    registry = Registry(version=1, models=(made,), routing={"tiers": {}})
    (deployment,) = deployments_of(made, {})
    params = entry_of(registry, made, deployment)["litellm_params"]
    assert {name: params[name] for name in options_of(made)} == options_of(made)
    assert params["keep_alive"] == keep_alive_of(made) == "90s"
