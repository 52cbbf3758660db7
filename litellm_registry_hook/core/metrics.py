"""Our numbers at LiteLLM's own /metrics: what they are called, and what they mean. The adapter makes and feeds them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

PREFIX: Final = "registry_"
LOAD_BUCKETS: Final = (0.5, 1, 2, 5, 10, 20, 40, 80, 160, 320)
"""Seconds."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric.

    Attributes:
        name: without the prefix; a counter's without `_total`.
        kind: how it counts. text: its help.
        labels: in order.
        of_workers: what counts of the workers' gauges; counters are added up.

    """

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    text: str
    labels: tuple[str, ...] = ()
    of_workers: Literal["livemax", "livemin"] = "livemax"

    @property
    def shown(self) -> str:
        """Its name at /metrics, with its labels: `registry_closed{key}`."""
        total = "_total" if self.kind == "counter" else ""
        labels = "{" + ",".join(self.labels) + "}" if self.labels else ""
        return f"{PREFIX}{self.name}{total}{labels}"


METRICS: Final = {
    one.name: one
    for one in (
        Metric(
            "decisions",
            "counter",
            "Requests by tier, model and outcome; code is `served` or the refusal's.",
            ("tier", "model", "code"),
        ),
        Metric("passed_over", "counter", "Pool members passed over, by model and code.", ("model", "code")),
        Metric("quota_used_percent", "gauge", "Percent used of a window or budget, as last read.", ("model", "window")),
        Metric("probe_age_seconds", "gauge", "Age of that reading; NaN where there is none.", ("model", "window")),
        Metric("closed", "gauge", "1 while real calls have closed a model or deployment.", ("key",)),
        Metric("file_broken", "gauge", "1 while the registry's file has an edit that is not in force."),
        Metric("gpu_loads", "counter", "Loads that were started."),
        Metric("gpu_swaps", "counter", "Models that were unloaded to make room for another."),
        Metric("gpu_refusals", "counter", "Requests that the gate sent away: next pool member or 503."),
        Metric("gpu_failed_loads", "counter", "Loads that the server refused or did not finish."),
        Metric("gpu_pinned_again", "counter", "Never-evict models that had lost their pin."),
        Metric("gpu_load_seconds", "histogram", "How long a load took that ended well.", ("model",)),
        Metric("gpu_never_evict_missing", "gauge", "Never-evict models that are not loaded now."),
        Metric(
            "gpu_vram_disagreement_percent",
            "gauge",
            "By how much more than its vram_mb a loaded model takes; the last one known.",
            ("model", "api_base"),
        ),
        Metric("gpu_free_mb", "gauge", "Free memory of a GPU in MB; NaN while it is not known.", ("gpu",)),
        Metric(
            "gpu_state_ok",
            "gauge",
            "1 while the state can be used; without it nothing is loaded.",
            of_workers="livemin",
        ),
    )
}


def metric_table() -> str:
    """Write the metrics as a Markdown table."""
    rows = [f"| `{one.shown}` | {one.kind} | {one.text.rstrip('.')} |" for one in METRICS.values()]
    return "\n".join(["| metric | kind | meaning |", "|---|---|---|", *rows]) + "\n"
