"""The hooks that LiteLLM calls: before the request is routed, and at the deployment that is really called."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from litellm_registry_hook.adapter import batches, host, host_keys
from litellm_registry_hook.adapter.gates import Gates
from litellm_registry_hook.adapter.gpu import GpuGate, as_skip
from litellm_registry_hook.adapter.identity import auth_in
from litellm_registry_hook.adapter.meter import Meter
from litellm_registry_hook.adapter.scope import HOP, SCOPE, Foreign, RefusedError, Scope, raise_refusal
from litellm_registry_hook.core.consent import Caller
from litellm_registry_hook.core.match import Seen, same_base, same_model
from litellm_registry_hook.core.plan import Plan, Running, join, unknown
from litellm_registry_hook.core.refusal import Refusal, Skip, all_refused, refuse
from litellm_registry_hook.core.routes import Route
from litellm_registry_hook.core.sanitise import (
    HEADER_CONSENT,
    HEADER_WAIT,
    drop_levers,
    read_wait,
    split_names,
    take_consent,
    take_fallbacks,
)

log = logging.getLogger("litellm_registry_hook")
P = ParamSpec("P")
T = TypeVar("T")
PASS_THROUGH = "pass_through_endpoint"  # noqa: S105
# Reading or ending what an id names: nothing is generated, and LiteLLM refuses response ids it did not issue.
FOLLOW_UPS = frozenset(
    {
        "aget_responses",
        "get_responses",
        "adelete_responses",
        "acancel_responses",
        "alist_input_items",
        "avideo_status",
        "avideo_content",
        "avideo_list",
    }
)
# Only a wrapper around other SDK calls: retrieval, then a completion.
ENVELOPES = frozenset({"aquery", "query"})
TOOL_CALLS = frozenset({"call_mcp_tool", "list_mcp_tools", "mcp_call"})


def fail_closed(hook: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Turn a bug of ours into a refusal: a gate that breaks lets nothing through."""

    @wraps(hook)
    async def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await hook(*args, **kwargs)
        except (RefusedError, host.HTTPException):
            raise
        except Exception:
            log.exception("a gate of the registry failed")
            raise_refusal(
                refuse("gate_failed", "the registry's gate failed and lets nothing through; see the proxy's log")
            )

    return guarded


