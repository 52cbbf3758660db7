"""The reranker, the OpenAI-compatible stand-in, and the quota probe."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import datetime, timezone

import aiohttp
import openai
import pytest

from litellm_registry_hook.demo.hosting import serve
from litellm_registry_hook.demo.openai_api import OpenAIStandIn
from litellm_registry_hook.demo.quota import reading
from litellm_registry_hook.demo.speech import Canned, Prefixed
from litellm_registry_hook.demo.tei import RerankStandIn


@pytest.fixture
async def tei():
    server = await serve(RerankStandIn("BAAI/bge-reranker-v2-m3").app())
    async with aiohttp.ClientSession(server.url) as client:
        yield client
    await server.stop()


async def post(client, path, body):
    async with client.post(path, json=body) as answer:
        return answer.status, await answer.json()


async def test_rerank_in_tei_form(tei):
    """`texts` are answered as a bare list, best first, every index once."""
    answer = await post(tei, "/rerank", {"query": "blue cat", "texts": ["a dog", "the blue cat sat", "one cat"]})

    assert answer == (
        200,
        [{"index": 1, "score": 0.9}, {"index": 2, "score": 0.466667}, {"index": 0, "score": 0.0}],
    )


async def test_rerank_returns_texts_when_asked(tei):
    """return_text adds each text."""
    _, answer = await post(tei, "/rerank", {"query": "cat", "texts": ["cat", "dog"], "return_text": True})

    assert [item["text"] for item in answer] == ["cat", "dog"]


async def test_rerank_in_jina_form(tei):
    """`documents` are answered with results, cut at top_n."""
    body = {
        "model": "m",
        "query": "cat",
        "documents": ["a dog", {"text": "a cat"}],
        "top_n": 1,
        "return_documents": True,
    }

    _, answer = await post(tei, "/v1/rerank", body)

    assert answer["results"] == [{"index": 1, "relevance_score": 0.9, "document": {"text": "a cat"}}]


async def test_rerank_refuses_nothing_to_rank(tei):
    """Empty texts and a missing query are errors in TEI's form."""
    assert await post(tei, "/rerank", {"query": "q", "texts": []}) == (
        400,
        {"error": "`texts` cannot be empty", "error_type": "Empty"},
    )
    assert (await post(tei, "/rerank", {"texts": ["a"]}))[0] == 422


async def test_tei_health_and_info(tei):
    """/health is an empty 200, /info names the model."""
    async with tei.get("/health") as health, tei.get("/info") as info:
        assert (health.status, await health.text()) == (200, "")
        assert (await info.json())["model_id"] == "BAAI/bge-reranker-v2-m3"


@pytest.fixture
async def paid():
    """The paid stand-in: (client of the OpenAI SDK, its base URL)."""
    speaker = Prefixed("[the paid stand-in answers] ", Canned("a test"))
    server = await serve(OpenAIStandIn("gpt-5.2", speaker, dimensions=8).app())
    async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="x", max_retries=0) as client:
        yield client, server.url
    await server.stop()


async def calls(url):
    async with aiohttp.ClientSession() as session, session.get(f"{url}/calls") as answer:
        return await answer.json()


async def test_chat_says_that_it_is_the_paid_stand_in_and_counts(paid):
    """A chat answer begins with who answers; the call is counted, listing models is not."""
    client, url = paid
    listed = [model.id async for model in await client.models.list()]
    before = await calls(url)

    answer = await client.chat.completions.create(model="gpt-5.2", messages=[{"role": "user", "content": "hi"}])

    assert listed == ["gpt-5.2"]
    assert answer.choices[0].message.content.startswith("[the paid stand-in answers] This is a canned answer")
    assert answer.choices[0].finish_reason == "stop"
    assert (before, await calls(url)) == ({"calls": 0}, {"calls": 1})


async def test_chat_streams_with_usage(paid):
    """A stream ends with the reason and, when asked, the usage."""
    client, _ = paid
    stream = await client.chat.completions.create(
        model="gpt-5.2",
        messages=[{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        max_tokens=3,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = [chunk async for chunk in stream]

    said = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert said == "[the paid stand-in answers] This is a"
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "length"
    assert (chunks[-1].choices, chunks[-1].usage.completion_tokens) == ([], 3)


async def test_completions_and_embeddings(paid):
    """Text completions answer too, and vectors are the same as numbers and as base64."""
    client, _ = paid

    text = await client.completions.create(model="gpt-5.2", prompt="hi", max_tokens=2)
    packed = await client.embeddings.create(model="gpt-5.2", input=["a", "b"])  # the SDK asks for base64
    plain = await client.embeddings.create(model="gpt-5.2", input="a", encoding_format="float")

    assert text.choices[0].text == "[the paid stand-in answers] This is"
    assert len(packed.data) == 2
    assert packed.data[0].embedding == pytest.approx(plain.data[0].embedding, abs=1e-6)
    assert len(plain.data[0].embedding) == 8


async def test_responses_whole_and_streamed(paid):
    """The Responses form says the same, whole and as events."""
    client, _ = paid

    whole = await client.responses.create(model="gpt-5.2", input="hi", instructions="be short", max_output_tokens=2)
    stream = await client.responses.create(
        model="gpt-5.2", input=[{"role": "user", "content": "hi"}], max_output_tokens=2, stream=True
    )
    events = [event async for event in stream]

    assert whole.output_text == "[the paid stand-in answers] This is"
    assert (whole.usage.input_tokens, whole.usage.output_tokens) == (3, 2)
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(deltas) == events[-1].response.output_text == whole.output_text
    assert (events[0].type, events[-1].type) == ("response.created", "response.completed")
    with pytest.raises(openai.BadRequestError, match="input: "):
        await client.responses.create(model="gpt-5.2", input="")


async def test_what_it_does_not_do_is_counted_and_refused(paid):
    """Another generating route is a 501 that names it, and counts as a call."""
    client, url = paid

    with pytest.raises(openai.InternalServerError, match="does not do /v1/images/generations"):
        await client.images.generate(model="gpt-5.2", prompt="x")
    with pytest.raises(openai.BadRequestError, match="at least one message"):
        await client.chat.completions.create(model="gpt-5.2", messages=[])
    assert await calls(url) == {"calls": 2}


def test_quota_reading():
    """Dotted paths become nested maps, +N a moment from now."""
    now = datetime(2026, 1, 1, tzinfo=timezone.utc)

    answer = reading(("five_hour.used_pct=12", "five_hour.resets_at=+60", "month.spend=3.25"), now)

    assert answer == {
        "five_hour": {"used_pct": 12, "resets_at": "2026-01-01T00:01:00+00:00"},
        "month": {"spend": 3.25},
    }


def test_quota_command():
    """The command prints the subscription's two windows."""
    done = subprocess.run(
        [sys.executable, "-m", "litellm_registry_hook.demo.quota"], capture_output=True, check=True, timeout=30
    )

    answer = json.loads(done.stdout)
    assert (answer["five_hour"]["used_pct"], answer["weekly"]["used_pct"]) == (12, 34)
    assert set(answer["five_hour"]) == {"used_pct", "resets_at"}
