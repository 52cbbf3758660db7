"""Builds and feeds the stub of NVIDIA's library, so that the real pynvml is driven without a GPU.

    library = build(tmp_path_factory.mktemp("nvml"))
    write(file, gpus=[Card(total_mib=8192, used_mib=1000)])
    subprocess.run([...], env={**os.environ, **environment(library, file)})

In a process that has no NVML loaded yet, `preload(library, file)` does the same without a subprocess; it lasts as long
as the process, so prefer a subprocess where other tests may want a machine without the library.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("fake_nvml.c")
LIBRARY = "libnvidia-ml.so.1"


@dataclass(frozen=True)
class Card:
    """One GPU as the stub shows it; errors are NVML's numbers, 0 = none.

    Attributes:
        procs: pid and MB of each process on it; None where the driver does not tell the MB.
        mig: 1 = MIG on. mig_devices: how many MIG devices it has.

    """

    name: str = "Stub GPU"
    uuid: str = ""
    total_mib: int = 8192
    used_mib: int = 0
    reserved_mib: int = 0
    err_handle: int = 0
    err_name: int = 0
    err_mem: int = 0
    err_proc: int = 0
    err_mig: int = 0
    mig: int = 0
    mig_devices: int = 0
    procs: Sequence[tuple[int, int | None]] = ()


def build(folder: Path, *, memory: bool = True) -> Path:
    """Compile the library into a folder and return its path; without `memory` it is a driver too old to tell it.

    Skips the test where there is no C compiler.
    """
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler (cc, gcc or clang) to build the NVML stub with")
    library = folder / LIBRARY
    flags = ["-O1", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", f"-Wl,-soname,{LIBRARY}"]
    if not memory:
        flags.append("-DWITHOUT_MEMORY")
    subprocess.run([compiler, *flags, "-o", str(library), str(SOURCE)], check=True)
    return library


def text(gpus: Iterable[Card] = (), *, err_init: int = 0, err_count: int = 0, hang_ms: int = 0) -> str:
    """Return what the stub's file has to hold for these GPUs."""
    lines = [f"err_init = {err_init}", f"err_count = {err_count}", f"hang_ms = {hang_ms}"]
    for index, card in enumerate(gpus):
        lines += [f"gpu = {card.name}", f"uuid = {card.uuid or f'GPU-stub-{index}'}"]
        for one in fields(card):
            if one.name not in {"name", "uuid", "procs"}:
                lines.append(f"{one.name} = {getattr(card, one.name)}")
        lines += [f"proc = {pid} {'NA' if mib is None else mib}" for pid, mib in card.procs]
    return "\n".join(lines) + "\n"


def write(path: Path, gpus: Iterable[Card] = (), *, err_init: int = 0, err_count: int = 0, hang_ms: int = 0) -> None:
    """Replace the stub's file in one step: a reader sees the old GPUs or the new ones, never half of them."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
    fresh.write_text(text(gpus, err_init=err_init, err_count=err_count, hang_ms=hang_ms))
    os.replace(fresh, path)


def environment(library: Path, file: Path) -> dict[str, str]:
    """Return the variables that make a new process load the stub and read its file."""
    return {"LD_LIBRARY_PATH": str(library.parent), "NVML_STUB_FILE": str(file)}


def preload(library: Path, file: Path) -> None:
    """Make pynvml in this process find the stub: the loader knows a loaded library by its soname."""
    os.environ["NVML_STUB_FILE"] = str(file)
    ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
