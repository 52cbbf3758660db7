"""Worlds to test in: models and cards of a home, and a whole house of servers over HTTP."""

from __future__ import annotations

from dataclasses import replace

from ollama_sim.scheduler import Sim
from ollama_sim.things import Card, Settings, SimModel, VirtualClock

# Shapes: layers, heads, kv heads and width as /api/show gives them. Prediction at num_ctx 4096 in the comment.
GEMMA = SimModel(  # 3864 MB; 4544 MB at num_ctx 8192
    "gemma3:4b",
    file_mb=3184,
    vram_mb=3300,
    layers=34,
    heads=8,
    kv_heads=4,
    width=2560,
    family="gemma3",
    train_ctx=131072,
    growth=0.25,
)
BGE = SimModel(  # 1541 MB
    "bge-m3",
    file_mb=1157,
    vram_mb=1200,
    layers=24,
    heads=16,
    kv_heads=16,
    width=1024,
    family="bert",
    train_ctx=8192,
    embedding=True,
    dimensions=1024,
    growth=0.0,
)
QWEN = SimModel(  # 3900 MB
    "qwen:4b",
    file_mb=2300,
    vram_mb=3400,
    layers=40,
    heads=20,
    kv_heads=20,
    width=2560,
    family="qwen2",
    train_ctx=32768,
    growth=0.25,
)
BIG_A = SimModel(  # 9012 MB
    "big-a:14b", file_mb=8500, vram_mb=9000, layers=32, heads=32, kv_heads=8, width=4096, family="qwen3"
)
BIG_B = replace(BIG_A, name="big-b:14b")

TEI_MB = 1700  # the reranker's own process
DRIVER_MB = 100  # what the driver and the desktop hold


def small_card() -> Card:
    """Return the 8 GB card with TEI's process on it: 6392 MB are free, 5192 once bge-m3 is there."""
    card = Card(8192, "GTX 1070", "GPU-stub-1070")
    card.hold("tei", TEI_MB)
    card.hold("driver", DRIVER_MB)
    return card


def large_card() -> Card:
    """Return an empty 16 GB card: either of the 9 GB models, never both."""
    return Card(16384, "RTX 4080", "GPU-stub-4080")


def small_home(clock: VirtualClock | None = None, settings: Settings | None = None, version: str = "0.33.0") -> Sim:
    """Return the home of the shipped registry: 8 GB, gemma3:4b, bge-m3, TEI, and qwen:4b, which the registry lacks."""
    return Sim(version, [small_card()], [GEMMA, BGE, QWEN], clock, settings)


def large_home(clock: VirtualClock | None = None, settings: Settings | None = None, version: str = "0.33.0") -> Sim:
    """Return a 16 GB card and two models of 9 GB, with bge-m3."""
    return Sim(version, [large_card()], [BIG_A, BIG_B, BGE], clock, settings)
