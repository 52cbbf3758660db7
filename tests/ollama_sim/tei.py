"""A tiny TEI server: its health, and the memory that its process holds while it lives."""

from __future__ import annotations

import contextlib

from aiohttp import web

from ollama_sim.loop import LoopThread
from ollama_sim.server import bound_socket
from ollama_sim.things import Card

HOLDER = "tei"


class Tei:
    """One TEI server of a house.

    Attributes:
        url: `http://127.0.0.1:PORT`.
        status: what /health answers: 200, or 503 while it is too busy.
        reranks: bodies of POST /rerank.

    """

    def __init__(self, thread: LoopThread, card: Card, mb: float) -> None:
        self.status = 200
        self.reranks: list[dict] = []
        self._thread = thread
        self._card = card
        self._mb = mb
        self._runner: web.AppRunner | None = None
        self._socket = bound_socket(0)
        self.port: int = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Tei:
        self.up()
        return self

    def __exit__(self, *exc: object) -> None:
        self._thread.run(self._close())
        self._socket.close()

    def up(self) -> None:
        """Start the process: it answers and holds its memory."""
        self._thread.run(self._listen())

    def down(self) -> None:
        """Kill the process: its port refuses and its memory is free."""
        self._thread.run(self._close())
        self._socket.close()
        self._socket = bound_socket(self.port)

    async def _listen(self) -> None:
        if self._runner is None:
            app = web.Application()
            app.add_routes(
                [
                    web.get("/health", self._health),
                    web.get("/info", self._info),
                    web.post("/rerank", self._rerank),
                ]
            )
            self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.05)
            await self._runner.setup()
            await web.SockSite(self._runner, self._socket).start()
        self._card.hold(HOLDER, self._mb)

    async def _close(self) -> None:
        runner, self._runner = self._runner, None
        with contextlib.suppress(RuntimeError):
            if runner is not None:
                await runner.cleanup()
        self._card.hold(HOLDER, 0)

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response(status=self.status)

    async def _info(self, _: web.Request) -> web.Response:
        return web.json_response({"model_id": "BAAI/bge-reranker-v2-m3", "model_type": {"reranker": {}}})

    async def _rerank(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.reranks.append(body)
        return web.json_response([{"index": index, "score": 0.5} for index, _ in enumerate(body["texts"])])
