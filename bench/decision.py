"""The decision in process: `plan()` on registries of two sizes, beside what the same walk costs as bare dict look-ups."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import datetime, timezone
from statistics import median
from time import perf_counter_ns

import yaml

from bench import registries
from bench.rows import Figure, Put, Section, percentile
from litellm_registry_hook.core.consent import Caller
from litellm_registry_hook.core.plan import Ask, Index, Plan, Running, index_of, plan
from litellm_registry_hook.core.registry import Registry

SIZES = (5, 10_000)
OPTED_IN = 1000
TOKEN = "ab" * 32

FIGURES = (
    *(
        Figure(f"plan(), {size:,} models, {share}", "us", at_most=most)
        for size in SIZES
        for share, most in (("p50", 10), ("p99", 50))
    ),
    *(Figure(f"plan(), {size:,} models, mean in batches", "us") for size in SIZES),
    *(Figure(f"bare dict look-ups, {size:,} models, p50", "us") for size in SIZES),
    Figure("plan() of a metered model, key among 1,000 opted in, p50", "us", at_most=10),
)


def registry_of(models: int, opted_in: int = 0) -> Registry:
    tree = yaml.load(registries.text(models), Loader=yaml.CSafeLoader)
    others = [f"sha256:{n:064x}" for n in range(opted_in - 1)]
    tree["routing"]["metered_opt_in"] = [*others, f"sha256:{TOKEN}"] if opted_in else []
    return Registry.model_validate(tree)


def index_for(registry: Registry) -> Index:
    """Join a registry with a router that has all of it."""
    running = []
    for model in registry.models:
        places = [place.api_base for place in model.places] or [""]
        running += [Running(f"{model.id}@{n}", model, base) for n, base in enumerate(places)]
    return index_of(registry, running)


def singles(call: Callable[[str], object], names: list[str]) -> list[float]:
    """Time each call by itself, in microseconds, less what reading the clock costs."""
    clock = perf_counter_ns
    idle = []
    for _ in range(2000):
        start = clock()
        idle.append(clock() - start)
    base = median(idle)
    found = []
    for name in names:
        start = clock()
        call(name)
        found.append(max(0.0, clock() - start - base) / 1000)
    return found


def batches(call: Callable[[str], object], names: list[str], size: int = 500) -> float:
    """Return the median over batches of the mean time of a call, in microseconds."""
    found = []
    for at in range(0, len(names) - size + 1, size):
        start = perf_counter_ns()
        for name in names[at : at + size]:
            call(name)
        found.append((perf_counter_ns() - start) / size / 1000)
    return median(found)


def run(options: object, put: Put) -> None:
    calls = 2_000 if options.dry else 50_000
    for size in SIZES:
        index = index_for(registry_of(size))
        ask = Ask(Caller("virtual_key", TOKEN), False, datetime.now(timezone.utc))
        tiers = list(index.registry.routing.tiers)
        names = random.Random(1).choices(tiers, k=calls)
        assert isinstance(plan(index, tiers[0], ask), Plan)

        def bare(name: str, index: Index = index) -> object:
            pool = index.pools.get(name)
            return [index.running.get(model_id) for model_id in pool.order] if pool else None

        def decide(name: str, index: Index = index, ask: Ask = ask) -> object:
            return plan(index, name, ask)

        singles(decide, names[:1000])
        took = singles(decide, names)
        put(f"plan(), {size:,} models, p50", percentile(took, 0.5), f"{calls:,} calls, tiers at random")
        put(f"plan(), {size:,} models, p99", percentile(took, 0.99), f"p99.9 {percentile(took, 0.999):.1f}")
        put(f"plan(), {size:,} models, mean in batches", batches(decide, names), "median of batches of 500")
        put(f"bare dict look-ups, {size:,} models, p50", percentile(singles(bare, names), 0.5))
    index = index_for(registry_of(5, OPTED_IN))
    ask = Ask(Caller("virtual_key", TOKEN), True, datetime.now(timezone.utc))
    took = singles(lambda name: plan(index, name, ask), ["paid-fallback-0"] * min(calls, 5000))
    note = "string entries, the key is the last of them"
    put("plan() of a metered model, key among 1,000 opted in, p50", percentile(took, 0.5), note)


SECTION = Section("a", "decision in process", FIGURES, run)
