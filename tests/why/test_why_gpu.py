"""explain and status on a real card's numbers: the shipped home with Ollama, a reranker and NVML, no proxy."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gpu_cli.gpu_cli_kit import Home
from nvml import stub
from ollama_sim.homelab import small_house

from litellm_registry_hook.core.gpu.facts import Claim, Slot
from litellm_registry_hook.edges.store.sqlite_state import SqliteState
from litellm_registry_hook.residency.records import CLAIM, FAILED, WAITING, claim_data, key_of


@pytest.fixture(scope="module")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stub of NVIDIA's library."""
    return stub.build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def home(tmp_path: Path, nvml_library: Path) -> Iterator[Home]:
    """8 GB, gemma3:4b, qwen:4b, bge-m3 and TEI, with nothing loaded."""
    with small_house(tmp_path) as house:
        one = Home(tmp_path, house, nvml_library)
        one.edit(lambda data: data["models"][3].update(gpu_residency={"vram_mb": 3400, "num_ctx": 4096}))
        yield one


def asked(home: Home, *options: str) -> tuple[int, list[tuple[str, str, str | None, str]], dict[str, Any]]:
    """Exit code; model, verdict, code and the gate's word of each candidate; the whole answer."""
    code, data = home.ask("explain", *options)
    rows = [
        (one["model"], one["verdict"], one["code"], (one["deployments"][0]["gpu"] or {}).get("answer", ""))
        for one in data["candidates"]
    ]
    return code, rows, data


def gpu_of(data: dict[str, Any], number: int = 0) -> dict[str, Any]:
    found = data["candidates"][number]["deployments"][0]["gpu"]
    assert isinstance(found, dict)
    return found


def test_nothing_is_loaded(home: Home) -> None:
    """A model that fits would be loaded, with the arithmetic; asking loads nothing and writes nothing."""
    code, rows, data = asked(home, "--tier", "chat")

    assert (code, rows) == (0, [("small", "serves", None, "admit"), ("coder", "next", None, "admit")])
    assert gpu_of(data)["needed_mb"] == 3300.0
    assert "3300 MB needed, 6392 MB free - 300 reserve - 1200 never-evict not resident" in gpu_of(data)["text"]
    assert home.used_models() == []
    assert not (home.folder / "state.sqlite").exists()


def test_loaded_swapped_and_refused(home: Home) -> None:
    """Resident until when; the other one after unloading whom; with a full card no, with the MB."""
    home.load("gemma3:4b")
    code, rows, data = asked(home, "--tier", "chat")
    assert (code, rows) == (0, [("small", "serves", None, "resident"), ("coder", "next", None, "swap")])
    assert gpu_of(data)["until"].endswith(" UTC")
    assert gpu_of(data, 1)["victims"] == ["gemma3:4b"]

    home.house.ollama.do(lambda _sim: home.house.card.hold("game", 2500))
    code, rows, data = asked(home, "--model", "coder")
    assert (code, rows) == (1, [("coder", "skipped", "gpu_no_headroom", "no")])
    assert {name for name in gpu_of(data) if name.endswith("_mb")} == {
        "needed_mb",
        "free_mb",
        "reserved_mb",
        "promised_mb",
    }
    assert data["refusal"]["status"] == 503
    assert data["refusal"]["retry_after_s"] >= 1
    assert home.loaded() == ["gemma3:4b"]


def test_what_the_workers_have_written_counts(home: Home) -> None:
    """A load in flight would be joined, a failed one is not repeated; status shows the load and who waits."""
    ledger = SqliteState(home.folder / "state.sqlite").ledger
    now = time.time()
    slot = Slot(home.house.ollama.url, "registry.ollama.ai/library/gemma3:4b")
    ledger.take(CLAIM, key_of(slot), "w", 60, data=claim_data(Claim(slot, "small", 3300, "", "w", now, now + 60)))
    ledger.take(WAITING + os.uname().nodename, "w#1", "w", 60)

    assert asked(home, "--model", "small")[1] == [("small", "serves", None, "join")]
    _, status = home.ask("status")
    [load] = status["loads"]
    assert (load["model"], load["mb"], 0 <= load["for_s"] < 60) == ("small", 3300, True)
    assert status["waiting"] == [{"machine": os.uname().nodename, "requests": 1}]
    assert status["gpus"][0]["promised_mb"] == 3300
    shown = home.run("status")[1]
    assert f"loading small (3300 MB) at {home.house.ollama.url} for " in shown
    assert f"1 request(s) wait for memory of {os.uname().nodename}" in shown

    ledger.drop(CLAIM, key_of(slot), "w")
    ledger.take(FAILED, key_of(slot), "w", 60, data={"why": "out of memory"})
    code, rows, data = asked(home, "--model", "small")
    assert (code, rows) == (1, [("small", "skipped", "model_unavailable", "no")])
    assert "could not be loaded: out of memory; not tried again for" in data["refusal"]["message"]


def test_the_memory_of_the_card(home: Home) -> None:
    """The parts of the card add up to its total: what must stay, what may go, other programs, and what is free."""
    home.load("bge-m3", -1)
    home.load("gemma3:4b")
    home.house.ollama.do(lambda _sim: home.house.card.hold("game", 500))
    _, status = home.ask("status")
    [gpu] = status["gpus"]
    models = {one["model"]: (one["part"], one["pinned"]) for one in gpu["models"]}

    assert models == {"small": ("resident", False), "bge": ("never-evict", True), "reranker": ("never-evict", True)}
    assert (gpu["gpu"], gpu["source"], gpu["machine"]) == ("GPU-stub-1070", "nvml", os.uname().nodename)
    parts = [gpu[name] for name in ("never_evict_mb", "resident_mb", "foreign_mb", "free_mb")]
    assert abs(sum(parts) - gpu["total_mb"]) <= 4
    assert gpu["foreign_mb"] >= 500
    assert status["never_evict_missing"] == []
    assert [(one["tier"], one["deployment"]) for one in status["tiers"]] == [
        ("chat", "small@0"), ("embed", "bge@0"), ("rerank", "reranker@0"),
    ]  # fmt: skip
    shown = home.run("status")[1]
    [bar] = [line for line in shown.splitlines() if line.startswith("GPU GPU-stub-1070")]
    drawn = bar.partition("[")[2].partition("]")[0]
    assert len(drawn) == 40
    assert [letter for letter in "#=x." if letter in drawn] == ["#", "=", "x", "."]
    assert drawn == "".join(sorted(drawn, key="#=+x.".index))
    assert "\x1b" not in shown


def test_never_evict_models_that_are_missing(home: Home) -> None:
    """What must stay and is not there is said, with the reason."""
    home.house.tei.down()
    _, status = home.ask("status")

    assert [(one["model"], one["reason"]) for one in status["never_evict_missing"]] == [
        ("bge", "not loaded"), ("reranker", "its server does not answer"),
    ]  # fmt: skip
    assert asked(home, "--tier", "rerank")[1] == [("reranker", "skipped", "model_unavailable", "")]
