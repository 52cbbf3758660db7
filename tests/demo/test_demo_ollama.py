"""The Ollama stand-in over HTTP: names, loading, keep_alive, streaming, refusals."""

from __future__ import annotations

import json
import math

import aiohttp
import pytest

from litellm_registry_hook.demo.hosting import serve
from litellm_registry_hook.demo.ollama import OllamaStandIn
from litellm_registry_hook.demo.runners import OllamaModel, Runners
from litellm_registry_hook.demo.speech import Ask, Canned, Piece

CHAT = OllamaModel("gemma3:4b", "chat", 2800, 3300)
EMBED = OllamaModel("bge-m3", "embedding", 1000, 1200, dimensions=64)


class Clock:
    """A clock that moves when told."""

    def __init__(self) -> None:
        self.at = 1_790_000_000.0

    def __call__(self) -> float:
        return self.at


class Blocked:
    """A speaker whose answer needs a go."""

    label = "blocked"

    def __init__(self) -> None:
        import asyncio

        self.go, self.speaking = asyncio.Event(), asyncio.Event()

    async def speak(self, ask: Ask):
        self.speaking.set()
        await self.go.wait()
        yield Piece("done", "stop", 1, 1)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
async def ollama(clock):
    """A client of a running stand-in."""
    server = await serve(OllamaStandIn([CHAT, EMBED], Runners(clock), Canned("a test"), clock).app())
    async with aiohttp.ClientSession(server.url) as client:
        yield client
    await server.stop()


async def post(client, path, **body):
    async with client.post(path, json=body) as answer:
        return answer.status, await answer.json(content_type=None)


async def ps(client):
    async with client.get("/api/ps") as answer:
        return {entry["name"]: entry for entry in (await answer.json())["models"]}


async def test_says_that_it_runs(ollama):
    """GET / and the version answer as Ollama's do; HEAD works too."""
    async with ollama.get("/") as root, ollama.get("/api/version") as version, ollama.head("/api/version") as head:
        assert await root.text() == "Ollama is running"
        assert set(await version.json()) == {"version"}
        assert head.status == 200


async def test_lists_its_models(ollama):
    """/api/tags lists what is on disk under the shortest name with its tag; nothing is loaded by that."""
    async with ollama.get("/api/tags") as answer:
        listed = (await answer.json())["models"]

    assert [(entry["name"], entry["model"], entry["size"]) for entry in listed] == [
        ("gemma3:4b", "gemma3:4b", 2800),
        ("bge-m3:latest", "bge-m3:latest", 1000),
    ]
    assert await ps(ollama) == {}


async def test_show_tells_kind_and_shape(ollama):
    """/api/show tells an embedding model from a chat model, and the shape a size can be predicted from."""
    _, chat = await post(ollama, "/api/show", model="gemma3:4b")
    _, embed = await post(ollama, "/api/show", name="bge-m3")

    assert (chat["capabilities"], embed["capabilities"]) == (["completion"], ["embedding"])
    assert chat["model_info"]["llama.attention.head_count_kv"] == 2
    assert embed["model_info"]["general.architecture"] == "bert"


@pytest.mark.parametrize("path", ["/api/chat", "/api/generate", "/api/embed", "/api/embeddings", "/api/show"])
async def test_unknown_model(ollama, path):
    """A model it does not have is a 404 in Ollama's words."""
    assert await post(ollama, path, model="nope") == (404, {"error": "model 'nope' not found"})


@pytest.mark.parametrize("path", ["/api/chat", "/api/generate", "/api/embed", "/api/embeddings"])
async def test_broken_body(ollama, path):
    """A body that is no JSON object, or names no model, is a 400."""
    async with ollama.post(path, data=b"{") as answer:
        assert answer.status == 400
    assert await post(ollama, path) == (400, {"error": "model is required"})


async def test_empty_prompt_loads(ollama):
    """A generate without a prompt loads, under any spelling of the name."""
    status, answer = await post(ollama, "/api/generate", model="registry.ollama.ai/library/GEMMA3:4b")
    del answer["created_at"]

    assert (status, answer) == (
        200,
        {"model": "registry.ollama.ai/library/GEMMA3:4b", "response": "", "done": True, "done_reason": "load"},
    )
    entry = (await ps(ollama))["gemma3:4b"]
    assert (entry["size"], entry["size_vram"], entry["context_length"]) == (3300, 3300, 4096)


async def test_chat_without_messages_loads_and_unloads(ollama):
    """A chat without messages loads; with keep_alive 0 it unloads at once."""
    _, loaded = await post(ollama, "/api/chat", model="gemma3:4b")
    during = list(await ps(ollama))
    _, unloaded = await post(ollama, "/api/chat", model="gemma3:4b", keep_alive=0)

    assert (loaded["done_reason"], loaded["message"]) == ("load", {"role": "assistant", "content": ""})
    assert (during, unloaded["done_reason"], await ps(ollama)) == (["gemma3:4b"], "unload", {})


async def test_default_duration_is_five_minutes(ollama, clock):
    """Without keep_alive a model stays five minutes after its last request."""
    await post(ollama, "/api/generate", model="gemma3:4b")
    clock.at += 299
    assert list(await ps(ollama)) == ["gemma3:4b"]
    clock.at += 1
    assert await ps(ollama) == {}


