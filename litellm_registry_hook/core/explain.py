"""Who would serve a request now, who would be tried next, and why the others would not: the proxy's own decision.

It asks core.plan.plan, then goes through the targets as the walk does: the meter's cap and the GPU gate at each, in the
order in which they would be tried. It changes nothing and calls nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from litellm_registry_hook.core.availability.facts import Facts
from litellm_registry_hook.core.availability.judge import judge_target
from litellm_registry_hook.core.availability.moments import clock
from litellm_registry_hook.core.consent import Caller, Grant, grant_for
from litellm_registry_hook.core.deployments import deployments_of
from litellm_registry_hook.core.gpu.names import short_name
from litellm_registry_hook.core.gpu.verdict import Admit, Join, No, Open, Resident, Swap, Verdict
from litellm_registry_hook.core.known import Known, known_data, known_of
from litellm_registry_hook.core.lookup import get_model
from litellm_registry_hook.core.plan import Ask, Index, Plan, Pool, Running, index_of, plan
from litellm_registry_hook.core.refusal import Refusal, Skip, all_refused
from litellm_registry_hook.core.registry import Model, Registry
from litellm_registry_hook.core.resolve import pool as pool_of_tier
from litellm_registry_hook.core.sync_masking import shown_text
from litellm_registry_hook.core.virtual_key import TOKEN_PREFIX, short
from litellm_registry_hook.errors import RegistryError

Word = Literal["serves", "next", "skipped"]
NOTHING_KNOWN: Final = Facts()


@dataclass(frozen=True, slots=True)
class Place:
    """One deployment of a candidate.

    Attributes:
        deployment: its id. api_base: where; empty for a provider's own address.
        gpu: the residency gate's answer; None where it was not asked: no GPU of ours, or passed over before.
        skip: why this one would not be tried, or would be sent away.

    """

    deployment: str
    api_base: str
    gpu: Verdict | None
    skip: Skip | None


@dataclass(frozen=True, slots=True)
class Consent:
    """What the two keys of a metered model say.

    Attributes:
        allowed: whether the request allows it. grant: what opts the key in; None where nothing does.

    """

    allowed: bool
    grant: Grant | None


@dataclass(frozen=True, slots=True)
class Candidate:
    """One member of the pool.

    Attributes:
        model: the entry. word: what would become of it.
        skip: why it would be passed over; None where it would not.
        places: its deployments in the running router. consent: of a metered model. known: what is known of it.

    """

    model: Model
    word: Word
    skip: Skip | None
    places: tuple[Place, ...]
    consent: Consent | None
    known: tuple[Known, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """The answer.

    Attributes:
        name: as asked for. tier: the tier behind it; None for a named model.
        ask: of whom, with what consent, when.
        serves: the deployment that would serve; None where nobody would.
        candidates: every member, in pool order.
        refusal: what the client would get; None where somebody would serve.

    """

    name: str
    tier: str | None
    ask: Ask
    serves: Running | None
    candidates: tuple[Candidate, ...]
    refusal: Refusal | None


def whole_index(registry: Registry) -> Index:
    """Return the index of a proxy that has every deployment of the registry: what the command line decides with."""
    running = [Running(one.id, model, one.api_base or "") for model in registry.models for one in deployments_of(model)]
    return index_of(registry, running)


def asked_name(registry: Registry, tier: str | None, model: str | None) -> str:
    """Return the name to explain.

    Raises:
        RegistryError: neither or both are given, or there is no such tier or model.

    """
    if (tier is None) == (model is None):
        raise RegistryError("name a tier or a model, one of them")
    if tier is not None:
        pool_of_tier(registry, tier)
        return tier
    assert model is not None
    return get_model(registry, model).id


def explain(  # noqa: PLR0917  what the proxy decides by, in its order
    index: Index,
    name: str,
    ask: Ask,
    facts: Facts = NOTHING_KNOWN,
    gpu: Callable[[Running], Verdict | None] | None = None,
    meter: Callable[[Model], Skip | None] | None = None,
) -> Explanation | None:
    """Explain one name.

    Args:
        index: the registry, and what a router has of it.
        name: a tier, an alias, a model or a deployment.
        ask: what the request says of itself.
        facts: what is known of quotas, budgets and servers.
        gpu: the residency gate's answer for a deployment; None for one that needs no GPU of ours.
        meter: why a metered call would not be booked; asked about models that both keys let through.

    Returns:
        None where the registry does not know the name.

    """
    found = plan(index, name, ask, facts)
    if found is None:
        return None
    pool = index.pools.get(name) or _alone(index.by_deployment[name])
    asker = _Asker(index.registry, gpu, meter)
    targets = asker.ordered(found.targets) if isinstance(found, Plan) else ()
    stops = {target.id: asker.stop(target) for target in targets}
    serves = next((target for target in targets if stops[target.id] is None), None)
    skips = {skip.model: skip for skip in (found.skipped if isinstance(found, Plan) else found.candidates)}
    for target in targets:
        skip = stops[target.id]
        if skip is not None:
            skips[target.model.id] = skip
    for target in targets:
        if stops[target.id] is None:
            skips.pop(target.model.id, None)
    candidates = tuple(
        _candidate(index, model, ask, facts, asker, stops, skips.get(model.id), serves) for model in pool.members
    )
    refusal = found if isinstance(found, Refusal) else None
    if refusal is None and serves is None:
        refusal = all_refused(name, pool.tier, [skips[model] for model in pool.order if model in skips])
    return Explanation(name, pool.tier, ask, serves, candidates, refusal)


def _alone(one: Running) -> Pool:
    return Pool(one.id, None, (one.model,), (one.model.id,))


class _Asker:
    """Asks the gates that stand at each attempt, once a deployment."""

    def __init__(
        self,
        registry: Registry,
        gpu: Callable[[Running], Verdict | None] | None,
        meter: Callable[[Model], Skip | None] | None,
    ) -> None:
        self.observing = registry.routing.mode == "observe"
        self._gpu = gpu
        self._meter = meter
        self._verdicts: dict[str, Verdict | None] = {}

    def verdict(self, target: Running) -> Verdict | None:
        if target.id not in self._verdicts:
            self._verdicts[target.id] = self._gpu(target) if self._gpu is not None else None
        return self._verdicts[target.id]

    def seen(self, target: Running) -> Verdict | None:
        """Return the answer where it was asked for."""
        return self._verdicts.get(target.id)

    def ordered(self, targets: Sequence[Running]) -> Sequence[Running]:
        """Put the endpoint first where a model is loaded, as the walk does."""
        if len({target.model.id for target in targets}) == len(targets):
            return targets
        first = {target.model.id: number for number, target in reversed(list(enumerate(targets)))}

        def rank(target: Running) -> tuple[int, bool]:
            verdict = self.verdict(target)
            return first[target.model.id], verdict is not None and not isinstance(verdict, Resident)

        return sorted(targets, key=rank)

    def stop(self, target: Running) -> Skip | None:
        """Return why an attempt would not be made."""
        if target.model.metered and self._meter is not None:
            skip = self._meter(target.model)
            if skip is not None:
                return skip
        verdict = self.verdict(target)
        if isinstance(verdict, No) and not self.observing:
            return Skip(target.model.id, verdict.code, verdict.reason, verdict.retry_after_s)
        return None


def _candidate(  # noqa: PLR0917
    index: Index,
    model: Model,
    ask: Ask,
    facts: Facts,
    asker: _Asker,
    stops: dict[str, Skip | None],
    skip: Skip | None,
    serves: Running | None,
) -> Candidate:
    registry, now = index.registry, ask.now.timestamp()
    running = index.running.get(model.id, ())
    places = tuple(
        Place(
            one.id,
            one.api_base,
            asker.seen(one),
            stops[one.id] if one.id in stops else judge_target(registry, model, one, facts, now),
        )
        for one in running
    )
    consent = Consent(ask.allow_metered, grant_for(registry, ask.caller, model.id, ask.now)) if model.metered else None
    if skip is not None:
        word: Word = "skipped"
    else:
        word = "serves" if serves is not None and serves.model.id == model.id else "next"
    return Candidate(model, word, skip, places, consent, known_of(model, running, facts, now))


def gpu_word(verdict: Verdict) -> tuple[str, str]:
    """Return the residency gate's answer as a word and a sentence."""
    match verdict:
        case Open():
            return "open", "it is on no GPU that has to be minded"
        case Resident(until=None):
            return "resident", "it is loaded and pinned"
        case Resident(until=until):
            assert until is not None
            return "resident", f"it is loaded, at least until {clock(until)}"
        case Join(claim=claim):
            return "join", f"it is being loaded since {clock(claim.began)} ({claim.mb:.0f} MB booked)"
        case Admit(reason=reason):
            return "admit", f"it would be loaded: {reason}"
        case Swap(victims=victims, reason=reason):
            names = ", ".join(short_name(slot.name) for slot in victims)
            return "swap", f"it would be loaded after unloading {names}: {reason}"
        case No(reason=reason):
            return "no", reason


