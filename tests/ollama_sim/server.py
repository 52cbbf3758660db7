"""The stand-in over real HTTP, in real time: 127.0.0.1, a port of its own that it keeps, also while it is down.

    with OllamaServer(small_home(clock=time.time)) as ollama:
        ...                                          # ollama.url
        with ollama.held("gemma3:4b"): ...           # its answers do not end meanwhile
        ollama.wait(lambda sim: "gemma3:4b" in sim.names())
        assert ollama.look(lambda sim: sim.left("bge-m3")) == []

Only the server's own thread touches the scheduler: tests go through `look`, `do` and `wait`. Cards that two servers share
need one LoopThread for both.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from aiohttp import web

from litellm_registry_hook.demo.keep_alive import keep_alive_seconds, rfc3339
from litellm_registry_hook.demo.ollama_names import key
from litellm_registry_hook.demo.vectors import vector, words
from ollama_sim import wire
from ollama_sim.loop import LoopThread
from ollama_sim.scheduler import Sim
from ollama_sim.things import SimModel, Ticket

T = TypeVar("T")
NDJSON = "application/x-ndjson"
WORDS = ("this ", "is ", "an ", "answer")


@dataclass(frozen=True)
class Arrived:
    """One request.

    Attributes:
        path, body: as sent; body None where it is no JSON object. at: time.time() of its arrival.

    """

    method: str
    path: str
    body: dict[str, Any] | None
    at: float

    @property
    def model(self) -> str:
        """The model it names."""
        return str((self.body or {}).get("model") or (self.body or {}).get("name") or "")

    @property
    def keep_alive(self) -> Any:
        """keep_alive as sent."""
        return (self.body or {}).get("keep_alive")

    @property
    def options(self) -> dict[str, Any]:
        """options as sent."""
        found = (self.body or {}).get("options")
        return found if isinstance(found, dict) else {}

    @property
    def uses(self) -> bool:
        """Whether it uses, loads or unloads a model."""
        return self.path in ("/api/generate", "/api/chat", "/api/embed", "/api/embeddings")

    @property
    def empty(self) -> bool:
        """Whether it only loads or unloads."""
        body = self.body or {}
        return self.uses and not (body.get("prompt") or body.get("messages") or body.get("input"))


class OllamaServer:
    """One server.

    Attributes:
        sim: the scheduler; its clock has to be time.time.
        calls: every request so far, oldest first.
        url: `http://127.0.0.1:PORT`.

    """

    def __init__(self, sim: Sim, *, thread: LoopThread | None = None) -> None:
        self.sim = sim
        self.calls: list[Arrived] = []
        self._own = thread is None
        self._thread = thread or LoopThread("ollama")
        self._held: Counter[str] = Counter()
        self._waiting: set[asyncio.Event] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._runner: web.AppRunner | None = None
        self._socket = bound_socket(0)
        self.port: int = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    # -- life ---------------------------------------------------------------------------------------------------------

    def __enter__(self) -> OllamaServer:
        if self._own:
            self._thread.__enter__()
        self._thread.run(self._listen())
        self.do(lambda sim: None)
        return self

    def __exit__(self, *exc: object) -> None:
        self._thread.run(self._close())
        if self._own:
            self._thread.__exit__()
        self._socket.close()

    def down(self) -> None:
        """Kill the server: the port refuses, every connection breaks, its memory is free."""
        self._thread.run(self._close())
        self._socket.close()
        self._socket = bound_socket(self.port)
        self.do(Sim.restart)

    def up(self) -> None:
        """Start it again, with nothing loaded."""
        self._thread.run(self._listen())

    # -- for tests ----------------------------------------------------------------------------------------------------

    def do(self, what: Callable[[Sim], T]) -> T:
        """Do something with the scheduler in its own thread, and return what that returns."""
        return self._thread.do(lambda: self._doing(what))

    look = do

    def wait(self, until: Callable[[Sim], T], timeout: float = 10) -> T:
        """Wait until a question about the scheduler has a true answer, and return it.

        Raises:
            TimeoutError: it had none in time; the message has the events.

        """
        try:
            return self._thread.run(self._until(until, timeout), timeout + 5)
        except (TimeoutError, asyncio.TimeoutError):
            events = "\n".join(map(str, self.look(lambda sim: sim.events)[-30:]))
            raise TimeoutError(f"not within {timeout} s; the last events:\n{events}") from None

    @contextlib.contextmanager
    def held(self, name: str) -> Iterator[None]:
        """Keep the answers of a model from ending: a stream stays open after its first word."""
        self.do(lambda sim: self._held.update([key(name)]))
        try:
            yield
        finally:
            self.do(lambda sim: self._held.subtract([key(name)]))

    @property
    def uses(self) -> list[Arrived]:
        """Requests that use, load or unload a model."""
        return [call for call in self.calls if call.uses]

    # -- machinery ----------------------------------------------------------------------------------------------------

    def _doing(self, what: Callable[[Sim], T]) -> T:
        try:
            self.sim.step()
            return what(self.sim)
        finally:
            self._pulse()

    def _pulse(self) -> None:
        """After anything: wake who waits, and set the alarm for the next thing."""
        for event in self._waiting:
            event.set()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.sim.next_at is not None:
            delay = max(0.0, self.sim.next_at - self.sim.clock())
            self._timer = self._thread.loop.call_later(min(delay, 3600), self._alarm)

    def _alarm(self) -> None:
        self.sim.step()
        self._pulse()

    async def _until(self, until: Callable[[Sim], T], timeout: float) -> T:
        async def wait() -> T:
            async with self._watching() as moved:
                while not (found := self._doing(until)):
                    moved.clear()
                    await moved.wait()
                return found

        return await asyncio.wait_for(wait(), timeout)

    @contextlib.asynccontextmanager
    async def _watching(self) -> Any:
        moved = asyncio.Event()
        self._waiting.add(moved)
        try:
            yield moved
        finally:
            self._waiting.discard(moved)

    async def _listen(self) -> None:
        if self._runner is not None:
            return
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.add_routes(
            [
                web.get("/", self._root),
                web.get("/api/version", self._version),
                web.get("/api/tags", self._tags),
                web.get("/api/ps", self._ps),
                web.post("/api/show", self._show),
                web.post("/api/generate", self._generate),
                web.post("/api/chat", self._chat),
                web.post("/api/embed", self._embed),
                web.post("/api/embeddings", self._embeddings),
            ]
        )
        # handler_cancellation: a client that hangs up ends its handler, which aborts its load.
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.05)
        await self._runner.setup()
        await web.SockSite(self._runner, self._socket, backlog=1024).start()

    async def _close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def _body(self, request: web.Request) -> dict[str, Any] | None:
        try:
            body = json.loads(await request.read())
        except ValueError:
            body = None
        body = body if isinstance(body, dict) else None
        self.calls.append(Arrived(request.method, request.path, body, time.time()))
        self._pulse()
        return body

    # -- harmless reads -----------------------------------------------------------------------------------------------

    async def _root(self, request: web.Request) -> web.Response:
        await self._body(request)
        return web.Response(text="Ollama is running")

    async def _version(self, request: web.Request) -> web.Response:
        await self._body(request)
        return web.json_response({"version": self.sim.version})

    async def _tags(self, request: web.Request) -> web.Response:
        await self._body(request)
        return web.json_response({"models": [wire.tag(model) for model in self.sim.models]})

    async def _ps(self, request: web.Request) -> web.Response:
        await self._body(request)
        async with self._watching() as moved:
            while (left := self.sim.ps_blocked_until - self.sim.clock()) > 0:
                moved.clear()
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(moved.wait(), min(left, 3600))
        return web.json_response({"models": [wire.ps_line(entry) for entry in self._doing(Sim.ps)]})

    async def _show(self, request: web.Request) -> web.Response:
        found = self._find(await self._body(request))
        return found if isinstance(found, web.Response) else web.json_response(wire.show(found))

    # -- calls that use a model ---------------------------------------------------------------------------------------

    async def _generate(self, request: web.Request) -> web.StreamResponse:
        body = await self._body(request)
        return await self._write(request, body, str((body or {}).get("prompt") or ""), "generate", wire.response_part)

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body = await self._body(request)
        messages = (body or {}).get("messages")
        text = json.dumps(messages) if messages else ""
        return await self._write(request, body, text, "chat", wire.message_part)

    async def _write(
        self,
        request: web.Request,
        body: dict[str, Any] | None,
        prompt: str,
        capability: str,
        said: Callable[[str], dict[str, Any]],
    ) -> web.StreamResponse:
        model = self._find(body)
        if isinstance(model, web.Response):
            return model
        assert body is not None
        head = {"model": body.get("model") or body.get("name"), "created_at": rfc3339(time.time())}
        try:
            keep_s = keep_alive_seconds(body.get("keep_alive"))
        except ValueError as error:
            return _error(400, str(error))
        if not prompt and keep_s == 0:
            # Comes before the capability: an embedding model is unloaded this way too.
            self._doing(lambda sim: sim.unload(model.name))
            return web.json_response({**head, **said(""), "done": True, "done_reason": "unload"})
        if model.embedding:
            return _error(400, f'"{head["model"]}" does not support {capability}')
        began = time.monotonic()
        async with self._using(body) as ticket:
            if ticket.state == "failed":
                return _error(ticket.status or 500, ticket.error)
            if not prompt:
                return web.json_response({**head, **said(""), "done": True, "done_reason": "load"})
            loaded = time.monotonic()
            if body.get("stream") is False:
                await self._hold(ticket)
                if ticket.state == "failed":
                    return _error(500, ticket.error)
                end = wire.last_part(began, loaded, len(words(prompt)), len(WORDS))
                return web.json_response({**head, **said("".join(WORDS)), **end})
            response = web.StreamResponse(headers={"Content-Type": NDJSON})
            await response.prepare(request)
            for index, word in enumerate(WORDS):
                if index == 1:
                    await self._hold(ticket)
                    if ticket.state == "failed":
                        await response.write(_line({"error": ticket.error}))
                        break
                await response.write(_line({**head, **said(word), "done": False}))
            else:
                end = wire.last_part(began, loaded, len(words(prompt)), len(WORDS))
                await response.write(_line({**head, **said(""), **end}))
            await response.write_eof()
            return response

    async def _embed(self, request: web.Request) -> web.Response:
        body = await self._body(request)
        given = (body or {}).get("input", [])
        texts = [given] if isinstance(given, str) else given
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            return _error(400, "invalid input type")
        texts = [text for text in texts if text or len(texts) > 1]
        found = await self._vectors(body, texts)
        if isinstance(found, web.Response):
            return found
        count = sum(len(words(text)) for text in texts)
        answer = {"model": (body or {}).get("model"), "embeddings": found, "total_duration": 1, "load_duration": 1}
        return web.json_response({**answer, "prompt_eval_count": count})

    async def _embeddings(self, request: web.Request) -> web.Response:
        body = await self._body(request)
        text = str((body or {}).get("prompt") or "")
        found = await self._vectors(body, [text] if text else [])
        if isinstance(found, web.Response):
            return found
        return web.json_response({"embedding": found[0] if found else []})

    async def _vectors(self, body: dict[str, Any] | None, texts: list[str]) -> list[list[float]] | web.Response:
        model = self._find(body)
        if isinstance(model, web.Response):
            return model
        assert body is not None
        try:
            keep_alive_seconds(body.get("keep_alive"))
        except ValueError as error:
            return _error(400, str(error))
        if not model.embedding:
            return _error(501, "this model does not support embeddings")
        async with self._using(body) as ticket:
            if ticket.state != "failed":
                await self._hold(ticket)
            if ticket.state == "failed":
                return _error(ticket.status or 500, ticket.error)
            asked = body.get("dimensions")
            size = min(asked, model.dimensions) if isinstance(asked, int) and asked > 0 else model.dimensions
            return await asyncio.to_thread(lambda: [vector(text, size) for text in texts])

    @contextlib.asynccontextmanager
    async def _using(self, body: dict[str, Any]) -> Any:
        """Have the model loaded; a cancelled handler cancels the ticket, which aborts its load."""
        options = body.get("options") if isinstance(body.get("options"), dict) else {}
        name = str(body.get("model") or body.get("name"))
        ticket: Ticket = self._doing(lambda sim: sim.begin(name, body.get("keep_alive"), options))
        try:
            async with self._watching() as moved:
                while ticket.state in ("queued", "loading"):
                    moved.clear()
                    await moved.wait()
            yield ticket
        except (asyncio.CancelledError, ConnectionError):
            self._doing(lambda sim: sim.cancel(ticket))
            raise
        finally:
            if ticket.state == "running":
                self._doing(lambda sim: sim.finish(ticket))

    async def _hold(self, ticket: Ticket) -> None:
        """Wait while a test holds the model's answers, unless the model dies meanwhile."""
        assert ticket.model is not None
        async with self._watching() as moved:
            while self._held[key(ticket.model.name)] and ticket.state == "running":
                moved.clear()
                await moved.wait()

    def _find(self, body: dict[str, Any] | None) -> SimModel | web.Response:
        if body is None:
            return _error(400, "invalid JSON in request body")
        name = body.get("model") or body.get("name") or ""
        if not name:
            return _error(400, "model is required")
        model = self.sim.model(str(name))
        return model if model is not None else _error(404, f"model '{name}' not found")


def _line(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode() + b"\n"


def _error(status: int, message: str) -> web.Response:
    return web.json_response({"error": message}, status=status)


def bound_socket(port: int) -> socket.socket:
    """Return a socket that owns its port; until it listens connections to it are refused."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind(("127.0.0.1", port))
    return made
