"""One worker's view of what is known, and how it is kept equal to that of the other workers.

The event loop reads `facts`, which is replaced as a whole, and writes what a call has taught at once, under a lock
that is held for microseconds. The watch's thread carries it to the ledger and back.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from typing import Final

from litellm_registry_hook.core.availability.facts import Circuit, Closure, Facts, Health, Reading
from litellm_registry_hook.core.availability.learn import lapsed, trial_due
from litellm_registry_hook.core.gpu.ports import Ledger, Row
from litellm_registry_hook.errors import StateError
from litellm_registry_hook.watch.rows import (
    CIRCUIT,
    CLOSURE,
    FLEET,
    HEALTH,
    LEASE,
    PLAN,
    READING,
    TRIAL,
    WORKER,
    Name,
    Value,
    data_of,
    life_of,
    name_of,
    value_in,
)

log = logging.getLogger("litellm_registry_hook")
# A permit is used in the first part of its life only: then the ledger knows of it before another worker may have one.
PERMIT_S: Final = 4.0
PERMIT_USE_S: Final = 2.5
ASIDE_S: Final = 3.0
ALIVE_S: Final = 10.0


class Board:
    """What one worker knows.

    Attributes:
        facts: what is known now; replaced as a whole.
        leases: live rows of probe leases, by key. plans: rows that say when a probe is asked again, by key.
        state_ok: whether the ledger could be used at the last sync.
        known: the models of the registry in force: a state may be shared by hosts whose registries differ.

    """

    def __init__(self, ledger: Ledger | None, worker: str, clock: Callable[[], float]) -> None:
        self.facts = Facts(permits=None if ledger is None else frozenset())
        self.leases: dict[str, Row] = {}
        self.plans: dict[str, Row] = {}
        self.state_ok = ledger is not None
        self.known: frozenset[str] | None = None
        self.ledger = ledger
        self.worker = worker
        self.clock = clock
        self.lock = threading.Lock()
        self._saved: dict[Name, Value] = {}
        # What is not in the ledger yet; None: to be dropped there. The number tells whether it has changed meanwhile.
        self._unsaved: dict[Name, tuple[int, Value | None]] = {}
        self._number = 0
        self._permits: dict[str, float] = {}
        self._aside: dict[str, float] = {}
        self._others = False
        self._alive_until = 0.0

    def get(self, name: Name) -> Value | None:
        """Return the value of a name, the newest."""
        if name in self._unsaved:
            return self._unsaved[name][1]
        return self._saved.get(name)

    def put(self, *values: Value) -> None:
        """Make values known, to the requests of this worker at once."""
        with self.lock:
            for value in values:
                self._change(name_of(value), value)
            self._publish()

    def drop(self, *names: Name) -> None:
        """Make values forgotten."""
        with self.lock:
            for name in names:
                if self.get(name) is not None:
                    self._change(name, None)
            self._publish()

    def swap(self, before: Closure | Circuit, after: Closure | Circuit) -> bool:
        """Replace a value unless it has changed meanwhile; False where it has."""
        with self.lock:
            if self.get(name_of(before)) != before:
                return False
            self._change(name_of(after), after)
            self._publish()
            return True

    def sync(self) -> None:
        """Carry what is new to the ledger, and read what the others have written. For the watch's thread."""
        if self.ledger is None:
            with self.lock:
                self._settle(dict(self._unsaved))
                self._publish()
            return
        with self.lock:
            waiting = dict(self._unsaved)
        try:
            written = self._write(self.ledger, waiting)
            self._live(self.ledger)
            rows = self.ledger.rows(READING, HEALTH, CLOSURE, CIRCUIT, LEASE, PLAN, WORKER)
            self._permit(self.ledger)
        except StateError as error:
            if self.state_ok:
                log.warning("%s; this worker watches the models' availability on its own until it is back", error)
            self.state_ok = False
            with self.lock:
                self._publish()
            return
        if not self.state_ok:
            log.info("the state is back; the workers share what they know of the models' availability")
        self.state_ok = True
        self.leases = {row.key: row for row in rows if row.kind == LEASE}
        self.plans = {row.key: row for row in rows if row.kind == PLAN}
        self._others = any(row.kind == WORKER and row.key != self.worker for row in rows)
        found = {(row.kind, row.key): value for row in rows if (value := value_in(row)) is not None}
        with self.lock:
            self._saved = found
            for name, number in written.items():
                if self._unsaved.get(name, (None,))[0] == number:
                    del self._unsaved[name]
            self._publish()

    def _change(self, name: Name, value: Value | None) -> None:
        self._number += 1
        self._unsaved[name] = (self._number, value)

    def _settle(self, done: dict[Name, tuple[int, Value | None]]) -> None:
        for name, (_, value) in done.items():
            self._unsaved.pop(name, None)
            if value is None:
                self._saved.pop(name, None)
            else:
                self._saved[name] = value
        now = self.clock()
        for name, value in list(self._saved.items()):
            if isinstance(value, Closure) and lapsed(value, now):
                del self._saved[name]

    def _write(self, ledger: Ledger, waiting: dict[Name, tuple[int, Value | None]]) -> dict[Name, int]:
        written = {}
        now = self.clock()
        for (kind, key), (number, value) in waiting.items():
            if value is None:
                if kind != CLOSURE or not self._newer(ledger, key):
                    ledger.drop(kind, key, FLEET)
            else:
                ledger.take(kind, key, FLEET, life_of(value, now), data=data_of(value))
            written[kind, key] = number
        return written

    def _newer(self, ledger: Ledger, key: str) -> bool:
        """Say whether another worker has closed it anew, which this one's success knew nothing of."""
        seen = self._saved.get((CLOSURE, key))
        found = next((value_in(row) for row in ledger.rows(CLOSURE) if row.key == key), None)
        since = seen.since if isinstance(seen, Closure) else 0.0
        return isinstance(found, Closure) and found.since > since

    def _live(self, ledger: Ledger) -> None:
        now = self.clock()
        if not now < self._alive_until - ALIVE_S / 2 <= now + ALIVE_S:
            ledger.take(WORKER, self.worker, self.worker, ALIVE_S)
            self._alive_until = now + ALIVE_S

    def _permit(self, ledger: Ledger) -> None:
        """Try to become the worker that makes the one trial of what is due."""
        now = self.clock()
        self._aside = {key: until for key, until in self._aside.items() if now < until <= now + ASIDE_S}
        for key, until in list(self._permits.items()):
            if not now < until <= now + PERMIT_USE_S:
                # Nobody asked for it here; another worker may be asked.
                del self._permits[key]
                ledger.drop(TRIAL, key, self.worker)
                if self._others:
                    self._aside[key] = now + ASIDE_S
        watched: list[Closure | Circuit] = [*self.facts.closures.values(), *self.facts.circuits.values()]
        for key in [name_of(one)[1] for one in watched if trial_due(one, now)]:
            if key not in self._permits and key not in self._aside and ledger.take(TRIAL, key, self.worker, PERMIT_S):
                self._permits[key] = now + PERMIT_USE_S

    def permitted(self, key: str) -> bool:
        """Say whether this worker may make the one trial now."""
        if self.facts.permits is None:
            return True
        return self.clock() < self._permits.get(key, 0.0)

    def _all(self) -> dict[Name, Value]:
        found = dict(self._saved)
        for name, (_, value) in self._unsaved.items():
            if value is None:
                found.pop(name, None)
            else:
                found[name] = value
        return found

    def _publish(self) -> None:
        permits = frozenset(self._permits) if self.ledger is not None and self.state_ok else None
        self.facts = facts_from(self._all().values(), self.clock(), self.known, permits)


def facts_from(
    values: Iterable[Value], now: float, known: frozenset[str] | None = None, permits: frozenset[str] | None = None
) -> Facts:
    """Sort values into facts, without closures that are over and readings of models that are not known here."""
    readings: dict[str, dict[str, Reading]] = {}
    health: dict[str, dict[str, Health]] = {}
    closures: dict[str, Closure] = {}
    circuits: dict[str, Circuit] = {}
    for value in values:
        if isinstance(value, (Reading, Health)) and known is not None and value.model not in known:
            continue
        if isinstance(value, Reading):
            readings.setdefault(value.model, {})[value.window] = value
        elif isinstance(value, Health):
            health.setdefault(value.model, {})[value.api_base] = value
        elif isinstance(value, Circuit):
            circuits[value.deployment] = value
        elif not lapsed(value, now):
            closures[value.key] = value
    return Facts(readings, health, closures, circuits, permits)


def look(ledger: Ledger, now: float) -> Facts:
    """Return what the workers know, for a program beside them; it probes and writes nothing.

    Raises:
        StateError: the state cannot be read.

    """
    rows = ledger.rows(READING, HEALTH, CLOSURE, CIRCUIT)
    return facts_from((value for row in rows if (value := value_in(row)) is not None), now)
