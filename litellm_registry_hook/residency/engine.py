"""The desk on a thread of its own, and the door to it for requests on the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from litellm_registry_hook.core.gpu.pinning import SHORTEST_LOAD_S, keep_seconds_of
from litellm_registry_hook.core.gpu.ports import Hands
from litellm_registry_hook.core.gpu.verdict import No, Use, Want
from litellm_registry_hook.residency.board import Board, Sources, Starter
from litellm_registry_hook.residency.desk import Desk
from litellm_registry_hook.residency.keeper import Keeper
from litellm_registry_hook.residency.ticket import Answer, Granted, Ticket
from litellm_registry_hook.residency.view import View

log = logging.getLogger("litellm_registry_hook")
LOAD_S: Final = 600.0
UNLOAD_S: Final = 30.0
GONE_EVERY_S: Final = 0.5
Gone = Callable[[], Awaitable[bool]]


class HungUpError(Exception):
    """The client has gone while its request waited for a model."""


class Threads:
    """Starts each load and unload in a thread of its own; they end with the process."""

    def __init__(self, hands: Hands) -> None:
        self.hands = hands

    def load(self, want: Want, done: Callable[[str | None], None]) -> None:
        """Start a load."""
        self._start(lambda: self.hands.load(want, LOAD_S), done, f"load-{want.slot.name}")

    def unload(self, want: Want, done: Callable[[str | None], None]) -> None:
        """Start an unload."""
        self._start(lambda: self.hands.unload(want, UNLOAD_S), done, f"unload-{want.slot.name}")

    @staticmethod
    def _start(work: Callable[[], str | None], done: Callable[[str | None], None], name: str) -> None:
        def run() -> None:
            try:
                error = work()
            except Exception as caught:
                log.exception("%s failed", name)
                error = repr(caught)
            done(error)

        try:
            threading.Thread(target=run, name=name, daemon=True).start()
        except RuntimeError as caught:
            # No thread to be had: the booking must not stand for ever.
            done(f"the proxy could not start a thread: {caught}")


@dataclass(slots=True)
class Lease:
    """The use of a runner by one request, from its grant to `release`.

    Attributes:
        number: which of the wants it is. use: the runner, as that.

    """

    number: int
    use: Use
    view: View
    stays_s: float | None
    released: bool = False

    def release(self) -> None:
        """Let the runner go; on the event loop, any number of times."""
        if not self.released:
            self.released = True
            self.view.leave(self.use, self.stays_s)


class Residency:
    """The residency gate of one worker.

    Attributes:
        each_turn: called on the desk's thread after each turn, for metrics; must be quick.

    """

    def __init__(self, sources: Sources, starter: Starter, view: View, worker: str) -> None:
        self.view = view
        self.board = Board(sources, view, worker)
        self.desk = Desk(self.board, starter)
        self.keeper = Keeper(self.board, self.desk, starter)
        self._awake = threading.Event()
        self._stopping = False
        self._thread: threading.Thread | None = None
        self.desk.wake = self._awake.set
        self.each_turn: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Start the desk's thread; it ends with the process."""
        self._thread = threading.Thread(target=self._run, name="registry-gpu", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread and wait for it."""
        self._stopping = True
        self._awake.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping:
            self._awake.clear()
            try:
                pause = self.desk.step()
                self.keeper.step()
                self.each_turn()
            except Exception:
                # Nothing is loaded and nothing new is resident while this lasts: the view grows old.
                log.exception("the desk of GPU residency failed; it goes on")
                pause = 1.0
            self._awake.wait(pause)

    async def enter(self, wants: Sequence[Want], wait_s: float, gone: Gone | None) -> Lease | tuple[No, ...]:
        """Get the use of the first of these models that is loaded, or can be.

        Args:
            wants: what would do, best first.
            wait_s: seconds to wait for room; 0: not at all.
            gone: says whether the client has hung up.

        Returns:
            a lease that must be released; or a No for each want.

        Raises:
            HungUpError: the client has gone meanwhile; a load that was started for it goes on.

        """
        for number, want in enumerate(wants):
            if self.view.enter(want.use):
                return Lease(number, want.use, self.view, stays_of(want))
        answer = await self._at_desk(tuple(wants), wait_s, gone)
        if isinstance(answer, Granted):
            want = wants[answer.number]
            return Lease(answer.number, want.use, self.view, stays_of(want))
        return answer

    async def _at_desk(self, wants: tuple[Want, ...], wait_s: float, gone: Gone | None) -> Answer:
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[Answer] = loop.create_future()

        def deliver(answer: Answer) -> None:
            if isinstance(answer, Granted):
                self.view.take_over(answer.slot, wanted=not waiting.done())
            if not waiting.done():
                waiting.set_result(answer)

        def tell(answer: Answer) -> None:
            # A loop that has ended asks for nothing any more.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(deliver, answer)

        now = self.view.clock()
        limit = min((want.model.timeout_s for want in wants if want.model and want.model.timeout_s), default=LOAD_S)
        until = now + wait_s if wait_s > 0 else None
        ticket = Ticket(wants, tell, came=now, deadline=now + max(limit, wait_s), wait_until=until)
        self.desk.submit(ticket)
        try:
            while True:
                done, _ = await asyncio.wait((waiting,), timeout=GONE_EVERY_S if gone is not None else None)
                if done:
                    return waiting.result()
                if gone is not None and await gone():
                    raise HungUpError  # noqa: TRY301  the ticket is taken back below
        except BaseException:
            if waiting.done() and not waiting.cancelled():
                answer = waiting.result()
                if isinstance(answer, Granted):
                    self.view.leave(wants[answer.number].use, 0.0)
            waiting.cancel()
            self.desk.cancel(ticket)
            raise


def stays_of(want: Want) -> float | None:
    """Return the seconds a model stays loaded after a call of ours; 0 where the registry does not say."""
    if want.model is None:
        return 0.0
    seconds = keep_seconds_of(want.model)
    return None if seconds is None else max(seconds, SHORTEST_LOAD_S)
