"""The walk through a pool: one attempt a deployment, in order, each once.

It stands in for `Router.async_function_with_fallbacks`, the one funnel of every router call (chat, text, embeddings,
responses, messages, rerank, images, audio, generateContent, realtime; router.py:8251). LiteLLM's own fallbacks and
retries are off inside, so its order, its access checks and its hidden repeats cannot interfere; a stream that fails
before its first token raises in here too (router.py:774).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from litellm_registry_hook.adapter import host
from litellm_registry_hook.adapter.answers import limits_of
from litellm_registry_hook.adapter.first_token import DeadStreamError, first_token, named_status
from litellm_registry_hook.adapter.gates import Gates
from litellm_registry_hook.adapter.gpu import GpuGate, as_skip
from litellm_registry_hook.adapter.identity import auth_in
from litellm_registry_hook.adapter.meter import Meter
from litellm_registry_hook.adapter.scope import HOP, SCOPE, Foreign, RefusedError, Scope, raise_refusal
from litellm_registry_hook.core.batch import THROUGH_ROUTER
from litellm_registry_hook.core.failure import as_skip as failed_skip
from litellm_registry_hook.core.failure import larger_context, made_here, try_next
from litellm_registry_hook.core.gpu.verdict import No, Want
from litellm_registry_hook.core.plan import Plan, Running
from litellm_registry_hook.core.refusal import Refusal, Skip, all_refused, refuse
from litellm_registry_hook.core.routes import Route
from litellm_registry_hook.core.sanitise import drop_levers, drop_runner_options, take_consent, take_fallbacks
from litellm_registry_hook.residency.engine import Lease

log = logging.getLogger("litellm_registry_hook")
TOO_SMALL = "the input overflowed an earlier member, and this one is not known to take more context"
NEXT: Final = object()
TIMED_OUT: Final = 408
UNTOLD: Final = 500
PATIENCE: Final = ("timeout", "stream_timeout", "request_timeout")
BUCKETS = ("metadata", "litellm_metadata")


@dataclass(slots=True)
class Tour:
    """How far the walk of one router call has come.

    Attributes:
        plan: the decision. args, kwargs: of the router call. targets: what to try, in order.
        attempts: upstreams called so far. failed: what failed or had no room, in that order.
        waiting: targets that had no room on their GPU and may get some, with their runners.
        overflowed, overflow: the last target whose context was too small, and its error.
        outage: whether any failed for another reason.

    """

    plan: Plan
    args: Any
    kwargs: dict[str, Any]
    targets: Sequence[Running]
    attempts: int = 0
    failed: list[Skip] = field(default_factory=list)
    waiting: list[tuple[Running, Want]] = field(default_factory=list)
    overflowed: Running | None = None
    overflow: Exception | None = None
    outage: bool = False

    def pass_over(self, skip: Skip) -> None:
        """Note that a target is not tried."""
        self.failed.append(skip)
        self.outage = True

    def no_room(self, target: Running, want: Want, no: No) -> None:
        """Note that a target cannot be loaded now."""
        self.pass_over(as_skip(target.model.id, no))
        if no.transient:
            self.waiting.append((target, want))


class Walk:
    """Callable set on the router in place of async_function_with_fallbacks."""

    def __init__(self, gates: Gates, meter: Meter, gpu: GpuGate, original: Callable[..., Awaitable[Any]]) -> None:
        self.gates = gates
        self.meter = meter
        self.gpu = gpu
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
        if scope.files:
            raise_refusal(refuse("route_not_governed", THROUGH_ROUTER))
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
        if self.gates.leads_to_ollama(hop.name):
            drop_runner_options(kwargs)
        if self.gates.books_foreign:
            # Booked once, so called once: no repeats and no fallback to another model.
            host.once_only(kwargs)
        token = HOP.set(hop)
        try:
            return await self.original(*args, **kwargs)
        finally:
            HOP.reset(token)

    async def _attempts(self, scope: Scope, found: Plan, args: Any, kwargs: dict[str, Any]) -> Any:
        tour = Tour(found, args, kwargs, self.gpu.ordered(found.targets))
        for number, target in enumerate(tour.targets):
            if tour.overflowed is not None and not larger_context(tour.overflowed.model, target.model):
                tour.failed.append(Skip(target.model.id, "model_unavailable", TOO_SMALL))
                continue
            if (number or target.model.metered) and scope.gone is not None and await scope.gone():
                # Nobody is there for an answer: neither bill the next member nor load it.
                raise_refusal(refuse("model_unavailable", "the client has hung up", tier=found.tier))
            skip = self.gates.watch.enter(target.model, target)
            if skip is not None:
                # Closed since the plan was made, by another request.
                tour.pass_over(skip)
                continue
            want, lease = self.gpu.want(target), None
            if target.model.metered or want is not None:
                admitted = await self._admitted(scope, tour, target, want)
                if admitted is NEXT:
                    continue
                lease = admitted
            response = await self._attempt(scope, tour, target, lease)
            if response is not NEXT:
                return response
        if tour.waiting and scope.wait_s:
            response = await self._when_there_is_room(scope, tour)
            if response is not NEXT:
                return response
        if tour.overflow is not None and not tour.outage:
            # The request fits no context there is: the upstream's own 400 says it best.
            raise tour.overflow
        raise_refusal(all_refused(found.name, found.tier, in_pool_order(found, tour.failed, last=None)))

    async def _admitted(self, scope: Scope, tour: Tour, target: Running, want: Want | None) -> Any:
        """Book a metered attempt, and enter an Ollama's runner: its lease, None where it needs none; NEXT for a no."""
        watch, entered, passed = self.gates.watch, time.time(), False
        try:
            if target.model.metered:
                skip = await self.meter.admit(scope, target.model.id)
                if skip is not None:
                    tour.pass_over(skip)
                    return NEXT
            if want is not None:
                found = await self.gpu.enter(scope, (want,))
                if isinstance(found, Lease):
                    passed = True
                    return found
                if not self.gates.observing:
                    tour.no_room(target, want, found[0])
                    return NEXT
                log.warning("observe: would refuse: %s", found[0].reason)
            passed = True
            return None
        finally:
            if not passed:
                # Also where the client hangs up meanwhile: the trial is the next request's.
                watch.undecided(target.id, target.model, entered)

    async def _when_there_is_room(self, scope: Scope, tour: Tour) -> Any:
        """Wait for the first of the models that had no room, and try that one; NEXT where that fails too."""
        targets = [target for target, _ in tour.waiting]
        entered = await self.gpu.enter(scope, [want for _, want in tour.waiting], scope.wait_s)
        if isinstance(entered, tuple):
            tour.failed += [as_skip(target.model.id, no) for target, no in zip(targets, entered, strict=True)]
            return NEXT
        chosen = targets[entered.number]
        skip = self.gates.watch.enter(chosen.model, chosen)
        if skip is not None:
            # Closed while this request waited.
            entered.release()
            tour.pass_over(skip)
            return NEXT
        return await self._attempt(scope, tour, chosen, entered)

    async def _attempt(self, scope: Scope, tour: Tour, target: Running, lease: Lease | None) -> Any:
        """Make one attempt; NEXT where the next member may be tried. None is the answer of a session that has ended."""
        first = not tour.attempts
        tour.attempts += 1
        token, watch, began = HOP.set(target), self.gates.watch, time.time()
        told = False
        try:
            attempt = self.original(*tour.args, **self._kwargs_for(target, tour.kwargs, first=first))
            response = await first_token(await attempt)
        except RefusedError:
            raise
        except Exception as caught:
            failure = host.failure_of(caught, self.gates.secrets(target))
            named = named_status(caught) if failure.status == UNTOLD else None
            if named is not None:
                failure = replace(failure, status=named)
            hurried = failure.status == TIMED_OUT and not target.model.timeout_s and any(map(tour.kwargs.get, PATIENCE))
            if not hurried and not made_here(caught, failure.status):
                # A client that gives an upstream a hundredth of a second says nothing of it, nor does one's nonsense.
                watch.failed(target.id, target.model, failure, failure.headers, began)
                told = True
            if not try_next(failure):
                scope.skipped = in_pool_order(tour.plan, tour.failed, last=target.model.id)
                if named is not None:
                    raise DeadStreamError(failure.text, named) from caught
                raise
            if failure.context_overflow:
                tour.overflowed, tour.overflow = target, caught
            else:
                tour.outage = True
            tour.failed.append(failed_skip(target.model, failure))
            log.info("%s: %s: %s", tour.plan.name, target.id, tour.failed[-1].reason)
            return NEXT
        else:
            watch.succeeded(target.id, target.model, began, limits_of(response))
            told = True
            scope.mark_served(target.model.id)
            scope.skipped = in_pool_order(tour.plan, tour.failed, last=target.model.id)
            if lease is not None:
                self.gpu.keep(scope, lease)
                lease = None
            return response
        finally:
            HOP.reset(token)
            if not told:
                # Refused further on, or given up by its client: it says nothing of the upstream.
                watch.undecided(target.id, target.model, began)
            if lease is not None:
                lease.release()

    @staticmethod
    def _kwargs_for(target: Running, kwargs: dict[str, Any], *, first: bool) -> dict[str, Any]:
        """Return the arguments of one attempt; the first shares LiteLLM's own buckets, as it writes back into them."""
        hop = dict(kwargs)
        hop["model"] = target.model.id
        host.once_only(hop)
        if target.model.on_ollama:
            drop_runner_options(hop)
        if target.model.timeout_s is not None:
            for key in PATIENCE:
                hop.pop(key, None)
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
