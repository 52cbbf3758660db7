"""How long the command line takes to start, and whether it imports LiteLLM."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from statistics import median
from time import perf_counter

from bench.registries import ROOT
from bench.rows import Figure, Put, Section, spread

COMMANDS = {"--version": ("--version",), "list": ("list",), "resolve": ("resolve", "--tier", "small")}
FIGURES = (
    *(Figure(f"litellm-registry {name}", "s", at_most=0.3) for name in COMMANDS),
    Figure("python -c pass, for comparison", "s"),
    Figure("modules of litellm imported by list", "modules", at_most=0),
    Figure("slowest import of list, with what it imports", "ms"),
)
_IMPORT = re.compile(r"^import time: +(\d+) \| +(\d+) \| ( *)(\S+)", re.MULTILINE)


def wall(command: list[str], times: int) -> list[float]:
    """Return the wall time of each run, in seconds; the first one, which fills the file cache, does not count."""
    found = []
    for _ in range(times + 1):
        start = perf_counter()
        done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
        found.append(perf_counter() - start)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.decode()[-300:]}")
    return found[1:]


def run(options: object, put: Put) -> None:
    times = 2 if options.dry else (5 if options.quick else 15)
    script = Path(sys.executable).parent / "litellm-registry"
    command = [str(script)] if script.exists() else [sys.executable, "-m", "litellm_registry_hook"]
    for name, args in COMMANDS.items():
        took = wall([*command, *args], times)
        put(f"litellm-registry {name}", median(took), spread(took, ".2f"))
    put("python -c pass, for comparison", median(wall([sys.executable, "-c", "pass"], times)))
    timed = [sys.executable, "-X", "importtime", "-m", "litellm_registry_hook", "list"]
    done = subprocess.run(timed, cwd=ROOT, capture_output=True, text=True, check=False)
    imports = [(int(total), depth, name) for _, total, depth, name in _IMPORT.findall(done.stderr)]
    host = [name for _, _, name in imports if name == "litellm" or name.startswith("litellm.")]
    put(
        "modules of litellm imported by list",
        float(len(host)),
        f"of {len(imports)} modules" + (f": {host[:3]}" if host else ""),
    )
    # A library's own parts would only repeat its name: top packages, the parents of which are ours or nobody.
    outside = [
        (total, name) for total, _, name in imports if "." not in name and not name.startswith("litellm_registry_hook")
    ]
    outside.sort(reverse=True)
    put(
        "slowest import of list, with what it imports",
        outside[0][0] / 1000,
        ", ".join(f"{n} {t / 1000:.0f}" for t, n in outside[:6]),
    )


SECTION = Section("f", "starting the command line", FIGURES, run)
