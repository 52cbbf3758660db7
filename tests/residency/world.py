"""Several workers of a proxy and an Ollama on one virtual clock: no threads, no sleeps, every order of events on purpose."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ollama_sim.scheduler import Sim
from ollama_sim.things import SimModel, VirtualClock

from litellm_registry_hook.core.gpu.facts import (
    Gpu,
    HealthState,
    Loaded,
    ModelFile,
    Nvml,
    Server,
    Shape,
    Slot,
    Snapshot,
)
from litellm_registry_hook.core.gpu.names import full_name, slot_of
from litellm_registry_hook.core.gpu.pinning import load_keep_alive_of, options_of
from litellm_registry_hook.core.gpu.ports import Row
from litellm_registry_hook.core.gpu.verdict import No, Use, Want
from litellm_registry_hook.core.registry import Model, Registry
from litellm_registry_hook.errors import StateError
from litellm_registry_hook.residency.board import Board, Sources
from litellm_registry_hook.residency.desk import Desk
from litellm_registry_hook.residency.engine import stays_of
from litellm_registry_hook.residency.keeper import Keeper
from litellm_registry_hook.residency.ticket import Answer, Granted, Ticket
from litellm_registry_hook.residency.view import View

BASE = "http://127.0.0.1:11434"
TEI = "http://127.0.0.1:8080"
YEAR_S = 365 * 86400.0


class MemoryLedger:
    """The Ledger port in memory, on a given clock; `down` makes every call fail."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.table: dict[tuple[str, str], Row] = {}
        self.down = False
        self._seq = 0

    def _purge(self) -> None:
        if self.down:
            raise StateError("state memory: switched off by the test")
        now = self.clock()
        self.table = {at: row for at, row in self.table.items() if row.until > now}

    def take(
        self, kind: str, key: str, owner: str, ttl_s: float, *, data: Mapping[str, Any] | None = None,
        limit: int | None = None,
    ) -> bool:  # fmt: skip
        self._purge()
        had = self.table.get((kind, key))
        if had is not None and had.owner != owner:
            return False
        if limit is not None and sum(row.kind == kind and row.key != key for row in self.table.values()) >= limit:
            return False
        self._seq += 1
        kept = had.data if had is not None and data is None else json.loads(json.dumps(data or {}))
        seq = had.seq if had is not None else self._seq
        self.table[kind, key] = Row(kind, key, owner, kept, seq, self.clock() + ttl_s)
        return True

    def renew(self, kind: str, key: str, owner: str, ttl_s: float) -> bool:
        self._purge()
        had = self.table.get((kind, key))
        if had is None or had.owner != owner:
            return False
        self.table[kind, key] = Row(kind, key, owner, had.data, had.seq, self.clock() + ttl_s)
        return True

    def drop(self, kind: str, key: str, owner: str) -> None:
        self._purge()
        had = self.table.get((kind, key))
        if had is not None and had.owner == owner:
            del self.table[kind, key]

    def rows(self, *kinds: str) -> list[Row]:
        self._purge()
        return sorted((row for row in self.table.values() if row.kind in kinds), key=lambda row: row.seq)

    def now(self) -> float:
        return self.clock()


class SimEyes:
    """Reads a Sim as the edges read a server. `nvml`: None as the card says, else what the driver answers."""

    def __init__(self, sim: Sim) -> None:
        self.sim = sim
        self.nvml: Nvml | None = None
        self.gone = False
        self.looks = 0
        self.health: dict[str, HealthState] = {TEI: "up"}
        self._last: tuple[Loaded, ...] = ()
        self._read_at = 0.0

    def look(self, bases: Sequence[str] | None = None) -> Snapshot:
        self.looks += 1
        now = self.sim.clock()
        self.sim.step()
        cards = tuple(
            Gpu(card.uuid, number, card.name, card.total_mb, card.free_mb) for number, card in enumerate(self.sim.cards)
        )
        nvml = self.nvml or Nvml("ok", "ok", "", cards)
        state = "gone" if self.gone else "stalled" if self.sim.ps_blocked_until > now + 2.0 else "up"
        if state == "up":
            self._read_at = now
            self._last = tuple(
                Loaded(
                    full_name(one.name), one.model.blob_digest, one.size_mb, one.vram_mb,
                    None if one.expires_at - now > YEAR_S else one.expires_at, one.context,
                )
                for one in self.sim.ps()
            )  # fmt: skip
        version = tuple(int(part) for part in self.sim.version.split("."))
        loaded = () if self.gone else self._last
        server = Server(BASE, state, state if state != "up" else "", version, loaded, self._read_at, self._files())
        return Snapshot(now, nvml, {BASE: server}, dict(self.health))

    def _files(self) -> dict[str, ModelFile]:
        return {full_name(model.name): file_of(model) for model in self.sim.models}


