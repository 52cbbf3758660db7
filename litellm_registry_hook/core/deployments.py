"""Deployments: one per endpoint of a model, with an id that lasts.

A deployment is what LiteLLM calls one entry of model_list. Its `model_info.id` is `<model id>@<n>`: without an id of
ours LiteLLM hashes the parameters, so that every edit would make a new deployment (BerriAI/litellm#40761).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from litellm_registry_hook.core.registry import NAME_RE, Model

MANAGED_BY = "litellm-registry-hook"
# Keys of LiteLLM's model_info that `models[].model_info` cannot say, and why.
RESERVED_INFO = {
    "id": "the generator numbers the endpoints",
    "managed_by": "the generator writes it",
    "mode": "it is said by role and mode",
    "disable_background_health_check": "the generator writes it where a probe would cost something",
    "db_model": "the entry stands in the config",
    "team_id": "who may use a model is said by keys and their models",
    "team_public_model_name": "clients name tiers, aliases and ids of this file",
}
_NUMBER_RE = re.compile(r"^(?:0|[1-9][0-9]{0,5})$")
_NOTHING_KNOWN: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Deployment:
    """One endpoint of one model.

    Attributes:
        id: `<model id>@<n>`, the `model_info.id` in LiteLLM's config.
        model_id: id of the model in the registry, also the `model_name`.
        n: number of the endpoint; it stays with the api_base.
        api_base: base URL; None where the provider's own address is used.

    """

    id: str
    model_id: str
    n: int
    api_base: str | None


def deployment_id(model_id: str, n: int) -> str:
    """Return the `model_info.id` of endpoint `n` of a model."""
    return f"{model_id}@{n}"


def split_deployment_id(text: str) -> tuple[str, int] | None:
    """Return (model id, n) of a `model_info.id` that we wrote; None for any other text.

    A model id may itself hold an `@`: the last one counts.
    """
    model_id, at, number = text.rpartition("@")
    if not at or not NAME_RE.match(model_id) or not _NUMBER_RE.match(number):
        return None
    return model_id, int(number)


def deployments_of(model: Model, known: Mapping[str, int] = _NOTHING_KNOWN) -> tuple[Deployment, ...]:
    """Return the deployments of a model in file order.

    Args:
        model: a model of the registry.
        known: numbers that are in use, by api_base; the empty string stands for the provider's own address.

    A known api_base keeps its number. A new one gets the smallest number that no known one and no earlier one has, so
    that without `known` the numbers count from 0 in file order.

    """
    bases: list[str] = list(dict.fromkeys(place.api_base for place in model.places)) or [""]
    taken = set(known.values())
    found: list[Deployment] = []
    candidate = 0
    for base in bases:
        n = known.get(base)
        if n is None:
            while candidate in taken:
                candidate += 1
            n = candidate
            taken.add(n)
        found.append(Deployment(deployment_id(model.id, n), model.id, n, base or None))
    return tuple(found)
