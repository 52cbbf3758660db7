"""Which model of a tier a program should use, with the reason for every candidate that was passed over."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import datetime

from litellm_registry_hook.core.consent import names_opted_in
from litellm_registry_hook.core.findings import redact
from litellm_registry_hook.core.registry import Model, OptIn, Registry
from litellm_registry_hook.core.suggest import did_you_mean
from litellm_registry_hook.errors import RegistryError


class NothingUsableError(RegistryError):
    """The tier is known, but each of its models was passed over.

    Attributes:
        passed_over: model id and reason, in pool order.

    """

    def __init__(self, message: str, passed_over: tuple[tuple[str, str], ...]) -> None:
        super().__init__(message)
        self.passed_over = passed_over


def pool(registry: Registry, tier: str) -> tuple[Model, ...]:
    """Return the models of a tier, or of an alias of a tier or model, in order.

    Raises:
        RegistryError: no such tier; names the tiers there are.

    """
    tiers, aliases = registry.routing.tiers, registry.routing.aliases
    meant = aliases.get(tier, tier) if tier not in tiers else tier
    if meant in tiers:
        return tuple(registry.by_id[model_id] for model_id in tiers[meant])
    if tier in aliases:
        return (registry.by_id[meant],)
    listed = ", ".join(tiers) or "none"
    if tier in registry.by_id:
        home = registry.tier_of.get(tier)
        known = f"; it is listed by `{home}`" if home is not None else ""
        raise RegistryError(f"`{tier}` is a model, not a tier{known}; tiers: {listed}")
    close = did_you_mean(tier, {*tiers, *aliases}, what="tiers")
    hint = f"{close} " if close.startswith("did") else ""
    raise RegistryError(f"the registry has no tier `{redact(tier)}`; {hint}tiers: {listed}")


def resolve(
    registry: Registry,
    tier: str,
    *,
    now: datetime,
    allow_metered: bool = False,
    opted_in_key: str | None = None,
    probe_check: Callable[[Model], bool] | None = None,
) -> Model:
    """Return the first usable model of a tier's pool.

    Args:
        registry: the registry.
        tier: a tier, or an alias.
        now: an aware moment; grants may have ended.
        allow_metered: whether this call may cost money.
        opted_in_key: who calls: an alias, `sha256:<hex>`, or the virtual key itself (`sk-…`, hashed at once).
        probe_check: says whether a model is available now; asked in pool order, and only about permitted models.

    Raises:
        RegistryError: no such tier.
        NothingUsableError: every model was passed over; names each with its reason.

    """
    models = pool(registry, tier)
    names = caller_names(registry, opted_in_key)
    passed: list[tuple[str, str]] = []
    for model in models:
        reason = _refusal(registry, model, allow_metered, names, now)
        if reason is None and probe_check is not None and not probe_check(model):
            reason = f"not available now ({model.lifecycle}): the probe said no"
        if reason is None:
            return model
        passed.append((model.id, reason))
    tiers = ", ".join(registry.routing.tiers)
    listed = "".join(f"\n  {model_id}: {reason}" for model_id, reason in passed)
    left = [model for model in models if model.metered]
    advice = ""
    if left and not (allow_metered and names):
        advice = "\nonly metered models are left: allow_metered and a key in routing.metered_opt_in would reach them"
    message = f"nothing in the tier `{tier}` can be used:{listed}{advice}\ntiers: {tiers}"
    raise NothingUsableError(message, tuple(passed))


def caller_names(registry: Registry, key: str | None) -> frozenset[str]:
    """Return what a caller is called in metered_opt_in: an alias and the hash that the registry pins to it."""
    if not key:
        return frozenset()
    if key.startswith("sk-"):
        return frozenset({"sha256:" + hashlib.sha256(key.encode()).hexdigest()})
    if key.startswith("sha256:"):
        return frozenset({key.lower()})
    entries = registry.routing.metered_opt_in
    pinned = {entry.token for entry in entries if isinstance(entry, OptIn) and entry.key == key and entry.token}
    return frozenset({key, *pinned})


def _refusal(registry: Registry, model: Model, allow: bool, names: frozenset[str], now: datetime) -> str | None:
    if not model.metered:
        return None
    opted_in = names_opted_in(registry, names, model.id, now)
    missing = []
    if not allow:
        missing.append("this call does not allow metered models (allow_metered)")
    if not names:
        missing.append("no opted-in key is named (opted_in_key)")
    elif not opted_in:
        missing.append("the key is not opted in for it in routing.metered_opt_in, or its grant has ended")
    return f"metered: {'; '.join(missing)}" if missing else None
