"""`POST /registry/reopen`: a proxy admin says that a closed model is worth a try again, after a top-up say."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.responses import JSONResponse

from litellm_registry_hook.adapter import host_keys
from litellm_registry_hook.adapter.gates import Gates
from litellm_registry_hook.core.refusal import Refusal, body_of

ADMIN_ONLY = "only a proxy admin may open a model again"
NO_SUCH = 404
FORBIDDEN = 403


def mount(app: FastAPI, gates: Gates) -> None:
    """Add the route to the proxy's app."""
    app.include_router(make_router(gates))


def make_router(gates: Gates) -> APIRouter:
    """Return the route: it takes `?model=ID`, all models without one, and answers what was closed."""
    router = APIRouter(tags=["model registry"])
    signed_in = Depends(host_keys.signed_in())

    @router.post("/registry/reopen")
    async def reopen(request: Request, auth: Any = signed_in) -> JSONResponse:
        """Forget what calls have taught of a model, in this worker at once and in the others within a second."""
        if not host_keys.is_proxy_admin(auth):
            return _error("admin_only", ADMIN_ONLY, FORBIDDEN)
        name = request.query_params.get("model")
        if name is not None and name not in gates.registry.by_id:
            return _error("unknown_model", f"no model is called {name!r}", NO_SUCH)
        models = [gates.registry.by_id[name]] if name is not None else gates.registry.models
        return JSONResponse({"opened": [key for model in models for key in gates.watch.reopen(model)]})

    return router


def _error(code: str, message: str, status: int) -> JSONResponse:
    return JSONResponse(body_of(Refusal(code, message, status), "openai"), status)
