"""The Ollama runners of a registry, and which of them a call needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from litellm_registry_hook.core.gpu.facts import Slot
from litellm_registry_hook.core.gpu.names import base_of, full_name, slot_of
from litellm_registry_hook.core.gpu.pinning import load_keep_alive_of, options_of
from litellm_registry_hook.core.gpu.place import ServerKey, resolve_addresses, server_key
from litellm_registry_hook.core.gpu.verdict import Use, Want
from litellm_registry_hook.core.match import resolve_env
from litellm_registry_hook.core.plan import Running
from litellm_registry_hook.core.registry import OLLAMA_PROVIDERS, Endpoint, Model, Registry


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
            found = {"keep_alive": load_keep_alive_of(model), **options_of(model)} if sized else {}
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


class InForce:
    """The runners of whatever registry is in force, worked out once a registry.

    Attributes:
        changed: told the runners of each new registry.

    """

    def __init__(self, registry: Callable[[], Registry], env: Mapping[str, str]) -> None:
        self.registry = registry
        self.env = env
        self.changed: Callable[[Runners], None] = lambda _runners: None
        self._runners: Runners | None = None

    def __call__(self) -> Runners:
        """Return the runners of the registry in force."""
        registry, found = self.registry(), self._runners
        if found is None or found.registry is not registry:
            found = self._runners = Runners(registry, self.env)
            self.changed(found)
        return found
