"""Makes the metrics of core/metrics.py in prometheus_client's default registry, which LiteLLM shows at /metrics.

It does where `litellm_settings.callbacks` has `prometheus`. With PROMETHEUS_MULTIPROC_DIR counters are added up over
the workers, and of a gauge the largest counts, or the smallest.
"""

from __future__ import annotations

from typing import Any

from litellm_registry_hook.core.metrics import LOAD_BUCKETS, METRICS, PREFIX


def made(prometheus: Any, name: str) -> Any:
    """Make a metric.

    Args:
        prometheus: the package prometheus_client.
        name: of core.metrics.METRICS.

    Raises:
        ValueError: it was made before.

    """
    metric = METRICS[name]
    full = PREFIX + name
    if metric.kind == "counter":
        return prometheus.Counter(f"{full}_total", metric.text, metric.labels)
    if metric.kind == "histogram":
        return prometheus.Histogram(full, metric.text, metric.labels, buckets=LOAD_BUCKETS)
    return prometheus.Gauge(full, metric.text, metric.labels, multiprocess_mode=metric.of_workers)
