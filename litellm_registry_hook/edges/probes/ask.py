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
    """Return what came of a probe; it blocks for 20 s at most, or as long as a file's disk does.

    What LiteLLM itself has spent is known in the proxy only: the watch is given another function for that.
    """
    if probe.kind == "command":
        return ask_command(probe.what, probe.env, env)
    if probe.kind == "file":
        return ask_file(probe.what)
    if probe.kind == "url":
        for name in probe.env:
            if not env.get(name):
                return Answer(error="the token of probe_bearer is not set", detail=f"{name} in the environment")
        return ask_url(probe.what, time.time(), bearer="".join(env[name] for name in probe.env))
    if probe.kind == "spend":
        return Answer(error="LiteLLM's spend can be read in the proxy only")
    return ask_health(probe.what)
