"""`litellm-registry calibrate` against a scheduler like Ollama's and the NVML stub."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from gpu_cli_kit import SCRIPT, Home
from ollama_sim.homelab import BGE, GEMMA, QUICK, House, small_card, small_house
from ollama_sim.loop import LoopThread
from ollama_sim.nvml_file import NvmlFile
from ollama_sim.scheduler import Sim
from ollama_sim.server import OllamaServer
from ollama_sim.tei import Tei

from litellm_registry_hook.core.gpu.facts import Slot
from litellm_registry_hook.edges.store.sqlite_state import SqliteState
from litellm_registry_hook.residency.calibrate import Measured
from litellm_registry_hook.residency.records import CLAIM, FENCE, LOCK, WORKER, worker_data

HEAVY = replace(GEMMA, vram_mb=3912.4, shown_mb=3800.0)


@pytest.fixture
def heavy(tmp_path: Path, nvml_library: Path):
    """The home, where gemma takes 3912.4 MB of which /api/ps shows 3800."""
    card = small_card()
    card.hold("tei", 0)
    sim = Sim("0.33.0", [card], [HEAVY, BGE], time.time, QUICK)
    with LoopThread("house") as thread, Tei(thread, card, 0) as tei, OllamaServer(sim, thread=thread) as ollama:
        tei_home = House(ollama, tei, card, NvmlFile(tmp_path / "nvml.txt", [card]))
        yield Home(tmp_path, tei_home, nvml_library)


def test_a_size_is_measured_and_written(heavy: Home) -> None:
    """NVML's difference, rounded up, takes the place of the declared size; every other byte stays; nothing stays loaded."""
    before = heavy.file.read_text()
    code, answer = heavy.ask("calibrate", "small", "--yes", "--write")

    assert (code, answer["failed"], answer["written"]) == (0, [], True)
    [one] = answer["measured"]
    assert {name: one[name] for name in ("id", "how", "declared_mb", "size_vram_mb", "proposed_mb", "wrong")} == {
        "id": "small", "how": "loaded", "declared_mb": 3300, "size_vram_mb": 3800.0,
        "proposed_mb": one["measured_mb"], "wrong": True,
    }  # fmt: skip
    # The stub's text file counts whole MB.
    assert one["measured_mb"] in {3912, 3913}
    assert answer["edits"] == [
        {"id": "small", "path": "models[0].gpu_residency.vram_mb", "old": 3300, "new": one["measured_mb"]}
    ]
    assert heavy.file.read_text() == before.replace("vram_mb: 3300", f"vram_mb: {one['measured_mb']}")
    assert heavy.loaded() == []
    assert [model for model, _ in heavy.used_models()] == ["gemma3:4b", "gemma3:4b"]
    assert heavy.used_models()[-1] == ("gemma3:4b", 0)


def test_without_write_it_is_only_proposed(heavy: Home) -> None:
    """The table marks what is off by more than 15 %, the edit is printed, the file stays."""
    before = heavy.file.read_text()
    code, out, err = heavy.run("calibrate", "small", "--yes")

    assert code == 0
    assert out.splitlines()[0].split() == ["ID", "HOW", "DECLARED", "OLLAMA", "NVML", "OFF"]
    assert out.splitlines()[1].endswith("+19 %  WRONG")
    assert out.splitlines()[2].startswith("models[0].gpu_residency.vram_mb: 3300 -> 391")
    assert err == "nothing was written; --write does it\n"
    assert heavy.file.read_text() == before


def test_a_model_without_a_size_gets_one(home: Home) -> None:
    """A model without gpu_residency is measured with a guessed size, and gets one behind its other keys."""
    code, answer = home.ask("calibrate", "coder", "--yes", "--write")

    assert code == 0, answer
    assert answer["edits"] == [{"id": "coder", "path": "models[3].gpu_residency.vram_mb", "old": None, "new": 3400}]
    assert yaml.safe_load(home.file.read_text())["models"][3]["gpu_residency"] == {"vram_mb": 3400}
    assert "    gpu_residency: {vram_mb: 3400}\nrouting:" in home.file.read_text()
    assert home.run("validate")[0] == 0


def test_what_is_resident_is_only_read(home: Home) -> None:
    """A model that was loaded before is reported as /api/ps has it, is never unloaded, and needs no question."""
    home.load("bge-m3", -1)
    code, answer = home.ask("calibrate", "bge")

    assert code == 0
    [one] = answer["measured"]
    assert (one["how"], one["size_vram_mb"], one["nvml_mb"], one["proposed_mb"]) == ("resident", 1200.0, None, None)
    assert home.used_models() == []
    assert home.loaded() == ["bge-m3:latest"]


