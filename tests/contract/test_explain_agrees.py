"""explain says what the proxy then does: its answer against the proxy's own plan and walk, in 5,000 random situations."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any

from litellm_registry_hook.adapter.gpu import GpuGate
from litellm_registry_hook.adapter.scope import SCOPE, RefusedError, Scope
from litellm_registry_hook.adapter.walk import Walk
from litellm_registry_hook.core.availability.facts import Circuit, Closure, Health, Reading
from litellm_registry_hook.core.consent import Caller, Grant
from litellm_registry_hook.core.explain import Explanation, explain, whole_index
from litellm_registry_hook.core.gpu.facts import Claim, Slot
from litellm_registry_hook.core.gpu.verdict import Admit, Join, No, Open, Resident, Swap, Verdict, Want
from litellm_registry_hook.core.plan import Ask, Index, Plan, Running, index_of, plan
from litellm_registry_hook.core.refusal import Refusal, Skip
from litellm_registry_hook.core.registry import Registry
from litellm_registry_hook.core.routes import Route
from litellm_registry_hook.residency.engine import Lease
from litellm_registry_hook.residency.view import View
from litellm_registry_hook.watch.engine import Watch

REGISTRIES, SITUATIONS = 100, 50
NOW = datetime(2026, 11, 30, 12, 0, tzinfo=timezone.utc)
AT = NOW.timestamp()
TOKENS = ["a" * 64, "b" * 64]
LIFECYCLES = ["always-on", "on-demand", "quota-gated", "cost-gated"]


def model(draw: random.Random, number: int) -> dict[str, Any]:
    """A model of any kind, with one or two endpoints."""
    lifecycle, ollama = draw.choice(LIFECYCLES), draw.random() < 0.4
    base = f"http://127.0.0.1:{9000 + number * 10}"
    places = [{"api_base": f"{base}{n}"} for n in range(draw.choice([1, 1, 2]))]
    for place in places:
        if lifecycle == "on-demand" and draw.random() < 0.7:
            place["health_url"] = f"{place['api_base']}/health"
    found: dict[str, Any] = {
        "id": f"m{number}", "role": "chat", "lifecycle": lifecycle, "metered": draw.random() < 0.35,
        "litellm": {"model": f"{'ollama_chat' if ollama else 'openai'}/m{number}"}, "endpoints": places,
    }  # fmt: skip
    if lifecycle == "quota-gated":
        windows = [{"name": name, "field": name} for name in ("5h", "weekly")[: draw.choice([1, 2])]]
        found["quota"] = {"probe_file": "/x", "windows": windows}
    if lifecycle == "cost-gated":
        found["quota"] = {"probe_file": "/x", "field": "spent", "limit": 10}
    if ollama:
        found["gpu_residency"] = {"vram_mb": 1000}
    return found


def registry(draw: random.Random) -> Registry:
    """A registry with two tiers over up to five models."""
    models = [model(draw, number) for number in range(draw.randint(1, 5))]
    ids = [one["id"] for one in models]
    grants: list[Any] = []
    for token in TOKENS:
        if draw.random() < 0.5:
            grants.append({"token": f"sha256:{token}", "models": draw.sample(ids, draw.randint(1, len(ids)))})
    return Registry.model_validate({
        "version": 1, "models": models,
        "routing": {
            "tiers": {"all": draw.sample(ids, len(ids)), "some": draw.sample(ids, draw.randint(1, len(ids)))},
            "aliases": {"alias": "all"}, "metered_opt_in": grants,
            "mode": draw.choice(["enforce", "enforce", "observe"]),
            "on_unknown": {"quota": draw.choice(["use", "skip"]), "health": draw.choice(["use", "skip"])},
        },
    })  # fmt: skip


def watched(draw: random.Random, registry: Registry) -> Watch:
    """A watch that knows all sorts of things."""
    watch = Watch(lambda: registry, None, lambda: AT, {})
    for one in registry.models:
        for window in ("5h", "weekly", "budget"):
            if draw.random() < 0.5:
                read_at, used = AT - draw.choice([1, 600, 5000]), draw.choice([None, 10.0, 94.9, 95.0, 100.0])
                resets = AT + draw.choice([-10, 60, 9000]) if draw.random() < 0.7 else None
                watch.board.put(Reading(one.id, window, used, resets, read_at, AT, draw.choice(["", "exit 1"])))
        for n, place in enumerate(one.places):
            if draw.random() < 0.5:
                state = draw.choice(["up", "gone", "unknown"])
                watch.board.put(Health(one.id, place.api_base, state, AT - draw.choice([1, 20, 90])))
            if draw.random() < 0.15:
                until = AT + draw.choice([-5, 20])
                watch.board.put(Circuit(f"{one.id}@{n}", 3, AT - 30, "was refused", AT - 30, until))
        if draw.random() < 0.15:
            key = draw.choice([one.id, f"{one.id}@0"])
            stated, until = draw.random() < 0.5, AT + draw.choice([-5, 40])
            watch.board.put(Closure(key, AT - 60, until, "was answered 429", stated, until))
    return watch


def verdict(draw: random.Random, target: Running) -> Verdict | None:
    """Any answer of the residency gate."""
    if not target.model.on_ollama:
        return None
    slot = Slot(target.api_base, target.model.id)
    no = No(draw.choice(["gpu_no_headroom", "gpu_state_unknown"]), f"no room for {target.id}", draw.choice([5.0, 30.0]))
    claim = Claim(slot, target.model.id, 900.0, "", "w", AT - 1, AT + 9)
    return draw.choice([
        Open(), Resident(None), Resident(AT + 60), Admit(1000.0, "", "fits"), Swap((slot,), "unload it"), Join(claim), no, no,
    ])  # fmt: skip


@dataclass
class FakeMeter:
    """Refuses what the table says."""

    no: dict[str, Skip]

    async def admit(self, scope: Scope, name: str) -> Skip | None:
        return self.no.get(name)


@dataclass
class FakeGates:
    """The gates as the walk asks them."""

    watch: Watch
    observing: bool
    books_foreign: bool = False

    def secrets(self, target: Running) -> tuple[str, ...]:
        return ()


class TableGate(GpuGate):
    """The residency gate with its answers in a table; the order of endpoints is its own code."""

    def __init__(self, answers: dict[str, Verdict | None], targets: tuple[Running, ...]) -> None:
        self.answers = answers
        self.view = View(lambda: AT)
        wants = {target.id: self.want(target) for target in targets}
        self.view.resident = {
            wants[name].use: AT + 99 for name, answer in answers.items() if isinstance(answer, Resident) and name in wants
        }  # fmt: skip
        self.residency = SimpleNamespace(view=self.view)

    def want(self, target: Running) -> Want | None:
        return Want(target.model, Slot(target.api_base, target.id)) if self.answers[target.id] is not None else None

    async def enter(self, scope: Scope, wants: Any, wait_s: float = 0.0) -> Any:
        answer = self.answers[wants[0].slot.name]
        return (answer,) if isinstance(answer, No) else Lease(0, wants[0].use, self.view, 0.0)


@dataclass
class Situation:
    """Everything that an answer hangs on."""

    index: Index
    name: str
    ask: Ask
    watch: Watch
    gpu: dict[str, Verdict | None] = field(default_factory=dict)
    meter: dict[str, Skip] = field(default_factory=dict)


def situation(draw: random.Random, registry: Registry) -> Situation:
    whole = whole_index(registry)
    running = [one for one in whole.by_deployment.values() if draw.random() < 0.9]
    index = index_of(registry, running)
    token = draw.choice([*TOKENS, ""])
    permission = Grant(source="permission") if draw.random() < 0.3 else None
    caller = Caller("virtual_key" if token else "anonymous", token, "bot", permission)
    names = [*index.pools, *index.by_deployment]
    found = Situation(
        index, draw.choice([*names, "all", "some"]), Ask(caller, draw.random() < 0.6, NOW), watched(draw, registry)
    )
    found.gpu = {one.id: verdict(draw, one) for one in whole.by_deployment.values()}
    found.meter = {
        one.id: Skip(one.id, "metered_cap_reached", "enough for today", 100.0)
        for one in registry.models if draw.random() < 0.2
    }  # fmt: skip
    return found


def explained(one: Situation) -> Explanation:
    found = explain(
        one.index, one.name, one.ask, one.watch.facts,
        lambda target: one.gpu[target.id], lambda model: one.meter.get(model.id),
    )  # fmt: skip
    assert found is not None
    return found


async def walked(one: Situation) -> tuple[str | None, tuple[Skip, ...], Refusal | None]:
    """What the proxy does: its plan, then its walk; upstreams always answer."""
    found = plan(one.index, one.name, one.ask, one.watch.facts)
    assert found is not None
    if isinstance(found, Refusal):
        return None, found.candidates, found
    scope = Scope(
        Route("model"), {}, caller=one.ask.caller, allow_metered=one.ask.allow_metered, plans={one.name: found}
    )

    async def answered(*args: Any, **kwargs: Any) -> object:
        return object()

    gates = FakeGates(one.watch, one.index.registry.routing.mode == "observe")
    walk = Walk(gates, FakeMeter(one.meter), TableGate(one.gpu, found.targets), answered)
    token = SCOPE.set(scope)
    try:
        await walk(model=one.name)
    except RefusedError as refused:
        return None, refused.refusal.candidates, refused.refusal
    finally:
        SCOPE.reset(token)
    [deployment] = scope.deployments
    return deployment, scope.skipped, None


async def test_explain_says_what_the_proxy_does() -> None:
    """Who serves, who is passed over before with which words, and the refusal: explain and the proxy say the same."""
    counts = {"served": 0, "refused": 0, "passed over": 0}
    for seed in range(REGISTRIES):
        draw = random.Random(seed)
        one_registry = registry(draw)
        for number in range(SITUATIONS):
            one = situation(draw, one_registry)
            # The walk may take a trial, which changes what is known: explain goes first, and must change nothing.
            before = one.watch.facts
            found = explained(one)
            assert one.watch.facts is before
            deployment, skipped, refusal = await walked(one)

            assert (found.serves.id if found.serves else None) == deployment, (seed, number)
            assert found.refusal == refusal, (seed, number)
            order = [candidate.model.id for candidate in found.candidates]
            last = order.index(found.serves.model.id) if found.serves else len(order)
            said = tuple(candidate.skip for candidate in found.candidates[:last] if candidate.skip is not None)
            assert said == skipped, (seed, number)
            counts["served" if deployment else "refused"] += 1
            counts["passed over"] += len(skipped)
    assert sum(counts[what] for what in ("served", "refused")) == 5000
    assert min(counts.values()) > 1000, counts


def test_candidates_are_the_pool_in_order() -> None:
    """Every member of the pool is there once, one at most serves, and whoever is not passed over stands behind it."""
    for seed in range(40):
        draw = random.Random(1000 + seed)
        one = situation(draw, registry(draw))
        found, decided = explained(one), plan(one.index, one.name, one.ask, one.watch.facts)
        pool = one.index.pools.get(one.name)
        words = [candidate.word for candidate in found.candidates]

        assert [candidate.model.id for candidate in found.candidates] == list(
            pool.order if pool is not None else [one.index.by_deployment[one.name].model.id]
        )
        assert words.count("serves") == (1 if found.serves is not None else 0)
        assert "next" not in words[: words.index("serves")] if "serves" in words else "next" not in words
        if isinstance(decided, Plan):
            passed = {
                candidate.model.id: candidate.skip for candidate in found.candidates if candidate.skip is not None
            }
            assert {skip.model: skip for skip in decided.skipped}.items() <= passed.items()
