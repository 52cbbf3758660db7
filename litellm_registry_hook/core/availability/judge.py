"""The decision: may this model be used now, by what was read and what calls have taught.

It reads memory only and changes nothing. `judge` speaks of the model (its quota and budget), `judge_target` of one
deployment (its server's health and its circuit).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol, TypeVar

from litellm_registry_hook.core.availability.facts import BUDGET, Circuit, Closure, Facts, Health, Reading
from litellm_registry_hook.core.availability.learn import from_ahead, lapsed, trial_due
from litellm_registry_hook.core.availability.moments import clock, span
from litellm_registry_hook.core.availability.parse import FULL, windows_of
from litellm_registry_hook.core.refusal import Skip
from litellm_registry_hook.core.registry import Model, Quota, Registry

SKEW_S: Final = 60.0
"""A reading from farther in the future than this is of unknown age: the clock was set back."""
HEALTH_AGE_S: Final = 30.0
"""A reading of a server's health older than this says nothing."""
_OTHERS: Final = "wait, or ask for a tier with further members"


class Target(Protocol):
    """A deployment; core.plan.Running is one."""

    @property
    def id(self) -> str:
        """Its id in the running router."""

    @property
    def api_base(self) -> str:
        """Where it is served, as the registry writes it; empty for a provider's own address."""


T = TypeVar("T", bound=Target)


def judge(registry: Registry, model: Model, facts: Facts, now: float) -> Skip | None:
    """Decide whether a model has quota and budget left; None lets it through.

    A closure that a real call taught comes before every reading; of the readings, all windows must have room.

    Args:
        registry: the registry in force, for its policy on what is not known.
        model: one of its entries.
        facts: what is known.
        now: seconds since the epoch.

    Returns:
        quota_exhausted, with the time until the last full window starts anew where that is known; or model_unavailable
        where nothing is known and routing.on_unknown.quota is skip.

    """
    closure = facts.closures.get(model.id) if facts.closures else None
    if closure is not None:
        skip = _closed(model, closure, facts, now)
        if skip is not None:
            return skip
    quota = model.quota
    if quota is None:
        return None
    found = facts.readings.get(model.id, {})
    full = [reading for reading in found.values() if is_full(quota, reading, now)]
    if full:
        return _used_up(model, quota, full, now)
    if registry.routing.on_unknown.quota == "skip":
        for name in windows_of(model):
            why = unknown(quota, found.get(name), now)
            if why is not None:
                return Skip(
                    model.id,
                    "model_unavailable",
                    f"how much of {_named(name)} is used is not known: {why}; routing.on_unknown.quota is skip; "
                    "mend the probe of quota, or set it to use",
                )
    return None


def judge_target(registry: Registry, model: Model, target: Target, facts: Facts, now: float) -> Skip | None:
    """Decide whether one deployment's server is there; None lets it through.

    Returns:
        model_unavailable; or quota_exhausted where a server of several has stated a limit of its own.

    """
    closure = facts.closures.get(target.id) if facts.closures else None
    if closure is not None:
        skip = _closed(model, closure, facts, now)
        if skip is not None:
            return skip
    circuit = facts.circuits.get(target.id) if facts.circuits else None
    if circuit is not None:
        skip = _broken(model, circuit, facts, now)
        if skip is not None:
            return skip
    return _health(registry, model, target, facts, now) if model.lifecycle == "on-demand" else None


def usable(
    registry: Registry, model: Model, targets: Sequence[T], facts: Facts, now: float
) -> tuple[tuple[T, ...], Skip | None]:
    """Return the deployments of a model that may be tried, in order; where none may, why not."""
    skip = judge(registry, model, facts, now)
    if skip is not None:
        return (), skip
    skips: list[Skip] = []
    passed: list[T] = []
    for target in targets:
        skip = judge_target(registry, model, target, facts, now)
        if skip is None:
            passed.append(target)
        else:
            skips.append(skip)
    if passed or not skips:
        return tuple(passed), None
    return (), min(skips, key=lambda one: one.retry_after_s if one.retry_after_s is not None else float("inf"))


def threshold_of(model: Model) -> float:
    """Return the percent used at which a window of a model is full; a budget's is its limit."""
    return model.quota.threshold_pct if model.quota is not None and model.lifecycle == "quota-gated" else FULL


def is_full(quota: Quota, reading: Reading, now: float) -> bool:
    """Say whether a window is known to be used up: by a reading that still counts, before the window starts anew."""
    limit = FULL if reading.window == BUDGET and quota.limit is not None else quota.threshold_pct
    if reading.used_pct is None or reading.used_pct < limit:
        return False
    return unknown(quota, reading, now) is None and not _renewed(reading, now)


def unknown(quota: Quota, reading: Reading | None, now: float) -> str | None:
    """Say why a reading tells nothing; None where it does, if need be by its last good value."""
    if reading is None:
        return "it has not been read yet"
    failed = f"the probe failed ({reading.error})" if reading.error else ""
    if reading.used_pct is None:
        return failed or "it has not been read yet"
    age = now - reading.read_at
    if age < -SKEW_S:
        return f"it was read {span(-age)} from now, so the clock was set back"
    if age > quota.max_age_s:
        old = f"it was read {span(age)} ago (max_age_s is {quota.max_age_s:g})"
        return f"{old} and {failed} since" if failed else old
    return None


