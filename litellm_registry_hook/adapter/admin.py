"""`/registry/opt-in` and `/registry/keys`: the same as `litellm-registry opt-in`, for proxy admins, over the proxy.

Files, the state and lookups run in a thread. LiteLLM's own keys are asked for through LiteLLM's own routes, called
inside this process with the caller's own headers (ASGI, no socket): LiteLLM checks the caller again, and no port, TLS
or root path has to be guessed.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from concurrent.futures import TimeoutError as TooLateError
from typing import Any, Final, Protocol, TypeVar

import httpx
from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, ValidationError

from litellm_registry_hook.adapter import host_keys
from litellm_registry_hook.core.opt_in import STATUS, OptInError
from litellm_registry_hook.core.refusal import Refusal, body_of
from litellm_registry_hook.core.registry import Registry
from litellm_registry_hook.core.virtual_key import TOKEN_PREFIX, VirtualKey
from litellm_registry_hook.edges.proxy_api import TIMEOUT_SECONDS, ProxyApi, Send
from litellm_registry_hook.edges.registry_edit_desk import Desk, Done, Wish, utc_now
from litellm_registry_hook.edges.registry_edit_list import rows, rows_of
from litellm_registry_hook.edges.registry_file import registry_path
from litellm_registry_hook.edges.store.place import open_state
from litellm_registry_hook.errors import ConfigError, RegistryError, StateError

T = TypeVar("T")
# Of the caller's request; the inner one has a body and a host of its own.
_NOT_PASSED_ON: Final = frozenset(
    {"host", "content-length", "content-type", "transfer-encoding", "connection", "accept-encoding", "expect"}
)


class HasRegistry(Protocol):
    """What holds the registry in force."""

    @property
    def registry(self) -> Registry:
        """The registry in force."""


class Body(BaseModel):
    """What POST and DELETE take."""

    model_config = ConfigDict(extra="forbid", strict=True)

    key: str
    models: list[str] = []
    expires: str | None = None
    note: str | None = None
    max_calls: int | str | None = None
    permission: bool = False
    foreign: bool = False
    unpinned: bool = False


class RemovalBody(BaseModel):
    """What DELETE takes, in its body or its query."""

    model_config = ConfigDict(extra="forbid", strict=True)

    key: str
    models: list[str] = []
    foreign: bool = False


def mount(app: FastAPI, gates: HasRegistry) -> None:
    """Add the routes to the proxy's app; works also after it has started."""
    app.include_router(make_router(gates))


def make_router(gates: HasRegistry) -> APIRouter:
    """Return the routes."""
    router = APIRouter(tags=["model registry"])
    signed_in = Depends(host_keys.signed_in())

    @router.get("/registry/opt-in")
    async def list_grants(request: Request, auth: Any = signed_in) -> JSONResponse:
        """List every grant, in the registry and in LiteLLM's permissions."""
        return await answer(gates, request, auth, lambda desk: {"grants": [row.as_data() for row in rows(desk)]})

    @router.post("/registry/opt-in")
    async def add_grant(request: Request, auth: Any = signed_in) -> JSONResponse:
        """Opt a key in."""
        given = await _given(request, Body)
        return await answer(gates, request, auth, lambda desk: _add(desk, _valid(given, Body)))

    @router.delete("/registry/opt-in")
    async def remove_grant(request: Request, auth: Any = signed_in) -> JSONResponse:
        """Opt a key out."""
        given = await _given(request, RemovalBody)
        return await answer(gates, request, auth, lambda desk: _remove(desk, _valid(given, RemovalBody)))

    @router.get("/registry/keys")
    async def list_keys(request: Request, auth: Any = signed_in) -> JSONResponse:
        """List the embedded keys; those in LiteLLM's database are at its own /key/list."""
        return await answer(gates, request, auth, _keys)

    return router


def _add(desk: Desk, body: Body) -> dict[str, Any]:
    if body.permission and desk.api is None:
        message = "this proxy has no database, so its keys have no permissions; opt the key in without `permission`"
        raise OptInError("no_key_database", message)
    wish = Wish(
        body.key,
        tuple(body.models),
        body.expires,
        body.max_calls,
        body.note,
        body.permission,
        body.foreign,
        body.unpinned,
    )
    return _outcome(desk, desk.add(wish))


def _remove(desk: Desk, body: RemovalBody) -> dict[str, Any]:
    return _outcome(desk, desk.remove(body.key, tuple(body.models), foreign=body.foreign))


