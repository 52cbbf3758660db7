"""Which servers a registry has: Ollama servers with the names wanted there, and others that take GPU memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from litellm_registry_hook.core.gpu.names import base_of
from litellm_registry_hook.core.gpu.place import Home, ServerKey, homes_of, resolve_addresses, server_key
from litellm_registry_hook.core.match import ENV_PREFIX, resolve_env
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
        ollama: by the first api_base that names the server, resolved and without a trailing slash; `gpu: none` too.
        health: the address to ask of each other server with gpu_residency, by its first api_base.

    """

    ollama: Mapping[str, OllamaPlace]
    health: Mapping[str, str]


def places_of(registry: Registry, env: Mapping[str, str]) -> Places:
    """Return the servers of a registry; `os.environ/NAME` is resolved with `env`, an unset name is no server.

    `localhost` and 127.0.0.1 are one server; it is asked once, under its first name.
    """
    homes = [one for one in homes_of(resolve_addresses(registry, env)) if not one.api_base.startswith(ENV_PREFIX)]
    # A model that reaches an Ollama by another provider names it with /v1: those of Ollama's own come first.
    homes.sort(key=lambda home: not home.model.on_ollama)
    names: dict[ServerKey, str] = {}
    ollama: dict[str, OllamaPlace] = {}
    health: dict[str, str] = {}
    for home in homes:
        base = names.setdefault(server_key(home.api_base), base_of(home.api_base))
        if home.slot is not None:
            known = ollama.get(base, OllamaPlace())
            ollama[base] = OllamaPlace(known.headers or headers_of(home.model, env), known.wanted | {home.slot.name})
        else:
            health.setdefault(base, health_url(home.api_base, _given_health_url(home)))
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


def _given_health_url(home: Home) -> str | None:
    return next((place.health_url for place in home.model.places if place.api_base == home.api_base), None)
