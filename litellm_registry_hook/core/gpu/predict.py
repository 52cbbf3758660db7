"""What a load takes, and what Ollama itself predicts for it before it starts the load. All in MB.

Ollama's prediction decides whether it evicts others first; it is not what the model really takes. The formula is
`PredictServerVRAM` of llm/llama_server.go (v0.33): file size + 2 * layers * kv_heads * (width / heads) * num_ctx
* num_parallel * 2 bytes, and a surcharge by num_batch.
"""

from __future__ import annotations

from typing import Final

from litellm_registry_hook.core.gpu.facts import ModelFile, Shape
from litellm_registry_hook.core.gpu.pinning import options_of
from litellm_registry_hook.core.registry import DEFAULT_NUM_BATCH, Model

EXACT_FROM: Final = (0, 30)
EVICTS_ABOVE: Final = 0.8
_MB: Final = 1024 * 1024
_BYTES_PER_VALUE: Final = 2
_NUM_PARALLEL: Final = 1
# (num_batch from, MB): llama_server.go; its automatic choice may be 1024 or 2048, so num_batch is always sent.
_SURCHARGE: Final = ((2048, 2048.0), (1024, 768.0))
# (memory of all GPUs from, default num_ctx): routes.go.
_DEFAULT_CONTEXT: Final = ((47 * 1024, 262_144), (23 * 1024, 32_768), (0, 4096))
# Without a shape: weights grow by a fifth, and a token takes what it takes in a 32-layer model with 16 KV heads of 128.
_BLIND_FACTOR: Final = 1.2
_BLIND_MB_PER_TOKEN: Final = 0.25


def context_of(model: Model | None, shape: Shape | None = None) -> int | None:
    """Return the num_ctx that is sent with every call, cut to the train context as Ollama does; None: none is sent."""
    if model is None or not model.on_ollama:
        return None
    asked = options_of(model).get("num_ctx")
    if not isinstance(asked, int) or isinstance(asked, bool) or asked <= 0:
        return None
    return min(asked, shape.train_context) if shape is not None and shape.train_context else asked


def on_cpu(model: Model) -> bool:
    """Say whether the runner options ask for no GPU at all."""
    return options_of(model).get("num_gpu") == 0


def default_context(machine_mb: float) -> int:
    """Return the num_ctx that Ollama takes where none is sent, from the memory of all GPUs of the machine in MB."""
    return next(context for floor, context in _DEFAULT_CONTEXT if machine_mb >= floor)


def predict(model: Model, file: ModelFile | None, version: tuple[int, ...], machine_mb: float = 0.0) -> float:
    """Return the MB that Ollama predicts for a load; it evicts before the load where that is over 80 % of free.

    `gpu_residency.predict_mb` overrides. From 0.30 the formula above. Any other or an unknown version: the same
    formula, but never less than vram_mb, and with the surcharge for embedding models too. Where the shape is not known:
    1.2 x the larger of file size and vram_mb, and 0.25 MB for each token of context.

    Args:
        model: a model with gpu_residency.
        file: its entry of /api/tags and /api/show.
        version: of the server.
        machine_mb: memory of all GPUs of its machine, for the default context where no num_ctx is sent.

    """
    residency = model.gpu_residency
    vram_mb = float(residency.vram_mb) if residency is not None else 0.0
    if on_cpu(model):
        return 0.0
    if residency is not None and residency.predict_mb is not None:
        return float(residency.predict_mb)
    shape = file.shape if file is not None else None
    size_mb = file.size_mb if file is not None else 0.0
    context = context_of(model, shape) or _cut(default_context(machine_mb), shape)
    exact = version >= EXACT_FROM
    embedding = shape.embedding if shape is not None else model.effective_mode == "embedding"
    extra = 0.0 if embedding and exact else _surcharge(_num_batch(model))
    if shape is None or shape.heads <= 0 or size_mb <= 0:
        return max(size_mb, vram_mb) * _BLIND_FACTOR + context * _BLIND_MB_PER_TOKEN + extra
    per_token = 2 * shape.layers * shape.kv_heads * (shape.width / shape.heads) * _BYTES_PER_VALUE
    found = size_mb + per_token * context * _NUM_PARALLEL / _MB + extra
    return found if exact else max(found, vram_mb)


def _cut(context: int, shape: Shape | None) -> int:
    return min(context, shape.train_context) if shape is not None and shape.train_context else context


def _num_batch(model: Model) -> int:
    value = options_of(model).get("num_batch")
    return value if isinstance(value, int) else DEFAULT_NUM_BATCH


def _surcharge(num_batch: int) -> float:
    return next((mb for floor, mb in _SURCHARGE if num_batch >= floor), 0.0)
