"""Which deployments of the running router are the registry's own, and really what it says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from litellm_registry_hook.core.deployments import MANAGED_BY, split_deployment_id
from litellm_registry_hook.core.plan import Running
from litellm_registry_hook.core.registry import Model, Registry

ENV_PREFIX = "os.environ/"


@dataclass(frozen=True, slots=True)
class Seen:
    """A deployment as the router has it.

    Attributes:
        id: `model_info.id`. managed_by: `model_info.managed_by`. model: litellm_params.model.
        api_base: litellm_params.api_base, resolved; empty where the provider's own is used.
        group: model_name.

    """

    id: str
    managed_by: str
    model: str
    api_base: str
    group: str


def resolve_env(text: str, env: Mapping[str, str]) -> str:
    """Resolve `os.environ/NAME` as LiteLLM does; an unset name is empty."""
    return env.get(text.removeprefix(ENV_PREFIX), "") if text.startswith(ENV_PREFIX) else text


def same_base(one: str, other: str) -> bool:
    """Compare two base URLs; a trailing slash is no difference."""
    return one.rstrip("/") == other.rstrip("/")


def same_model(configured: str, called: str) -> bool:
    """Compare a litellm_params.model with the model of a call; LiteLLM strips the provider on its way in."""
    return called in {configured, configured.partition("/")[2]}


def place_of(model: Model, api_base: str, env: Mapping[str, str]) -> str | None:
    """Return the registry's spelling of the endpoint at `api_base`; None where the entry has none such."""
    if not model.places:
        return "" if not api_base else None
    for place in model.places:
        if same_base(resolve_env(place.api_base, env), api_base):
            return place.api_base
    return None


def match(registry: Registry, seen: Seen, env: Mapping[str, str]) -> Running | None:
    """Say which registry entry a deployment is; None for a foreign one.

    It must carry our mark and id and also call the model at the address that the registry says: an entry that was
    edited by hand, or that only bears a registry name, is no registry model.
    """
    if seen.managed_by != MANAGED_BY:
        return None
    parts = split_deployment_id(seen.id)
    model = registry.by_id.get(parts[0]) if parts is not None else None
    if model is None or seen.group != model.id or seen.model != model.litellm_model:
        return None
    base = place_of(model, seen.api_base, env)
    return None if base is None else Running(seen.id, model, base)


def twin(registry: Registry, model: str, api_base: str, env: Mapping[str, str]) -> Model | None:
    """Return the metered registry model that a foreign call really goes to: same model, same address."""
    for one in registry.models:
        if one.metered and same_model(one.litellm_model, model) and place_of(one, api_base, env) is not None:
            return one
    return None


def match_all(registry: Registry, seen: Iterable[Seen], env: Mapping[str, str]) -> list[Running]:
    """Return every deployment that is the registry's own."""
    return [found for one in seen if (found := match(registry, one, env)) is not None]