class RegistryHandler(host.CustomLogger):
    """The callback named in litellm_settings.callbacks."""

    def __init__(self, gates: Gates, meter: Meter, gpu: GpuGate) -> None:
        super().__init__()
        self.gates = gates
        self.meter = meter
        self.gpu = gpu
        self.batches = batches.Batches(gates, meter)

    # Must be defined on the concrete class: LiteLLM looks it up in vars(cls) (proxy/utils.py:3072).
    @fail_closed
    async def async_pre_call_hook(
        self,
        user_api_key_dict: host.UserAPIKeyAuth,
        cache: Any,  # noqa: ARG002  LiteLLM's signature
        data: dict[str, Any],
        call_type: str,
    ) -> dict[str, Any]:
        """Read consent and identity, drop the levers, decide, and put the first deployment's model group into the body.

        Raises:
            RefusedError: nobody may serve the request.

        """
        scope = SCOPE.get()
        if scope is None:
            # A call that LiteLLM makes on behalf of a request that it did not get over HTTP (MCP sampling).
            scope = Scope(Route("model"), {})
            SCOPE.set(scope)
        scope.hooked = True
        scope.request_id = str(data.get("litellm_call_id") or "")
        scope.caller = self.gates.identify(user_api_key_dict)
        consent = take_consent(data, scope.headers.get(HEADER_CONSENT))
        wait = read_wait(scope.headers.get(HEADER_WAIT))
        for answer in (consent, wait):
            if isinstance(answer, Refusal):
                raise_refusal(answer)
        scope.allow_metered = consent is True
        scope.wait_s = min(wait, self.gates.registry.routing.max_wait_s) if isinstance(wait, float) else 0.0
        model = data.get("model")
        scope.asked = str(model or "")
        if call_type == PASS_THROUGH:
            await self._pass_through(str(model or "a pass-through call without a model"), scope, user_api_key_dict)
            return data
        if call_type in TOOL_CALLS:
            return data
        if call_type in batches.GATED or call_type in batches.FOLLOW_UPS:
            scope.files = True
            self.batches.asked(call_type, data)
            return data
        drop_levers(data)
        if model is None or model == "":
            return data
        if not isinstance(model, str):
            raise_refusal(unknown(self.gates.index, str(model)))
        fallbacks = take_fallbacks(data, self.gates.known)
        if isinstance(fallbacks, Refusal):
            raise_refusal(fallbacks)
        names = split_names(model) if call_type == "acompletion" else (model,)
        plans = [await self._plan(name, scope, user_api_key_dict) for name in names]
        if len(names) > 1:
            self._comma_list(names, plans)
            scope.listed = True
            data["model"] = ",".join(dict.fromkeys(names))
            return data
        if scope.allow_metered:
            for skip in (skip for one in plans if one is not None for skip in one.skipped):
                self.meter.refused(scope, skip)
        if plans[0] is not None:
            further = [await self._fallback(name, scope, user_api_key_dict) for name in fallbacks]
            whole = join([plans[0], *further])
            scope.tier = whole.tier
            data["model"] = whole.targets[0].model.id
            scope.plans[data["model"]] = whole
            _fit_embedding(data, whole)
            if call_type == "acompletion" and data.get("stream") is True:
                host.count_stream(data, [target.model.id for target in whole.targets])
        return data

    @fail_closed
    async def async_pre_call_deployment_hook(self, kwargs: dict[str, Any], call_type: Any) -> dict[str, Any]:
        """Look at the call as it leaves for a deployment: the last line for every LiteLLM SDK call.

        Raises:
            RefusedError: the call is not the one that was cleared, or nobody cleared it.

        """
        hop = HOP.get()
        # A call type that LiteLLM has not listed itself arrives as None (utils.py:1526).
        kind = getattr(call_type, "value", None) or getattr(kwargs.get("litellm_logging_obj"), "call_type", "")
        if kind in batches.GATED:
            return await self.batches.leaves(kind, kwargs, SCOPE.get())
        if isinstance(hop, Running) and _is_call_to(hop, kwargs):
            # The registry in force has the word, also where the proxy's config is older than it.
            kwargs.update(self.gpu.runners.params(hop.model))
            return kwargs
        if kind in FOLLOW_UPS or kind in batches.FOLLOW_UPS:
            return kwargs
        scope = SCOPE.get()
        auth = auth_in(kwargs)
        if kind in ENVELOPES:
            # The calls it makes come by here themselves.
            return kwargs
        # The health loop may be faster than the first request.
        if self.gates.router is None and not self.gates.ensure():
            raise_refusal(refuse("gate_failed", "the registry is not attached to the proxy's router yet"))
        seen = self._seen(kwargs)
        probe = scope is None or getattr(auth, "key_alias", None) == host.HEALTH_CHECK_ALIAS
        if probe:
            refusal = self.gates.clear_probe(seen)
        else:
            assert scope is not None
            if not scope.hooked and auth is not None:
                scope.caller = self.gates.identify(auth)
            refusal = self.gates.clear(seen, scope.ask())
            # A foreign hop was booked by its name where such count as metered.
            booked = isinstance(hop, Foreign) and self.gates.books_foreign
            metered = self.gates.metered_name(seen) if refusal is None and not booked else None
            if metered is not None:
                skip = await self.meter.admit(scope, metered)
                refusal = all_refused(metered, None, (skip,)) if skip is not None else None
        if refusal is None:
            refusal = await self._gpu(scope, kwargs)
        if refusal is not None:
            log.warning("stopped at the deployment: %s", refusal.message)
            raise_refusal(refusal)
        return kwargs

    async def _gpu(self, scope: Scope | None, kwargs: dict[str, Any]) -> Refusal | None:
        """Ask the residency gate for a call that the walk did not choose."""
        nos = await self.gpu.clear_call(scope or Scope(Route("model"), {}), kwargs)
        if not nos:
            return None
        if self.gates.observing:
            log.warning("observe: would refuse: %s", nos[0].reason)
            return None
        name = str(kwargs.get("model") or "")
        return all_refused(name, None, tuple(as_skip(name, no) for no in nos))

    async def async_post_call_success_deployment_hook(
        self,
        request_data: Any,  # noqa: ARG002  LiteLLM's signature
        response: Any,
        call_type: Any,
    ) -> None:
        """Remember a batch file once its provider has named it; what this raises LiteLLM only logs."""
        if getattr(call_type, "value", None) == batches.UPLOAD:
            await self.batches.uploaded(getattr(response, "id", ""), SCOPE.get())

    async def async_log_success_event(
        self,
        kwargs: Any,
        response_obj: Any,  # noqa: ARG002  LiteLLM's signature
        start_time: Any,  # noqa: ARG002
        end_time: Any,  # noqa: ARG002
    ) -> None:
        """Record what a metered call has cost, where LiteLLM knows a price."""
        if str(kwargs.get("call_type")) in batches.FOLLOW_UPS:
            # Each look at a finished batch tells the cost of the whole batch again.
            return
        deployment, request_id, dollars, token, alias = host.cost_of(kwargs)
        owner = self.gates.index.by_deployment.get(deployment) if self.gates.router is not None else None
        if owner is not None and owner.model.metered:
            self.meter.cost(Caller("virtual_key", token, alias), owner.model.id, request_id, dollars)

    async def _plan(self, name: str, scope: Scope, auth: Any) -> Plan | None:
        if (auth.models or auth.team_models) and not await host_keys.key_may_call(name, auth):
            raise_refusal(
                refuse(
                    "model_not_allowed_for_key",
                    f"this virtual key may not use {name!r}; its list of models does not have it",
                )
            )
        found = self.gates.decide(name, scope.ask())
        if isinstance(found, Refusal):
            raise_refusal(found)
        return found

    async def _fallback(self, name: str, scope: Scope, auth: Any) -> Plan:
        """Plan a fallback that the client named: one that may not be used is passed over, not an error."""
        try:
            found = await self._plan(name, scope, auth)
        except RefusedError as refused:
            scope.refusal, skips = None, refused.refusal.candidates
            skips = skips or (Skip(name, refused.refusal.code, refused.refusal.message),)
            return Plan(name, None, (), skips, tuple(skip.model for skip in skips))
        assert found is not None  # take_fallbacks keeps registry names only
        return found

    @staticmethod
    def _comma_list(names: tuple[str, ...], plans: list[Plan | None]) -> None:
        """Each part was decided above and is decided again by the walk; a foreign name among them is a 400."""
        for name, found in zip(names, plans, strict=False):
            if found is None:
                raise_refusal(
                    refuse(
                        "bad_model_list",
                        f"a list of models takes names of the registry, not {name!r}; send one request a model",
                    )
                )

    async def _pass_through(self, name: str, scope: Scope, auth: host.UserAPIKeyAuth) -> None:
        """Gate a call with the proxy's own provider key; LiteLLM sends it as it is, so this is the only look at it."""
        if not (auth.token or auth.api_key):
            raise_refusal(refuse("route_not_governed", "a pass-through route without authentication is closed"))
        booked_as, refusal = self.gates.passed_through(name, scope.ask())
        if refusal is not None:
            raise_refusal(refusal)
        if booked_as not in self.gates.registry.by_id and not self.gates.books_foreign:
            return
        skip = await self.meter.admit(scope, booked_as)
        if skip is not None:
            raise_refusal(all_refused(booked_as, None, (skip,)))

    def _seen(self, kwargs: dict[str, Any]) -> Seen:
        """Find the router's deployment behind a call: by the id it carries, else by its model and address."""
        info = kwargs.get("model_info")
        deployment_id = str(info.get("id") or "") if isinstance(info, dict) else ""
        return self.gates.behind(
            deployment_id, str(kwargs.get("model") or ""), str(kwargs.get("api_base") or kwargs.get("base_url") or "")
        )


def _is_call_to(hop: Running, kwargs: dict[str, Any]) -> bool:
    """Say whether a call goes to the deployment that the walk chose: same model, same address, no azure detour."""
    if kwargs.get("deployment_id") or kwargs.get("azure"):
        return False
    base = str(kwargs.get("api_base") or kwargs.get("base_url") or "")
    wanted = host.resolved_base(hop.api_base)
    return same_model(hop.model.litellm_model, str(kwargs.get("model") or "")) and same_base(wanted, base)


def _fit_embedding(data: dict[str, Any], found: Plan) -> None:
    """Let Ollama embed for the OpenAI SDK, which asks for base64 unless told otherwise.

    Ollama knows floats only and LiteLLM answers 400; the SDK takes a list of floats as it comes.
    """
    if found.targets[0].model.on_ollama and found.targets[0].model.effective_mode == "embedding":
        data.pop("encoding_format", None)
