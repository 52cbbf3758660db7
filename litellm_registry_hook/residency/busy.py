"""Why a machine is not free to be measured on: people are asked before it is touched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from litellm_registry_hook.core.gpu.names import short_name
from litellm_registry_hook.core.gpu.place import homes_of, machine_of
from litellm_registry_hook.residency.aside import Aside

# What the driver and a desktop may hold.
FOREIGN_MB: Final = 300.0
Processes = Callable[[str], list[tuple[int, float | None]] | None]


def why_busy(aside: Aside, machine: str, processes: Processes) -> list[str]:
    """Return what goes on at a machine, as sentences; empty where it is free.

    Args:
        aside: entered, with a fresh look.
        machine: its name.
        processes: pids and MB on a GPU of this machine, `Driver.processes`.

    """
    board = aside.board
    found = [
        f"{count} request(s) use {short_name(slot.name)} at {slot.api_base}"
        for slot, count in sorted(board.usage().busy.items())
        if count and board.machine(slot) == machine
    ]
    held = 0.0
    for base, server in sorted(board.snapshot.servers.items()):
        if machine_of(base, board.snapshot.machine) == machine:
            held += sum(one.vram_mb for one in server.loaded)
            found += [f"{short_name(one.name)} is loaded at {base} ({one.vram_mb:.0f} MB)" for one in server.loaded]
    for home in homes_of(aside.in_force().resolved):
        size = home.model.gpu_residency
        up = board.snapshot.health.get(home.api_base, "gone") != "gone"
        if (
            home.slot is None
            and size is not None
            and up
            and machine_of(home.api_base, board.snapshot.machine) == machine
        ):
            held += size.vram_mb
            found.append(f"{home.model.id} runs at {home.api_base} ({size.vram_mb} MB)")
    if machine == board.snapshot.machine:
        found += _foreign(aside, held, processes)
    return found


def _foreign(aside: Aside, held: float, processes: Processes) -> list[str]:
    gpus = [gpu for gpu in aside.board.snapshot.nvml.gpus if gpu.state == "ok"]
    used = sum(gpu.total_mb - gpu.free_mb for gpu in gpus)
    if used - held > FOREIGN_MB:
        return [f"{used - held:.0f} MB of GPU memory are held by others"]
    pids = [pid for gpu in gpus for pid, _ in processes(gpu.uuid) or ()]
    return [f"process {', '.join(map(str, pids))} uses a GPU"] if pids and not held else []
