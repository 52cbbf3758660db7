"""Brings requests to the residency gate: which runner a call needs, and how long it has the use of it."""

from __future__ import annotations

import logging
import os
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from litellm_registry_hook.adapter.scope import Scope, raise_refusal
from litellm_registry_hook.core.gpu.facts import Slot
from litellm_registry_hook.core.gpu.names import base_of, full_name, slot_of
from litellm_registry_hook.core.gpu.pinning import keep_alive_of, options_of
from litellm_registry_hook.core.gpu.place import ServerKey, resolve_addresses, server_key
from litellm_registry_hook.core.gpu.ports import Ledger
from litellm_registry_hook.core.gpu.verdict import No, Use, Want
from litellm_registry_hook.core.match import resolve_env
from litellm_registry_hook.core.plan import Running
from litellm_registry_hook.core.refusal import Skip, refuse
from litellm_registry_hook.core.registry import OLLAMA_PROVIDERS, Endpoint, Model, Registry
from litellm_registry_hook.edges.gpu.eyes import MachineEyes
from litellm_registry_hook.edges.gpu.hands import OllamaHands
from litellm_registry_hook.residency.board import Sources
from litellm_registry_hook.residency.engine import HungUpError, Lease, Residency, Threads
from litellm_registry_hook.residency.view import View

log = logging.getLogger("litellm_registry_hook")
BROKEN: Final = "the gate of GPU residency failed and lets nothing through; see the proxy's log"


class Runners:
    """The Ollama runners of a registry: what stands at which server.

    Attributes:
        resolved: the registry with real addresses.
        wants: every use of a runner that has a GPU to mind. at: the first of each runner.
        open: runners at an endpoint with `gpu: none`.
        servers: each Ollama server to the first api_base that names it; one server has one name in every slot.

    """

    def __init__(self, registry: Registry, env: Mapping[str, str]) -> None:
        self.registry = registry
        self.resolved = resolve_addresses(registry, env)
        self.wants: dict[Use, Want] = {}
        self.at: dict[Slot, Want] = {}
        self.servers: dict[ServerKey, str] = {}
        opened: set[Slot] = set()
        for model in registry.models:
            if model.on_ollama:
                for place, address in _places(model, env):
                    base, name = slot_of(model, address)
                    slot = Slot(self.servers.setdefault(server_key(base), base), name)
                    if place is not None and place.gpu == "none":
                        opened.add(slot)
                    else:
                        want = Want(model, slot)
                        self.wants[want.use] = want
                        self.at.setdefault(slot, want)
        self.open = frozenset(opened - self.at.keys())
        self._by_id: dict[str, Want | None] = {}
        self._params: dict[str, dict[str, Any]] = {}

    def behind(self, target: Running, resolve: Callable[[str], str]) -> Want | None:
        """Return the runner that a deployment needs; None where it needs none that is ours to mind."""
        try:
            return self._by_id[target.id]
        except KeyError:
            model = target.model
            found = self._find(model.litellm_model, model.provider, resolve(target.api_base))
            if found is not None:
                found = self.wants.get(Use(found.slot, model.id), found)
            self._by_id[target.id] = found
            return found

    def params(self, model: Model) -> Mapping[str, Any]:
        """Return keep_alive and the runner options that every call of a model carries; empty off Ollama."""
        found = self._params.get(model.id)
        if found is None:
            sized = model.on_ollama and model.gpu_residency is not None
            found = {"keep_alive": keep_alive_of(model), **options_of(model)} if sized else {}
            self._params[model.id] = found
        return found

    def of_call(self, model: str, provider: str, api_base: str) -> Want | None:
        """Return the runner behind a call that the walk did not choose; its size is known only to the registry."""
        head, slash, _ = model.partition("/")
        return self._find(model, provider or (head if slash else ""), api_base)

    def _find(self, model: str, provider: str, api_base: str) -> Want | None:
        base = base_of(api_base) if api_base or provider in OLLAMA_PROVIDERS else ""
        server = self.servers.get(server_key(base)) if base else None
        if provider not in OLLAMA_PROVIDERS and server is None:
            return None
        name = model.removeprefix(f"{provider}/")
        slot = Slot(server or base, full_name(name))
        return self.at.get(slot) or Want(None, slot)


def _places(model: Model, env: Mapping[str, str]) -> list[tuple[Endpoint | None, str]]:
    if not model.places:
        return [(None, "")]
    return [(place, resolve_env(place.api_base, env)) for place in model.places]


class GpuGate:
    """The residency gate of one worker, as the walk and the hooks see it."""

    def __init__(self, residency: Residency, registry: Callable[[], Registry], env: Mapping[str, str]) -> None:
        self.residency = residency
        self._registry = registry
        self._env = env
        self._runners: Runners | None = None

    @property
    def runners(self) -> Runners:
        """The runners of the registry in force."""
        registry, found = self._registry(), self._runners
        if found is None or found.registry is not registry:
            found = self._runners = Runners(registry, self._env)
            self.residency.view.open = found.open
        return found

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
    view = View(time.time)

    def wants() -> Mapping[Use, Want]:
        return gate.runners.wants

    def resolved() -> Registry:
        return gate.runners.resolved

    eyes = MachineEyes(registry, env, time.time)
    worker = f"{os.uname().nodename}-{os.getpid()}-{secrets.token_hex(3)}"
    residency = Residency(Sources(resolved, wants, eyes, ledger), Threads(OllamaHands(env)), view, worker)
    gate = GpuGate(residency, registry, env)
    return gate