async def test_keep_alive_of_the_last_writer_wins(ollama, clock):
    """A request without keep_alive leaves the duration, one with it replaces it: a client can un-pin a model."""
    await post(ollama, "/api/embed", model="bge-m3", input=[], keep_alive=-1)
    await post(ollama, "/api/embed", model="bge-m3", input="text")
    pinned = (await ps(ollama))["bge-m3:latest"]["expires_at"]
    await post(ollama, "/api/embed", model="bge-m3", input="text", keep_alive="5m")
    clock.at += 301

    assert pinned[:4] in ("2318", "2319")
    assert await ps(ollama) == {}


async def test_ps_sorts_the_longest_remaining_first(ollama):
    """/api/ps lists the model that stays longest first."""
    await post(ollama, "/api/generate", model="gemma3:4b", keep_alive="1m")
    await post(ollama, "/api/embed", model="bge-m3", input=[], keep_alive="1h")

    assert list(await ps(ollama)) == ["bge-m3:latest", "gemma3:4b"]


async def test_num_ctx_reloads(ollama):
    """Another num_ctx shows in /api/ps: the model was loaded anew."""
    await post(ollama, "/api/generate", model="gemma3:4b")
    await post(ollama, "/api/generate", model="gemma3:4b", options={"num_ctx": 8192})

    assert (await ps(ollama))["gemma3:4b"]["context_length"] == 8192


async def test_bare_number_in_text_is_refused(ollama):
    """keep_alive "300" is an error, as in Go, and loads nothing."""
    answer = await post(ollama, "/api/generate", model="gemma3:4b", keep_alive="300")

    assert answer == (400, {"error": 'time: missing unit in duration "300"'})
    assert await ps(ollama) == {}


async def test_embedding_model_does_not_generate(ollama):
    """An embedding model refuses generate and chat, also to be loaded by them; it can be unloaded that way."""
    await post(ollama, "/api/embed", model="bge-m3", input=[])

    assert await post(ollama, "/api/generate", model="bge-m3") == (400, {"error": '"bge-m3" does not support generate'})
    assert await post(ollama, "/api/chat", model="bge-m3", messages=[{"role": "user", "content": "hi"}]) == (
        400,
        {"error": '"bge-m3" does not support chat'},
    )
    status, answer = await post(ollama, "/api/generate", model="bge-m3", keep_alive=0)
    assert (status, answer["done_reason"], await ps(ollama)) == (200, "unload", {})


async def test_chat_model_does_not_embed(ollama):
    """A chat model refuses to embed."""
    assert await post(ollama, "/api/embed", model="gemma3:4b", input="x") == (
        501,
        {"error": "this model does not support embeddings"},
    )


async def test_chat_streams_by_default(ollama):
    """A chat answers one JSON a line; the last one says why it ended and counts."""
    body = {"model": "gemma3:4b", "messages": [{"role": "user", "content": "hi"}]}
    async with ollama.post("/api/chat", json=body) as answer:
        kind = answer.content_type
        lines = [json.loads(line) async for line in answer.content]

    said = "".join(line["message"]["content"] for line in lines)
    assert kind == "application/x-ndjson"
    assert said == 'This is a canned answer of the demo to "hi". No language model wrote it: a test.'
    assert [line["done"] for line in lines] == [False] * (len(lines) - 1) + [True]
    assert (lines[-1]["done_reason"], lines[-1]["eval_count"]) == ("stop", 17)


async def test_num_predict_cuts_and_says_so(ollama):
    """An answer cut by num_predict ends with done_reason length."""
    status, answer = await post(
        ollama, "/api/generate", model="gemma3:4b", prompt="hi", stream=False, options={"num_predict": 3}
    )

    assert (status, answer["response"], answer["done_reason"]) == (200, "This is a", "length")


async def test_vectors(ollama):
    """Vectors have the declared length and length 1; equal texts are equal, shared words bring texts nearer."""
    texts = ["a blue cat", "a blue cat", "the cats are blue", "stock market report"]
    _, answer = await post(ollama, "/api/embed", model="bge-m3", input=texts)
    one, same, near, far = answer["embeddings"]
    _, single = await post(ollama, "/api/embeddings", model="bge-m3", prompt="a blue cat")
    _, short = await post(ollama, "/api/embed", model="bge-m3", input="a blue cat", dimensions=16)

    def dot(a, b):
        return sum(x * y for x, y in zip(a, b, strict=True))

    assert len(one) == 64
    assert math.isclose(dot(one, one), 1.0)
    assert one == same == single["embedding"]
    assert dot(one, near) > dot(one, far) + 0.2
    assert len(short["embeddings"][0]) == 16


async def test_empty_input_loads_an_embedding_model(ollama):
    """/api/embed with no input loads and answers no vectors."""
    status, answer = await post(ollama, "/api/embed", model="bge-m3", input=[])

    assert (status, answer["embeddings"], list(await ps(ollama))) == (200, [], ["bge-m3:latest"])


async def test_busy_model_unloads_after_its_request(clock):
    """keep_alive 0 in the middle of a request unloads the model when the request has ended."""
    import asyncio

    speaker = Blocked()
    server = await serve(OllamaStandIn([CHAT], Runners(clock), speaker, clock).app())
    async with aiohttp.ClientSession(server.url) as client:
        body = {"model": "gemma3:4b", "prompt": "hi", "stream": False}
        asked = asyncio.ensure_future(post(client, "/api/generate", **body))
        await speaker.speaking.wait()
        _, unloaded = await post(client, "/api/generate", model="gemma3:4b", keep_alive=0)
        during = list(await ps(client))
        speaker.go.set()
        status, answer = await asked
        after = await ps(client)
    await server.stop()

    assert (unloaded["done_reason"], during) == ("unload", ["gemma3:4b"])
    assert (status, answer["response"], after) == (200, "done", {})