def _outcome(desk: Desk, done: Done) -> dict[str, Any]:
    return {
        "keys": [{"key": key.alias or None, "token": key.pinned or None} for key in done.keys],
        "grants": [row.as_data() for row in rows_of(desk, done.keys)],
        "notes": list(done.notes),
    }


def _keys(desk: Desk) -> dict[str, Any]:
    found = desk.stores.embedded()
    return {
        "keys": [_key(one, live=one.live(desk.now())) for one in found],
        "litellm_keys": "/key/list" if desk.api is not None else None,
    }


def _key(key: VirtualKey, *, live: bool) -> dict[str, Any]:
    return {
        "key": key.alias,
        "token": TOKEN_PREFIX + key.token,
        "models": list(key.models) if key.models is not None else None,
        "created": key.created.isoformat(timespec="seconds"),
        "expires": key.expires.isoformat(timespec="seconds") if key.expires is not None else None,
        "state": "live" if live else "revoked" if key.revoked is not None else "expired",
        "note": key.note,
    }


async def answer(
    gates: HasRegistry,
    request: Request,
    auth: Any,
    work: Callable[[Desk], dict[str, Any]],
    admins_only: str = "only a proxy admin may see and change who is opted in",
) -> JSONResponse:
    """Do the work in a thread, for proxy admins alone; errors in our shape."""
    if not host_keys.is_proxy_admin(auth):
        return _error("admin_only", admins_only)
    api = ProxyApi(_inside(request)) if host_keys.has_key_database() else None

    def run() -> dict[str, Any]:
        state = open_state(os.environ, gates.registry.state)
        try:
            return work(Desk(registry_path(), state, host_keys.name_of_admin(auth), api, utc_now, on_proxy=True))
        finally:
            state.close()

    try:
        return JSONResponse(await asyncio.to_thread(run))
    except OptInError as error:
        return _error(error.code, str(error))
    except RegistryError as error:
        return _error("registry_invalid", str(error))
    except ConfigError as error:
        return _error("registry_not_editable", str(error))
    except StateError as error:
        return _error("state_unavailable", str(error))


def _error(code: str, message: str) -> JSONResponse:
    status = STATUS[code]
    return JSONResponse(body_of(Refusal(code, message, status), "openai"), status)


async def _given(request: Request, shape: type[BaseModel]) -> Any:
    """Return what the caller sent: the JSON body, else the query."""
    raw = await request.body()
    if raw:
        try:
            return await request.json()
        except ValueError:
            return None
    query = request.query_params
    many = {name: query.getlist(name) for name in query if name == "models"}
    flags = {
        name: query[name].lower() in {"true", "1"} for name in query if shape.model_fields.get(name) and name in _FLAGS
    }
    return {**dict(query), **many, **flags}


_FLAGS: Final = frozenset({"permission", "foreign", "unpinned"})
B = TypeVar("B", bound=BaseModel)


def _valid(given: Any, shape: type[B]) -> B:
    try:
        return shape.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        at = ".".join(str(step) for step in first["loc"]) or "the body"
        names = ", ".join(shape.model_fields)
        raise OptInError("bad_request", f"{at}: {first['msg']}; send JSON with {names}") from None


def _inside(request: Request) -> Send:
    """Return a way to call LiteLLM's routes in this process as the caller."""
    loop = asyncio.get_running_loop()
    headers = [(name, value) for name, value in request.headers.items() if name.lower() not in _NOT_PASSED_ON]
    client = (request.client.host, request.client.port) if request.client is not None else ("127.0.0.1", 0)

    async def call(method: str, path: str, body: Mapping[str, Any] | None) -> tuple[int, Any]:
        transport = httpx.ASGITransport(app=request.app, raise_app_exceptions=False, client=client)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as inner:
            answer = await inner.request(method, path, json=body, headers=headers)
        try:
            return answer.status_code, answer.json()
        except ValueError:
            return answer.status_code, answer.text

    def send(method: str, path: str, body: Mapping[str, Any] | None) -> tuple[int, Any]:
        waiting = asyncio.run_coroutine_threadsafe(call(method, path, body), loop)
        try:
            return waiting.result(TIMEOUT_SECONDS)
        except TooLateError:
            waiting.cancel()
            raise OptInError("proxy_failed", f"LiteLLM did not answer {path} in {TIMEOUT_SECONDS:.0f} s") from None

    return send
