"""The walk through a pool: one attempt a deployment, in order, each once.

It stands in for `Router.async_function_with_fallbacks`, the one funnel of every router call (chat, text, embeddings,
responses, messages, rerank, images, audio, generateContent, realtime; router.py:8251). LiteLLM's own fallbacks and
retries are off inside, so its order, its access checks and its hidden repeats cannot interfere; a stream that fails
before its first token raises in here too (router.py:774).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from litellm_registry_hook.adapter import host
from litellm_registry_hook.adapter.first_token import first_token
from litellm_registry_hook.adapter.gates import Gates
from litellm_registry_hook.adapter.identity import auth_in
from litellm_registry_hook.adapter.meter import Meter
from litellm_registry_hook.adapter.scope import HOP, SCOPE, Foreign, RefusedError, Scope, raise_refusal
from litellm_registry_hook.core.failure import as_skip, larger_context, try_next
from litellm_registry_hook.core.plan import Plan, Running
from litellm_registry_hook.core.refusal import Refusal, Skip, all_refused, refuse
from litellm_registry_hook.core.routes import Route
from litellm_registry_hook.core.sanitise import drop_levers, drop_runner_options, take_consent, take_fallbacks

log = logging.getLogger("litellm_registry_hook")
TOO_SMALL = "the input overflowed an earlier member, and this one is not known to take more context"
BUCKETS = ("metadata", "litellm_metadata")


class Walk:
    """Callable set on the router in place of async_function_with_fallbacks."""

    def __init__(self, gates: Gates, meter: Meter, original: Callable[..., Awaitable[Any]]) -> None:
        self.gates = gates
        self.meter = meter
        self.original = original

    async def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Serve one router call from the plan of its model name.

        Raises:
            RefusedError: nobody may, or could, serve it.

        """
        name, hop = str(kwargs.get("model") or ""), HOP.get()
        if isinstance(hop, Foreign) or (hop is not None and name == hop.model.id):
            # A call of LiteLLM's own inside an attempt; the deployment hook decides it.
            return await self.original(*args, **kwargs)
        scope = SCOPE.get() or Scope(Route("model"), {})
        found = scope.plans.get(name)
        if found is None:
            found = self._late(scope, name, kwargs)
        if found is None:
            if self.gates.books_foreign:
                skip = await self.meter.admit(scope, name)
                if skip is not None:
                    raise_refusal(all_refused(name, None, (skip,)))
            return await self._foreign(Foreign(name), args, kwargs)
        return await self._attempts(scope, found, args, kwargs)

    def _late(self, scope: Scope, name: str, kwargs: dict[str, Any]) -> Plan | None:
        """Decide a call whose name the pre-call hook did not see: a comma list's part, rag, a mirror."""
        if not scope.hooked:
            scope.caller = self.gates.identify(auth_in(kwargs))
            consent = take_consent(kwargs, scope.headers.get("x-registry-allow-metered"))
            if isinstance(consent, Refusal):
                raise_refusal(consent)
            scope.allow_metered = consent is True
            fallbacks = take_fallbacks(kwargs, self.gates.known)
            if isinstance(fallbacks, Refusal):
                raise_refusal(fallbacks)
        drop_levers(kwargs)
        found = self.gates.decide(name, scope.ask())
        if isinstance(found, Refusal):
            raise_refusal(found)
        if isinstance(found, Plan):
            if not scope.listed:
                scope.tier = found.tier
            return found
        return None

    async def _foreign(self, hop: Foreign, args: Any, kwargs: dict[str, Any]) -> Any:
        token = HOP.set(hop)
        try:
            return await self.original(*args, **kwargs)
        finally:
            HOP.reset(token)

    async def _attempts(self, scope: Scope, found: Plan, args: Any, kwargs: dict[str, Any]) -> Any:
        failed: list[Skip] = []
        overflowed: Running | None = None
        overflow: Exception | None = None
        outage = False
        for number, target in enumerate(found.targets):
            if overflowed is not None and not larger_context(overflowed.model, target.model):
                failed.append(Skip(target.model.id, "model_unavailable", TOO_SMALL))
                continue
            if (number or target.model.metered) and scope.gone is not None and await scope.gone():
                # Nobody is there for an answer: neither bill the next member nor load it.
                raise_refusal(refuse("model_unavailable", "the client has hung up", tier=found.tier))
            if target.model.metered:
                skip = await self.meter.admit(scope, target.model.id)
                if skip is not None:
                    failed.append(skip)
                    outage = True
                    continue
            token = HOP.set(target)
            try:
                attempt = self.original(*args, **self._kwargs_for(target, kwargs, first=number == 0))
                response = await first_token(await attempt)
            except RefusedError:
                raise
            except Exception as caught:
                failure = host.failure_of(caught, self.gates.secrets(target))
                if not try_next(failure):
                    scope.skipped = in_pool_order(found, failed, last=target.model.id)
                    raise
                if failure.context_overflow:
                    overflowed, overflow = target, caught
                else:
                    outage = True
                failed.append(as_skip(target.model, failure))
                log.info("%s: %s: %s", found.name, target.id, failed[-1].reason)
            else:
                scope.mark_served(target.model.id)
                scope.skipped = in_pool_order(found, failed, last=target.model.id)
                return response
            finally:
                HOP.reset(token)
        if overflow is not None and not outage:
            # The request fits no context there is: the upstream's own 400 says it best.
            raise overflow
        raise_refusal(all_refused(found.name, found.tier, in_pool_order(found, failed, last=None)))

    @staticmethod
    def _kwargs_for(target: Running, kwargs: dict[str, Any], *, first: bool) -> dict[str, Any]:
        """Return the arguments of one attempt; the first shares LiteLLM's own buckets, as it writes back into them."""
        hop = dict(kwargs)
        hop["model"] = target.model.id
        host.once_only(hop)
        if target.model.on_ollama:
            drop_runner_options(hop)
        if target.model.timeout_s is not None:
            hop.pop("timeout", None)
        for bucket in BUCKETS:
            inner = hop.get(bucket)
            if isinstance(inner, dict):
                inner = inner if first else dict(inner)
                if "model_group" in inner:
                    inner["model_group"] = target.model.id
                hop[bucket] = inner
        return hop


def in_pool_order(found: Plan, failed: list[Skip], last: str | None) -> tuple[Skip, ...]:
    """Merge what was passed over and what failed into pool order; one entry a model, the last failure's words.

    Args:
        found: the plan.
        failed: failed attempts in their order.
        last: the model that answered: what stands behind it was not passed over. None: nobody did.

    """
    if not failed and not found.skipped:
        return ()
    reasons = {skip.model: skip for skip in found.skipped}
    reasons.update({skip.model: skip for skip in failed})
    order = found.order if last is None else found.order[: found.order.index(last)]
    return tuple(reasons[model] for model in order if model in reasons)
