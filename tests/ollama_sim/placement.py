"""Where a model goes: the card, the cards, partly the CPU, or nowhere before something leaves (S1, S13, S14, S18)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from ollama_sim.rules import DEFAULT_BATCH, Rules, automatic_batch, surcharge_mb
from ollama_sim.things import SimModel, Wanted


@dataclass(frozen=True)
class Plan:
    """Where it goes.

    Attributes:
        shares: MB by card index. cpu_mb: the rest. num_batch: as it is started with.

    """

    shares: dict[int, float] = field(default_factory=dict)
    cpu_mb: float = 0.0
    num_batch: int = DEFAULT_BATCH


@dataclass(frozen=True)
class Forecast:
    """What the server expects of a load.

    Attributes:
        cards: indexes of the cards it is meant for: the best single one that fits, else all.
        available_mb: their free memory. predicted_mb: its size, with the surcharge of num_batch.

    """

    cards: list[int]
    available_mb: float
    num_batch: int
    predicted_mb: float


def forecast(
    rules: Rules, model: SimModel, wanted: Wanted, tokens: int, free: Sequence[float], fixed_batch: int = 0
) -> Forecast:
    """Predict a load; `tokens`: context over all parallel requests; `fixed_batch`: overrides the automatic choice."""
    base = model.file_mb + model.kv(tokens)
    cards = list(range(len(free)))
    fitting = [index for index in cards if base <= rules.fit_share * free[index]]
    if fitting:
        cards = [max(fitting, key=lambda index: free[index])]
    available = sum(free[index] for index in cards)
    batch = wanted.num_batch
    if wanted.auto_batch and not model.embedding and rules.surcharge:
        batch = fixed_batch or automatic_batch(tokens, base, available)
    extra = surcharge_mb(rules, batch, embedding=model.embedding)
    return Forecast(cards, available, batch, base + extra)


def place(
    rules: Rules,
    model: SimModel,
    wanted: Wanted,
    tokens: int,
    free: Sequence[float],
    *,
    first: bool,
    fixed_batch: int = 0,
) -> Plan | None:
    """Return the plan of a load; None: something has to leave before.

    `free` is what the server takes for free on each card; `first`: nothing is loaded.
    """
    true = model.true_mb(tokens)
    ahead = forecast(rules, model, wanted, tokens, free, fixed_batch)
    if not free or wanted.num_gpu == 0:
        return Plan({}, true, ahead.num_batch)
    best = max(ahead.cards, key=lambda index: free[index])
    if 0 < wanted.num_gpu <= model.layers:  # the output layer is one more
        part = true * wanted.num_gpu / (model.layers + 1)
        return Plan({best: part}, true - part, ahead.num_batch)
    fits = ahead.predicted_mb <= rules.fit_share * ahead.available_mb
    if not fits and not first:
        return None
    on_gpu = true
    if not fits and true > ahead.available_mb and wanted.num_gpu < 0:
        on_gpu = true * math.floor(model.layers * ahead.available_mb / true) / model.layers
    return Plan(_spread(on_gpu, ahead.cards, free), true - on_gpu, ahead.num_batch)


def _spread(mb: float, cards: Sequence[int], free: Sequence[float]) -> dict[int, float]:
    if len(cards) == 1:
        return {cards[0]: mb} if mb else {}
    whole = sum(free[index] for index in cards) or 1.0
    return {index: mb * free[index] / whole for index in cards if mb and free[index] > 0}