def test_all_models_one_after_the_other(home: Home) -> None:
    """Without ids every Ollama model of the registry is measured; what is resident stays, what is not does not."""
    home.load("bge-m3", -1)
    code, answer = home.ask("calibrate", "--yes")

    assert (code, answer["failed"]) == (0, [])
    assert [(one["id"], one["how"], one["measured_mb"]) for one in answer["measured"]] == [
        ("small", "loaded", 3300), ("bge", "resident", 1200), ("coder", "loaded", 3400),
    ]  # fmt: skip
    assert home.loaded() == ["bge-m3:latest"]
    assert home.house.ollama.look(lambda sim: sim.left("bge-m3")) == []


@pytest.mark.parametrize("answer", ["n", "y"])
def test_a_busy_card_is_asked_about(home: Home, answer: str) -> None:
    """On a terminal the reasons and a question come first; no leaves everything as it is."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [SCRIPT, "calibrate", "small"], cwd=home.folder, env=home.environ, stdin=theirs,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    os.write(ours, f"{answer}\n".encode())
    out, err = process.communicate(timeout=60)
    os.close(ours)
    os.close(theirs)

    assert f"{os.uname().nodename} is in use: reranker runs at {home.house.tei.url} (1700 MB)\n" in err
    assert "Load models there all the same, one at a time? [y/N]" in err
    assert process.returncode == (0 if answer == "y" else 1)
    assert len(home.used_models()) == (2 if answer == "y" else 0)


@pytest.mark.parametrize("what", ["other model", "foreign memory", "request"])
def test_a_busy_card_without_a_terminal(heavy: Home, what: str) -> None:
    """Without a terminal and --yes a card in use is not touched: exit code 1, and the sentence names what goes on."""
    heavy.edit(lambda data: data["models"].pop(2))
    heavy.edit(lambda data: data["routing"]["tiers"].pop("rerank"))
    heavy.edit(lambda data: data["gpu_residency_policy"].update(never_evict_ids=["bge"]))
    if what == "other model":
        heavy.load("bge-m3")
        said = f"bge-m3:latest is loaded at {heavy.house.ollama.url} (1200 MB)"
    elif what == "foreign memory":
        heavy.house.ollama.do(lambda _sim: heavy.house.card.hold("game", 900))
        said = "1000 MB of GPU memory are held by others"
    else:
        slot = Slot(heavy.house.ollama.url, "registry.ollama.ai/library/gemma3:4b")
        ledger = SqliteState(heavy.folder / "state.sqlite").ledger
        ledger.take(WORKER, "proxy-1", "proxy-1", 60, data=worker_data({slot: 2}, {}, []))
        said = f"2 request(s) use gemma3:4b at {heavy.house.ollama.url}"

    assert heavy.run("calibrate", "small") == (
        1, "", f"{os.uname().nodename} is in use: {said}\n"
        "nothing was measured: the GPU is in use; run again with --yes to load models all the same\n",
    )  # fmt: skip
    assert heavy.used_models() == []


def test_what_does_not_fit_is_not_loaded(home: Home) -> None:
    """The gate is asked first: what would push another out or has no room is named, and the rest is measured."""
    home.house.ollama.do(lambda _sim: home.house.card.hold("game", 2900))
    code, answer = home.ask("calibrate", "small", "bge", "--yes")

    assert code == 1
    assert [(one["id"], one["how"]) for one in answer["measured"]] == [("bge", "loaded")]
    [failed] = answer["failed"]
    assert failed["id"] == "small"
    assert "3300 MB needed, 3492 MB free" in failed["reason"]
    assert [model for model, _ in home.used_models()] == ["bge-m3", "bge-m3"]


def test_a_load_that_fails(home: Home) -> None:
    """The server's own words are the reason, and no row stays in the state."""
    home.house.ollama.do(lambda sim: sim.fail_next_load("gemma3:4b", "no such file", oom=False))
    code, answer = home.ask("calibrate", "small", "--yes")

    assert (code, answer["measured"]) == (1, [])
    assert "no such file" in answer["failed"][0]["reason"]
    ledger = SqliteState(home.folder / "state.sqlite").ledger
    assert ledger.rows(LOCK, CLAIM, FENCE, WORKER) == []


def test_a_worker_that_does_not_answer(home: Home) -> None:
    """A proxy worker that does not say whether it uses the model keeps it from being loaded."""
    ledger = SqliteState(home.folder / "state.sqlite").ledger
    ledger.take(WORKER, "proxy-1", "proxy-1", 60, data=worker_data({}, {}, []))
    code, answer = home.ask("calibrate", "small", "--yes")

    assert (code, answer["failed"]) == (
        1, [{"id": "small", "reason": "a proxy worker did not say whether the model is in use"}],
    )  # fmt: skip
    assert home.used_models() == []


