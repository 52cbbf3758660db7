"""A tier is honoured on every route that carries a model."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.host.proxy import PLAIN, Proxy
from tests.upstreams import Upstream

MESSAGES = [{"role": "user", "content": "hi"}]
CONTENTS = [{"role": "user", "parts": [{"text": "hi"}]}]
WAV = {"file": ("a.wav", b"RIFF....WAVE")}
PNG = {"image": ("a.png", b"\x89PNG")}


def form(proxy: Proxy, path: str, data: dict[str, str], files: Any) -> httpx.Response:
    return httpx.post(
        proxy.url + path, data=data, files=files, headers={"Authorization": f"Bearer {PLAIN}"}, timeout=60
    )


def chat_text(body: Any) -> str:
    return str(body["choices"][0]["message"]["content"])


def sse(response: httpx.Response) -> str:
    """Join the text of a stream, whatever the shape of its events."""
    words = ""
    for line in response.text.splitlines():
        if not line.startswith("data: ") or line == "data: [DONE]":
            continue
        event = json.loads(line.removeprefix("data: "))
        for choice in event.get("choices", ()):
            words += choice.get("text") or (choice.get("delta") or {}).get("content") or ""
        for candidate in event.get("candidates", ()):
            words += "".join(part.get("text", "") for part in candidate["content"]["parts"])
        delta = event.get("delta")
        words += delta if isinstance(delta, str) else (delta or {}).get("text", "") if isinstance(delta, dict) else ""
    return words


Call = Callable[[Proxy, str], httpx.Response]
Read = Callable[[httpx.Response], str]
LARGE: dict[str, tuple[Call, Read]] = {
    "chat": (lambda p, m: p.chat(m), lambda r: chat_text(r.json())),
    "chat without /v1": (
        lambda p, m: p.post("/chat/completions", {"model": m, "messages": MESSAGES}),
        lambda r: chat_text(r.json()),
    ),
    "chat stream": (lambda p, m: p.chat(m, stream=True), sse),
    "completions": (
        lambda p, m: p.post("/v1/completions", {"model": m, "prompt": "hi"}),
        lambda r: str(r.json()["choices"][0]["text"]),
    ),
    "completions stream": (lambda p, m: p.post("/v1/completions", {"model": m, "prompt": "hi", "stream": True}), sse),
    "responses": (
        lambda p, m: p.post("/v1/responses", {"model": m, "input": "hi"}),
        lambda r: str(r.json()["output"][-1]["content"][0]["text"]),
    ),
    "responses stream": (lambda p, m: p.post("/v1/responses", {"model": m, "input": "hi", "stream": True}), sse),
    "messages": (
        lambda p, m: p.post("/v1/messages", {"model": m, "max_tokens": 9, "messages": MESSAGES}),
        lambda r: str(r.json()["content"][0]["text"]),
    ),
    "messages stream": (
        lambda p, m: p.post("/v1/messages", {"model": m, "max_tokens": 9, "messages": MESSAGES, "stream": True}),
        sse,
    ),
    "engines": (
        lambda p, m: p.post(f"/engines/{m}/chat/completions", {"messages": MESSAGES}),
        lambda r: chat_text(r.json()),
    ),
    "engines over body": (
        lambda p, m: p.post(f"/engines/{m}/chat/completions", {"model": "small", "messages": MESSAGES}),
        lambda r: chat_text(r.json()),
    ),
    "azure path": (
        lambda p, m: p.post(f"/openai/deployments/{m}/chat/completions", {"messages": MESSAGES}),
        lambda r: chat_text(r.json()),
    ),
    "query": (
        lambda p, m: p.post(f"/v1/chat/completions?model={m}", {"model": "small", "messages": MESSAGES}),
        lambda r: chat_text(r.json()),
    ),
    "gemini": (
        lambda p, m: p.post(f"/v1beta/models/{m}:generateContent", {"contents": CONTENTS}),
        lambda r: str(r.json()["candidates"][0]["content"]["parts"][0]["text"]),
    ),
    "gemini stream": (lambda p, m: p.post(f"/v1beta/models/{m}:streamGenerateContent", {"contents": CONTENTS}), sse),
    "cursor": (
        lambda p, m: p.post("/cursor/chat/completions", {"model": m, "messages": MESSAGES}),
        lambda r: chat_text(r.json()),
    ),
    "images": (
        lambda p, m: p.post("/v1/images/generations", {"model": m, "prompt": "x"}),
        lambda r: str(r.json()["data"][0]["revised_prompt"]),
    ),
    "image edits": (
        lambda p, m: form(p, "/v1/images/edits", {"model": m, "prompt": "x"}, PNG),
        lambda r: str(r.json()["data"][0]["revised_prompt"]),
    ),
    "speech": (
        lambda p, m: p.post("/v1/audio/speech", {"model": m, "input": "x", "voice": "alloy"}),
        lambda r: r.text.replace("audio", "answer"),
    ),
    "transcription": (
        lambda p, m: form(p, "/v1/audio/transcriptions", {"model": m}, WAV),
        lambda r: str(r.json()["text"]),
    ),
    "moderation": (
        lambda p, m: p.post("/v1/moderations", {"model": m, "input": "x"}),
        lambda r: "answer from " + str(r.json()["id"]).removeprefix("modr-"),
    ),
}
STREAMS = [name for name in LARGE if name.endswith("stream")]


@pytest.mark.parametrize("family", LARGE)
def test_tier_goes_to_the_first_free_member(proxy: Proxy, ups: dict[str, Upstream], family: str) -> None:
    """A tier reaches its first allowed member on this route, and the answer says so."""
    call, read = LARGE[family]

    response = call(proxy, "large")

    assert response.status_code == 200, response.text
    assert read(response) == "answer from kimi"
    assert {k: v for k, v in response.headers.items() if k.startswith("x-registry")} == {
        "x-registry-tier": "large", "x-registry-model": "kimi",
    }  # fmt: skip
    assert [len(ups[name].generating_calls) for name in ("kimi", "mid")] == [1, 0]


@pytest.mark.parametrize("family", LARGE)
def test_failing_member_hands_over_to_the_next(proxy: Proxy, ups: dict[str, Upstream], family: str) -> None:
    """When the first member answers 500 the next serves, and the failing one is asked once."""
    call, read = LARGE[family]
    ups["kimi"].fail(500)

    response = call(proxy, "large")

    assert response.status_code == 200, response.text
    assert read(response) == "answer from mid"
    assert response.headers["x-registry-model"] == "mid"
    assert response.headers["x-registry-skipped"] == "kimi=model_unavailable"
    assert [len(ups[name].generating_calls) for name in ("kimi", "mid")] == [1, 1]


@pytest.mark.parametrize("family", STREAMS)
def test_stream_that_dies_before_its_first_token_is_replaced(
    proxy: Proxy, ups: dict[str, Upstream], family: str
) -> None:
    """A stream that breaks before the first token is served whole by the next member."""
    call, read = LARGE[family]
    ups["kimi"].break_stream(0)

    response = call(proxy, "large")

    assert (response.status_code, read(response)) == (200, "answer from mid")
    assert response.headers["x-registry-model"] == "mid"
    assert [len(ups[name].generating_calls) for name in ("kimi", "mid")] == [1, 1]


@pytest.mark.parametrize("family", LARGE)
def test_metered_model_is_refused_without_consent(proxy: Proxy, ups: dict[str, Upstream], family: str) -> None:
    """A metered model named on this route is a 403 with our code in the route's own error shape."""
    call, _ = LARGE[family]

    response = call(proxy, "paid-fallback")

    assert response.status_code == 403, response.text
    assert response.json()["error"]["code"] == "metered_consent_missing"
    assert response.headers["x-should-retry"] == "false"