def file_of(model: SimModel) -> ModelFile:
    shape = Shape(model.layers, model.heads, model.kv_heads, model.width, model.embedding, model.train_ctx)
    return ModelFile(full_name(model.name), model.blob_digest, model.file_mb, model.blob_digest, shape)


class SimStarter:
    """Loads and unloads in the Sim; what has ended is told at the next `tell`."""

    def __init__(self, sim: Sim) -> None:
        self.sim = sim
        self.open: list[tuple[Any, Callable[[str | None], None]]] = []
        self.dead = False
        self.unloaded: list[str] = []

    def load(self, want: Want, done: Callable[[str | None], None]) -> None:
        assert want.model is not None
        ticket = self.sim.begin(name_of(want.slot), load_keep_alive_of(want.model), options_of(want.model))
        self.open.append((ticket, done))

    def unload(self, want: Want, done: Callable[[str | None], None]) -> None:
        self.unloaded.append(name_of(want.slot))
        self.sim.unload(name_of(want.slot))
        self.open.append((None, done))

    def tell(self) -> None:
        for ticket, done in list(self.open):
            if ticket is not None and ticket.state in ("queued", "loading"):
                continue
            self.open.remove((ticket, done))
            error = None
            if ticket is not None:
                if ticket.state == "running":
                    self.sim.finish(ticket)
                else:
                    error = f"ollama answered {ticket.status}: {ticket.error}"
            done(error)

    def die(self) -> None:
        """The process is killed: its connections close."""
        for ticket, _ in self.open:
            if ticket is not None and ticket.state in ("queued", "loading", "running"):
                self.sim.cancel(ticket)
        self.open.clear()
        self.dead = True


def name_of(slot: Slot) -> str:
    return slot.name.removeprefix("registry.ollama.ai/library/")


@dataclass(eq=False)
class Request:
    """One request through the proxy.

    Attributes:
        want: its model. worker: who has it. answer: what the gate said; None while it waits.
        call: its call at the Ollama; None before.
        ended: it is over.

    """

    want: Want
    worker: Worker
    came: float
    answer: Answer | None = None
    call: Any = None
    ended: bool = False
    ticket: Ticket | None = None
    fast: bool = False
    granted_at: float | None = None


@dataclass(eq=False)
class Worker:
    """One worker process."""

    name: str
    view: View
    board: Board
    desk: Desk
    keeper: Keeper
    starter: SimStarter
    due: float = 0.0
    alive: bool = True
    requests: list[Request] = field(default_factory=list)


