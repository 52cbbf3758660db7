"""The embedded keys in memory: a request never waits for the state unless its key is new."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from litellm_registry_hook.core.virtual_key import VirtualKey
from litellm_registry_hook.edges.store.port import State
from litellm_registry_hook.errors import RegistryHookError, StateError

log = logging.getLogger("litellm_registry_hook")

EVERY_S: Final = 0.5
# Unknown keys make the mirror look at once, but a flood of them no more often than this.
FLOOR_S: Final = 0.02
WAIT_S: Final = 3.0
Waiter = tuple[asyncio.AbstractEventLoop, "asyncio.Future[None]"]


class KeyMirror:
    """Follows the table of keys from one daemon thread, the only one that touches the state.

    Attributes:
        readable: whether the last look at the state succeeded; while it does not, the keys known before stay.

    """

    def __init__(self, open_state: Callable[[], State], *, every_s: float = EVERY_S) -> None:
        """Prepare a mirror; nothing is read before `start`.

        Args:
            open_state: opens the state; called in the thread until it answers.
            every_s: seconds between two looks.

        """
        self.readable = True
        self._open_state = open_state
        self._every_s = every_s
        self._keys: dict[str, VirtualKey] = {}
        self._waiters: list[Waiter] = []
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._state: State | None = None
        self._seen = False
        self._version: str | None = None

    def start(self) -> None:
        """Start following, once."""
        if self._thread is not None:
            return
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="registry-keys", daemon=True)
                self._thread.start()

    def stop(self) -> None:
        """End the thread and wait for it."""
        self._stopping = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()

    def get(self, token: str) -> VirtualKey | None:
        """Return the key with this token as last seen: a dict look-up."""
        return self._keys.get(token)

    async def find(self, token: str) -> VirtualKey | None:
        """Return the key with this token; for one not seen yet, look at the state first, in the thread."""
        self.start()
        found = self._keys.get(token)
        if found is not None:
            return found
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        with self._lock:
            self._waiters.append((loop, done))
        self._wake.set()
        try:
            await asyncio.wait_for(done, WAIT_S)
        except asyncio.TimeoutError:
            self.readable = False
        return self._keys.get(token)

    def _run(self) -> None:
        while not self._stopping:
            self._wake.wait(self._every_s)
            self._wake.clear()
            with self._lock:
                waiters, self._waiters = self._waiters, []
            self._look()
            for loop, done in waiters:
                _tell(loop, done)
            time.sleep(FLOOR_S)
        if self._state is not None:
            self._state.close()

    def _look(self) -> None:
        try:
            self._read()
        except Exception as error:  # noqa: BLE001  the thread must outlive whatever the state does
            self._version = None
            if self.readable:
                text = str(error) if isinstance(error, RegistryHookError) else repr(error)
                log.warning("embedded keys: %s; the keys known so far go on, no other is accepted", text)
            self.readable = False
            return
        if not self.readable:
            log.info("embedded keys: the state can be read again")
        self.readable = True

    def _read(self) -> None:
        if self._state is None:
            self._state = self._open_state()
        state = self._state
        if not state.exists():
            if self._seen:
                raise StateError(f"state {state.place} is gone")
            # Nobody has made a key yet; only writing makes the file.
            return
        self._seen = True
        version = state.version()
        if version != self._version:
            self._keys = {key.token: key for key in state.virtual_keys()}
        self._version = version


def _tell(loop: asyncio.AbstractEventLoop, done: asyncio.Future[None]) -> None:
    def answer() -> None:
        if not done.done():
            done.set_result(None)

    try:
        loop.call_soon_threadsafe(answer)
    except RuntimeError:
        log.debug("the loop of a waiting request has ended")
