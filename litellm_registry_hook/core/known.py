"""What is known of a model's quota, budget and servers, with the age of each reading: for explain and status."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from litellm_registry_hook.core.availability.facts import BUDGET, Circuit, Closure, Facts
from litellm_registry_hook.core.availability.judge import is_full, threshold_of, unknown
from litellm_registry_hook.core.availability.learn import lapsed
from litellm_registry_hook.core.availability.moments import clock, span
from litellm_registry_hook.core.availability.parse import windows_of
from litellm_registry_hook.core.registry import Model, Quota
from litellm_registry_hook.core.sync_masking import shown_text

Kind = Literal["window", "budget", "closure", "circuit", "health"]


class HasId(Protocol):
    """A deployment."""

    @property
    def id(self) -> str:
        """Its id in the running router."""


@dataclass(frozen=True, slots=True)
class Known:
    """One fact.

    Attributes:
        kind: window or budget: as a probe read it; closure: a call was answered with a used-up quota; circuit: a
            deployment failed in a row; health: of a server.
        name: the window, the closed model or deployment, or the server's address.
        ok: whether it lets requests through; None where that is not known.
        text: a sentence without its age.
        age_s: seconds since it was read or learned; None where it never was.
        used_pct, limit_pct: percent used, and from how many on it is full; None where there is none.
        until: when it starts anew, or is tried again; seconds since the epoch; None where that is not known.

    """

    kind: Kind
    name: str
    ok: bool | None
    text: str
    age_s: float | None = None
    used_pct: float | None = None
    limit_pct: float | None = None
    until: float | None = None


def known_of(model: Model, running: Iterable[HasId], facts: Facts, now: float) -> tuple[Known, ...]:
    """Return what is known of a model and its deployments: closures first, as they outrank what was read."""
    ids = [one.id for one in running]
    return (
        *(_closure(facts.closures[key], now) for key in (model.id, *ids) if _counts(facts.closures.get(key), now)),
        *(_circuit(facts.circuits[key], now) for key in ids if key in facts.circuits and _open(facts.circuits[key])),
        *_windows(model, facts, now),
        *_health(model, facts, now),
    )


def _counts(closure: Closure | None, now: float) -> bool:
    return closure is not None and not lapsed(closure, now)


def _open(circuit: Circuit) -> bool:
    return circuit.opened_at is not None


def _closure(closure: Closure, now: float) -> Known:
    when = "as it says" if closure.stated else "then one request finds out"
    text = f"a call {closure.why}; closed until {clock(closure.until)}, {when}"
    return Known("closure", closure.key, False, text, now - closure.since, until=closure.until)


def _circuit(circuit: Circuit, now: float) -> Known:
    text = f"failed {circuit.failures} times in a row: it {circuit.why}; tried again at {clock(circuit.until)}"
    return Known("circuit", circuit.deployment, False, text, now - circuit.last_at, until=circuit.until)


def _windows(model: Model, facts: Facts, now: float) -> Iterator[Known]:
    quota = model.quota
    if quota is None:
        return
    for name in windows_of(model):
        yield _window(model, quota, name, facts, now)


def _window(model: Model, quota: Quota, name: str, facts: Facts, now: float) -> Known:
    kind: Kind = "budget" if name == BUDGET and model.lifecycle != "quota-gated" else "window"
    limit = threshold_of(model)
    reading = facts.readings.get(model.id, {}).get(name)
    if reading is None or reading.used_pct is None:
        text = unknown(quota, reading, now) or "it has not been read yet"
        return Known(kind, name, None, text, limit_pct=limit)
    doubt = unknown(quota, reading, now)
    full = is_full(quota, reading, now)
    ahead = reading.resets_at if reading.resets_at is not None and reading.resets_at > now else None
    text = f"{reading.used_pct:g} % used of at most {limit:g} %"
    if ahead is not None:
        text += f", starts anew at {clock(ahead)}, in {span(ahead - now)}"
    if doubt is not None:
        text += f"; not counted on: {doubt}"
    elif reading.error:
        text += f"; the probe has failed since ({reading.error})"
    age = max(0.0, now - reading.read_at)
    return Known(kind, name, None if doubt is not None else not full, text, age, reading.used_pct, limit, ahead)


def _health(model: Model, facts: Facts, now: float) -> Iterator[Known]:
    if model.lifecycle != "on-demand":
        return
    for place in model.places:
        if place.health_url is None:
            continue
        found = facts.health.get(model.id, {}).get(place.api_base)
        if found is None:
            yield Known("health", place.api_base, None, "it has not been read yet")
            continue
        text = found.state if not found.error else f"{found.state}: {found.error}"
        ok = {"up": True, "gone": False}.get(found.state)
        yield Known("health", place.api_base, ok, text, max(0.0, now - found.read_at))


def known_data(known: Known) -> dict[str, Any]:
    """Return a fact for JSON; what it lacks is left out."""
    found = {
        "kind": known.kind,
        "name": shown_text(known.name),
        "ok": known.ok,
        "text": known.text,
        "age_s": round(known.age_s, 1) if known.age_s is not None else None,
        "used_pct": known.used_pct,
        "limit_pct": known.limit_pct,
        "until": clock(known.until) if known.until is not None else None,
    }
    return {name: value for name, value in found.items() if value is not None or name in {"ok", "age_s"}}
