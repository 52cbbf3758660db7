"""Findings about GPUs and model servers, on the shipped files and a look that is made up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from doctor_kit import NOW, House

from litellm_registry_hook.core.doctor_case import Diagnosis, Live
from litellm_registry_hook.core.gpu.facts import Gpu, Loaded, Nvml, Server, Snapshot
from litellm_registry_hook.edges.doctor_case import diagnose

AT = 1_790_000_000.0
BASE = "http://127.0.0.1:11434"
NVML = Nvml("ok", "ok", "", (Gpu("GPU-a", 0, "GTX 1070", 8192, 4000),))
NO_DRIVER = Nvml("never", "library_not_found", "libnvidia-ml.so.1 is not on this machine")
GEMMA = Loaded("registry.ollama.ai/library/gemma3:4b", "", 3300, 3300, AT + 300, 4096)
BGE = Loaded("registry.ollama.ai/library/bge-m3:latest", "", 1200, 1200, None, None)


def seen(*loaded: Loaded, nvml: Nvml = NVML, **server: Any) -> Snapshot:
    """A look at the shipped registry's Ollama."""
    one = Server(BASE, **{"state": "up", "read_at": AT, "version": (0, 33, 0), **server}, loaded=loaded)
    return Snapshot(AT, nvml, {BASE: one}, {"http://127.0.0.1:8080": "up"})


def found(house: House, snapshot: Snapshot) -> list[tuple[str, str, str]]:
    """Severity, code and place of the live findings."""
    return [(one.severity, one.code, one.path) for one in findings(house, snapshot)]


def findings(house: House, snapshot: Snapshot) -> tuple[Diagnosis, ...]:
    look = lambda registry, _environ: Live(registry, snapshot, AT + 1)  # noqa: E731
    return diagnose(house.registry_file, house.config_file, house.environ, NOW, look)


CASES: dict[str, tuple[Snapshot, list[tuple[str, str, str]]]] = {
    "all is well": (seen(GEMMA, BGE), []),
    "a seventh more": (seen(replace(GEMMA, size_mb=3770, vram_mb=3770), BGE), []),
    "a fifth more": (
        seen(replace(GEMMA, size_mb=3960, vram_mb=3960), BGE),
        [("medium", "vram_disagrees", "models[1].gpu_residency.vram_mb")],
    ),
    "a fifth less": (
        seen(replace(GEMMA, size_mb=2640, vram_mb=2640), BGE),
        [("medium", "vram_disagrees", "models[1].gpu_residency.vram_mb")],
    ),
    "half of it on the CPU": (
        seen(replace(GEMMA, vram_mb=1650), BGE), [("low", "partly_on_cpu", "models[1].gpu_residency")],
    ),
    "never-evict not loaded": (seen(GEMMA), [("medium", "never_evict_missing", "models[2].gpu_residency.never_evict")]),
    "never-evict about to leave": (
        seen(replace(BGE, expires_at=AT + 10)), [("medium", "never_evict_missing", "models[2].gpu_residency.never_evict")],
    ),
    "no Ollama, with a GPU": (
        seen(state="gone", reason="connection refused"), [("info", "ollama_silent", "models[1].endpoints")],
    ),
    "no Ollama and no GPU": (seen(state="gone", reason="connection refused", nvml=NO_DRIVER), []),
    "it hangs": (
        seen(BGE, state="stalled", reason="no answer within 2 s", nvml=NO_DRIVER),
        [("info", "ollama_silent", "models[1].endpoints")],
    ),
    "no driver": (seen(BGE, nvml=NO_DRIVER), []),
    "driver after an upgrade": (
        seen(BGE, nvml=Nvml("never", "version_mismatch", "reboot")), [("low", "nvml_failing", "gpu_residency_policy")],
    ),
    "MIG, a size is declared": (
        seen(BGE, nvml=Nvml("ok", "ok", "", (Gpu("GPU-a", 0, state="unsupported", code="mig", reason="MIG is on"),))),
        [("low", "nvml_failing", "gpu_residency_policy")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_one_look(house: House, name: str) -> None:
    """Each state of servers and driver gives its findings and no other."""
    snapshot, expected = CASES[name]

    assert found(house, snapshot) == expected


def test_no_declared_size(house: House) -> None:
    """A GPU that NVML cannot count, and no declared size: nothing is loaded there, and the finding says what to write."""
    house.write({"gpu_residency_policy": {"baseline": None}})
    nvml = Nvml("ok", "ok", "", (Gpu("GPU-a", 0, state="unsupported", code="mig", reason="MIG is on"),))
    [unknown, failing] = findings(house, seen(BGE, nvml=nvml))

    assert (unknown.severity, unknown.code, unknown.path) == ("medium", "gpu_memory_unknown", "gpu_residency_policy")
    assert unknown.message == (
        f"the free memory of the GPU behind {BASE} is not known, so no model is loaded there: NVML cannot count the memory of "
        "GPU 0 (MIG is on) and no size is declared; declare gpu_residency_policy.gpus or baseline.total_mb"
    )
    assert failing.code == "nvml_failing"


def test_the_words_of_a_wrong_size(house: House) -> None:
    """The finding has both numbers, the harm, the command that mends it, and the line of the size."""
    [one] = findings(house, seen(replace(GEMMA, size_mb=3960, vram_mb=3960), BGE))
    line = house.registry_file.read_text().splitlines().index("    vram_mb: 3300") + 1

    assert (one.file, one.line) == (str(house.registry_file), line)
    assert one.message == (
        f"local-small takes 3960 MB at {BASE}, 20 % more than the 3300 MB declared: loads are let in that do not fit"
    )
    assert one.fix == "measure it: litellm-registry calibrate local-small --write"


def test_without_a_look_nothing_is_said(house: House) -> None:
    """The proxy's own check at its start asks no server: no live finding."""
    assert house.findings() == ()
