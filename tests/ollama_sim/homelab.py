"""Worlds to test in: models and cards of a home, and a whole house of servers over HTTP."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ollama_sim.loop import LoopThread
from ollama_sim.nvml_file import NvmlFile
from ollama_sim.scheduler import Sim
from ollama_sim.server import OllamaServer
from ollama_sim.tei import Tei
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


@dataclass(frozen=True)
class House:
    """A home over HTTP.

    Attributes:
        ollama: its server. tei: its reranker; None where it has none.
        card: its GPU. nvml: the text file of the NVML stub (`nvml.path`), which follows the card.

    """

    ollama: OllamaServer
    tei: Tei | None
    card: Card
    nvml: NvmlFile


# Real time, so short: a load of 0.4 s, memory back 0.3 s after an unload.
QUICK = Settings(load_s=0.4, recovery_s=0.3, spawn_s=0.05, exit_s=0.05)


@contextlib.contextmanager
def small_house(folder: Path, settings: Settings = QUICK, version: str = "0.33.0") -> Iterator[House]:
    """Run `small_home` with its TEI; the NVML text file is `nvml.txt` in the folder."""
    card = small_card()
    sim = Sim(version, [card], [GEMMA, BGE, QWEN], time.time, settings)
    with (
        LoopThread("small-house") as thread,
        Tei(thread, card, TEI_MB) as tei,
        OllamaServer(sim, thread=thread) as ollama,
    ):
        yield House(ollama, tei, card, NvmlFile(folder / "nvml.txt", [card]))


@contextlib.contextmanager
def large_house(folder: Path, settings: Settings = QUICK, version: str = "0.33.0") -> Iterator[House]:
    """Run `large_home`; the NVML text file is `nvml.txt` in the folder."""
    card = large_card()
    sim = Sim(version, [card], [BIG_A, BIG_B, BGE], time.time, settings)
    with (
        LoopThread("large-house") as thread,
        OllamaServer(sim, thread=thread) as ollama,
    ):
        yield House(ollama, None, card, NvmlFile(folder / "nvml.txt", [card]))
