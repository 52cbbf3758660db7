"""Real upstream servers for tests: one object answers every provider's form, records what came, and fails on command.

    with Upstream("kimi") as kimi:
        ...                                   # api_base: kimi.openai_base (ends in /v1) or kimi.url
        kimi.fail(429, headers={"Retry-After": "7"}, times=1)
        assert [call.path for call in kimi.generating_calls] == ["/v1/chat/completions"]

The server is an aiohttp server on its own loop in its own thread, on 127.0.0.1 and a port of its own that it keeps for its
whole life, also while it refuses. Every answer carries the upstream's name.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import socket
import struct
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any
from urllib.parse import parse_qsl

from aiohttp import web

from tests.batch_api import BatchApi

HARMLESS_POSTS = ("/api/show",)


@dataclass(frozen=True)
class Call:
    """One request that arrived.

    Attributes:
        method, path: as sent; the path without its query.
        query: the query, last value of a name.
        headers: by lower-case name.
        json: the parsed body, None where it is not JSON.
        body: the bytes.
        at: time.monotonic() of its arrival, in seconds.

    """

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    json: Any
    body: bytes
    at: float

    @property
    def model(self) -> str | None:
        """The model that the body names."""
        return self.json.get("model") if isinstance(self.json, dict) else None

    @property
    def generates(self) -> bool:
        """Whether the call could generate, load a model or cost money: any POST but the known harmless ones.

        Loading and unloading through Ollama (an empty prompt or no input) is not generating; see `loads`.
        """
        return self.method == "POST" and not self.path.endswith(HARMLESS_POSTS) and not self.loads

    @property
    def loads(self) -> bool:
        """Whether the call only loads or unloads a model of an Ollama."""
        body = self.json if isinstance(self.json, dict) else {}
        return (
            (self.path.endswith("/api/generate") and not body.get("prompt"))
            or (self.path.endswith("/api/chat") and not body.get("messages"))
            or (self.path.endswith("/api/embed") and not body.get("input"))
        )


@dataclass
class Fault:
    """What the next requests meet instead of an answer."""

    kind: str
    left: int | None
    everything: bool
    status: int = 500
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    after_chunks: int = 0


class Upstream:
    """An upstream of any kind.

    Attributes:
        name: said in every answer.
        calls: every request so far, oldest first.
        dimensions: length of the embedding vectors.
        words: the words a chat answer streams in, one chunk each.
        models: names that GET /v1/models and /api/tags list.
        loaded: what GET /api/ps lists: entry by Ollama name. A chat, generate or embed call loads its model, keep_alive 0
            unloads it; set `tracks_loads = False` to move it by hand only (`load`, `unload`).
        sizes_mb: MB on the GPU by Ollama name, for /api/ps and /api/tags; 1000 where not said.
        version: what /api/version says.
        answer_headers: further headers of each good answer.
        batch_api: its files and batches.

    """

    def __init__(
        self,
        name: str = "upstream",
        *,
        models: tuple[str, ...] = ("m",),
        dimensions: int = 4,
        words: tuple[str, ...] | None = None,
        sizes_mb: Mapping[str, int] | None = None,
    ) -> None:
        self.name = name
        self.models = list(models)
        self.dimensions = dimensions
        self.words = words or ("answer ", "from ", name)
        self.sizes_mb: dict[str, int] = dict(sizes_mb or {})
        self.loaded: dict[str, dict[str, Any]] = {}
        self.tracks_loads = True
        self.version = "0.12.6"
        self.calls: list[Call] = []
        self.batch_api = BatchApi(self.name)
        # Sent with each good answer, streams too.
        self.answer_headers: dict[str, str] = {}
        # Whether it has had a fault since it was last healed: a proxy may have learned from that.
        self.troubled = False
        self._fault: Fault | None = None
        self._lock = threading.Lock()
        self._loop = asyncio.new_event_loop()
        self._thread: threading.Thread | None = None
        self._server: web.Server | None = None
        self._listener: asyncio.Server | None = None
        self._socket = _bound(0)
        self.port: int = self._socket.getsockname()[1]

    # -- life ---------------------------------------------------------------------------------------------------------

    def __enter__(self) -> Upstream:
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"upstream-{self.name}", daemon=True)
        self._thread.start()
        self._run(self._listen())
        return self

    def __exit__(self, *exc: object) -> None:
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        assert self._thread is not None
        self._thread.join(10)
        self._loop.close()
        self._socket.close()

    @property
    def url(self) -> str:
        """`http://127.0.0.1:PORT`."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def openai_base(self) -> str:
        """The api_base for LiteLLM's openai/ provider."""
        return f"{self.url}/v1"

    # -- what came ----------------------------------------------------------------------------------------------------

    @property
    def generating_calls(self) -> list[Call]:
        """Calls that generate: no GET, no /api/show, no bare load or unload."""
        return [call for call in self.calls if call.generates]

    @property
    def load_calls(self) -> list[Call]:
        """Calls that only load or unload a model of an Ollama."""
        return [call for call in self.calls if call.loads]

    def reset(self) -> None:
        """Forget the calls and the fault; what is loaded stays."""
        self.ok()
        self.calls.clear()
        self.answer_headers = {}

    # -- faults: on generating calls only, unless everything=True -----------------------------------------------------

    def fail(
        self,
        status: int,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        times: int | None = None,
        *,
        everything: bool = False,
    ) -> None:
        """Answer with an error from now on, or the next `times` times. A str body goes out as text, else as JSON."""
        self._set(Fault("fail", times, everything, status=status, body=body, headers=headers or {}))

    def hang(self, seconds: float, times: int | None = None, *, everything: bool = False) -> None:
        """Answer after so many seconds; the wait ends early when the upstream is closed or the client goes."""
        self._set(Fault("hang", times, everything, seconds=seconds))

    def break_stream(self, after_chunks: int = 0, times: int | None = None) -> None:
        """Send 200, the headers and so many chunks, then cut the connection; without a stream cut in mid-body."""
        self._set(Fault("break", times, everything=False, after_chunks=after_chunks))

    def refuse(self) -> None:
        """Close the port, and every open connection; the port stays ours."""
        self.troubled = True
        self._run(self._close())
        self._socket.close()
        self._socket = _bound(self.port)

    def ok(self) -> None:
        """End every fault; listen again after `refuse`."""
        self._set(None)
        self._run(self._listen())

    # -- Ollama state -------------------------------------------------------------------------------------------------

    def load(self, model: str, *, seconds: float = 300, size_mb: int | None = None) -> None:
        """Show a model in /api/ps, expiring in so many seconds; negative = never."""
        tag = _tagged(model)
        size = (size_mb if size_mb is not None else self._size_mb(tag)) * 1024 * 1024
        self.loaded[tag] = {
            "name": tag,
            "model": tag,
            "size": size,
            "digest": _digest(tag),
            "details": {"family": "llama"},
            "expires_at": _expires(seconds),
            "size_vram": size,
            "context_length": 4096,
        }

    def unload(self, model: str) -> None:
        """Take a model out of /api/ps."""
        self.loaded.pop(_tagged(model), None)

    def _size_mb(self, tag: str) -> int:
        return self.sizes_mb.get(tag, self.sizes_mb.get(tag.removesuffix(":latest"), 1000))

    # -- machinery ----------------------------------------------------------------------------------------------------

    def _run(self, coroutine: Any) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(10)

    async def _listen(self) -> None:
        if self._listener is not None:
            return
        # handler_cancellation: a client that goes ends a hang at once.
        self._server = web.Server(self._handle, access_log=None, handler_cancellation=True)
        self._listener = await self._loop.create_server(self._server, sock=self._socket, backlog=1024)

    async def _close(self) -> None:
        if self._listener is None:
            return
        assert self._server is not None
        self._listener.close()
        self._listener = None
        await self._server.shutdown(0.05)

    def _set(self, fault: Fault | None) -> None:
        with self._lock:
            self._fault = fault
            self.troubled = self.troubled or fault is not None

    def _take(self, call: Call) -> Fault | None:
        with self._lock:
            fault = self._fault
            if fault is None or not (fault.everything or call.generates):
                return None
            if fault.left is not None:
                if fault.left <= 0:
                    return None
                fault.left -= 1
            return fault

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.read()
        call = Call(
            method=request.method,
            path=request.path,
            query=dict(parse_qsl(request.query_string, keep_blank_values=True)),
            headers={name.lower(): value for name, value in request.headers.items()},
            json=_parsed(body),
            body=body,
            at=time.monotonic(),
        )
        self.calls.append(call)
        fault = self._take(call)
        if fault is not None and fault.kind == "hang":
            await asyncio.sleep(fault.seconds)
        if fault is not None and fault.kind == "fail":
            return self._error(fault)
        cut = fault.after_chunks if fault is not None and fault.kind == "break" else None
        status, answer = self._answer(call)
        if isinstance(answer, Chunks):
            return await _stream(request, answer, cut, self.answer_headers)
        if cut is not None:
            return await _cut_in_body(request)
        if isinstance(answer, bytes):
            return web.Response(status=status, body=answer, content_type="audio/mpeg")
        return web.json_response(answer, status=status, headers=self.answer_headers)

    def _error(self, fault: Fault) -> web.Response:
        headers = dict(fault.headers)
        if isinstance(fault.body, str):
            return web.Response(status=fault.status, text=fault.body, headers=headers)
        body = fault.body if fault.body is not None else {"error": {"message": f"{self.name} fails", "type": "test"}}
        return web.json_response(body, status=fault.status, headers=headers)

    # -- answers ------------------------------------------------------------------------------------------------------

    def _answer(self, call: Call) -> tuple[int, Any]:
        path, body = call.path, call.json if isinstance(call.json, dict) else {}
        if BatchApi.answers(path):
            return self.batch_api.answer(call.method, path, call.headers, call.body)
        if call.method in ("GET", "HEAD"):
            return self._get(path)
        model = str(body.get("model") or "m")
        if "/api/" in path:
            return self._ollama(path, body, model)
        if path.endswith("/chat/completions"):
            return 200, self._chat(body, model)
        if path.endswith("/completions"):
            return 200, self._completion(body, model)
        if path.endswith("/embeddings"):
            return 200, self._embeddings(body, model)
        if path.endswith("/responses"):
            return 200, self._responses(body, model)
        if path.endswith("/messages/count_tokens"):
            return 200, {"input_tokens": 5}
        if path.endswith("/messages"):
            return 200, self._messages(body, model)
        if path.endswith("/rerank"):
            return 200, self._rerank(body)
        if path.endswith(("/images/generations", "/images/edits")):
            return 200, {
                "created": 1,
                "data": [{"url": f"https://{self.name}.test/image.png", "revised_prompt": self.text}],
            }
        if path.endswith("/audio/speech"):
            return 200, f"audio from {self.name}".encode()
        if path.endswith(("/audio/transcriptions", "/audio/translations")):
            return 200, {"text": self.text}
        if path.endswith("/moderations"):
            result = {"flagged": False, "categories": {"violence": False}, "category_scores": {"violence": 0.01}}
            return 200, {"id": f"modr-{self.name}", "model": model, "results": [result]}
        if path.endswith(":generateContent"):
            return 200, self._gemini(self.text)
        if path.endswith(":streamGenerateContent"):
            return 200, Chunks("text/event-stream", [_sse(self._gemini(word)) for word in self.words])
        if path.endswith(":countTokens"):
            return 200, {"totalTokens": 5}
        return 404, {"error": {"message": f"{self.name} has no {call.method} {path}", "type": "not_found"}}

    @property
    def text(self) -> str:
        """The whole chat answer."""
        return "".join(self.words)

    def _get(self, path: str) -> tuple[int, Any]:
        if path.endswith("/models"):
            data = [{"id": model, "object": "model", "created": 1, "owned_by": self.name} for model in self.models]
            return 200, {"object": "list", "data": data}
        if path.endswith("/api/version"):
            return 200, {"version": self.version}
        if path.endswith("/api/ps"):
            return 200, {"models": list(self.loaded.values())}
        if path.endswith("/api/tags"):
            return 200, {"models": [self._tag_entry(_tagged(model)) for model in self.models]}
        if path.endswith("/info"):
            return 200, {"model_id": self.name, "model_type": {"reranker": {}}}
        return 200, {"status": "ok", "name": self.name}

    def _tag_entry(self, tag: str) -> dict[str, Any]:
        size = self._size_mb(tag) * 1024 * 1024
        return {
            "name": tag,
            "model": tag,
            "modified_at": "2026-01-01T00:00:00.123456789+02:00",
            "size": size,
            "digest": _digest(tag),
            "details": {"family": "llama"},
        }

    def _ollama(self, path: str, body: dict[str, Any], model: str) -> tuple[int, Any]:
        if path.endswith("/api/show"):
            return 200, {"details": {"family": "llama"}, "model_info": {"general.architecture": "llama"}}
        if self.tracks_loads:
            self._track(model, body.get("keep_alive"))
        meta = {"model": model, "created_at": datetime.now(timezone.utc).isoformat()}
        if path.endswith(("/api/embed", "/api/embeddings")):
            given = body.get("input", body.get("prompt", []))
            texts = [given] if isinstance(given, str) else list(given)
            if path.endswith("/api/embeddings"):
                return 200, {"embedding": self.vector(texts[0] if texts else "")}
            vectors = [self.vector(text) for text in texts]
            return 200, {"model": model, "embeddings": vectors, "prompt_eval_count": 3 * len(texts)}
        chat = path.endswith("/api/chat")
        empty = not (body.get("messages") if chat else body.get("prompt"))
        if empty:
            reason = "unload" if _seconds(body.get("keep_alive")) == 0 else "load"
            said = {"message": {"role": "assistant", "content": ""}} if chat else {"response": ""}
            return 200, {**meta, **said, "done": True, "done_reason": reason}
        end = {
            "done": True,
            "done_reason": "stop",
            "total_duration": 5_000_000,
            "load_duration": 1_000_000,
            "prompt_eval_count": 3,
            "prompt_eval_duration": 1_000_000,
            "eval_count": len(self.words),
            "eval_duration": 1_000_000,
        }

        def say(text: str) -> dict[str, Any]:
            return {"message": {"role": "assistant", "content": text}} if chat else {"response": text}

        if body.get("stream") is False:
            return 200, {**meta, **say(self.text), **end}
        lines = [{**meta, **say(word), "done": False} for word in self.words] + [{**meta, **say(""), **end}]
        return 200, Chunks("application/x-ndjson", [json.dumps(line).encode() + b"\n" for line in lines])

    def _track(self, model: str, keep_alive: Any) -> None:
        seconds = _seconds(keep_alive)
        if seconds == 0:
            self.unload(model)
        elif seconds is not None or _tagged(model) not in self.loaded:
            self.load(model, seconds=300 if seconds is None else seconds)

    def _chat(self, body: dict[str, Any], model: str) -> Any:
        meta = {"id": f"chatcmpl-{self.name}", "created": 1, "model": model}
        usage = {"prompt_tokens": 5, "completion_tokens": len(self.words), "total_tokens": 5 + len(self.words)}
        if not body.get("stream"):
            message = {"role": "assistant", "content": self.text}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            return {**meta, "object": "chat.completion", "choices": [choice], "usage": usage}
        meta["object"] = "chat.completion.chunk"

        def chunk(delta: dict[str, Any], reason: str | None = None) -> bytes:
            return _sse({**meta, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})

        first, *rest = self.words
        chunks = [chunk({"role": "assistant", "content": first}), *(chunk({"content": word}) for word in rest)]
        chunks.append(chunk({}, "stop"))
        if (body.get("stream_options") or {}).get("include_usage"):
            chunks.append(_sse({**meta, "choices": [], "usage": usage}))
        return Chunks("text/event-stream", [*chunks, b"data: [DONE]\n\n"])

    def _completion(self, body: dict[str, Any], model: str) -> Any:
        meta = {"id": f"cmpl-{self.name}", "object": "text_completion", "created": 1, "model": model}
        usage = {"prompt_tokens": 5, "completion_tokens": len(self.words), "total_tokens": 5 + len(self.words)}
        if not body.get("stream"):
            return {**meta, "choices": [{"index": 0, "text": self.text, "finish_reason": "stop"}], "usage": usage}
        chunks = [_sse({**meta, "choices": [{"index": 0, "text": word, "finish_reason": None}]}) for word in self.words]
        chunks.append(_sse({**meta, "choices": [{"index": 0, "text": "", "finish_reason": "stop"}], "usage": usage}))
        return Chunks("text/event-stream", [*chunks, b"data: [DONE]\n\n"])

    def vector(self, text: Any) -> list[float]:
        """The embedding of a text: its length, then zeros; equal texts are equal."""
        return [float(len(str(text))), *([0.0] * (self.dimensions - 1))]

    def _embeddings(self, body: dict[str, Any], model: str) -> Any:
        given = body.get("input", [])
        texts = given if isinstance(given, list) and not all(isinstance(item, int) for item in given) else [given]
        data = []
        for index, text in enumerate(texts):
            vector: Any = self.vector(text)
            if body.get("encoding_format") == "base64":
                vector = base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
            data.append({"object": "embedding", "index": index, "embedding": vector})
        usage = {"prompt_tokens": 3 * len(texts), "total_tokens": 3 * len(texts)}
        return {"object": "list", "model": model, "data": data, "usage": usage}

    def _responses(self, body: dict[str, Any], model: str) -> Any:
        part = {"type": "output_text", "text": self.text, "annotations": []}
        item = {
            "id": f"msg_{self.name}",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [part],
        }
        whole = {
            "id": f"resp_{self.name}",
            "object": "response",
            "created_at": 1,
            "status": "completed",
            "model": model,
            "output": [item],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": {
                "input_tokens": 5,
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": len(self.words),
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": 5 + len(self.words),
            },
        }
        if not body.get("stream"):
            return whole
        place = {"item_id": item["id"], "output_index": 0, "content_index": 0}
        events: list[dict[str, Any]] = [
            {"type": "response.created", "response": {**whole, "status": "in_progress", "output": []}},
            {
                "type": "response.output_item.added",
                "output_index": 0,
                "item": {**item, "status": "in_progress", "content": []},
            },
            *({"type": "response.output_text.delta", **place, "delta": word} for word in self.words),
            {"type": "response.output_text.done", **place, "text": self.text},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": whole},
        ]
        return Chunks(
            "text/event-stream",
            [_event({**event, "sequence_number": number}) for number, event in enumerate(events)],
        )

    def _messages(self, body: dict[str, Any], model: str) -> Any:
        usage = {"input_tokens": 5, "output_tokens": len(self.words)}
        head = {"id": f"msg_{self.name}", "type": "message", "role": "assistant", "model": model}
        if not body.get("stream"):
            content = [{"type": "text", "text": self.text}]
            return {**head, "content": content, "stop_reason": "end_turn", "stop_sequence": None, "usage": usage}
        start = {
            **head,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {**usage, "output_tokens": 0},
        }
        events: list[dict[str, Any]] = [
            {"type": "message_start", "message": start},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            *(
                {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": word}}
                for word in self.words
            ),
            {"type": "content_block_stop", "index": 0},
            {
                "type": "message_delta",
                "delta": {"stop_reason": "end_turn", "stop_sequence": None},
                "usage": {"output_tokens": len(self.words)},
            },
            {"type": "message_stop"},
        ]
        return Chunks("text/event-stream", [_event(event) for event in events])

    def _rerank(self, body: dict[str, Any]) -> Any:
        query = set(str(body.get("query", "")).lower().split())
        given = body.get("texts", body.get("documents", []))
        scored = [
            (len(query & set(str(text).lower().split())) / (len(query) or 1), index) for index, text in enumerate(given)
        ]
        scored.sort(key=lambda pair: (-pair[0], pair[1]))
        if "texts" in body:
            return [{"index": index, "score": score} for score, index in scored]
        results = [{"index": index, "relevance_score": score} for score, index in scored]
        return {"id": f"rerank-{self.name}", "results": results[: body.get("top_n") or None], "meta": {}}

    def _gemini(self, text: str) -> Any:
        content = {"role": "model", "parts": [{"text": text}]}
        usage = {"promptTokenCount": 5, "candidatesTokenCount": 3, "totalTokenCount": 8}
        candidate = {"content": content, "finishReason": "STOP", "index": 0}
        return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": self.name}


@dataclass(frozen=True)
class Chunks:
    """A streamed answer."""

    content_type: str
    parts: list[bytes]


async def _stream(
    request: web.BaseRequest, chunks: Chunks, cut: int | None, headers: Mapping[str, str]
) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": chunks.content_type, **headers})
    await response.prepare(request)
    for part in chunks.parts[:cut]:
        await response.write(part)
    if cut is not None:
        _abort(request)
        return response
    await response.write_eof()
    return response


async def _cut_in_body(request: web.BaseRequest) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": "1000"})
    await response.prepare(request)
    await response.write(b'{"id": "cu')
    _abort(request)
    return response


def _abort(request: web.BaseRequest) -> None:
    if request.transport is not None:
        # close(), not abort(): what was written so far must still arrive.
        request.transport.close()


def _bound(port: int) -> socket.socket:
    """Return a socket that owns its port; until it listens the kernel refuses connections to it."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", port))
    return sock


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body) if body else None
    except ValueError:
        return None


def _sse(data: Any) -> bytes:
    return b"data: " + json.dumps(data).encode() + b"\n\n"


def _event(data: dict[str, Any]) -> bytes:
    return f"event: {data['type']}\n".encode() + _sse(data)


def _tagged(model: str) -> str:
    return model if ":" in model.rpartition("/")[2] else f"{model}:latest"


def _digest(tag: str) -> str:
    return (tag.encode().hex() * 64)[:64]


def _expires(seconds: float) -> str:
    if seconds < 0:
        return "2318-07-15T01:23:45.123456789+02:00"
    moment = datetime.now(timezone.utc) + timedelta(seconds=seconds)
    # Go prints nine digits; Python before 3.11 reads at most six.
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%f") + "123Z"


def _seconds(keep_alive: Any) -> float | None:
    """Seconds of a keep_alive; None where none was sent. Enough of Go's durations for tests: one number, one unit."""
    if keep_alive is None:
        return None
    if isinstance(keep_alive, (int, float)):
        return float(keep_alive)
    units = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
    for unit, factor in units.items():
        with contextlib.suppress(ValueError):
            if keep_alive.endswith(unit):
                return float(keep_alive.removesuffix(unit)) * factor
    return float(keep_alive)


def free_port() -> int:
    """Return a port that was free a moment ago."""
    with contextlib.closing(_bound(0)) as sock:
        return int(sock.getsockname()[1])


@contextlib.contextmanager
def upstreams(*names: str) -> Iterator[list[Upstream]]:
    """Start several upstreams at once."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(Upstream(name)) for name in names]
