"""Joins the registry in force with the running router and asks the core: one place for every interception point."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from litellm_registry_hook.adapter import host
from litellm_registry_hook.adapter.identity import caller_of
from litellm_registry_hook.core.consent import Caller
from litellm_registry_hook.core.match import Seen, match, match_all, same_base, same_model, twin
from litellm_registry_hook.core.plan import Ask, Index, Plan, Running, index_of, metered_skip, plan, unknown, unlisted
from litellm_registry_hook.core.refusal import Refusal, Skip, all_refused, refuse
from litellm_registry_hook.core.registry import OLLAMA_PROVIDERS, Model, Registry
from litellm_registry_hook.watch.engine import Watch

log = logging.getLogger("litellm_registry_hook")


class Gates:
    """The gates of one worker."""

    def __init__(self, registry: Registry, watch: Callable[[Callable[[], Registry]], Watch] | None = None) -> None:
        # Set from the background thread by one assignment; the index notices that it is another's.
        self.registry = registry
        make = watch or (lambda current: Watch(current, None, time.time, {}))
        self.watch = make(lambda: self.registry)
        self.router: Any = None
        self.identify: Callable[[object], Caller] = caller_of
        self.ensure: Callable[[], bool] = lambda: False
        self._index: Index | None = None
        self._size = -1
        self._checked: dict[str, tuple[Running, Seen]] = {}

    def use_router(self, router: Any) -> None:
        """Take the worker's router; its deployments are read again when their number changes."""
        self.router = router
        self._index = None

    @property
    def index(self) -> Index:
        """The registry joined with what the router has of it."""
        size, registry, index = len(self.router.model_list), self.registry, self._index
        if index is None or size != self._size or index.registry is not registry:
            running = match_all(registry, host.seen_deployments(self.router), host.environment())
            self._index = index = index_of(registry, running)
            self._size = size
        return index

    def not_in_proxy(self) -> tuple[str, ...]:
        """Return the models of the registry that the proxy has no deployment of; empty while there is no router."""
        if self.router is None:
            return ()
        running = self.index.running
        return tuple(model.id for model in self.registry.models if model.id not in running)

    @property
    def observing(self) -> bool:
        """Whether refusals of unlisted models and routes are only logged."""
        return self.registry.routing.mode == "observe"

    @property
    def books_foreign(self) -> bool:
        """Whether a call to a model that the registry does not know is booked as a metered one."""
        return self.registry.routing.unlisted_models == "metered" and not self.observing

    def known(self, name: str) -> bool:
        """Say whether a name is a tier, an alias or a model id of the registry."""
        return name in self.index.pools

    def decide(self, name: str, ask: Ask) -> Plan | Refusal | None:
        """Decide a name as the client or LiteLLM gives it.

        Returns:
            a Plan; a Refusal; None where the model is foreign and its gate lets it through.

        """
        index = self.index
        found = plan(index, name, ask, self.watch.facts)
        if found is not None:
            return found
        meant = self._registry_name(name)
        if meant is not None:
            return plan(index, meant, ask, self.watch.facts)
        if not self._host_knows(name):
            return unknown(index, name)
        return self.foreign(name, ask)

    def passed_through(self, name: str, ask: Ask) -> tuple[str, Refusal | None]:
        """Gate a call with the proxy's own provider key: what to book it as, and why it is refused."""
        for model in self.registry.models:
            if model.metered and same_model(model.litellm_model, name):
                skip = metered_skip(self.registry, model, ask)
                return model.id, all_refused(model.id, None, (skip,)) if skip is not None else None
        return name, self.foreign(name, ask)

    def foreign(self, name: str, ask: Ask) -> Refusal | None:
        """Gate a model that the registry does not know; None lets it through."""
        refusal = unlisted(self.registry, name, ask)
        if refusal is not None and self.observing:
            log.warning("observe: would refuse: %s", refusal.message)
            return None
        return refusal

    def _registry_name(self, name: str) -> str | None:
        """Resolve what LiteLLM itself would resolve: a model_group_alias, or a litellm_params.model string."""
        target = self.router.get_model_from_alias(model=name)
        if target is not None and target != name:
            return target if target in self.index.pools else None
        owner = self.index.by_litellm_model.get(name)
        return owner if owner is not None and not self.router.get_model_list(model_name=name) else None

    def _host_knows(self, name: str) -> bool:
        router = self.router
        return bool(router.has_model_id(name) or router.get_model_list(model_name=name))

    def leads_to_ollama(self, name: str) -> bool:
        """Say whether a foreign name leads to an Ollama server, by provider."""
        entries = self.router.get_model_list(model_name=name) or ()
        return any(host.seen_of(entry).model.partition("/")[0] in OLLAMA_PROVIDERS for entry in entries)

    def live(self, target: Running) -> dict[str, Any]:
        """Return the router's deployment for a target, still what the registry says.

        Raises:
            LookupError: it is gone or was changed since the index was made.

        """
        entry = host.live_deployment(self.router, target.id)
        if entry is None:
            self._index = None
            raise LookupError(target.id)
        seen = host.seen_of(entry)
        if self._checked.get(target.id) == (target, seen):
            return entry
        if match(self.registry, seen, host.environment()) is None:
            self._index = None
            raise LookupError(target.id)
        self._checked[target.id] = (target, seen)
        return entry

    def behind(self, deployment_id: str, model: str, api_base: str) -> Seen:
        """Find the router's deployment that a call goes to.

        The id counts only while the call still goes where its deployment does. Without one, a health probe say, the
        model and the address decide, and a metered entry counts before a free one at the same place.
        """
        candidates = [
            one
            for one in (host.seen_deployments(self.router) if self.router is not None else ())
            if same_model(one.model, model) and same_base(one.api_base, api_base)
        ]
        for one in candidates:
            if one.id == deployment_id:
                return one
        owned = [(found, one) for one in candidates if (found := match(self.registry, one, host.environment()))]
        owned.sort(key=lambda pair: not pair[0].model.metered)
        if owned:
            return owned[0][1]
        return candidates[0] if candidates else Seen("", "", model, api_base, "")

    def secrets(self, target: Running) -> tuple[str, ...]:
        """Return what of a deployment must not show in an answer: its key and its address."""
        entry = host.live_deployment(self.router, target.id) or {}
        params = entry.get("litellm_params") or {}
        return tuple(str(params[key]) for key in ("api_key", "api_base") if params.get(key))

    def clear(self, seen: Seen, ask: Ask) -> Refusal | None:
        """Gate a concrete deployment that was chosen by somebody else; None lets it through."""
        model = self._owner(seen)
        if model is None:
            return self.foreign(seen.group or seen.model or "a call without a model", ask)
        skip = metered_skip(self.registry, model, ask)
        return all_refused(model.id, None, (skip,)) if skip is not None else None

    def _owner(self, seen: Seen) -> Model | None:
        """Return the registry model of a deployment, also of a second entry that leads to a metered one."""
        owner = match(self.registry, seen, host.environment())
        return owner.model if owner is not None else twin(self.registry, seen.model, seen.api_base, host.environment())

    def metered_name(self, seen: Seen) -> str | None:
        """Name what a cleared call must be booked as; None for a free one."""
        model = self._owner(seen)
        if model is not None:
            return model.id if model.metered else None
        return (seen.group or seen.model or "a call without a model") if self.books_foreign else None

    def clear_probe(self, seen: Seen) -> Refusal | None:
        """Gate a call that no client asked for, such as a health check: only free models that are on anyway pass."""
        model = self._owner(seen)
        if model is not None:
            if not model.metered and model.lifecycle == "always-on" and not model.on_ollama:
                return None
            why = (
                "each call costs money"
                if model.metered
                else f"it is {model.lifecycle} and a probe would load or bill it"
            )
            return all_refused(
                model.id, None, (Skip(model.id, "model_unavailable", f"{why}; health checks leave it alone"),)
            )
        if self.registry.routing.unlisted_models == "allow":
            return None
        name = seen.group or seen.model or "a call without a model"
        return refuse(
            "unlisted_model",
            f"model {name!r} is not in the registry and nobody asked for this call; add it to model-registry.yaml",
        )
