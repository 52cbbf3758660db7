"""What was decided on each request, written down by a thread: in memory, in the log as a line of JSON, in the state.

The request itself appends a tuple to a queue, once its answer has gone out.
"""

from __future__ import annotations

import atexit
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from time import monotonic, time
from typing import Any, Final

from litellm_registry_hook.adapter.scope import Scope
from litellm_registry_hook.core.decision import Decision, line_of, passed_over, told, why
from litellm_registry_hook.core.virtual_key import short
from litellm_registry_hook.edges.store.port import State
from litellm_registry_hook.errors import StateError

log = logging.getLogger("litellm_registry_hook")
decided = logging.getLogger("litellm_registry_hook.decisions")
EVERY_S: Final = 0.25
RECENT: Final = 1000
# A worker serves a few hundred requests a second; the thread is never that far behind unless the state hangs.
BACKLOG: Final = 20_000
BATCH: Final = 500


class Records:
    """The decisions of one worker.

    Attributes:
        recent: the last thousand.
        lost: how many never came into the state.
        count: told of each; turn: called four times a second. Both on the thread, for metrics.

    """

    def __init__(self, state: State | None) -> None:
        self.state = state
        self.count: Callable[[Decision], None] = lambda _one: None
        self.turn: Callable[[], None] = lambda: None
        self.recent: deque[Decision] = deque(maxlen=RECENT)
        self.lost = 0
        self._ended: deque[tuple[Any, ...]] = deque(maxlen=BACKLOG)
        self._unwritten: deque[Decision] = deque()
        self._writing = threading.Lock()
        self._state_ok = True

    def start(self) -> None:
        """Start the thread; it ends with the process, which writes what is left."""
        threading.Thread(target=self._run, name="registry-decisions", daemon=True).start()
        atexit.register(self.flush)

    def add(self, scope: Scope) -> None:
        """Note a request that has ended; on the event loop."""
        if not (scope.hooked or scope.served or scope.refusal is not None):
            # LiteLLM has turned it away before any gate saw it: no key, no such route.
            return
        self._ended.append(
            (
                time(),
                monotonic() - scope.began,
                scope.request_id,
                scope.where,
                scope.asked,
                scope.tier,
                scope.caller,
                scope.served,
                scope.deployments,
                scope.skipped,
                scope.refusal if not scope.served else None,
                scope.status,
                scope.wait_s,
            )
        )

    def flush(self) -> None:
        """Write down what has ended; safe to call from any thread but the event loop's."""
        with self._writing:
            self._gather()
            while self._unwritten and self._write():
                pass

    def find(
        self, request_id: str | None, since: datetime | None, limit: int | None
    ) -> tuple[list[Decision], str | None]:
        """Return decisions, the newest first, and why they are this worker's alone; None where they are everybody's."""
        self.flush()
        gone = "there is no state"
        if self.state is not None:
            try:
                return self.state.decisions(request_id, since, limit), None
            except StateError as error:
                gone = str(error)
        mine = [
            one
            for one in reversed(self.recent)
            if request_id in {None, one.request_id} and (since is None or one.at >= since)
        ]
        return mine[:limit], gone

    def _run(self) -> None:
        pause = threading.Event()
        while not pause.wait(EVERY_S):
            try:
                if self._ended or self._unwritten:
                    self.flush()
                self.turn()
            except Exception:  # noqa: PERF203  the loop must not end
                log.exception("the decisions of some requests are lost")
                with self._writing:
                    self.lost += len(self._unwritten)
                    self._unwritten.clear()

    def _gather(self) -> None:
        while self._ended:
            one = _decision(*self._ended.popleft())
            self.recent.append(one)
            self.count(one)
            self._unwritten.append(one)
            if decided.isEnabledFor(logging.INFO):
                decided.info("%s", line_of(one))

    def _write(self) -> bool:
        """Write one batch; False where the state cannot be used: then the last thousand wait for it."""
        batch = [self._unwritten[number] for number in range(min(BATCH, len(self._unwritten)))]
        if self.state is not None:
            try:
                self.state.append_decisions(batch)
            except StateError as error:
                if self._state_ok:
                    log.warning("%s; decisions are logged, and kept by this worker alone", error)
                self._state_ok = False
                while len(self._unwritten) > RECENT:
                    self._unwritten.popleft()
                    self.lost += 1
                return False
        self._state_ok = True
        for _ in batch:
            self._unwritten.popleft()
        return True


def _decision(  # noqa: PLR0917  as queued by Records.add
    ended: float,
    took: float,
    request_id: str,
    where: tuple[str, str],
    asked: str,
    tier: str | None,
    caller: Any,
    served: Sequence[str],
    deployments: Sequence[str],
    skipped: Sequence[Any],
    refusal: Any,
    status: int,
    wait_s: float,
) -> Decision:
    return Decision(
        at=datetime.fromtimestamp(round(ended - took, 3), timezone.utc),
        request_id=told(request_id),
        route=told(" ".join(where)),
        name=told(asked),
        tier=tier or "",
        alias=told(caller.alias) or (caller.kind if not caller.token else ""),
        key=short(caller.token),
        models=tuple(served),
        deployments=tuple(deployments),
        skipped=passed_over([(one.model, one.code, one.reason) for one in skipped]),
        code=refusal.code if refusal is not None else "",
        reason=why(refusal.message) if refusal is not None and not refusal.candidates else "",
        status=status or _of_socket(where[0], served, refusal),
        wait_s=wait_s,
        duration_ms=round(took * 1000, 1),
    )


def _of_socket(method: str, served: Sequence[str], refusal: Any) -> int:
    """Return the status of a WebSocket, which has none of its own: 101 where somebody served, else the refusal's."""
    if method != "WEBSOCKET":
        return 0
    return 101 if served else refusal.status if refusal is not None else 0


def show_decisions() -> None:
    """Print each decision as a bare line of JSON, unless the operator has configured this logger."""
    if decided.handlers or decided.level != logging.NOTSET:
        return
    printer = logging.StreamHandler()
    printer.setFormatter(logging.Formatter("%(message)s"))
    decided.addHandler(printer)
    decided.setLevel(logging.INFO)
    decided.propagate = False
