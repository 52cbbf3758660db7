"""scripts/gpu_check.py over the NVML stub, and on a machine without a GPU."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from gpu_cli_kit import Home

SCRIPT = Path(__file__).parents[2] / "scripts/gpu_check.py"


def check(home: Home, *arguments: str) -> tuple[int, dict[str, Any]]:
    """Run the script: exit code and report."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--reads", "20", *arguments],
        cwd=home.folder, env=home.environ, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_the_driver(home: Home) -> None:
    """Each GPU is told with its memory, and the reads are timed."""
    code, report = check(home)
    nvml = report["nvml"]

    assert (code, nvml["state"], nvml["code"]) == (0, "ok", "ok")
    assert nvml["gpus"] == [
        {
            "index": 0, "uuid": "GPU-stub-1070", "name": "GTX 1070", "state": "ok", "code": "ok", "reason": "",
            "total_mb": 8192, "free_mb": 6392, "processes": [],
        }
    ]  # fmt: skip
    assert nvml["read_us"]["reads"] == 20
    assert 0 < nvml["read_us"]["median"] <= nvml["read_us"]["p99"]


def test_no_gpu(home: Home) -> None:
    """Without the driver's library the state is never, and that is no error."""
    home.environ.pop("LD_LIBRARY_PATH")
    code, report = check(home)

    assert (code, report["nvml"]["state"], report["nvml"]["gpus"]) == (0, "never", [])


def test_a_model_is_loaded_read_and_unloaded(home: Home) -> None:
    """--load brings a model up, counts its memory twice, and leaves the server as it was."""
    code, report = check(home, "--registry", str(home.file), "--load", "small")

    assert code == 0, report
    assert [(one["state"], one["version"], one["loaded"]) for one in report["ollama"]] == [("up", "0.33.0", [])]
    assert report["health"] == {home.house.tei.url: "up"}
    assert {name: report["load"][name] for name in ("ok", "resident", "size_vram_mb", "nvml_mb", "used_mb")} == {
        "ok": True, "resident": False, "size_vram_mb": 3300, "nvml_mb": 3300.0,
        "used_mb": {"before": 1800.0, "loaded": 5100.0, "unloaded": 1800.0},
    }  # fmt: skip
    assert home.loaded() == []


def test_a_resident_model_stays(home: Home) -> None:
    """A model that is loaded already is read and left alone."""
    home.load("bge-m3", -1)
    code, report = check(home, "--registry", str(home.file), "--load", "bge")

    assert (code, report["load"]) == (0, {"id": "bge", "ok": True, "resident": True, "size_vram_mb": 1200})
    assert home.loaded() == ["bge-m3:latest"]


def test_a_load_that_goes_wrong(home: Home) -> None:
    """A load that fails is exit code 1 with the server's words."""
    home.house.ollama.do(lambda sim: sim.fail_next_load("gemma3:4b", "no such file", oom=False))
    code, report = check(home, "--registry", str(home.file), "--load", "small")

    assert (code, report["load"]["ok"]) == (1, False)
    assert "no such file" in report["load"]["reason"]
