"""The decision: which deployments may serve this request, in which order, and why the others may not.

One path for the proxy, `explain` and the tests: a function of (index, name, ask, facts). It is asked speculatively and
changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from litellm_registry_hook.core.availability.facts import Facts
from litellm_registry_hook.core.availability.judge import usable
from litellm_registry_hook.core.consent import Caller, grant_for
from litellm_registry_hook.core.refusal import Refusal, Skip, all_refused, refuse
from litellm_registry_hook.core.registry import Model, Registry
from litellm_registry_hook.core.sanitise import shown

NOTHING_KNOWN: Final = Facts()
NOT_IN_PROXY: Final = "it is not in the proxy's model_list; run generate-litellm-config and restart the proxy"


@dataclass(frozen=True, slots=True)
class Running:
    """One deployment of the running router that the registry owns.

    Attributes:
        id: `model_info.id`, `<registry id>@<n>`.
        model: the registry entry it belongs to.
        api_base: where it is served; empty for a provider's own address.

    """

    id: str
    model: Model
    api_base: str


@dataclass(frozen=True, slots=True)
class Pool:
    """What a name stands for.

    Attributes:
        name: a tier, an alias or a model id.
        tier: the tier behind it; None for a single model.
        members: the pool in order, with one embedding model at most: vectors of two are not comparable.
        order: their ids.

    """

    name: str
    tier: str | None
    members: tuple[Model, ...]
    order: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Index:
    """A registry together with what the running router has of it; made anew when either changes.

    Attributes:
        registry: the registry in force.
        pools: every name that a client may use, to what it stands for.
        running: registry id to its deployments in the order of its endpoints.
        by_deployment: deployment id to deployment.
        by_litellm_model: litellm_params.model to the id of the one entry that has it.

    """

    registry: Registry
    pools: Mapping[str, Pool]
    running: Mapping[str, tuple[Running, ...]]
    by_deployment: Mapping[str, Running]
    by_litellm_model: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Ask:
    """What the request says of itself.

    Attributes:
        caller: who the host says is calling.
        allow_metered: this request's consent.
        now: the moment, for grants that end.

    """

    caller: Caller
    allow_metered: bool
    now: datetime


@dataclass(frozen=True, slots=True)
class Plan:
    """The answer for one name.

    Attributes:
        name: what the client asked for.
        tier: the tier behind it; None for a named model.
        targets: deployments to try, in order, each once.
        skipped: members passed over before any attempt, in pool order.
        order: every member's id, in pool order.

    """

    name: str
    tier: str | None
    targets: tuple[Running, ...]
    skipped: tuple[Skip, ...]
    order: tuple[str, ...] = ()


def pools_of(registry: Registry) -> dict[str, Pool]:
    """Return every name a client may use."""
    pools = {model.id: Pool(model.id, None, (model,), (model.id,)) for model in registry.models}
    for tier, ids in registry.routing.tiers.items():
        members = _one_embedding(tuple(registry.by_id[model_id] for model_id in ids))
        pools[tier] = Pool(tier, tier, members, tuple(model.id for model in members))
    for alias, target in registry.routing.aliases.items():
        pool = pools[target]
        pools[alias] = Pool(alias, pool.tier, pool.members, pool.order)
    return pools


def _one_embedding(members: tuple[Model, ...]) -> tuple[Model, ...]:
    if members and members[0].effective_mode == "embedding":
        return members[:1]
    embedders = [model.id for model in members if model.effective_mode == "embedding"]
    return tuple(model for model in members if model.id not in embedders[1:])


def index_of(registry: Registry, running: Iterable[Running]) -> Index:
    """Join a registry with the deployments the router has of it."""
    by_model: dict[str, list[Running]] = {}
    for deployment in running:
        by_model.setdefault(deployment.model.id, []).append(deployment)
    ordered: dict[str, tuple[Running, ...]] = {}
    for model_id, found in by_model.items():
        places = [place.api_base for place in found[0].model.places]
        rank = {base: n for n, base in enumerate(places)}
        ordered[model_id] = tuple(sorted(found, key=lambda one: rank.get(one.api_base, len(places))))
    by_deployment = {one.id: one for ones in ordered.values() for one in ones}
    counts = Counter(model.litellm_model for model in registry.models)
    by_litellm_model = {model.litellm_model: model.id for model in registry.models if counts[model.litellm_model] == 1}
    return Index(registry, pools_of(registry), ordered, by_deployment, by_litellm_model)


def metered_skip(registry: Registry, model: Model, ask: Ask) -> Skip | None:
    """Ask the consent gate for one model: None lets it through."""
    if not model.metered:
        return None
    return metered_by_name(registry, model.id, ask)


def metered_by_name(registry: Registry, name: str, ask: Ask) -> Skip | None:
    """Ask the consent gate for a name that counts as metered: None lets it through."""
    if not ask.allow_metered:
        return Skip(
            name,
            "metered_consent_missing",
            "each call costs money and this request does not allow it; send the header x-registry-allow-metered: true "
            "and have the virtual key opted in",
        )
    if grant_for(registry, ask.caller, name, ask.now) is None:
        return Skip(
            name,
            "metered_key_not_opted_in",
            "each call costs money and this virtual key is not opted in; an operator adds it to "
            "routing.metered_opt_in of the registry",
        )
    return None


def plan(index: Index, name: str, ask: Ask, facts: Facts = NOTHING_KNOWN) -> Plan | Refusal | None:
    """Decide one name.

    Args:
        index: the registry, and what the router has of it.
        name: as asked for.
        ask: what the request says of itself.
        facts: what is known of quotas, budgets and servers.

    Returns:
        a Plan with at least one target; a Refusal; None where the registry does not know the name.

    """
    pool = index.pools.get(name)
    if pool is None:
        one = index.by_deployment.get(name)
        if one is None:
            return None
        skip = metered_skip(index.registry, one.model, ask)
        if skip is None:
            _, skip = _available(index.registry, one.model, (one,), ask, facts)
        return Plan(name, None, (one,), (), (one.model.id,)) if skip is None else all_refused(name, None, (skip,))
    targets: tuple[Running, ...] = ()
    skipped: list[Skip] = []
    for model in pool.members:
        skip = metered_skip(index.registry, model, ask) if model.metered else None
        found = index.running.get(model.id, ())
        if skip is None and not found:
            skip = Skip(model.id, "model_unavailable", NOT_IN_PROXY)
        if skip is None:
            found, skip = _available(index.registry, model, found, ask, facts)
        if skip is not None:
            skipped.append(skip)
        else:
            targets += found
    if not targets:
        return all_refused(name, pool.tier, skipped)
    return Plan(name, pool.tier, targets, tuple(skipped), pool.order)


def _available(
    registry: Registry, model: Model, targets: tuple[Running, ...], ask: Ask, facts: Facts
) -> tuple[tuple[Running, ...], Skip | None]:
    """Return the deployments that may be tried now; where none may, why not."""
    if model.quota is None and model.lifecycle != "on-demand" and not facts.closures and not facts.circuits:
        return targets, None
    return usable(registry, model, targets, facts, ask.now.timestamp())


def unlisted(registry: Registry, name: str, ask: Ask) -> Refusal | None:
    """Gate a model that the proxy has and the registry does not know; None lets it through.

    `routing.unlisted_models`: `allow` serves it, `deny` never does, `metered` asks for both consents.
    """
    rule = registry.routing.unlisted_models
    if rule == "allow":
        return None
    if rule == "deny":
        return refuse(
            "unlisted_model",
            f"{_quoted(name)} is not in the registry and routing.unlisted_models is deny; "
            "add it to model-registry.yaml",
        )
    skip = metered_by_name(registry, name, ask)
    if skip is None:
        return None
    return refuse(
        "unlisted_model",
        f"{_quoted(name)} is not in the registry, so it counts as metered (routing.unlisted_models: metered): "
        f"{skip.reason}; or add it to model-registry.yaml",
    )


def _quoted(name: str) -> str:
    return name if name.startswith("a ") else f"model {name!r}"


def unknown(index: Index, name: str) -> Refusal:
    """Refuse a name that neither the registry nor the proxy knows."""
    tiers = ", ".join(index.registry.routing.tiers) or "none"
    return refuse("unknown_model", f"no tier, alias or model is called {shown(name)}; the tiers are: {tiers}")


def join(plans: Sequence[Plan]) -> Plan:
    """Chain the plans of a request and of its client-named fallbacks; a deployment is tried once.

    Embeddings have no fallbacks: vectors of two models are not comparable.
    """
    first = plans[0]
    if len(plans) == 1:
        return first
    if first.targets and first.targets[0].model.effective_mode == "embedding":
        return first
    targets: dict[str, Running] = {}
    skipped: dict[str, Skip] = {}
    for one in plans:
        for target in one.targets:
            targets.setdefault(target.id, target)
        for skip in one.skipped:
            skipped.setdefault(skip.model, skip)
    order = tuple(dict.fromkeys(model for one in plans for model in one.order))
    return Plan(first.name, first.tier, tuple(targets.values()), tuple(skipped.values()), order)
