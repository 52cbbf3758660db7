"""What the tests of availability share: small registries, a small HTTP server, a virtual clock and a fleet on it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from strategies import model_entry, registry_of

from litellm_registry_hook.core.availability.facts import Facts, Reading
from litellm_registry_hook.core.availability.probes import Answer, Probe
from litellm_registry_hook.core.gpu.ports import Ledger, Row
from litellm_registry_hook.core.plan import Running
from litellm_registry_hook.core.registry import Model, Registry
from litellm_registry_hook.edges.store.database import Database
from litellm_registry_hook.edges.store.ledger import SqliteLedger
from litellm_registry_hook.errors import StateError
from litellm_registry_hook.watch.engine import Watch

NOON = 1772366400.0
"""2026-03-01 12:00:00 UTC."""
TWO_WINDOWS = [
    {"name": "5h", "field": "five.used", "resets_at_field": "five.resets"},
    {"name": "weekly", "field": "week.used", "resets_at_field": "week.resets"},
]


def gated(id: str = "sub", windows: list[dict[str, Any]] | None = None, **quota: Any) -> dict[str, Any]:
    """A quota-gated entry."""
    if not {"probe_command", "probe_file", "probe_url"} & set(quota):
        quota["probe_command"] = "usage"
    return model_entry(id, lifecycle="quota-gated", quota={"windows": windows or TWO_WINDOWS[:1], **quota})


def budgeted(id: str = "paid", limit: float = 20, **quota: Any) -> dict[str, Any]:
    """A cost-gated entry with a budget."""
    quota.setdefault("probe_command", "spend")
    return model_entry(id, metered=True, lifecycle="cost-gated", quota={"field": "spent", "limit": limit, **quota})


def served(id: str = "tei", *ports: int) -> dict[str, Any]:
    """An on-demand entry with servers on these ports."""
    endpoints = [
        {"api_base": f"http://127.0.0.1:{port}", "health_url": f"http://127.0.0.1:{port}/health"} for port in ports
    ]
    return model_entry(id, lifecycle="on-demand", endpoints=endpoints)


def one(entry: dict[str, Any], **routing: Any) -> tuple[Registry, Model]:
    """A registry of one model, and that."""
    registry = registry_of(entry, **routing)
    return registry, registry.models[0]


def facts_of(*readings: Reading, **more: Any) -> Facts:
    """Facts with these readings."""
    found: dict[str, dict[str, Reading]] = {}
    for reading in readings:
        found.setdefault(reading.model, {})[reading.window] = reading
    return Facts(readings=found, **more)


def target(model: Model, n: int = 0) -> Running:
    """A deployment of a model."""
    return Running(f"{model.id}@{n}", model, model.places[n].api_base if model.places else "")


@contextmanager
def http_server(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[str]:
    """A server on 127.0.0.1 whose GET does what `answer` does; gives its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self)

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/usage"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def says(body: str, status: int = 200, **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
    """An answer for http_server."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(body.encode())))
        handler.end_headers()
        handler.wfile.write(body.encode())

    return answer


def soon(holds: Callable[[], Any], within_s: float = 10.0) -> Any:
    """Wait until something holds, and return it; fail where it does not in time."""
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        found = holds()
        if found:
            return found
        time.sleep(0.01)
    raise AssertionError(f"it does not hold within {within_s:g} s")


class Clock:
    """Stands still unless moved."""

    def __init__(self, now: float = NOON) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class MemoryLedger:
    """The Ledger port in memory, on a clock of its own choice; can be told to be gone."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.gone = False
        self.kept: dict[tuple[str, str], Row] = {}
        self.seq = 0

    def take(
        self,
        kind: str,
        key: str,
        owner: str,
        ttl_s: float,
        *,
        data: Mapping[str, Any] | None = None,
        limit: int | None = None,
    ) -> bool:
        """See Ledger."""
        self._tidy()
        assert limit is None
        row = self.kept.get((kind, key))
        if row is not None and row.owner != owner:
            return False
        self.seq += 1
        kept = json.loads(json.dumps(dict(data))) if data is not None else row.data if row is not None else {}
        seq = row.seq if row is not None else self.seq
        self.kept[kind, key] = Row(kind, key, owner, kept, seq, self.clock() + ttl_s)
        return True

    def renew(self, kind: str, key: str, owner: str, ttl_s: float) -> bool:
        """See Ledger."""
        raise NotImplementedError

    def drop(self, kind: str, key: str, owner: str) -> None:
        """See Ledger."""
        self._tidy()
        if (kind, key) in self.kept and self.kept[kind, key].owner == owner:
            del self.kept[kind, key]

    def rows(self, *kinds: str) -> list[Row]:
        """See Ledger."""
        self._tidy()
        return [row for row in self.kept.values() if row.kind in kinds]

    def now(self) -> float:
        """See Ledger."""
        return self.clock()

    def _tidy(self) -> None:
        if self.gone:
            raise StateError("the state is gone")
        for name in [name for name, row in self.kept.items() if row.until <= self.clock()]:
            del self.kept[name]


class Fleet:
    """Workers that share a ledger, on a virtual clock.

    Attributes:
        answers: what each probe answers, by key; an Answer, JSON text, or a function of the moment.
        asked: (worker, key, moment) of each time a probe was asked. hanging: keys that do not come back.

    """

    def __init__(self, registry: Registry, ledger: str = "memory", workers: int = 3, **more: Any) -> None:
        """Start none of them yet; `ledger` is memory, none, or the path of a state file."""
        self.clock = Clock()
        self.registry = registry
        self.answers: dict[str, Any] = {}
        self.asked: list[tuple[str, str, float]] = []
        self.hanging: dict[str, list[Callable[[], None]]] = {}
        self.memory = MemoryLedger(self.clock)
        self.ledger: Ledger | None = self.memory
        if ledger != "memory":
            self.ledger = SqliteLedger(Database(Path(ledger)), self.clock) if ledger != "none" else None
        self.more = more
        self.workers: dict[str, Watch] = {}
        for n in range(workers):
            self.spawn(f"w{n}")
        self.dead: set[str] = set()

    def spawn(self, name: str) -> Watch:
        """Add a worker."""

        def ask(probe: Probe) -> Answer:
            self.asked.append((name, probe.key, self.clock()))
            found = self.answers.get(probe.key, Answer(error="nothing is set"))
            found = found(self.clock()) if callable(found) else found
            return found if isinstance(found, Answer) else Answer(found)

        def start(thread: str, work: Callable[[], None]) -> None:
            key = thread.removeprefix("probe-")
            if key in self.hanging:
                self.hanging[key].append(work)
            else:
                work()

        more = {"chance": lambda: 0.5, **self.more}
        watch = Watch(lambda: self.registry, self.ledger, self.clock, {}, ask=ask, start=start, worker=name, **more)
        self.workers[name] = watch
        return watch

    def run(self, seconds: float, every: float = 0.5) -> None:
        """Let time pass, each living worker stepping twice a second."""
        end = self.clock.now + seconds
        while self.clock.now < end - 1e-6:
            self.clock.now = min(end, self.clock.now + every)
            for name, watch in self.workers.items():
                if name not in self.dead:
                    watch.step()

    def __getitem__(self, name: str) -> Watch:
        return self.workers[name]

    def skips(self, model: Model, n: int = 0) -> list[str | None]:
        """What each living worker says of a model: a refusal's code, or None."""
        found = []
        for name, watch in self.workers.items():
            if name not in self.dead:
                skip = watch.usable(model, (target(model, n),))[1]
                found.append(skip.code if skip is not None else None)
        return found
