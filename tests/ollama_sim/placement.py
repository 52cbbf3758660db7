"""Where a model goes: the card, the cards, partly the CPU, or nowhere before something leaves (S10, S13, S14)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from ollama_sim.rules import Rules, surcharge_mb
from ollama_sim.things import SimModel, Wanted


@dataclass(frozen=True)
class Plan:
    """MB by card index, and MB on the CPU."""

    shares: dict[int, float] = field(default_factory=dict)
    cpu_mb: float = 0.0


def predicted_mb(rules: Rules, model: SimModel, wanted: Wanted, parallel: int) -> float:
    """Return the size that the server expects (S18)."""
    extra = surcharge_mb(rules, wanted.num_batch, embedding=model.embedding)
    return model.file_mb + model.kv(wanted.num_ctx * parallel) + extra


def place(
    rules: Rules, model: SimModel, wanted: Wanted, parallel: int, free: Sequence[float], *, first: bool
) -> Plan | None:
    """Return the plan of a load; None: something has to leave before.

    `free` is what the server takes for free on each card; `first`: nothing is loaded.
    """
    true = model.true_mb(wanted.num_ctx * parallel)
    if not free or wanted.num_gpu == 0:
        return Plan({}, true)
    best = max(range(len(free)), key=lambda index: free[index])
    if 0 < wanted.num_gpu < model.layers:
        part = true * wanted.num_gpu / model.layers
        return Plan({best: part}, true - part)
    predicted = predicted_mb(rules, model, wanted, parallel)
    if predicted <= rules.fit_share * free[best]:
        return Plan({best: true})
    if len(free) > 1 and predicted <= rules.fit_share * sum(free):
        return Plan(_spread(true, free))
    if not first:
        return None
    if wanted.num_gpu >= model.layers or true <= free[best]:
        return Plan({best: true})
    if true <= sum(free):
        return Plan(_spread(true, free))
    on_gpu = true * math.floor(model.layers * sum(free) / true) / model.layers
    return Plan(_spread(on_gpu, free) if on_gpu else {}, true - on_gpu)


def _spread(mb: float, free: Sequence[float]) -> dict[int, float]:
    whole = sum(free)
    return {index: mb * part / whole for index, part in enumerate(free) if part > 0}
