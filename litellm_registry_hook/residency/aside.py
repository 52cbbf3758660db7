"""A worker beside the proxies, for the command line: it takes part like any other and drives its desk itself.

It answers to the fences of others, books what it loads and takes the machine's lock, so a proxy and a command never
load against each other. It keeps no never-evict set and serves no requests.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Final, final

from litellm_registry_hook.core.gpu.ports import Eyes, Hands, Ledger
from litellm_registry_hook.core.registry import Registry
from litellm_registry_hook.errors import StateError
from litellm_registry_hook.residency.build import build
from litellm_registry_hook.residency.records import ACK, FENCE, SHARED, WORKER, key_of

TURN_S: Final = 0.1


@final
class Aside:
    """One command's worker; a context manager that takes back what it has written.

    Attributes:
        written: the registry as its file has it. registry: in force for this command; may be replaced.
        board, desk, view: of the worker.

    """

    def __init__(
        self,
        registry: Registry,
        env: Mapping[str, str],
        ledger: Ledger,
        *,
        eyes: Eyes | None = None,
        hands: Hands | None = None,
    ) -> None:
        self.registry = self.written = registry
        self.env = env
        self.ledger = ledger
        self.residency, self.in_force = build(lambda: self.registry, env, ledger, eyes=eyes, hands=hands)
        self.board, self.desk, self.view = self.residency.board, self.residency.desk, self.residency.view
        self._awake = threading.Event()
        self.desk.wake = self._awake.set

    def __enter__(self) -> Aside:
        """Read the state and the machines.

        Raises:
            StateError: the state cannot be used.

        """
        self.ledger.rows(*SHARED)
        self.board.read_shared()
        self.board.look()
        return self

    def __exit__(self, *exc: object) -> None:
        """Give back locks, bookings and fences; without this they lapse after ten seconds."""
        board, desk = self.board, self.desk
        for slot in list(desk.loads.running):
            desk.loads.release(slot)
        for machine, swap in list(desk.swaps.running.items()):
            for slot in swap.closed:
                board.drop(FENCE, key_of(slot))
            board.unlock(machine)
        for slot in desk.fences.minded:
            board.drop(ACK, f"{key_of(slot)}#{board.worker}")
        board.drop(WORKER, board.worker)

    def turn(self) -> None:
        """Do what can be done now and rest for a moment.

        Raises:
            StateError: the state has gone meanwhile.

        """
        self._awake.clear()
        pause = self.desk.step()
        if not self.board.state_ok:
            raise StateError("the state cannot be used any more, so nothing is loaded; see `litellm-registry doctor`")
        self._awake.wait(min(pause, TURN_S))

    def until(self, done: Callable[[], bool], seconds: float) -> bool:
        """Take turns until something is so; False where it was not in time."""
        end = time.monotonic() + seconds
        while not done():
            if time.monotonic() >= end:
                return False
            self.turn()
        return True