def test_without_nvml_the_server_is_believed(home: Home) -> None:
    """Where the driver does not answer the size is that of /api/ps, and NVML has no number."""
    home.house.nvml.fail(err_init=9)
    code, answer = home.ask("calibrate", "small", "--yes")

    assert code == 0, answer
    [one] = answer["measured"]
    assert (one["nvml_mb"], one["size_vram_mb"], one["measured_mb"]) == (None, 3300.0, 3300)


def test_only_ollama_models(home: Home) -> None:
    """A model elsewhere, or none at all, is an error."""
    assert home.run("calibrate", "reranker")[::2] == (
        2, "error: reranker is not on an Ollama server: only those are loaded and measured "
        "(see `litellm-registry calibrate --help`)\n",
    )  # fmt: skip
    assert home.run("calibrate", "nope")[0] == 2


def test_two_runs_take_turns(home: Home) -> None:
    """Two calibrations of one machine at a time: both measure, one load at a time."""
    runs = [
        subprocess.Popen(
            [SCRIPT, "calibrate", "small", "--yes", "--json"],
            cwd=home.folder,
            env=home.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        for _ in range(2)
    ]
    said = [run.communicate(timeout=90) for run in runs]

    assert [run.returncode for run in runs] == [0, 0], said
    assert home.loaded() == []
    assert home.house.ollama.look(lambda sim: sim.evictions) == []


def test_an_interrupt_takes_everything_back(tmp_path: Path, nvml_library: Path) -> None:
    """Ctrl-C during a load ends the load, and no lock, booking or fence keeps a proxy from its models."""
    with small_house(tmp_path, replace(QUICK, load_s=8.0)) as house:
        home = Home(tmp_path, house, nvml_library)
        process = subprocess.Popen(
            [SCRIPT, "calibrate", "small", "--yes"],
            cwd=home.folder, env=home.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        house.ollama.wait(lambda sim: sim.said("loading") or sim.used_mb() > 1900)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)

        assert (process.returncode, out, err.strip()) == (130, "", "")
        house.ollama.wait(lambda sim: sim.used_mb() == 1800)
        assert home.loaded() == []
        assert SqliteState(home.folder / "state.sqlite").ledger.rows(LOCK, CLAIM, FENCE, WORKER) == []


@pytest.mark.parametrize(
    ("how", "declared", "shown", "nvml", "proposed", "wrong"),
    [
        ("loaded", 3300, 3300.0, 3411.2, 3412, False),
        ("loaded", 3300, 3800.0, None, 3800, True),
        ("loaded", 3300, 2000.0, 2100.0, 2100, True),
        ("loaded", 3300, 2000.0, None, None, True),
        ("resident", 3300, 3400.0, None, 3400, False),
        ("resident", 3300, 2000.0, None, None, True),
        ("loaded", 3300, 3299.5, None, None, False),
        ("loaded", None, 3299.5, None, 3300, False),
    ],
)
def test_what_is_proposed(
    how: str, declared: int | None, shown: float, nvml: float | None, proposed: int | None, wrong: bool
) -> None:
    """Rounded up, the larger of both; a size is lowered only by NVML, and 15 % off is wrong."""
    one = Measured("a", "http://x", how, declared, shown, shown, nvml)

    assert (one.proposed_mb, one.marked) == (proposed, wrong)


def test_a_part_on_the_cpu_is_no_measure(home: Home) -> None:
    """A model that is loaded partly on the CPU is not measured by that."""
    home.house.ollama.do(lambda _sim: home.house.card.hold("game", 4000))
    home.load("gemma3:4b")
    home.house.ollama.do(lambda _sim: home.house.card.hold("game", 0))
    code, answer = home.ask("calibrate", "small", "--yes")

    assert (code, answer["measured"]) == (1, [])
    assert re.fullmatch(
        r"only \d+ of its 3300 MB are on the GPU, which says nothing of what the whole takes",
        answer["failed"][0]["reason"],
    )


def test_what_stays_on_the_cpu_is_left_out(home: Home) -> None:
    """A model whose options say num_gpu 0 takes no GPU memory, and is not measured."""
    home.change("num_ctx: 4096}", "num_ctx: 4096, options: {num_gpu: 0}}")

    assert home.ask("calibrate", "small", "--yes") == (
        0, {"measured": [], "failed": [], "edits": [], "written": False},
    )  # fmt: skip