def _renewed(reading: Reading, now: float) -> bool:
    return reading.resets_at is not None and reading.read_at < reading.resets_at <= now


def _used_up(model: Model, quota: Quota, full: Iterable[Reading], now: float) -> Skip:
    said: list[str] = []
    resets: list[float | None] = []
    for reading in full:
        ahead = reading.resets_at if reading.resets_at is not None and reading.resets_at > now else None
        resets.append(ahead)
        age = f"read {span(max(0.0, now - reading.read_at))} ago"
        if reading.error:
            age += f", the probe has failed since ({reading.error})"
        if reading.window == BUDGET and model.lifecycle != "quota-gated":
            when = f"; it starts anew at {clock(ahead)}" if ahead is not None else ""
            said.append(f"the budget is spent: {reading.note or 'all of it'} ({age}){when}; raise quota.limit")
            continue
        when = "when it starts anew is not known"
        if ahead is not None:
            when = f"it starts anew at {clock(ahead)}, in {span(ahead - now)}"
        odd = f", {reading.note}" if reading.note else ""
        said.append(
            f"{_named(reading.window)} is used up: {reading.used_pct:g} % used of at most {quota.threshold_pct:g} % "
            f"({age}{odd}); {when}"
        )
    known = [reset for reset in resets if reset is not None]
    after = max(known) - now if known and len(known) == len(resets) else None
    return Skip(model.id, "quota_exhausted", f"{'; '.join(said)}; {_OTHERS}", after)


def _closed(model: Model, closure: Closure, facts: Facts, now: float) -> Skip | None:
    if lapsed(closure, now) or _may_try(closure.key, closure, facts, now):
        return None
    ago = span(max(0.0, now - closure.since))
    ends = closure.until
    if from_ahead(closure, now):
        ends = now
        when = "the clock was set back since, so one request finds out"
    elif closure.stated:
        when = f"the answer says that it ends at {clock(ends)}, in {span(ends - now)}"
        if closure.try_at < ends:
            when += ", and one request finds out earlier"
    else:
        if now >= ends:
            ends = (closure.trial_at if closure.trial_at is not None else now) + 1.0
        when = "no time was stated, so one request finds out after a minute"
    # A reading can know better how long it takes: all must have room.
    probed = _probed_end(model, facts.readings.get(model.id, {}), now)
    after = max(ends - now, (probed or now) - now, 1.0)
    return Skip(model.id, "quota_exhausted", f"a call {ago} ago {_status(closure.why)}; {when}; {_OTHERS}", after)


def _status(why: str) -> str:
    """Return what a failed call was answered without the upstream's words: they may quote another client's request."""
    return why.partition(":")[0]


def _probed_end(model: Model, readings: Mapping[str, Reading], now: float) -> float | None:
    quota = model.quota
    if quota is None:
        return None
    ends = [one.resets_at for one in readings.values() if one.resets_at is not None and is_full(quota, one, now)]
    return max(ends, default=None)


def _broken(model: Model, circuit: Circuit, facts: Facts, now: float) -> Skip | None:
    if circuit.opened_at is None or _may_try(circuit.deployment, circuit, facts, now):
        return None
    after = 1.0 if from_ahead(circuit, now) else max(1.0, circuit.until - now)
    reason = (
        f"{circuit.deployment} failed {circuit.failures} times in a row, last {span(now - circuit.last_at)} ago: it "
        f"{_status(circuit.why)}; one request finds out in {span(after)}; see whether its server is up"
    )
    return Skip(model.id, "model_unavailable", reason, after)


def _may_try(key: str, what: Closure | Circuit, facts: Facts, now: float) -> bool:
    return trial_due(what, now) and (facts.permits is None or key in facts.permits)


def _health(registry: Registry, model: Model, target: Target, facts: Facts, now: float) -> Skip | None:
    numbers = [n for n, place in enumerate(model.places) if place.health_url and place.api_base == target.api_base]
    if not numbers:
        return None
    found = facts.health.get(model.id, {}).get(target.api_base)
    why = _health_unknown(found, now)
    # The address itself is of no concern to clients.
    server = f"the server of endpoints[{numbers[0]}]"
    if why is None and found is not None and found.state == "gone":
        ago = span(max(0.0, now - found.read_at))
        reason = f"{server} is not there: its health_url refused the connection {ago} ago; start it"
        return Skip(model.id, "model_unavailable", reason)
    if why is not None and registry.routing.on_unknown.health == "skip":
        reason = f"whether {server} is up is not known: its health_url {why}; routing.on_unknown.health is skip"
        return Skip(model.id, "model_unavailable", reason)
    return None


def _health_unknown(found: Health | None, now: float) -> str | None:
    if found is None:
        return "has not been read yet"
    age = now - found.read_at
    if not -SKEW_S <= age <= HEALTH_AGE_S:
        return f"was last read {span(age)} ago"
    return (found.error or "gave no answer") if found.state == "unknown" else None


def _named(window: str) -> str:
    return "the budget" if window == BUDGET else f"the window {window}"
