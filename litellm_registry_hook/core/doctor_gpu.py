"""Rules about GPUs and model servers as they are now; silent where nothing was looked at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from litellm_registry_hook.core.doctor_case import Case, Live, Rule, Sign
from litellm_registry_hook.core.gpu.compare import gpu_homes, missing, shown
from litellm_registry_hook.core.gpu.place import Home, is_loopback, room_of
from litellm_registry_hook.core.gpu.resident import server_of

# The machine has no NVIDIA GPU to ask about: sizes are as declared, which is what the registry is for.
NO_GPU: Final = frozenset({"library_not_found", "no_gpus", "not_read"})


def vram_disagrees(case: Case) -> Iterator[Sign]:
    """Find a size in the registry that is not what the loaded model takes."""
    live = case.facts.live
    for one in shown(live.registry, live.snapshot) if live is not None else ():
        if one.disagrees:
            more = "more" if one.percent > 0 else "less"
            harm = "loads are let in that do not fit" if one.percent > 0 else "loads are refused that would fit"
            yield _at_model(
                case,
                one.home,
                "gpu_residency.vram_mb",
                f"{one.home.model.id} takes {one.entry.vram_mb:.0f} MB at {one.home.api_base}, "
                f"{abs(one.percent):.0f} % {more} than the {one.declared_mb:.0f} MB declared: {harm}",
                f"measure it: litellm-registry calibrate {one.home.model.id} --write",
            )


def partly_on_cpu(case: Case) -> Iterator[Sign]:
    """Find a loaded model that is partly on the CPU, which makes it slow and its numbers misleading."""
    live = case.facts.live
    for one in shown(live.registry, live.snapshot) if live is not None else ():
        if one.partial:
            on_gpu = f"{one.entry.vram_mb:.0f} of its {one.entry.size_mb:.0f} MB"
            yield _at_model(
                case,
                one.home,
                "gpu_residency",
                f"only {on_gpu} are on the GPU at {one.home.api_base}: the rest is on the CPU, and slow",
                "make room and load it again: litellm-registry warm, or the next request; see what else is on the GPU",
            )


def never_evict_missing(case: Case) -> Iterator[Sign]:
    """Find a never-evict model that is not loaded to stay."""
    live = case.facts.live
    for home in missing(live.registry, live.snapshot, live.at) if live is not None else ():
        yield _at_model(
            case,
            home,
            "gpu_residency.never_evict",
            f"{home.model.id} is never-evict and not loaded at {home.api_base}",
            "load it: litellm-registry warm; a proxy that runs does it as soon as it fits",
        )


def ollama_silent(case: Case) -> Iterator[Sign]:
    """Find an Ollama of the registry that does not answer; where this machine has none at all that is no news."""
    live = case.facts.live
    if live is None:
        return
    told = set()
    for home in gpu_homes(live.registry):
        server = server_of(live.snapshot, home.api_base)
        if server is None or server.state == "up" or server.api_base in told or _nothing_here(live, home):
            continue
        told.add(server.api_base)
        yield _at_model(
            case,
            home,
            "endpoints" if home.model.endpoints else "litellm",
            f"Ollama at {home.api_base} does not answer: {server.reason}",
            "start it, or mend the address; until then requests go to the next model of the tier",
        )


def gpu_memory_unknown(case: Case) -> Iterator[Sign]:
    """Find a GPU whose memory neither the driver nor the registry tells: nothing is loaded there."""
    live = case.facts.live
    if live is None:
        return
    told = set()
    for home in gpu_homes(live.registry):
        server = server_of(live.snapshot, home.api_base)
        room = room_of(live.registry.gpu_residency_policy, live.snapshot, home.api_base, home.gpu)
        if server is None or server.state != "up" or room.mode != "unknown" or (room.machine, room.key) in told:
            continue
        told.add((room.machine, room.key))
        yield _at_policy(
            case,
            f"the free memory of the GPU behind {home.api_base} is not known, "
            f"so no model is loaded there: {room.reason}",
        )


def nvml_failing(case: Case) -> Iterator[Sign]:
    """Find a driver that is there and does not do its work; declared sizes stand in for it."""
    live = case.facts.live
    if live is None or not any(is_loopback(home.api_base) for home in gpu_homes(live.registry)):
        return
    nvml = live.snapshot.nvml
    if nvml.state != "ok" and nvml.code not in NO_GPU:
        yield _at_policy(case, f"the GPU driver does not answer ({nvml.code}): {nvml.reason}; sizes are as declared")
    for gpu in nvml.gpus:
        if gpu.state != "ok":
            yield _at_policy(case, f"the memory of GPU {gpu.index} cannot be read ({gpu.code}): {gpu.reason}")


def _nothing_here(live: Live, home: Home) -> bool:
    """Say whether this looks like a machine for editing and checking: no Ollama of its own, no GPU."""
    server = server_of(live.snapshot, home.api_base)
    gone = server is not None and server.state == "gone"
    return gone and is_loopback(home.api_base) and live.snapshot.nvml.code in NO_GPU


def _at_model(case: Case, home: Home, key: str, message: str, fix: str) -> Sign:
    number = [model.id for model in case.registry.models].index(home.model.id)
    return Sign(case.registry_file, f"models[{number}].{key}", message, fix)


def _at_policy(case: Case, message: str) -> Sign:
    fix = "mend the driver, or declare the size: gpu_residency_policy.gpus, else baseline.total_mb"
    return Sign(case.registry_file, "gpu_residency_policy", message, fix)


RULES = (
    Rule("vram_disagrees", "medium", vram_disagrees),
    Rule("never_evict_missing", "medium", never_evict_missing),
    Rule("gpu_memory_unknown", "medium", gpu_memory_unknown),
    Rule("partly_on_cpu", "low", partly_on_cpu),
    Rule("nvml_failing", "low", nvml_failing),
    Rule("ollama_silent", "info", ollama_silent),
)
