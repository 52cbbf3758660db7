"""Puts a worker of the residency gate together: the machines on one side, the state on the other. No LiteLLM here."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Mapping

from litellm_registry_hook.core.gpu.ports import Eyes, Hands, Ledger
from litellm_registry_hook.core.gpu.verdict import Use, Want
from litellm_registry_hook.core.registry import Registry
from litellm_registry_hook.edges.gpu.eyes import MachineEyes
from litellm_registry_hook.edges.gpu.hands import OllamaHands
from litellm_registry_hook.residency.board import Sources
from litellm_registry_hook.residency.engine import Residency, Threads
from litellm_registry_hook.residency.runners import InForce, Runners
from litellm_registry_hook.residency.view import View


def build(
    registry: Callable[[], Registry],
    env: Mapping[str, str],
    ledger: Ledger | None,
    *,
    eyes: Eyes | None = None,
    hands: Hands | None = None,
) -> tuple[Residency, InForce]:
    """Return a worker that is not started yet, and the runners it goes by.

    A proxy's worker starts its thread; a command line drives its desk itself (`aside.py`).

    Args:
        registry: gives the registry in force. env: resolves `os.environ/NAME`.
        ledger: what the workers share; None where there is no state: then nothing is loaded.
        eyes, hands: the real ones where none are given.

    """
    view = View(time.time)
    in_force = InForce(registry, env)

    def opened(runners: Runners) -> None:
        view.open = runners.open

    in_force.changed = opened

    def wants() -> Mapping[Use, Want]:
        return in_force().wants

    def resolved() -> Registry:
        return in_force().resolved

    sources = Sources(resolved, wants, eyes or MachineEyes(registry, env, time.time), ledger)
    worker = f"{os.uname().nodename}-{os.getpid()}-{secrets.token_hex(3)}"
    return Residency(sources, Threads(hands or OllamaHands(env)), view, worker), in_force
