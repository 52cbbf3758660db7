"""A load generator that costs little beside a proxy: raw HTTP/1.1 on kept-alive connections, N clients, a fixed count.

Each client sends its next request when its answer is whole. Nothing is parsed beyond where an answer ends.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import dataclass
from time import perf_counter

import uvloop

from bench.upstream import length_of


@dataclass(frozen=True)
class Load:
    """What one run saw.

    Attributes:
        seconds: from the first byte sent to the last answer.
        latencies: of each request, in seconds.
        statuses: how many answers of each HTTP status; 0 stands for a broken connection.
        sample: the first answer that was not a 200, for the message.

    """

    seconds: float
    latencies: tuple[float, ...]
    statuses: Counter[int]
    sample: bytes = b""

    @property
    def rps(self) -> float:
        return len(self.latencies) / self.seconds


class BadAnswerError(RuntimeError):
    """Not every answer was a 200: a rate of errors is no figure."""


def chat_request(
    port: int, model: str, key: str, *, stream: bool = False, headers: dict[str, str] | None = None
) -> bytes:
    """Return the bytes of one chat request."""
    words = "Say in one sentence what a virtual key is, for somebody who has never seen a proxy."
    body = json.dumps(
        {
            "model": model, "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": words}],
            "max_tokens": 64, "temperature": 0.2, **({"stream": True} if stream else {}),
        }
    ).encode()  # fmt: skip
    lines = [
        "POST /v1/chat/completions HTTP/1.1", f"host: 127.0.0.1:{port}", f"authorization: Bearer {key}",
        "content-type: application/json", "accept: */*", "user-agent: bench", f"content-length: {len(body)}",
        *(f"{name}: {value}" for name, value in (headers or {}).items()),
    ]  # fmt: skip
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class _Run:
    def __init__(self, request: bytes, requests: int, done: asyncio.Future[None]) -> None:
        self.request, self.left, self.missing, self.done = request, requests, requests, done
        self.latencies: list[float] = []
        self.statuses: Counter[int] = Counter()
        self.sample = b""

    def answered(self, status: int, seconds: float, answer: bytes) -> None:
        self.latencies.append(seconds)
        self.statuses[status] += 1
        if status != 200 and not self.sample:
            self.sample = answer[:600]
        self.missing -= 1
        if not self.missing and not self.done.done():
            self.done.set_result(None)


class _Client(asyncio.Protocol):
    def __init__(self, run: _Run) -> None:
        self.run = run
        self.buffer = bytearray()
        self.end = -1
        self.chunked = False
        self.sent = 0.0
        self.waiting = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def send(self) -> None:
        if not self.run.left:
            return
        self.run.left -= 1
        self.waiting = True
        self.sent = perf_counter()
        self.transport.write(self.run.request)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        buffer = self.buffer
        buffer += data
        if self.end < 0 and not self.chunked:
            at = buffer.find(b"\r\n\r\n")
            if at < 0:
                return
            head = bytes(buffer[:at])
            self.chunked = b"transfer-encoding: chunked" in head.lower()
            self.end = at + 4 + length_of(head)
        # Looked for below the head only: a head may well end in `: 0.0`.
        if buffer.endswith(b"0\r\n\r\n", self.end) if self.chunked else len(buffer) >= self.end:
            status, answer = int(buffer[9:12]), bytes(buffer[:600])
            seconds = perf_counter() - self.sent
            self.buffer, self.end, self.chunked, self.waiting = bytearray(), -1, False, False
            self.run.answered(status, seconds, answer)
            self.send()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.waiting:
            self.waiting = False
            self.run.answered(0, perf_counter() - self.sent, str(exc or "connection closed").encode())


async def drive(port: int, request: bytes, clients: int, requests: int) -> Load:
    """Send `requests` requests from `clients` connections."""
    loop = asyncio.get_running_loop()
    run = _Run(request, requests, loop.create_future())
    made = [await loop.create_connection(lambda: _Client(run), "127.0.0.1", port) for _ in range(clients)]
    start = perf_counter()
    for _, client in made:
        client.send()
    try:
        await asyncio.wait_for(run.done, 60 + requests)
    finally:
        seconds = perf_counter() - start
        for transport, _ in made:
            transport.close()
    return Load(seconds, tuple(run.latencies), run.statuses, run.sample)


def load(port: int, request: bytes, *, clients: int, requests: int) -> Load:
    """Run a load to its end.

    Raises:
        BadAnswerError: an answer was not a 200.

    """
    found = uvloop.run(drive(port, request, clients, requests))
    if set(found.statuses) != {200}:
        raise BadAnswerError(f"answers by status: {dict(found.statuses)}; first bad one: {found.sample!r}")
    return found
