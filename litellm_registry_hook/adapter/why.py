"""`/registry/decisions`, `/registry/explain` and `/registry/status`: as the commands of these names, for proxy admins.

They answer from what this worker knows; nothing is loaded, booked or asked of a model. All of it in a thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.responses import JSONResponse

from litellm_registry_hook.adapter import admin, host, host_keys
from litellm_registry_hook.adapter.gates import Gates
from litellm_registry_hook.adapter.gpu import GpuGate
from litellm_registry_hook.adapter.live import Live
from litellm_registry_hook.adapter.records import Records
from litellm_registry_hook.core.consent import ANONYMOUS, Caller
from litellm_registry_hook.core.decision import as_data, chosen
from litellm_registry_hook.core.explain import asked_name, explanation_data
from litellm_registry_hook.core.opt_in import OptInError
from litellm_registry_hook.core.plan import Ask, Index
from litellm_registry_hook.core.sanitise import read_consent
from litellm_registry_hook.core.since import read_since
from litellm_registry_hook.core.sync_settings import setting_edits
from litellm_registry_hook.edges.registry_edit_desk import Desk, utc_now
from litellm_registry_hook.edges.registry_edit_list import caller_named
from litellm_registry_hook.errors import RegistryError
from litellm_registry_hook.why.gather import explained, status_data
from litellm_registry_hook.why.looks import Looks, look

ADMINS_ONLY: Final = "only a proxy admin may see what was decided, and why"
LIMIT: Final = 100
MOST: Final = 10_000


@dataclass(frozen=True, slots=True)
class Knows:
    """What this worker knows.

    Attributes:
        gates: the registry in force and its index. gpu: the residency gate. live: file and state. records: decisions.

    """

    gates: Gates
    gpu: GpuGate
    live: Live
    records: Records

    def looks(self) -> Looks:
        """Return what is known now: what the desk has seen last, and what all workers have written."""
        seen = self.gpu.residency.board.snapshot
        facts = self.gates.watch.facts
        return look(self.gates.registry, host.environment(), self.live.state, snapshot=seen, facts=facts)


def mount(app: FastAPI, knows: Knows) -> None:
    """Add the routes to the proxy's app."""
    app.include_router(make_router(knows))


def make_router(knows: Knows) -> APIRouter:
    """Return the routes."""
    router = APIRouter(tags=["model registry"])
    signed_in = Depends(host_keys.signed_in())

    @router.get("/registry/decisions")
    async def decisions(request: Request, auth: Any = signed_in) -> JSONResponse:
        """Return decisions, the newest first: `?request_id=`, `tier=`, `since=`, `limit=`."""
        query = dict(request.query_params)
        return await admin.answer(knows.gates, request, auth, lambda _: _decisions(knows, query), ADMINS_ONLY)

    @router.get("/registry/explain")
    async def explain(request: Request, auth: Any = signed_in) -> JSONResponse:
        """Say who would serve: `?tier=` or `model=`, `key=`, `allow_metered=`."""
        query = dict(request.query_params)
        return await admin.answer(knows.gates, request, auth, lambda desk: _explain(knows, desk, query), ADMINS_ONLY)

    @router.get("/registry/status")
    async def status(request: Request, auth: Any = signed_in) -> JSONResponse:
        """Return the present state."""
        query = dict(request.query_params)
        return await admin.answer(knows.gates, request, auth, lambda _: _status(knows, query), ADMINS_ONLY)

    return router


def _only(query: Mapping[str, str], *names: str) -> None:
    unknown = sorted(query.keys() - set(names))
    if unknown:
        listed = ", ".join(names) or "none"
        raise OptInError("bad_request", f"no parameter is called {unknown[0]!r}; there are: {listed}")


def _decisions(knows: Knows, query: Mapping[str, str]) -> dict[str, Any]:
    _only(query, "request_id", "tier", "since", "limit")
    since = _since(query.get("since"))
    limit = _limit(query.get("limit"))
    tier = query.get("tier")
    found, why = knows.records.find(query.get("request_id"), since, limit if tier is None else None)
    return {"decisions": [as_data(one) for one in chosen(found, tier, limit)], "this_worker_alone": why}


def _since(text: str | None) -> datetime | None:
    try:
        return read_since(text, utc_now()) if text is not None else None
    except ValueError as error:
        raise OptInError("bad_request", f"since: {error}") from None


def _limit(text: str | None) -> int:
    if text is None:
        return LIMIT
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= MOST:
        raise OptInError("bad_request", f"limit: a number from 1 to {MOST}")
    return int(text)


def _explain(knows: Knows, desk: Desk, query: Mapping[str, str]) -> dict[str, Any]:
    _only(query, "tier", "model", "key", "allow_metered")
    allowed = read_consent(query.get("allow_metered", "false"))
    if allowed is None:
        raise OptInError("bad_request", "allow_metered: true or false")
    index = _index(knows)
    try:
        name = asked_name(index.registry, query.get("tier"), query.get("model"))
    except RegistryError as error:
        raise OptInError("unknown_model", str(error)) from None
    caller: Caller | None = ANONYMOUS
    if query.get("key"):
        _, caller = caller_named(desk, index.registry, query["key"], utc_now())
    found = explained(knows.looks(), index, name, Ask(caller or ANONYMOUS, allowed, utc_now()))
    assert found is not None
    return explanation_data(found)


def _status(knows: Knows, query: Mapping[str, str]) -> dict[str, Any]:
    _only(query)
    missing = [edit.path for edit in setting_edits(host_keys.settings_in_force())]
    return {**status_data(knows.looks(), _index(knows), knows.live.file), "settings_missing": missing}


def _index(knows: Knows) -> Index:
    if knows.gates.router is None:
        raise OptInError("proxy_failed", "the registry is not attached to the proxy's router yet; try again")
    return knows.gates.index
