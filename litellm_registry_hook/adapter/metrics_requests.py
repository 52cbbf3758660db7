"""Numbers of decisions, quotas and the registry's file for LiteLLM's own /metrics, fed by a background thread.

As in `metrics.py`, without prometheus_client there are none.
"""

from __future__ import annotations

import importlib
import logging
import math
from functools import lru_cache
from typing import Any, Final

from litellm_registry_hook.adapter.meters import made
from litellm_registry_hook.core.availability.facts import Facts
from litellm_registry_hook.core.decision import Decision

log = logging.getLogger("litellm_registry_hook")
SERVED: Final = "served"


class RequestMetrics:
    """The metrics of one worker."""

    def __init__(self, prometheus: Any) -> None:
        self._decisions = made(prometheus, "decisions")
        self._skips = made(prometheus, "passed_over")
        self._used = made(prometheus, "quota_used_percent")
        self._age = made(prometheus, "probe_age_seconds")
        self._closed = made(prometheus, "closed")
        self._broken = made(prometheus, "file_broken")
        self._keys: set[str] = set()

    def count(self, one: Decision) -> None:
        """Count a request that has ended."""
        for model in one.models or ("",):
            self._decisions.labels(tier=one.tier, model=model, code=one.code or SERVED).inc()
        for model, code, _ in one.skipped:
            self._skips.labels(model=model, code=code).inc()

    def tell(self, facts: Facts, now: float, *, broken: bool) -> None:
        """Carry over what is known of the models now."""
        self._broken.set(int(broken))
        for model, windows in facts.readings.items():
            for window, reading in windows.items():
                known = reading.used_pct is not None
                self._used.labels(model=model, window=window).set(reading.used_pct if known else math.nan)
                self._age.labels(model=model, window=window).set(max(0.0, now - reading.read_at) if known else math.nan)
        closed = {*facts.closures, *(key for key, one in facts.circuits.items() if one.opened_at is not None)}
        self._keys |= closed
        for key in self._keys:
            self._closed.labels(key=key).set(int(key in closed))


@lru_cache(maxsize=1)
def request_metrics() -> RequestMetrics | None:
    """Return this process's metrics, registered once; None where prometheus_client is not installed."""
    try:
        return RequestMetrics(importlib.import_module("prometheus_client"))
    except ImportError:
        return None
    except Exception:
        # Metrics must not keep a proxy from starting: a folder that cannot be written, a name that is taken.
        log.exception("the metrics of requests are off")
        return None
