"""The fastest upstream that Python gives: answers that are ready as bytes, on uvloop, in a process of its own.

    python -m bench.upstream PORT_FILE [CORE …]

It knows OpenAI chat and Ollama chat, whole and streamed, and the reading calls that a proxy makes around them. It
looks at the path and for `"stream": true`, and parses nothing else.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import uvloop

WORDS = ("The ", "answer ", "of ", "the ", "upstream ", "is ", "ready.")
OLLAMA = ("gemma3:4b", "bge-m3")
MB = 1024 * 1024


def whole(content: object) -> bytes:
    body = json.dumps(content).encode()
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


def chunked(kind: bytes, parts: list[bytes]) -> bytes:
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)
    return b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ntransfer-encoding: chunked\r\n\r\n%b0\r\n\r\n" % (kind, chunks)


def _openai(*, counted: bool) -> tuple[bytes, bytes]:
    """Return the whole answer and the streamed one; `counted` ends the stream with its usage, as real ones do when asked."""
    head = {"id": "chatcmpl-bench", "created": 1700000000, "model": "bench-up"}
    usage = {"prompt_tokens": 9, "completion_tokens": 7, "total_tokens": 16}
    message = {"role": "assistant", "content": "".join(WORDS)}
    full = {
        **head, "object": "chat.completion", "usage": usage,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
    }  # fmt: skip
    deltas = [({"role": "assistant", "content": word}, None) for word in WORDS] + [({}, "stop")]
    events = [
        {**head, "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": end}]}
        for delta, end in deltas
    ]
    if counted:
        events.append({**head, "object": "chat.completion.chunk", "choices": [], "usage": usage})
    lines = [b"data: %b\n\n" % json.dumps(event).encode() for event in events]
    return whole(full), chunked(b"text/event-stream", [*lines, b"data: [DONE]\n\n"])


def _ollama() -> tuple[bytes, bytes]:
    head = {"model": OLLAMA[0], "created_at": "2026-01-01T00:00:00Z"}
    end = {"done": True, "done_reason": "stop", "prompt_eval_count": 9, "eval_count": 7, "total_duration": 1000}
    full = {**head, "message": {"role": "assistant", "content": "".join(WORDS)}, **end}
    parts = [{**head, "message": {"role": "assistant", "content": word}, "done": False} for word in WORDS]
    last = {**head, "message": {"role": "assistant", "content": ""}, **end}
    lines = [json.dumps(part).encode() + b"\n" for part in [*parts, last]]
    return whole(full), chunked(b"application/x-ndjson", lines)


def _loaded() -> list[dict[str, object]]:
    forever = "2318-01-01T00:00:00Z"
    return [
        {
            "name": name,
            "model": name,
            "size": 3300 * MB,
            "size_vram": 3300 * MB,
            "expires_at": forever,
            "context_length": 4096,
        }
        for name in OLLAMA
    ]


TAGS = [{"name": name, "model": name, "size": 2900 * MB, "details": {}} for name in OLLAMA]
CHAT = {b"/v1/chat/completions": _openai(counted=False), b"/api/chat": _ollama()}
COUNTED = {b"/v1/chat/completions": _openai(counted=True)}
READING = {
    b"/v1/models": whole({"object": "list", "data": [{"id": "bench-up", "object": "model"}]}),
    b"/api/ps": whole({"models": _loaded()}),
    b"/api/tags": whole({"models": TAGS}),
    b"/api/version": whole({"version": "0.12.6"}),
    b"/api/show": whole({"details": {}, "model_info": {}, "capabilities": ["completion"]}),
    b"/health": whole({"status": "ok"}),
}
MISSING = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"
STREAMED = (b'"stream": true', b'"stream":true')


def answer(path: bytes, body: bytes) -> bytes:
    chat = CHAT.get(path)
    if chat is None:
        return READING.get(path, MISSING)
    if STREAMED[0] not in body and STREAMED[1] not in body:
        return chat[0]
    return COUNTED.get(path, chat)[1] if b'"include_usage"' in body else chat[1]


def length_of(head: bytes) -> int:
    """Return the content-length of a head; 0 without one. Chunked requests are not spoken here."""
    lower = head.lower()
    at = lower.find(b"\r\ncontent-length:")
    return int(lower[at + 17 :].split(b"\r\n", 1)[0]) if at >= 0 else 0


class Connection(asyncio.Protocol):
    """One kept-alive connection."""

    def __init__(self) -> None:
        self.buffer = b""
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while True:
            head, found, rest = self.buffer.partition(b"\r\n\r\n")
            if not found:
                return
            length = length_of(head)
            if len(rest) < length:
                return
            self.buffer = rest[length:]
            path = head.split(b" ", 2)[1].split(b"?", 1)[0].removeprefix(b"/ollama")
            assert self.transport is not None
            self.transport.write(answer(path, rest[:length]))


async def serve(port_file: Path) -> None:
    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", 0, backlog=256)
    parent = os.getppid()
    partial = port_file.with_suffix(".part")
    partial.write_text(str(server.sockets[0].getsockname()[1]))
    partial.rename(port_file)
    while os.getppid() == parent:  # ends with the benchmark, however that ends
        await asyncio.sleep(1)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        os.sched_setaffinity(0, {int(core) for core in sys.argv[2:]})
    uvloop.run(serve(Path(sys.argv[1])))
