"""Numbers of GPU residency for LiteLLM's own /metrics: fed from the desk's thread once a second, off the request path.

Where prometheus_client is not installed there are none.
"""

from __future__ import annotations

import importlib
import logging
import math
from functools import lru_cache
from typing import Any, Final

from litellm_registry_hook.adapter.meters import made
from litellm_registry_hook.core.gpu.compare import missing, shown
from litellm_registry_hook.residency.engine import Residency

log = logging.getLogger("litellm_registry_hook")
EVERY_S: Final = 1.0
# What Board.counts calls it: the metric.
COUNTERS: Final = {
    "loads": "gpu_loads",
    "swaps": "gpu_swaps",
    "refused": "gpu_refusals",
    "failed_loads": "gpu_failed_loads",
    "pinned_again": "gpu_pinned_again",
}
GAUGES: Final = ("never_evict_missing", "vram_disagreement_percent", "free_mb", "state_ok")


class GpuMetrics:
    """The metrics of one worker."""

    def __init__(self, prometheus: Any) -> None:
        self._counters = {name: made(prometheus, metric) for name, metric in COUNTERS.items()}
        self._gauges = {name: made(prometheus, f"gpu_{name}") for name in GAUGES}
        self._seconds = made(prometheus, "gpu_load_seconds")
        self._told: dict[str, int] = {}
        self._gpus: set[str] = set()
        self._at = 0.0
        self._off = False

    def tell(self, residency: Residency) -> None:
        """Carry the desk's numbers over, at most once a second. On the desk's thread."""
        board = residency.board
        now = board.clock()
        if self._off or 0 <= now - self._at < EVERY_S:
            return
        self._at = now
        try:
            self._tell(residency, now)
        except Exception:
            # They are for people; the desk goes on without them.
            log.exception("the metrics of GPU residency stop here")
            self._off = True

    def _tell(self, residency: Residency, now: float) -> None:
        board = residency.board
        for name, counter in self._counters.items():
            count = board.counts.get(name, 0)
            counter.inc(count - self._told.get(name, 0))
            self._told[name] = count
        while board.loaded:
            model, seconds = board.loaded.popleft()
            self._seconds.labels(model=model).observe(seconds)
        registry, snapshot = board.registry(), board.snapshot
        self._gauges["state_ok"].set(int(board.state_ok))
        self._gauges["never_evict_missing"].set(len(missing(registry, snapshot, now)))
        for one in shown(registry, snapshot):
            labels = {"model": one.home.model.id, "api_base": one.home.api_base}
            if not one.partial:
                self._gauges["vram_disagreement_percent"].labels(**labels).set(round(one.percent, 1))
        free = {gpu.uuid: gpu.free_mb for gpu in snapshot.nvml.gpus if gpu.state == "ok"}
        self._gpus |= free.keys()
        for uuid in self._gpus:
            self._gauges["free_mb"].labels(gpu=uuid).set(free.get(uuid, math.nan))


@lru_cache(maxsize=1)
def gpu_metrics() -> GpuMetrics | None:
    """Return this process's metrics, registered once; None where prometheus_client is not installed."""
    try:
        prometheus = importlib.import_module("prometheus_client")
    except ImportError:
        return None
    try:
        return GpuMetrics(prometheus)
    except Exception:
        # Metrics must not keep a proxy from starting: a folder that cannot be written, a name that is taken.
        log.exception("the metrics of GPU residency are off")
        return None
