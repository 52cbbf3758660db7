"""The driver as the real pynvml shows it, every row of NVML's errors; the library under it is the stub of tests/nvml."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from nvml.stub import Card, build, environment, text

DRIVE = Path(__file__).parents[1] / "nvml" / "drive.py"
DECLARE = "write gpu_residency_policy.gpus: {GPU-a: {total_mb: …}}, so that its size counts as declared"
A = Card(name="GTX 1070", uuid="GPU-a", total_mib=8192, used_mib=1000, reserved_mib=92)
B = Card(name="RTX 3090", uuid="GPU-b", total_mib=24576)


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture(scope="session")
def old_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("old_nvml"), memory=False)


@pytest.fixture
def drive(library: Path, tmp_path: Path):
    def run(*steps: Any, lib: Path | None = library) -> dict[str, Any]:
        env = {name: value for name, value in os.environ.items() if name not in {"LD_LIBRARY_PATH", "NVML_STUB_FILE"}}
        env["PYTHONPATH"] = str(DRIVE.parents[2])
        env |= environment(lib, tmp_path / "gpus") if lib is not None else {"LD_LIBRARY_PATH": str(tmp_path)}
        done = subprocess.run(
            [sys.executable, str(DRIVE)], input=json.dumps(steps), env=env, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def write(*cards: Card, **errors: int) -> tuple[str, str]:
    return ("write", text(cards, **errors))


def states(out: dict[str, Any]) -> list[tuple[str, str]]:
    return [(read["state"], read["code"]) for read in out["reads"]]


def gpus(out: dict[str, Any], read: int = -1) -> list[tuple[str, str, str, float]]:
    return [(gpu["uuid"], gpu["state"], gpu["code"], gpu["free_mb"]) for gpu in out["reads"][read]["gpus"]]


def test_a_working_driver(drive):
    """Every GPU comes with its UUID, name, index, total and free MB, and one line tells it for two reads."""
    out = drive(write(A, B), ("read", 0), ("read", 1))
    a = {"uuid": "GPU-a", "index": 0, "name": "GTX 1070", "total_mb": 8192.0, "free_mb": 7100.0}
    b = {"uuid": "GPU-b", "index": 1, "name": "RTX 3090", "total_mb": 24576.0, "free_mb": 24576.0}
    fine = {"state": "ok", "code": "ok", "reason": ""}
    assert out["reads"] == [{**fine, "gpus": [{**a, **fine}, {**b, **fine}]}] * 2
    assert out["logs"] == ["INFO NVML: the driver answers, GPU 0 is GTX 1070, GPU 1 is RTX 3090"]


@pytest.mark.parametrize(
    ("number", "code", "words"),
    [
        (
            9,
            "driver_not_loaded",
            "the NVIDIA kernel driver is not loaded: `nvidia-smi` shows the same; load it or reboot",
        ),
        (
            18,
            "version_mismatch",
            "the driver's library and its kernel module differ in version, as after an upgrade: reboot",
        ),
        (4, "no_permission", "this user may not ask the driver: give it access to /dev/nvidia*"),
        (13, "function_not_found", "the driver is too old for the calls that are made: upgrade it"),
        (999, "unknown_error", "NVML fails: Unknown Error"),
        (10, "timeout", "the driver did not answer in time"),
        (20, "out_of_host_memory", "NVML fails: Insufficient Memory"),
        (77, "nvml_77", "NVML fails: stub error 77"),
    ],
)
def test_an_init_that_fails_is_never_and_named(drive, number, code, words):
    """A driver that never worked is `never`, with a code of its own and the fix, and is said once."""
    out = drive(write(A, err_init=number), ("read", 0), ("read", 5))
    assert out["reads"] == [{"state": "never", "code": code, "reason": words, "gpus": []}] * 2
    assert out["logs"] == [f"INFO NVML: {words}; GPU sizes are as declared ({code})"]


def test_no_library(drive):
    """Without libnvidia-ml.so.1 NVML is `never`, and asking again is as good."""
    out = drive(("read", 0), ("processes", "GPU-a"), ("read", 100), lib=None)
    assert states(out) == [("never", "library_not_found")] * 2
    assert out["processes"] == [None]
    assert len(out["logs"]) == 1


def test_no_binding(drive):
    """Without the Python module NVML is `never`."""
    assert states(drive(("break",), write(A), ("read", 0))) == [("never", "pynvml_missing")]


def test_no_gpus(drive):
    """A driver without a GPU is `never`: declared sizes count; a GPU that appears is taken up."""
    out = drive(write(), ("read", 0), write(A), ("read", 1))
    assert states(out) == [("never", "no_gpus"), ("ok", "ok")]


def test_an_old_driver_without_the_memory_call(drive, old_library):
    """A driver that lacks the call makes its GPUs unsupported, and the reason names the way out."""
    out = drive(write(A), ("read", 0), lib=old_library)
    assert states(out) == [("ok", "ok")]
    assert gpus(out) == [("GPU-a", "unsupported", "function_not_found", 0.0)]
    assert out["reads"][0]["gpus"][0]["reason"].endswith(DECLARE)


@pytest.mark.parametrize(
    ("card", "state", "code"),
    [
        ({"err_mem": 3}, "unsupported", "not_supported"),
        ({"total_mib": 0, "used_mib": 0, "reserved_mib": 0}, "unsupported", "not_supported"),
        ({"mig": 1}, "unsupported", "mig"),
        ({"mig": 1, "err_mem": 4}, "unsupported", "mig"),
        ({"err_mig": 4, "mig_devices": 2}, "unsupported", "mig"),
        ({"err_mig": 3, "err_mem": 4, "mig_devices": 1}, "unsupported", "mig"),
        ({"err_mem": 25}, "unsupported", "struct_version_mismatch"),
        ({"err_mem": 4}, "unknown", "no_permission"),
        ({"err_mem": 15}, "unknown", "gpu_lost"),
        ({"err_mem": 16}, "unknown", "reset_required"),
        ({"err_mem": 999}, "unknown", "unknown_error"),
        ({"err_mem": 10}, "unknown", "timeout"),
        ({"used_mib": 9000}, "unknown", "unknown_error"),
    ],
)
def test_one_gpu_without_numbers(drive, card, state, code):
    """What one GPU cannot tell is its own state; the other goes on; unsupported ones name the declared size."""
    ill = Card(**{**{"name": "GTX 1070", "uuid": "GPU-a"}, **card})
    out = drive(write(ill, B), ("read", 0), ("read", 1))
    assert states(out) == [("ok", "ok")] * 2
    assert gpus(out) == [("GPU-a", state, code, 0.0), ("GPU-b", "ok", "ok", 24576.0)]
    reason = out["reads"][0]["gpus"][0]["reason"]
    assert reason.endswith(DECLARE) == (state == "unsupported")
    assert out["logs"][1:] == [f"WARNING NVML: GPU 0 (GPU-a): {reason}"]


@pytest.mark.parametrize(("number", "code"), [(15, "gpu_lost"), (16, "reset_required")])
def test_a_lost_gpu_keeps_its_name_and_comes_back(drive, number, code):
    """A GPU whose handle is lost stays known by its UUID, unknown, while the other goes on, and recovers by itself."""
    lost = Card(name="GTX 1070", uuid="GPU-a", err_handle=number)
    out = drive(write(A, B), ("read", 0), write(lost, B), ("read", 1), ("read", 2), write(A, B), ("read", 3))
    assert states(out) == [("ok", "ok")] * 4
    ill = [("GPU-a", "unknown", code, 0.0), ("GPU-b", "ok", "ok", 24576.0)]
    assert [gpus(out, 1), gpus(out, 2)] == [ill, ill]
    assert out["reads"][1]["gpus"][0]["name"] == "GTX 1070"
    assert gpus(out, 3) == gpus(out, 0)
    assert out["logs"][1:] == [
        f"WARNING NVML: GPU 0 (GPU-a): {out['reads'][1]['gpus'][0]['reason']}",
        "INFO NVML: GPU 0 (GPU-a): its memory is read again",
    ]


def test_a_gpu_lost_from_the_start(drive):
    """A GPU that never gave its UUID has a placeholder, and its own name once it answers."""
    out = drive(write(Card(uuid="GPU-a", err_handle=15), B), ("read", 0), write(A, B), ("read", 1))
    assert [gpu[0] for gpu in gpus(out, 0)] == ["GPU-unread-0", "GPU-b"]
    assert [gpu[:2] for gpu in gpus(out, 1)] == [("GPU-a", "ok"), ("GPU-b", "ok")]


def test_a_driver_that_fails_later_is_unknown_and_recovers(drive):
    """What worked and fails is `failed` with its GPUs unknown, never zero GPUs; it is tried again after 1, 2, 4 s."""
    broken = write(A, err_init=999, err_count=999)
    reads = [("read", now) for now in (1, 1.5, 2.1, 3.9, 4.2, 8.1)]
    out = drive(write(A), ("read", 0), broken, *reads, write(A), ("read", 8.15), ("read", 8.3))
    assert states(out) == [("ok", "ok"), *[("failed", "unknown_error")] * 7, ("ok", "ok")]
    assert gpus(out, 1) == [("GPU-a", "unknown", "unknown_error", 0.0)]
    assert out["logs"] == [
        "INFO NVML: the driver answers, GPU 0 is GTX 1070",
        "WARNING NVML: NVML fails: Unknown Error; memory is unknown until it answers again (unknown_error)",
        "INFO NVML: the driver answers, GPU 0 is GTX 1070",
    ]


def test_tries_are_a_minute_apart_at_most(drive):
    """However long it has failed, a driver that is back is seen within a minute."""
    failing = [("read", now) for now in range(0, 600, 5)]
    out = drive(write(A, err_init=9), *failing, write(A), ("read", 600), *[("read", now) for now in range(605, 665, 5)])
    assert states(out)[-1] == ("ok", "ok")
    assert states(out)[120] == ("never", "driver_not_loaded")


def test_all_gpus_gone_is_unknown(drive):
    """A driver that worked and lists no GPU any more is `failed`: memory is unknown, not absent."""
    out = drive(write(A), ("read", 0), write(), ("read", 1), write(A), ("read", 3))
    assert states(out) == [("ok", "ok"), ("failed", "no_gpus"), ("ok", "ok")]


def test_shut_down_by_others(drive):
    """When another part of the process shuts NVML down, the same read initialises it again."""
    out = drive(write(A), ("read", 0), ("shutdown",), ("read", 0.5))
    assert states(out) == [("ok", "ok")] * 2
    assert gpus(out, 1) == gpus(out, 0)


def test_a_clock_that_was_set_back_does_not_stop_the_tries(drive):
    """After a failure at a late time a read at an earlier one tries at once."""
    assert states(drive(write(err_init=9), ("read", 1e9), write(A), ("read", 5)))[-1] == ("ok", "ok")


def test_processes(drive):
    """Processes come as pid and MB, None where the driver does not tell it; no list where it fails."""
    card = Card(uuid="GPU-a", procs=[(11, 500), (12, None)])
    out = drive(
        write(card, Card(uuid="GPU-c", err_proc=4)),
        ("read", 0),
        ("processes", "GPU-a"),
        ("processes", "GPU-c"),
        ("processes", "GPU-x"),
    )
    assert out["processes"] == [[[11, 500.0], [12, None]], None, None]
