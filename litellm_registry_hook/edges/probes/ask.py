"""Ask any probe."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from litellm_registry_hook.core.availability.probes import Answer, Probe
from litellm_registry_hook.edges.probes.command import ask_command
from litellm_registry_hook.edges.probes.file import ask_file
from litellm_registry_hook.edges.probes.health import ask_health
from litellm_registry_hook.edges.probes.http import ask_url


def ask(probe: Probe, env: Mapping[str, str] = os.environ) -> Answer:
    """Return what came of a probe; it blocks for 20 s at most, or as long as a file's disk does."""
    if probe.kind == "command":
        return ask_command(probe.what, probe.env, env)
    if probe.kind == "file":
        return ask_file(probe.what)
    if probe.kind == "url":
        return ask_url(probe.what, time.time())
    return ask_health(probe.what)
