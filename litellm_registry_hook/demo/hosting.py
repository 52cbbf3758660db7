"""What the stand-ins share: an application on a free loopback port, and bodies read with care."""

from __future__ import annotations

import json
from typing import Any

from aiohttp import web

JSON = "application/json"


class Served:
    """An application that listens.

    Attributes:
        url: `http://127.0.0.1:PORT`.

    """

    def __init__(self, runner: web.AppRunner, url: str) -> None:
        self._runner = runner
        self.url = url

    async def stop(self) -> None:
        """Stop listening; what is still being answered is cut."""
        await self._runner.cleanup()


async def serve(app: web.Application, port: int = 0) -> Served:
    """Serve an application on 127.0.0.1; port 0 takes a free one.

    Raises:
        OSError: the port is taken.

    """
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.2)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port)
    await site.start()
    return Served(runner, f"http://127.0.0.1:{runner.addresses[0][1]}")


async def body_of(request: web.Request) -> dict[str, Any] | None:
    """Return the JSON object a request carries, None where it carries none."""
    try:
        body = json.loads(await request.read())
    except ValueError:
        return None
    return body if isinstance(body, dict) else None


async def stream_of(request: web.Request, content_type: str) -> web.StreamResponse:
    """Begin a streamed answer."""
    response = web.StreamResponse(headers={"Content-Type": content_type, "Cache-Control": "no-cache"})
    await response.prepare(request)
    return response
