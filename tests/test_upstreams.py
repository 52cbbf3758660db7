"""The test helper itself: what it answers, records and breaks."""

from __future__ import annotations

import asyncio
import time

import anthropic
import httpx
import openai
import pytest
from upstreams import Upstream, upstreams


@pytest.fixture
def upstream():
    with Upstream("u1", dimensions=3) as server:
        yield server


def test_openai_forms_carry_the_name(upstream):
    """The OpenAI SDK reads chat, stream, embeddings and responses, and each says who answered."""
    with openai.OpenAI(base_url=upstream.openai_base, api_key="x", max_retries=0) as client:
        chat = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])
        stream = client.chat.completions.create(
            model="m",
            messages=[{"role": "user", "content": "hi"}],
            stream=True,
            stream_options={"include_usage": True},
        )
        chunks = list(stream)
        vectors = client.embeddings.create(model="m", input=["a", "bb"])
        response = client.responses.create(model="m", input="hi")
        response_text = "".join(
            event.delta
            for event in client.responses.create(model="m", input="hi", stream=True)
            if event.type == "response.output_text.delta"
        )

    assert chat.choices[0].message.content == "answer from u1"
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == "answer from u1"
    assert chunks[-1].usage.total_tokens == 8
    assert [item.embedding for item in vectors.data] == [[1.0, 0.0, 0.0], [2.0, 0.0, 0.0]]
    assert response.output_text == response_text == "answer from u1"
    assert [call.path for call in upstream.generating_calls] == [
        "/v1/chat/completions",
        "/v1/chat/completions",
        "/v1/embeddings",
        "/v1/responses",
        "/v1/responses",
    ]


def test_anthropic_form(upstream):
    """The Anthropic SDK reads a message, whole and streamed."""
    ask = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]}
    with anthropic.Anthropic(base_url=upstream.url, api_key="x", max_retries=0) as client:
        whole = client.messages.create(**ask)
        with client.messages.stream(**ask) as stream:
            streamed = stream.get_final_text()

    assert whole.content[0].text == streamed == "answer from u1"


def test_ollama_tracks_what_is_loaded(upstream):
    """A load shows in /api/ps until keep_alive 0, and is not a generating call."""
    with httpx.Client(base_url=upstream.url) as client:
        loaded = client.post("/api/generate", json={"model": "g", "keep_alive": -1}).json()
        during = [entry["name"] for entry in client.get("/api/ps").json()["models"]]
        unloaded = client.post("/api/generate", json={"model": "g", "keep_alive": 0}).json()
        after = client.get("/api/ps").json()

    assert (loaded["done_reason"], unloaded["done_reason"]) == ("load", "unload")
    assert (during, after) == (["g:latest"], {"models": []})
    assert upstream.generating_calls == []
    assert len(upstream.load_calls) == 2


def test_rerank_sorts_in_tei_form(upstream):
    """TEI's /rerank answers a bare list, best first."""
    body = {"query": "blue cat", "texts": ["a dog", "a blue cat"]}

    answer = httpx.post(f"{upstream.url}/rerank", json=body).json()

    assert answer == [{"index": 1, "score": 1.0}, {"index": 0, "score": 0.0}]


def test_fail_counts_down_and_spares_harmless_calls(upstream):
    """A fault meets generating calls only, so many times, with its headers."""
    upstream.fail(429, headers={"Retry-After": "7"}, times=1)

    with httpx.Client(base_url=upstream.url) as client:
        listed = client.get("/v1/models").status_code
        first = client.post("/v1/chat/completions", json={"model": "m"})
        second = client.post("/v1/chat/completions", json={"model": "m"})

    assert (listed, first.status_code, first.headers["retry-after"], second.status_code) == (200, 429, "7", 200)


def test_refuse_closes_the_port_and_ok_opens_it(upstream):
    """While it refuses, connections fail, open ones too; afterwards the same port answers."""
    with httpx.Client(base_url=upstream.url) as client:
        client.get("/health")
        upstream.refuse()
        with pytest.raises((httpx.ConnectError, httpx.RemoteProtocolError)):
            client.get("/health")
        upstream.ok()

        assert client.get("/health").status_code == 200


def test_break_stream_cuts_after_so_many_chunks(upstream):
    """The stream delivers its chunks, then dies without an end."""
    upstream.break_stream(after_chunks=1)
    got = []

    with (
        pytest.raises(httpx.RemoteProtocolError),
        httpx.stream(
            "POST", f"{upstream.openai_base}/chat/completions", json={"model": "m", "stream": True}
        ) as response,
    ):
        got.extend(response.iter_lines())

    assert response.status_code == 200
    assert sum("answer" in line for line in got) == 1


def test_hang_ends_with_the_server():
    """Closing the server does not wait for a hanging request."""
    with Upstream("slow") as slow:
        slow.hang(60)
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{slow.openai_base}/chat/completions", json={"model": "m"}, timeout=0.2)
        started = time.monotonic()

    assert time.monotonic() - started < 5


async def test_two_hundred_at_once():
    """Two hundred requests at the same time are all answered and recorded."""
    with upstreams("a", "b") as (one, two):
        async with httpx.AsyncClient(limits=httpx.Limits(max_connections=200), timeout=30) as client:
            asks = [
                client.post(f"{server.openai_base}/chat/completions", json={"model": "m"})
                for server in (one, two)
                for _ in range(100)
            ]
            answers = await asyncio.gather(*asks)

        assert {answer.status_code for answer in answers} == {200}
        assert (len(one.calls), len(two.calls)) == (100, 100)
