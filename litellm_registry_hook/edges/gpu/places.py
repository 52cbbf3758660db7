"""Which servers a registry has: Ollama servers with the names wanted there, and others that take GPU memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from litellm_registry_hook.core.gpu.names import base_of, slot_of
from litellm_registry_hook.core.match import resolve_env
from litellm_registry_hook.core.registry import Model, Registry
from litellm_registry_hook.edges.gpu.health import health_url


@dataclass(frozen=True, slots=True)
class OllamaPlace:
    """One Ollama server.

    Attributes:
        headers: sent with every call: those of the first model there that needs some.
        wanted: full names of the registry's models there.

    """

    headers: Mapping[str, str] = field(default_factory=dict)
    wanted: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Places:
    """Everything that is to be looked at.

    Attributes:
        ollama: by api_base, resolved and without a trailing slash; `gpu: none` too.
        health: the address to ask of each other server with gpu_residency, by api_base.

    """

    ollama: Mapping[str, OllamaPlace]
    health: Mapping[str, str]


def places_of(registry: Registry, env: Mapping[str, str]) -> Places:
    """Return the servers of a registry; addresses `os.environ/NAME` are resolved with `env`."""
    ollama: dict[str, OllamaPlace] = {}
    health: dict[str, str] = {}
    for model in registry.models:
        if model.on_ollama:
            for base in [resolve_env(place.api_base, env) for place in model.places] or [""]:
                slot = slot_of(model, base)
                known = ollama.get(slot.api_base, OllamaPlace())
                headers = known.headers or headers_of(model, env)
                ollama[slot.api_base] = OllamaPlace(headers, known.wanted | {slot.name})
        elif model.gpu_residency is not None:
            for place in model.places:
                if address := resolve_env(place.api_base, env):
                    health.setdefault(base_of(address), health_url(address, place.health_url))
    return Places(ollama, health)


def headers_of(model: Model, env: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that LiteLLM sends to the model's server: its api_key as a bearer, and extra_headers."""
    extra: Any = model.litellm.get("extra_headers")
    given = {str(name): value for name, value in extra.items()} if isinstance(extra, Mapping) else {}
    headers = {name: resolve_env(value, env) for name, value in given.items() if isinstance(value, str)}
    key = model.litellm.get("api_key")
    if isinstance(key, str) and (secret := resolve_env(key, env)):
        headers.setdefault("Authorization", f"Bearer {secret}")
    return headers