EMBEDDINGS: dict[str, Call] = {
    "embeddings": lambda p, m: p.post("/v1/embeddings", {"model": m, "input": ["a", "b"]}),
    "engines": lambda p, m: p.post(f"/engines/{m}/embeddings", {"input": ["a", "b"]}),
    "azure path": lambda p, m: p.post(f"/openai/deployments/{m}/embeddings", {"input": ["a", "b"]}),
    "query": lambda p, m: p.post(f"/v1/embeddings?model={m}", {"model": "large", "input": ["a", "b"]}),
}


@pytest.mark.parametrize("name", ["embed", "embedder", "bge-m3"])
@pytest.mark.parametrize("family", EMBEDDINGS)
def test_embeddings_reach_bge(proxy: Proxy, ups: dict[str, Upstream], family: str, name: str) -> None:
    """bge-m3 answers under its id, under tier `embed` and under `embedder`."""
    response = EMBEDDINGS[family](proxy, name)

    assert response.status_code == 200, response.text
    assert response.headers["x-registry-model"] == "bge-m3"
    assert [(call.path, call.model) for call in ups["ollama"].generating_calls] == [("/api/embed", "bge-m3")]


@pytest.mark.parametrize("path", ["/v1/rerank", "/rerank", "/v2/rerank"])
def test_rerank_reaches_tei(proxy: Proxy, ups: dict[str, Upstream], path: str) -> None:
    """Tier `rerank` reaches TEI in TEI's own form."""
    response = proxy.post(path, {"model": "rerank", "query": "a", "documents": ["a", "b"]})

    assert response.status_code == 200, response.text
    assert [(r["index"], r["relevance_score"]) for r in response.json()["results"]] == [(0, 1.0), (1, 0.0)]
    assert [call.json["texts"] for call in ups["tei"].generating_calls] == [["a", "b"]]
    assert response.headers["x-registry-model"] == "tei-reranker"


def test_small_reaches_ollama_chat(proxy: Proxy, ups: dict[str, Upstream]) -> None:
    """Tier `small` reaches Ollama's chat route."""
    response = proxy.chat("small")

    assert chat_text(response.json()) == "answer from ollama"
    assert [(call.path, call.model) for call in ups["ollama"].generating_calls] == [("/api/chat", "gemma3:4b")]
