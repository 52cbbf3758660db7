"""One look at GPUs and model servers for the doctor: /api/ps, tags, show, version and health; no model is loaded."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Final

from litellm_registry_hook.core.doctor_case import Live
from litellm_registry_hook.core.gpu.compare import gpu_homes
from litellm_registry_hook.core.gpu.place import resolve_addresses
from litellm_registry_hook.core.registry import Registry
from litellm_registry_hook.edges.gpu.eyes import MachineEyes

# Of the whole look; a server that takes longer is told as one that does not answer.
LOOK_S: Final = 2.0


def look_live(registry: Registry, environ: Mapping[str, str]) -> Live | None:
    """Return what is so now; None where the registry has nothing on an Ollama server with a GPU."""
    resolved = resolve_addresses(registry, environ)
    if not gpu_homes(resolved):
        return None
    # Findings say it; a line of the log would come between them.
    log = logging.getLogger("litellm_registry_hook")
    quiet = logging.NullHandler()
    log.addHandler(quiet)
    eyes = MachineEyes(lambda: registry, environ, time.time, look_s=LOOK_S, read_s=LOOK_S * 0.7)
    try:
        snapshot = eyes.look()
    finally:
        eyes.close()
        log.removeHandler(quiet)
    return Live(resolved, snapshot, time.time())
