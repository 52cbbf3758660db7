"""A stand-in for an OpenAI-compatible API: the subscription, the paid API, or a local server that is not running.

It counts the calls that would have cost something: GET /calls answers `{"calls": n}`.
"""

from __future__ import annotations

import asyncio
import base64
import json
import struct
import time
import uuid
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from litellm_registry_hook.demo.hosting import body_of, stream_of
from litellm_registry_hook.demo.responses_form import events, input_messages, response
from litellm_registry_hook.demo.speech import DEFAULT_TOKENS, Ask, Piece, Speaker, text_messages
from litellm_registry_hook.demo.vectors import vector, words

CARRIED_OPTIONS = ("temperature", "top_p", "seed", "stop")
DEFAULT_DIMENSIONS = 384


class OpenAIStandIn:
    """The handlers of one server.

    Attributes:
        calls: how many generating calls it has answered or refused.

    """

    def __init__(self, model: str, speaker: Speaker, dimensions: int | None = None) -> None:
        self._model = model
        self._speaker = speaker
        self._dimensions = dimensions or DEFAULT_DIMENSIONS
        self.calls = 0

    def app(self) -> web.Application:
        """Return the application to serve; each path with and without /v1."""
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_get("/calls", self._count)
        app.router.add_get("/health", self._health)
        for prefix in ("", "/v1"):
            app.router.add_get(f"{prefix}/models", self._models)
            app.router.add_post(f"{prefix}/chat/completions", self._chat)
            app.router.add_post(f"{prefix}/completions", self._completions)
            app.router.add_post(f"{prefix}/embeddings", self._embed)
            app.router.add_post(f"{prefix}/responses", self._responses)
        app.router.add_post("/{rest:.*}", self._other)
        return app

    async def _count(self, _request: web.Request) -> web.Response:
        return web.json_response({"calls": self.calls})

    async def _health(self, _request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def _models(self, _request: web.Request) -> web.Response:
        entry = {"id": self._model, "object": "model", "created": 0, "owned_by": "stand-in"}
        return web.json_response({"object": "list", "data": [entry]})

    async def _other(self, request: web.Request) -> web.Response:
        self.calls += 1
        return _error(
            501, f"the demo's stand-in does not do {request.path}; it has chat, completions, responses and embeddings"
        )

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        self.calls += 1
        body = await body_of(request)
        messages = text_messages((body or {}).get("messages"))
        if body is None or not messages:
            return _error(400, "messages: a list with at least one message is required")
        head = {"id": f"chatcmpl-{uuid.uuid4().hex}", "created": int(time.time()), "model": self._name(body)}
        pieces = self._speaker.speak(_ask(body, messages))
        if not body.get("stream"):
            said = [piece async for piece in pieces]
            message = {"role": "assistant", "content": "".join(piece.text for piece in said)}
            choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": said[-1].reason or "stop"}
            answer = {**head, "object": "chat.completion", "choices": [choice], "usage": _usage(said[-1])}
            return web.json_response(answer)
        head["object"] = "chat.completion.chunk"
        stream = await stream_of(request, "text/event-stream")
        delta: dict[str, Any] = {"role": "assistant", "content": ""}
        await _send(stream, {**head, "choices": [_delta(delta)]})
        last = Piece("", "stop")
        async for piece in pieces:
            last = piece
            delta = {"content": piece.text} if piece.text else {}
            await _send(stream, {**head, "choices": [_delta(delta, piece.reason or None)]})
        if (body.get("stream_options") or {}).get("include_usage"):
            await _send(stream, {**head, "choices": [], "usage": _usage(last)})
        await stream.write(b"data: [DONE]\n\n")
        await stream.write_eof()
        return stream

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        self.calls += 1
        body = await body_of(request)
        prompt = (body or {}).get("prompt")
        prompt = prompt[0] if isinstance(prompt, list) and prompt else prompt
        if body is None or not isinstance(prompt, str):
            return _error(400, "prompt: a string is required")
        head = {"id": f"cmpl-{uuid.uuid4().hex}", "created": int(time.time()), "model": self._name(body)}
        head["object"] = "text_completion"
        pieces = self._speaker.speak(_ask(body, [{"role": "user", "content": prompt}]))
        if not body.get("stream"):
            said = [piece async for piece in pieces]
            choice = {"index": 0, "text": "".join(piece.text for piece in said), "finish_reason": said[-1].reason}
            return web.json_response({**head, "choices": [choice], "usage": _usage(said[-1])})
        stream = await stream_of(request, "text/event-stream")
        async for piece in pieces:
            choice = {"index": 0, "text": piece.text, "finish_reason": piece.reason or None}
            await _send(stream, {**head, "choices": [choice]})
        await stream.write(b"data: [DONE]\n\n")
        await stream.write_eof()
        return stream

    async def _responses(self, request: web.Request) -> web.StreamResponse:
        self.calls += 1
        body = await body_of(request) or {}
        messages = input_messages(body)
        if not messages:
            return _error(400, "input: a string or a list with at least one message is required")
        pieces = self._speaker.speak(_ask({"max_tokens": body.get("max_output_tokens"), **body}, messages))
        if not body.get("stream"):
            said = [piece async for piece in pieces]
            return web.json_response(response(self._name(body), "".join(piece.text for piece in said), said[-1]))
        answer = await stream_of(request, "text/event-stream")
        number = 0
        async for event in events(self._name(body), pieces):
            await answer.write(f"event: {event['type']}\n".encode())
            await _send(answer, {**event, "sequence_number": number})
            number += 1
        await answer.write_eof()
        return answer

    async def _embed(self, request: web.Request) -> web.Response:
        self.calls += 1
        body = await body_of(request)
        given = (body or {}).get("input")
        if body is None or given is None:
            return _error(400, "input: a string or a list of strings is required")
        texts = [str(text) for text in given] if isinstance(given, list) else [str(given)]
        asked = body.get("dimensions")
        size = asked if isinstance(asked, int) and 0 < asked <= self._dimensions else self._dimensions
        vectors = await asyncio.to_thread(lambda: [vector(text, size) for text in texts])
        packed = body.get("encoding_format") == "base64"
        data = [
            {"object": "embedding", "index": index, "embedding": _packed(found) if packed else found}
            for index, found in enumerate(vectors)
        ]
        tokens = sum(len(words(text)) for text in texts)
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return web.json_response({"object": "list", "model": self._name(body), "data": data, "usage": usage})

    def _name(self, body: Mapping[str, Any]) -> str:
        return str(body.get("model") or self._model)


def _ask(body: Mapping[str, Any], messages: list[dict[str, str]]) -> Ask:
    limit = body.get("max_completion_tokens") or body.get("max_tokens")
    limit = limit if isinstance(limit, int) and limit > 0 else DEFAULT_TOKENS
    return Ask(messages, limit, {name: body[name] for name in CARRIED_OPTIONS if body.get(name) is not None})


def _usage(piece: Piece) -> dict[str, int]:
    total = piece.prompt_tokens + piece.completion_tokens
    return {
        "prompt_tokens": piece.prompt_tokens,
        "completion_tokens": piece.completion_tokens,
        "total_tokens": total,
    }


def _delta(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}


def _packed(numbers: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()


async def _send(stream: web.StreamResponse, event: dict[str, Any]) -> None:
    await stream.write(b"data: " + json.dumps(event).encode() + b"\n\n")


def _error(status: int, message: str) -> web.Response:
    kind = "invalid_request_error" if status == 400 else "not_supported_error"  # noqa: PLR2004
    return web.json_response({"error": {"message": message, "type": kind, "code": None}}, status=status)