class World:
    """Workers, their shared state, and one Ollama server."""

    def __init__(self, registry: Mapping[str, Any], sim: Sim, workers: int = 1, *, keep: bool = True) -> None:
        self.registry = Registry.model_validate(copy.deepcopy(dict(registry)))
        self.sim = sim
        assert isinstance(sim.clock, VirtualClock)
        self.clock: VirtualClock = sim.clock
        self.ledger = MemoryLedger(self.clock)
        self.eyes = SimEyes(sim)
        self.keep = keep
        self.workers: list[Worker] = []
        # Calls that reached the server while their model was not loaded: the gate was wrong.
        self.cold: list[Request] = []
        self.uses: dict[Use, Want] = {}
        for model in self.registry.models:
            if model.on_ollama:
                want = Want(model, slot_of(model, BASE))
                self.uses[want.use] = want
        for _ in range(workers):
            self.spawn()

    def spawn(self) -> Worker:
        """Start a worker."""
        view = View(self.clock)
        starter = SimStarter(self.sim)
        name = f"w{len(self.workers)}"
        board = Board(Sources(lambda: self.registry, lambda: self.uses, self.eyes, self.ledger), view, name)
        desk = Desk(board, starter)
        worker = Worker(name, view, board, desk, Keeper(board, desk, starter), starter)
        self.workers.append(worker)
        return worker

    def kill(self, worker: Worker) -> None:
        """kill -9: nothing is cleaned up but what the kernel closes."""
        worker.alive = False
        worker.starter.die()
        for request in worker.requests:
            if request.call is not None and not request.ended:
                self.sim.cancel(request.call)
            request.ended = True

    def want(self, model_id: str) -> Want:
        return next(want for use, want in self.uses.items() if use.model == model_id)

    # -- time ---------------------------------------------------------------------------------------------------------

    def run(self, seconds: float) -> None:
        """Let time pass; workers step when they are due, the server when something happens in it."""
        end = self.clock() + seconds
        self._steps()
        while True:
            moments = [worker.due for worker in self.workers if worker.alive]
            if self.sim.next_at is not None:
                moments.append(self.sim.next_at)
            soonest = min((max(at, self.clock()) for at in moments), default=end)
            if soonest > end:
                break
            # Never the same moment for ever: a step that wants to run at once still costs a millisecond.
            self.sim.advance(max(soonest, self.clock() + 0.001))
            self._steps()
        self.sim.advance(end)
        self._steps()

    def _steps(self) -> None:
        for worker in self.workers:
            if worker.alive:
                worker.starter.tell()
                worker.due = self.clock() + worker.desk.step()
                if self.keep:
                    worker.keeper.step()
                self._serve(worker)

    def _serve(self, worker: Worker) -> None:
        for request in worker.requests:
            if isinstance(request.answer, Granted) and request.call is None and not request.ended:
                self._call(request)

    # -- requests -----------------------------------------------------------------------------------------------------

    def ask(self, model_id: str, worker: int = 0, wait_s: float = 0.0) -> Request:
        """Send a request for a model: what `Residency.enter` does, without its event loop."""
        return self._ask(self.want(model_id), self.workers[worker], wait_s)

    def _ask(self, want: Want, worker: Worker, wait_s: float) -> Request:
        now = self.clock()
        request = Request(want, worker, now)
        worker.requests.append(request)
        if worker.view.enter(want.use):
            request.answer = Granted(0, want.slot)
            request.fast = True
            self._call(request)
            return request

        def answered(answer: Answer) -> None:
            if isinstance(answer, Granted):
                worker.view.take_over(answer.slot, wanted=not request.ended)
            request.answer = answer
            request.granted_at = self.clock()

        until = now + wait_s if wait_s else None
        request.ticket = Ticket((want,), answered, came=now, deadline=now + 600.0, wait_until=until)
        worker.desk.submit(request.ticket)
        worker.due = now
        return request

    def _call(self, request: Request) -> None:
        model = request.want.model
        assert isinstance(model, Model)
        # What the deployment hook puts into each call (residency/runners.py).
        request.call = self.sim.begin(name_of(request.want.slot), load_keep_alive_of(model), options_of(model))
        if request.call.state != "running":
            self.cold.append(request)

    def finish(self, request: Request) -> None:
        """Its answer has gone out."""
        if request.ended:
            return
        request.ended = True
        if request.call is not None:
            if request.call.state == "running":
                self.sim.finish(request.call)
            else:
                self.sim.cancel(request.call)
            request.worker.view.leave(request.want.use, stays_of(request.want))

    def hang_up(self, request: Request) -> None:
        """Its client goes away."""
        if request.call is not None:
            self.finish(request)
            return
        request.ended = True
        if request.ticket is not None:
            request.worker.desk.cancel(request.ticket)
            request.worker.due = self.clock()

    def serve(self, model_id: str, worker: int = 0, wait_s: float = 0.0, for_s: float = 1.0) -> Request:
        """Send a request and let it run to its end."""
        request = self.ask(model_id, worker, wait_s)
        for _ in range(400):
            if request.answer is not None and not (isinstance(request.answer, Granted) and request.call is None):
                break
            self.run(0.1)
        if isinstance(request.answer, Granted):
            self.run(for_s)
            self.finish(request)
        return request


def reason(request: Request) -> str:
    """Return why a request was refused."""
    assert isinstance(request.answer, tuple), request.answer
    no = request.answer[0]
    assert isinstance(no, No)
    return f"{no.code}: {no.reason}"


def claims(world: World) -> list[str]:
    """Return the loads that are booked, by name."""
    return [row.key.rpartition("/")[2] for row in world.ledger.rows("gpu-claim")]
