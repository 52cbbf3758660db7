"""The sentences of the residency gate: what was asked, the numbers, the rule, and how to mend it."""

from __future__ import annotations

import math
from collections.abc import Iterable

from litellm_registry_hook.core.gpu.rules import Case, Numbers
from litellm_registry_hook.core.gpu.table import Runner


def megabytes(value: float) -> str:
    """Return a size for people: whole MB; infinite is not known."""
    return f"{value:.0f} MB" if math.isfinite(value) else "unknown MB"


def gpu_text(case: Case, numbers: Numbers) -> str:
    """Return which GPU, and of what kind its numbers are."""
    kind = {"nvml": "NVML", "declared": "declared sizes"}.get(case.room.mode, "on_unknown.vram is allow")
    named = numbers.gpu if numbers.gpu.startswith(("GPU-", "MIG-")) else f"GPU {numbers.gpu}"
    where = "its GPU" if numbers.gpu == "auto" else named
    return f"{where} on {case.room.machine} ({kind})"


def arithmetic(numbers: Numbers) -> str:
    """Return rule (a) in numbers."""
    missing = ", ".join(f"{name} {mb:.0f}" for name, mb in numbers.missing.items())
    return (
        f"{megabytes(numbers.needed_mb)} needed, {megabytes(numbers.free_mb)} free - {numbers.reserve_mb:.0f} reserve "
        f"- {sum(numbers.missing.values()):.0f} never-evict not resident{f' ({missing})' if missing else ''} - "
        f"{numbers.promised_mb:.0f} loads in flight = {megabytes(numbers.available_mb)}"
    )


def eviction(numbers: Numbers) -> str:
    """Return rule (b) in numbers; empty where that Ollama holds no model of the registry."""
    if not numbers.holds:
        return ""
    return (
        f"; Ollama predicts {megabytes(numbers.predicted_mb)} of 80 % of {megabytes(numbers.seen_mb)}, "
        f"model {numbers.count} of {numbers.limit}, and holds {', '.join(numbers.holds)}"
    )


def fits(name: str, case: Case, numbers: Numbers) -> str:
    """Return why a load is admitted."""
    return f"{name} fits {gpu_text(case, numbers)}: {arithmetic(numbers)}{eviction(numbers)}"


def broken_rule(name: str, case: Case, numbers: Numbers) -> str:
    """Return which rule keeps a model out, with its numbers; no fix yet."""
    where = gpu_text(case, numbers)
    if numbers.rule == "prediction":
        return (
            f"loading {name} on {where} would make Ollama push out {', '.join(numbers.holds)}: it predicts "
            f"{megabytes(numbers.predicted_mb)}, more than 80 % of the {megabytes(numbers.seen_mb)} that it sees free "
            f"({arithmetic(numbers)})"
        )
    if numbers.rule == "count":
        return (
            f"loading {name} would make Ollama at {case.slot.api_base} push out a model, it holds "
            f"{', '.join(numbers.holds)}: this would be model {numbers.count} of at most {numbers.limit} "
            f"({arithmetic(numbers)})"
        )
    return f"{name} does not fit {where}: {arithmetic(numbers)}"


def names_of(runners: Iterable[Runner]) -> str:
    """Return runners for people, with their sizes."""
    return ", ".join(f"{one.label} {one.entry.vram_mb:.0f} MB" for one in runners)


def never_fix(numbers: Numbers) -> str:
    """Return how to mend what can never fit."""
    if numbers.rule == "prediction":
        fix = "lower its gpu_residency.num_ctx, set predict_mb if Ollama was seen to predict less"
        return f"{fix}, or keep fewer models never-evict"
    if numbers.rule == "count":
        fix = "raise OLLAMA_MAX_LOADED_MODELS and gpu_residency_policy.max_loaded_models"
        return f"{fix}, or keep fewer models never-evict"
    return "take a smaller model, or keep fewer models never-evict"
