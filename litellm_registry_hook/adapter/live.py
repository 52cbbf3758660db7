"""What changes while the proxy runs: the registry file and the state, read twice a second by a thread of each worker.

The request path reads what is here and never a file. A broken edit leaves the last good registry in force.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Final

from litellm_registry_hook.core.audit import AuditRecord
from litellm_registry_hook.core.problems import Problem
from litellm_registry_hook.core.registry import Registry
from litellm_registry_hook.edges.registry_file import check_file, digest_of, report_line
from litellm_registry_hook.edges.registry_watch import RegistryWatch
from litellm_registry_hook.edges.store.port import State
from litellm_registry_hook.errors import StateError
from litellm_registry_hook.why.gather import ALIVE_S, IN_FORCE, File

log = logging.getLogger("litellm_registry_hook")
PERIOD_SECONDS: Final = 0.5
BEAT_EVERY: Final = 4


class Live:
    """The background of one worker.

    Attributes:
        state: the state; None where its address is of no use (then no metered calls).
        revoked: removed grants by token.
        broken: problems of the file as it stands now; empty while the last edit is in force.
        loaded_at: when the registry in force was loaded. digest: of its file, 12 hex digits.

    """

    def __init__(self, path: Path, state: State | None, replace: Callable[[Registry], None]) -> None:
        self.path = path
        self.state = state
        self.revoked: dict[str, frozenset[str]] = {}
        self.broken: tuple[Problem, ...] = ()
        self.loaded_at = datetime.now(timezone.utc)
        self.digest = digest_of(path)
        self._replace = replace
        self._watch = RegistryWatch(path)
        self._version: str | None = None
        self._ticks = 0
        self._looking = threading.Lock()
        self._state_ok = True
        self._records: queue.SimpleQueue[AuditRecord] = queue.SimpleQueue()

    def start(self) -> None:
        """Start the threads; they end with the process."""
        self.tick()
        threading.Thread(target=self._poll, name="registry-live", daemon=True).start()
        threading.Thread(target=self._write, name="registry-audit", daemon=True).start()

    def record(self, entry: AuditRecord) -> None:
        """Queue a record of the audit trail; a thread writes it at once."""
        self._records.put(entry)

    def tick(self) -> None:
        """Look once, and every other second tell the state that this worker is there."""
        self.look()
        if self.state is not None and self._state_ok and self._ticks % BEAT_EVERY == 0:
            worker = f"{os.uname().nodename}-{os.getpid()}"
            try:
                self.state.beat(worker, datetime.now(timezone.utc))
                self.state.ledger.take(IN_FORCE, worker, worker, ALIVE_S, data=self.file.as_data())
            except StateError as error:
                log.warning("%s", error)
        self._ticks += 1

    @property
    def file(self) -> File:
        """The registry file and what is in force of it."""
        lines = tuple(report_line(self.path, one) for one in self.broken if one.severity == "error")
        return File(str(self.path.absolute()), self.digest, self.loaded_at, lines)

    def look(self) -> None:
        """Read the file and the state where they have changed; safe to call from any thread."""
        with self._looking:
            if self._watch.changed():
                self._reload()
            if self.state is not None:
                self._read_state(self.state)

    def _poll(self) -> None:
        pause = threading.Event()
        while not pause.wait(PERIOD_SECONDS):
            try:
                self.tick()
            except Exception:  # noqa: PERF203  the loop must not end
                log.exception("the registry's background failed; it goes on")

    def _reload(self) -> None:
        registry, problems = check_file(self.path)
        if registry is None:
            self.broken = problems
            lines = "\n".join(report_line(self.path, one) for one in problems if one.severity == "error")
            log.error("the edit of %s is not in force, the registry before it is:\n%s", self.path, lines)
            return
        self.broken = ()
        self._replace(registry)
        self.loaded_at, self.digest = datetime.now(timezone.utc), digest_of(self.path)
        log.info("the edit of %s is in force", self.path)

    def _read_state(self, state: State) -> None:
        try:
            version = state.version()
            if version != self._version:
                self.revoked = state.revocations()
                self._version = version
        except StateError as error:
            if self._state_ok:
                log.error("%s; no metered calls until it is back", error)  # noqa: TRY400  the sentence says it all
            self._state_ok = False
            return
        if not self._state_ok:
            log.info("the state is back")
        self._state_ok = True

    def _write(self) -> None:
        while True:
            entry = self._records.get()
            if self.state is None:
                continue
            try:
                self.state.append_audit(entry)
            except Exception as error:  # noqa: BLE001  the thread must outlive whatever a record holds
                log.error("audit record lost: %s: %s", entry, error)  # noqa: TRY400