def caller_text(caller: Caller) -> str:
    """Return who is asking, for people."""
    token = f"{TOKEN_PREFIX}{short(caller.token)}…" if caller.token.strip("0") else ""
    return " ".join(one for one in (caller.alias, token) if one) or "nobody"


def explanation_data(found: Explanation) -> dict[str, Any]:
    """Return an explanation for JSON."""
    return {
        "name": found.name,
        "tier": found.tier,
        "at": found.ask.now.isoformat(timespec="seconds"),
        "key": caller_text(found.ask.caller),
        "allow_metered": found.ask.allow_metered,
        "served": found.serves is not None,
        "model": found.serves.model.id if found.serves is not None else None,
        "deployment": found.serves.id if found.serves is not None else None,
        "candidates": [_candidate_data(one) for one in found.candidates],
        "refusal": {
            "code": found.refusal.code,
            "status": found.refusal.status,
            "message": found.refusal.message,
            "retry_after_s": found.refusal.retry_after_s,
        }
        if found.refusal is not None
        else None,
    }


def _candidate_data(one: Candidate) -> dict[str, Any]:
    return {
        "model": one.model.id,
        "verdict": one.word,
        "code": one.skip.code if one.skip is not None else None,
        "reason": one.skip.reason if one.skip is not None else None,
        "retry_after_s": one.skip.retry_after_s if one.skip is not None else None,
        "metered": one.model.metered,
        "consent": _consent_data(one.consent) if one.consent is not None else None,
        "deployments": [_place_data(place) for place in one.places],
        "known": [known_data(known) for known in one.known],
    }


