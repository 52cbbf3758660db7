"""What differs between versions of Ollama's scheduler, and its arithmetic. Sizes in MB (2**20 bytes).

Numbers S1 to S18 name the rules of the facts about Ollama 0.33; for older versions only what is known to differ is here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MB = 1024 * 1024
RUNNERS_PER_GPU = 3  # S2
POLL_S = 0.25  # S9
RECOVERY_LIMIT_S = 5.0  # S9
RECOVERED = 0.75  # S9: this part of the runner's size has come back
MIN_CTX = 4
DEFAULT_BATCH = 512


@dataclass(frozen=True)
class Rules:
    """The rules of one version.

    Attributes:
        fit_share: part of the free memory that a newcomer may take while something is loaded (S1).
        oom_evicts_all: a load that ends out of memory evicts all others and is tried again; a running model that ends
            so expires all (S4).
        loading_in_ps: a model is in /api/ps from the start of its load (S8 says not so from 0.30 on).
        context_in_ps: /api/ps has context_length.
        auto_exempt: num_ctx and num_batch do not make a model reload where neither its load nor the request named them
            (S6); where the load named one, a request without it counts as asking for the default.
        tiered_context: the default num_ctx depends on the memory of the GPUs (S7).
        surcharge: num_batch is chosen by context and free memory, and the prediction adds memory for a large one (S18).

    """

    fit_share: float = 0.8
    oom_evicts_all: bool = True
    loading_in_ps: bool = False
    context_in_ps: bool = True
    auto_exempt: bool = True
    tiered_context: bool = True
    surcharge: bool = True


def version_tuple(version: str) -> tuple[int, ...]:
    """Return the numbers of a version: "0.33.0-rc2" -> (0, 33, 0)."""
    return tuple(int(part) for part in re.match(r"\d+(?:\.\d+)*", version)[0].split("."))


def rules_of(version: str) -> Rules:
    """Return the rules of a version."""
    numbers = version_tuple(version)
    if numbers >= (0, 30):
        return Rules()
    return Rules(
        fit_share=1.0,
        oom_evicts_all=False,
        loading_in_ps=True,
        context_in_ps=numbers >= (0, 11),
        auto_exempt=False,
        tiered_context=False,
        surcharge=False,
    )


def default_context(rules: Rules, total_mb: float) -> int:
    """Return the num_ctx of a request that names none (S7)."""
    if not rules.tiered_context or total_mb < 23 * 1024:
        return 4096
    return 32768 if total_mb < 47 * 1024 else 262144


def kv_mb(layers: int, heads: int, kv_heads: int, width: int, tokens: int) -> float:
    """Return the size of the KV cache: 2 x layers x kv_heads x (width / heads) x tokens x 2 bytes (S18)."""
    return 2 * layers * kv_heads * (width // heads) * tokens * 2 / MB


def surcharge_mb(rules: Rules, num_batch: int, *, embedding: bool) -> float:
    """Return what the prediction adds for a batch size (S18)."""
    if embedding or not rules.surcharge or num_batch < 1024:
        return 0.0
    return 768.0 if num_batch < 2048 else 2048.0


def automatic_batch(tokens: int, predicted_mb: float, available_mb: float) -> int:
    """Return the num_batch of a chat model whose request names none: large for a long context, if that still fits.

    So the automatic choice alone never makes a load too large; one that the caller names may.
    """
    if tokens > 32768 and _batch_fits(2048.0, 0.60, predicted_mb, available_mb):
        return 2048
    if tokens > 4096 and _batch_fits(768.0, 0.75, predicted_mb, available_mb):
        return 1024
    return DEFAULT_BATCH


def _batch_fits(extra_mb: float, share: float, predicted_mb: float, available_mb: float) -> bool:
    return predicted_mb <= share * available_mb and predicted_mb + extra_mb <= 0.8 * available_mb


def lower_context(num_ctx: int) -> int | None:
    """Return the num_ctx that an automatic one falls to after a load ran out of memory; None: it is the least (S4)."""
    if num_ctx > 32768:
        return 32768
    return 4096 if num_ctx > 4096 else None
