#!/usr/bin/env python3
"""Try the GPU driver, and the Ollama servers of a registry, through this package's own classes.

    python scripts/gpu_check.py                              # the driver alone
    python scripts/gpu_check.py --registry model-registry.yaml
    python scripts/gpu_check.py --registry model-registry.yaml --load local-small

Prints what NVML says of each GPU and how long it takes, then what each Ollama of the registry holds. With --load it loads
one model, reads again, and unloads it; a model that is loaded already stays. No state is used: do not run --load beside
a proxy that is in use.

Exit codes: 0 it could be looked at (a machine without a GPU too: its state is "never"), 1 the load went wrong, 2 error.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from litellm_registry_hook.core.gpu.compare import gpu_homes
from litellm_registry_hook.core.gpu.facts import Nvml, Snapshot
from litellm_registry_hook.core.gpu.names import short_name
from litellm_registry_hook.core.gpu.place import resolve_addresses
from litellm_registry_hook.core.gpu.resident import runner_of, server_of
from litellm_registry_hook.core.gpu.verdict import Want
from litellm_registry_hook.edges.gpu.eyes import MachineEyes
from litellm_registry_hook.edges.gpu.hands import OllamaHands
from litellm_registry_hook.edges.gpu.nvml import Driver
from litellm_registry_hook.errors import RegistryHookError
from litellm_registry_hook.wiring import load_registry

LOAD_S = 600.0
BACK_S = 10.0


def driver_report(driver: Driver, reads: int) -> dict[str, Any]:
    """Ask NVML, first cold, then `reads` times."""
    began = time.perf_counter()
    nvml = driver.read(time.time())
    first_us = (time.perf_counter() - began) * 1e6
    spent = []
    for _ in range(reads):
        began = time.perf_counter()
        nvml = driver.read(time.time())
        spent.append((time.perf_counter() - began) * 1e6)
    spent.sort()
    return {
        "state": nvml.state,
        "code": nvml.code,
        "reason": nvml.reason,
        "first_read_us": round(first_us, 1),
        "read_us": {
            "median": round(statistics.median(spent), 1),
            "p99": round(spent[min(len(spent) - 1, int(len(spent) * 0.99))], 1),
            "reads": len(spent),
        },
        "gpus": [
            {
                "index": gpu.index, "uuid": gpu.uuid, "name": gpu.name, "state": gpu.state, "code": gpu.code,
                "reason": gpu.reason, "total_mb": round(gpu.total_mb), "free_mb": round(gpu.free_mb),
                "processes": driver.processes(gpu.uuid),
            }
            for gpu in nvml.gpus
        ],
    }  # fmt: skip


def servers_report(snapshot: Snapshot) -> list[dict[str, Any]]:
    """Say what each Ollama holds."""
    return [
        {
            "api_base": base, "state": server.state, "reason": server.reason,
            "version": ".".join(map(str, server.version)), "files": len(server.files),
            "loaded": [
                {
                    "name": short_name(one.name), "size_mb": round(one.size_mb), "size_vram_mb": round(one.vram_mb),
                    "context": one.context, "pinned": one.expires_at is None,
                }
                for one in server.loaded
            ],
        }
        for base, server in snapshot.servers.items()
    ]  # fmt: skip


def used_mb(nvml: Nvml) -> float | None:
    """Return the used MB of all GPUs; None where NVML does not count them."""
    if nvml.state != "ok" or any(gpu.state != "ok" for gpu in nvml.gpus):
        return None
    return round(sum(gpu.total_mb - gpu.free_mb for gpu in nvml.gpus), 1)


def load_report(eyes: MachineEyes, registry: Any, model_id: str) -> dict[str, Any]:
    """Load a model, read, and unload it."""
    [home, *_] = [home for home in gpu_homes(registry) if home.model.id == model_id] or [None]
    if home is None or home.slot is None:
        return {"id": model_id, "ok": False, "reason": "it is on no Ollama server of this registry with a GPU"}
    want, hands = Want(home.model, home.slot), OllamaHands(os.environ)

    def look() -> tuple[Any, float | None]:
        snapshot = eyes.look([home.api_base])
        server = server_of(snapshot, home.api_base)
        return (runner_of(server, home.slot.name) if server is not None else None), used_mb(snapshot.nvml)

    entry, before = look()
    if entry is not None:
        return {"id": model_id, "ok": True, "resident": True, "size_vram_mb": round(entry.vram_mb)}
    began = time.perf_counter()
    error = hands.load(want, LOAD_S)
    load_s = time.perf_counter() - began
    entry, after = look()
    began = time.perf_counter()
    unload_error = hands.unload(want, BACK_S)
    left, end = look()
    while (left is not None or (end or 0) > (before or 0) + 8) and time.perf_counter() - began < BACK_S:
        time.sleep(0.1)
        left, end = look()
    return {
        "id": model_id, "ok": error is None and unload_error is None and entry is not None and left is None,
        "resident": False, "reason": error or unload_error, "load_s": round(load_s, 2),
        "size_mb": round(entry.size_mb) if entry is not None else None,
        "size_vram_mb": round(entry.vram_mb) if entry is not None else None,
        "nvml_mb": round(after - before, 1) if after is not None and before is not None else None,
        "used_mb": {"before": before, "loaded": after, "unloaded": end},
        "back_s": round(time.perf_counter() - began, 2),
    }  # fmt: skip


def main() -> int:
    """Run; print JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--registry", metavar="FILE", type=Path, help="look at its Ollama servers too")
    parser.add_argument("--load", metavar="ID", help="load this model, read, and unload it")
    parser.add_argument("--reads", metavar="N", type=int, default=1000, help="reads for the timing; default 1000")
    given = parser.parse_args()
    if given.load and not given.registry:
        parser.error("--load needs --registry")
    if given.reads < 1:
        parser.error("--reads must be 1 or more")
    driver = Driver()
    report: dict[str, Any] = {"nvml": driver_report(driver, given.reads)}
    ok = True
    if given.registry:
        try:
            registry = load_registry(given.registry)
        except RegistryHookError as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
        eyes = MachineEyes(lambda: registry, os.environ, time.time, driver=driver)
        began = time.perf_counter()
        snapshot = eyes.look()
        report["look_ms"] = round((time.perf_counter() - began) * 1e3, 2)
        report["ollama"] = servers_report(snapshot)
        report["health"] = dict(snapshot.health)
        if given.load:
            report["load"] = load_report(eyes, resolve_addresses(registry, os.environ), given.load)
            ok = report["load"]["ok"]
        eyes.close()
    print(json.dumps(report, indent=2))
    return 0 if ok else 1


if __name__ == "__main__":
    raise SystemExit(main())