def _consent_data(consent: Consent) -> dict[str, Any]:
    grant = consent.grant
    return {
        "request_allows": consent.allowed,
        "key_opted_in": grant is not None,
        "source": grant.source if grant is not None else None,
        "expires": grant.expires.isoformat() if grant is not None and grant.expires is not None else None,
        "max_calls": grant.max_calls if grant is not None else None,
    }


def _place_data(place: Place) -> dict[str, Any]:
    return {
        "deployment": place.deployment,
        "api_base": shown_text(place.api_base) or None,
        "gpu": gpu_data(place.gpu) if place.gpu is not None else None,
        "code": place.skip.code if place.skip is not None else None,
        "reason": place.skip.reason if place.skip is not None else None,
    }


def gpu_data(verdict: Verdict) -> dict[str, Any]:
    """Return the residency gate's answer for JSON, with its numbers where there are any."""
    word, text = gpu_word(verdict)
    data: dict[str, Any] = {"answer": word, "text": text}
    match verdict:
        case Resident(until=until):
            data["until"] = clock(until) if until is not None else None
        case Admit(mb=mb):
            data["needed_mb"] = mb
        case Swap(victims=victims):
            data["victims"] = [short_name(slot.name) for slot in victims]
        case No():
            numbers = ("needed_mb", "free_mb", "reserved_mb", "promised_mb")
            data |= {name: value for name in numbers if (value := getattr(verdict, name)) is not None}
    return data
