"""Which core does what: the proxy under test on one, its upstream and the load on another."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def cores() -> tuple[set[int], set[int], str]:
    """Return the cores of the proxy, those of upstream and load, and a sentence about it."""
    try:
        usable = sorted(os.sched_getaffinity(0))
    except AttributeError:
        return set(), set(), "cores cannot be pinned on this system: proxy, upstream and load share them"
    if len(usable) == 1:
        return set(), set(), "one core only: proxy, upstream and load share it, nothing is pinned"
    return {usable[0]}, {usable[1]}, f"proxy on core {usable[0]}, upstream and load on core {usable[1]}"


def pin_self(where: set[int]) -> None:
    if where:
        os.sched_setaffinity(0, where)


def pin_group(group: int, where: set[int]) -> None:
    """Pin every thread of every process of a process group; later threads inherit it."""
    if not where:
        return
    for pid in members(group):
        for task in Path(f"/proc/{pid}/task").glob("*"):
            with suppress(OSError, ValueError):
                os.sched_setaffinity(int(task.name), where)


def members(group: int) -> list[int]:
    """Return the processes of a process group."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError, ValueError):
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(fields[2]) == group:
                found.append(int(folder.name))
    return found


def cpu_seconds(group: int) -> float:
    """Return the CPU time of a process group so far, user and system, in seconds (granularity 10 ms)."""
    ticks = 0
    for pid in members(group):
        with suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def rss_mb(group: int) -> float:
    """Return the resident memory of the largest process of a group, in MB: the worker."""
    sizes = [0.0]
    for pid in members(group):
        with suppress(OSError):
            pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
            sizes.append(pages * os.sysconf("SC_PAGE_SIZE") / 1e6)
    return max(sizes)
