"""Small worlds for the tests of the residency decision: a registry, one or two Ollama servers, a GPU."""

from __future__ import annotations

from typing import Any

from litellm_registry_hook.core.gpu.facts import (
    Claim,
    Gpu,
    Loaded,
    ModelFile,
    Nvml,
    Server,
    Shape,
    Slot,
    Snapshot,
)
from litellm_registry_hook.core.gpu.names import full_name, slot_of
from litellm_registry_hook.core.gpu.verdict import Want
from litellm_registry_hook.core.registry import Registry

NOW = 1_000_000.0
A = "http://127.0.0.1:11434"
B = "http://127.0.0.1:11435"
AWAY = "http://gpu-box:11434"
TEI = "http://127.0.0.1:8080"
GEMMA = Shape(layers=34, heads=8, kv_heads=4, width=2560, train_context=131_072)
BGE = Shape(layers=24, heads=16, kv_heads=16, width=1024, embedding=True, train_context=8192)
# No KV at all: Ollama predicts the file size, so that a test can set the number.
BARE = Shape(layers=0, heads=1, kv_heads=0, width=0)


def entry(
    id: str, vram_mb: int | None = None, *, base: str = A, gpu: str | int = "auto", **more: Any
) -> dict[str, Any]:
    """One Ollama model; `name`, `role` and what belongs to gpu_residency may be given."""
    role = more.pop("role", "chat")
    prefix = "ollama" if role == "embedder" else "ollama_chat"
    found: dict[str, Any] = {
        "id": id,
        "role": role,
        "lifecycle": "always-on",
        "metered": False,
        "litellm": {"model": f"{prefix}/{more.pop('name', id)}"},
        "endpoints": [{"api_base": one, "gpu": gpu} for one in base.split()],
    }
    if role == "embedder":
        found["dimensions"] = 4
    if vram_mb is not None:
        found["gpu_residency"] = {"vram_mb": vram_mb, **more}
    return found


def tei(vram_mb: int = 1700, *, never_evict: bool = True, base: str = TEI, gpu: str | int = "auto") -> dict[str, Any]:
    """A reranker on a server of its own."""
    return {
        "id": "tei",
        "role": "reranker",
        "lifecycle": "on-demand",
        "metered": False,
        "litellm": {"model": "huggingface/rerank"},
        "endpoints": [{"api_base": base, "gpu": gpu}],
        "gpu_residency": {"vram_mb": vram_mb, "never_evict": never_evict},
    }


def registry(*models: dict[str, Any], allow: bool = False, **policy: Any) -> Registry:
    """A registry of these models; `policy` as in gpu_residency_policy."""
    vram = {"on_unknown": {"vram": "allow" if allow else "refuse"}}
    return Registry.model_validate(
        {"version": 1, "models": list(models), "routing": {"tiers": {}, **vram}, "gpu_residency_policy": policy}
    )


def homelab(**policy: Any) -> Registry:
    """The shipped figures: gemma3:4b 3300, bge-m3 1200 and a reranker 1700 on a card of 8192 MB."""
    return registry(
        entry("local-small", 3300, name="gemma3:4b", num_ctx=policy.pop("num_ctx", 4096)),
        entry("bge-m3", 1200, role="embedder", never_evict=True),
        tei(),
        **{"reserve_mb": 300, "baseline": {"measured_mb": 6200, "total_mb": 8192}, **policy},
    )


FILES = {
    full_name("gemma3:4b"): ModelFile(full_name("gemma3:4b"), "d-gemma", 3184.0, "b-gemma", GEMMA),
    full_name("bge-m3"): ModelFile(full_name("bge-m3"), "d-bge", 1100.0, "b-bge", BGE),
}


def loaded(name: str, mb: float, *, left: float | None = 300.0, **more: Any) -> Loaded:
    """An entry of /api/ps that leaves in `left` seconds; None: pinned."""
    full = full_name(name)
    vram = more.pop("vram_mb", mb)
    return Loaded(
        full, more.pop("digest", ""), mb, vram, None if left is None else NOW + left, more.pop("context", None)
    )


def server(base: str = A, *entries: Loaded, state: str = "up", files: Any = None, **more: Any) -> Server:
    """An Ollama 0.33 that was read now; every loaded model has a file of its size and no KV unless `files` are given."""
    if files is None:
        files = {**{one.name: ModelFile(one.name, "", one.size_mb, "", BARE) for one in entries}, **FILES}
    return Server(
        base, state, more.pop("reason", ""), more.pop("version", (0, 33, 0)), entries, more.pop("read_at", NOW), files
    )


def files(**sizes: float) -> dict[str, ModelFile]:
    """Files without KV: Ollama predicts just their size."""
    return {full_name(name): ModelFile(full_name(name), "", size, "", BARE) for name, size in sizes.items()}


def nvml(*free: float, total: float = 8192.0) -> Nvml:
    """A driver with one GPU for each number."""
    return Nvml("ok", "ok", "", tuple(Gpu(f"GPU-{n}", n, "card", total, mb) for n, mb in enumerate(free)))


def snapshot(*servers: Server, free: float | None = None, total: float = 8192.0, **more: Any) -> Snapshot:
    """What was read now; `free` MB on one GPU by NVML, else NVML has never worked."""
    driver = more.pop("nvml", nvml(free, total=total) if free is not None else Nvml())
    return Snapshot(more.pop("at", NOW), driver, {one.api_base: one for one in servers}, more.pop("health", {}))


def want(known: Registry, id: str, base: str = A) -> Want:
    """What a request for a registry model wants."""
    return Want(known.by_id[id], slot_of(known.by_id[id], base))


def slot(name: str, base: str = A) -> Slot:
    """A runner by its short name."""
    return Slot(base, full_name(name))


def claim(name: str, mb: float, *, base: str = A, gpu: str = "", ago: float = 4.0, left: float = 60.0) -> Claim:
    """A load in flight that began `ago` seconds before."""
    return Claim(slot(name, base), name, mb, gpu, "worker-1", NOW - ago, NOW + left)
