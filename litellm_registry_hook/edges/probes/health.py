"""Ask whether a server is up; it neither loads a model nor makes one work."""

from __future__ import annotations

from litellm_registry_hook.core.availability.probes import Answer
from litellm_registry_hook.edges.gpu.health import HealthReader


def ask_health(url: str, *, read_s: float = 2.0) -> Answer:
    """Return up for an answer below 500, gone for a refused connection, unknown for anything else."""
    reader = HealthReader(url, read_s=read_s)
    try:
        state = reader.read()
    finally:
        reader.close()
    return Answer("unknown" if state == "busy" else state, "did not say that it is up" if state == "busy" else "")
