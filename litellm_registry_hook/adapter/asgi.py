"""The outermost wrap: governs routes, takes our headers off the request, writes our headers and refusals.

`app.add_middleware` refuses once the app has started; `app.middleware_stack` can still be wrapped then.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio

from litellm_registry_hook.adapter.scope import SCOPE, Scope
from litellm_registry_hook.core.refusal import Refusal, body_of, headers_of, refuse, skipped_header
from litellm_registry_hook.core.routes import Route, classify
from litellm_registry_hook.core.sanitise import HEADER_CONSENT, HEADER_PREFIX

log = logging.getLogger("litellm_registry_hook")
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
PREFIX = HEADER_PREFIX.encode()
ERROR_STATUS = 400
SESSIONS = ("/mcp", "/toolset/")
CALL_ID = b"x-litellm-call-id"


@dataclass(frozen=True, slots=True)
class Guard:
    """What the wrap asks.

    Attributes:
        ensure_attached: whether the gates are on the router; puts them there.
        observing: whether refusals of routes are only logged.
        is_pass_through: whether the operator has made a path a pass-through endpoint.
        on_refused: told of each refusal.
        root_paths: prefixes that the host's own middleware takes off a path.
        on_end: told of each request whose answer has gone out, but for those on harmless routes.

    """

    ensure_attached: Callable[[], bool]
    observing: Callable[[], bool]
    is_pass_through: Callable[[str], bool]
    on_refused: Callable[[Scope, Refusal], None]
    root_paths: tuple[str, ...] = ()
    on_end: Callable[[Scope], None] | None = None


class Wrap:
    """Raw ASGI around the host's whole stack."""

    def __init__(self, app: Any, guard: Guard) -> None:
        self.app = app
        self.guard = guard

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] not in {"http", "websocket"}:
            await self.app(scope, receive, send)
            return
        method = scope["method"] if scope["type"] == "http" else "WEBSOCKET"
        path = path_of(scope, self.guard.root_paths)
        route = classify(method, path)
        if route.kind == "ungoverned" and self.guard.is_pass_through(path):
            route = Route("passthrough")
        headers, ours = split_headers(scope["headers"])
        if path.startswith(SESSIONS):
            # A tool session outlives the request that opened it: consent given there would last for others.
            ours.pop(HEADER_CONSENT, None)
        request = Scope(route, ours, on_refused=self.guard.on_refused, ends=True)
        if route.kind != "harmless":
            request.where = (method, path)
            request.on_end = self.guard.on_end
        if scope["type"] == "http":
            request.gone = partial(hung_up, receive)
        refusal = self._closed(request, method, scope)
        if refusal is not None:
            request.refusal = refusal
            try:
                await self._refuse(refusal, request, scope, receive, send)
            finally:
                request.end()
            return
        scope = {**scope, "headers": headers}
        token = SCOPE.set(request)
        try:
            await self.app(scope, receive, Answer(request, send) if scope["type"] == "http" else send)
        finally:
            SCOPE.reset(token)
            request.end()

    def _closed(self, request: Scope, method: str, scope: Message) -> Refusal | None:
        if not self.guard.ensure_attached() and request.route.kind != "harmless":
            return refuse(
                "gate_failed", "the registry is not attached to the proxy's router yet; try again in a moment"
            )
        if request.route.kind != "ungoverned":
            return None
        refusal = refuse(
            "route_not_governed",
            f"route {method} {scope['path']} is closed: the registry cannot see which model it calls",
        )
        if self.guard.observing():
            log.warning("observe: would refuse: %s", refusal.message)
            return None
        return refusal

    @staticmethod
    async def _refuse(refusal: Refusal, request: Scope, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 4403, "reason": refusal.message[:120]})
            return
        await Answer(request, send).write(refusal)


class Answer:
    """Puts what happened on the answer, and our refusal in the place of LiteLLM's rendering of it."""

    def __init__(self, request: Scope, send: Send) -> None:
        self.request = request
        self.send = send
        self.replaced = False

    async def __call__(self, message: Message) -> None:
        """Pass a message on, changed."""
        if self.replaced:
            return
        if message["type"] == "http.response.start":
            refusal = self.request.refusal
            if refusal is not None and message["status"] >= ERROR_STATUS and not self.request.served:
                self.replaced = True
                self.request.request_id = self.request.request_id or id_on(message)
                await self.write(refusal)
                return
            self.request.status = message["status"]
            if not self.request.request_id:
                self.request.request_id = id_on(message)
            kept = [pair for pair in message.get("headers", ()) if not pair[0].lower().startswith(PREFIX)]
            message = {**message, "headers": [*kept, *self._ours()]}
        await self.send(message)

    async def write(self, refusal: Refusal) -> None:
        """Send a refusal in the shape of its route, with the id by which its reasons can be asked for."""
        request = self.request
        request.status = refusal.status
        request.request_id = request.request_id or str(uuid.uuid4())
        body = json.dumps(body_of(refusal, self.request.route.shape)).encode()
        headers = [(name.encode(), value.encode()) for name, value in headers_of(refusal).items()]
        headers += [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *self._ours()]
        headers.append((CALL_ID, request.request_id.encode("latin-1", "replace")))
        await self.send({"type": "http.response.start", "status": refusal.status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})

    def _ours(self) -> list[tuple[bytes, bytes]]:
        request = self.request
        found: list[tuple[bytes, bytes]] = []
        if request.tier is not None:
            found.append((b"x-registry-tier", request.tier.encode()))
        if request.served:
            found.append((b"x-registry-model", ", ".join(request.served).encode()))
        if request.skipped:
            found.append((b"x-registry-skipped", skipped_header(request.skipped).encode()))
        return found


def id_on(message: Message) -> str:
    """Return the host's call id on an answer; empty where it has none."""
    return next((value.decode("latin-1") for name, value in message.get("headers", ()) if name.lower() == CALL_ID), "")


async def hung_up(receive: Receive) -> bool:
    """Say whether the client has gone, without waiting; asked once the body is read, as Starlette's is_disconnected."""
    with anyio.CancelScope() as look:
        look.cancel()
        message = await receive()
        return bool(message["type"] == "http.disconnect")
    return False


def path_of(scope: Message, root_paths: tuple[str, ...] = ()) -> str:
    """Return the decoded path below the root path, as Starlette's own routing sees it.

    Args:
        scope: the ASGI scope.
        root_paths: further prefixes that the host takes off, the longest that fits, once.

    """
    path = _below(str(scope["path"]), str(scope.get("root_path") or ""))
    for root in sorted(root_paths, key=len, reverse=True):
        below = _below(path, root)
        if below != path:
            return below
    return path


def _below(path: str, root: str) -> str:
    if root and path.startswith(root) and path[len(root) :][:1] in {"", "/"}:
        return path[len(root) :] or "/"
    return path


def split_headers(headers: Any) -> tuple[list[tuple[bytes, bytes]], dict[str, str]]:
    """Split the request's headers into what the host may see and our own."""
    kept: list[tuple[bytes, bytes]] = []
    ours: dict[str, str] = {}
    for name, value in headers:
        lower = name.lower()
        if lower.startswith(PREFIX):
            # Sent twice, a header must not say two things: the joined value is no boolean word.
            key, text = lower.decode("latin-1"), value.decode("latin-1")
            ours[key] = f"{ours[key]},{text}" if key in ours else text
        else:
            kept.append((name, value))
    return kept, ours
