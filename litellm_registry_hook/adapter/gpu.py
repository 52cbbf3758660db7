"""Brings requests to the residency gate: which runner a call needs, and how long it has the use of it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from litellm_registry_hook.adapter.metrics import gpu_metrics
from litellm_registry_hook.adapter.scope import Scope, raise_refusal
from litellm_registry_hook.core.gpu.ports import Ledger
from litellm_registry_hook.core.gpu.verdict import No, Want
from litellm_registry_hook.core.match import resolve_env
from litellm_registry_hook.core.plan import Running
from litellm_registry_hook.core.refusal import Skip, refuse
from litellm_registry_hook.core.registry import Registry
from litellm_registry_hook.residency.build import build
from litellm_registry_hook.residency.engine import HungUpError, Lease, Residency
from litellm_registry_hook.residency.runners import InForce, Runners

log = logging.getLogger("litellm_registry_hook")
BROKEN: Final = "the gate of GPU residency failed and lets nothing through; see the proxy's log"


class GpuGate:
    """The residency gate of one worker, as the walk and the hooks see it."""

    def __init__(self, residency: Residency, in_force: InForce) -> None:
        self.residency = residency
        self._in_force = in_force
        self._env = in_force.env

    @property
    def runners(self) -> Runners:
        """The runners of the registry in force."""
        return self._in_force()

    def want(self, target: Running) -> Want | None:
        """Return what a deployment of the registry needs."""
        return self.runners.behind(target, lambda base: resolve_env(base, self._env))

    def ordered(self, targets: Sequence[Running]) -> Sequence[Running]:
        """Put the endpoint first where a model is loaded, within the endpoints of one model."""
        if len(targets) < 2 or len({target.model.id for target in targets}) == len(targets):  # noqa: PLR2004
            return targets
        first = {target.model.id: number for number, target in reversed(list(enumerate(targets)))}
        resident = self.residency.view.resident

        def rank(target: Running) -> tuple[int, bool]:
            want = self.want(target)
            return first[target.model.id], want is not None and want.use not in resident

        return sorted(targets, key=rank)

    async def enter(self, scope: Scope, wants: Sequence[Want], wait_s: float = 0.0) -> Lease | tuple[No, ...]:
        """Get the use of one of these runners.

        Raises:
            RefusedError: the client has hung up, or the gate itself failed.

        """
        try:
            return await self.residency.enter(wants, wait_s, scope.gone)
        except HungUpError:
            raise_refusal(refuse("model_unavailable", "the client has hung up", tier=scope.tier))
        except Exception:
            log.exception("the gate of GPU residency failed")
            raise_refusal(refuse("gate_failed", BROKEN, tier=scope.tier))

    @staticmethod
    def keep(scope: Scope, lease: Lease) -> None:
        """Hold a runner until the request's answer has gone out; at once back where nobody will say when that is."""
        if scope.ends:
            scope.leases.append(lease)
        else:
            lease.release()

    async def clear_call(self, scope: Scope, kwargs: Mapping[str, Any]) -> tuple[No, ...]:
        """Gate a call that does not come from the walk; empty where it may go."""
        model, provider = str(kwargs.get("model") or ""), str(kwargs.get("custom_llm_provider") or "")
        want = self.runners.of_call(model, provider, str(kwargs.get("api_base") or kwargs.get("base_url") or ""))
        if want is None:
            return ()
        entered = await self.enter(scope, (want,))
        if isinstance(entered, Lease):
            self.keep(scope, entered)
            return ()
        return entered


def as_skip(model_id: str, no: No) -> Skip:
    """Turn the gate's no into the reason shown to the client."""
    return Skip(model_id, no.code, no.reason, no.retry_after_s)


def gpu_gate(registry: Callable[[], Registry], env: Mapping[str, str], ledger: Ledger | None) -> GpuGate:
    """Build the residency gate of this worker: the machines on one side, the state on the other."""
    residency, in_force = build(registry, env, ledger)
    metrics = gpu_metrics()
    if metrics is not None:
        residency.each_turn = lambda: metrics.tell(residency)
    return GpuGate(residency, in_force)
