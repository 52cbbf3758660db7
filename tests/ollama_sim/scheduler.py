"""Ollama's scheduler as a deterministic state machine on an injected clock: no threads, no sleeps, no I/O.

    clock = VirtualClock()
    sim = Sim("0.33.0", [Card(8192)], [SimModel("gemma3:4b", 3184, 3300, ...)], clock)
    ticket = sim.begin("gemma3:4b", keep_alive="5m", options={"num_ctx": 4096})
    sim.advance(clock() + 2)            # the load takes its time
    assert ticket.state == "running"
    sim.finish(ticket)

Numbers S1 to S18 name the rules of the facts about Ollama 0.33. Two loops as in the server: one takes requests in order
and loads or waits for an unload, one works off finished requests and expired models and stands still while it waits for
an unloaded model's memory.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from litellm_registry_hook.demo.keep_alive import FOREVER_S, keep_alive_seconds
from litellm_registry_hook.demo.ollama_names import key, shortest
from ollama_sim.placement import Plan, forecast, place
from ollama_sim.rules import (
    DEFAULT_BATCH,
    MIN_CTX,
    POLL_S,
    RECOVERED,
    RECOVERY_LIMIT_S,
    RUNNERS_PER_GPU,
    default_context,
    lower_context,
    rules_of,
)
from ollama_sim.things import Card, Event, Load, PsEntry, Runner, Settings, SimModel, Ticket, VirtualClock, Wanted

BUSY = "server busy, please try again.  maximum pending requests exceeded"
OOM = "llama runner process has terminated: cudaMalloc failed: out of memory"
STARTED_WITH = ("main_gpu", "use_mmap", "num_thread", "shift")
STEPS = 4  # a load takes its memory in so many equal parts
TINY_MB = 1e-6


class Sim:
    """One Ollama server's scheduler.

    Attributes:
        version, rules: of Ollama. cards: its GPUs. settings: its environment.
        events: all that happened, oldest first.
        ps_blocked_until: /api/ps answers no earlier than this (S8); `ps` itself never waits.

    """

    def __init__(
        self,
        version: str = "0.33.0",
        cards: Sequence[Card] = (),
        models: Iterable[SimModel] = (),
        clock: Callable[[], float] | None = None,
        settings: Settings | None = None,
    ) -> None:
        self.version = version
        self.rules = rules_of(version)
        self.cards = list(cards)
        self.settings = settings or Settings()
        self.clock = clock or VirtualClock()
        self.events: list[Event] = []
        self.ps_blocked_until = 0.0
        self._models = {key(model.name): model for model in models}
        self._at = self.clock()
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._count = itertools.count()
        self._queue: deque[Ticket] = deque()
        self._active: Ticket | None = None
        self._job: tuple[Ticket, Runner] | None = None
        self._loaded: dict[str, Runner] = {}
        self._lane: deque[tuple[str, Any]] = deque()
        self._recovering: Runner | None = None
        self._unloads_to_come = 0
        self._faults: dict[str, list[tuple[str, bool]]] = {}

    # -- time ---------------------------------------------------------------------------------------------------------

    @property
    def next_at(self) -> float | None:
        """The moment of the next thing that happens by itself; None: nothing will."""
        return self._due[0][0] if self._due else None

    def step(self) -> None:
        """Let happen what is due by the clock, each thing at its own moment."""
        now = self.clock()
        while self._due and self._due[0][0] <= now:
            at, _, action = heapq.heappop(self._due)
            self._at = max(self._at, at)
            action()
        self._at = max(self._at, now)

    def advance(self, to: float) -> None:
        """Move a VirtualClock to a moment, stopping at all that happens on the way."""
        while self.next_at is not None and self.next_at <= to:
            self.clock.move(self.next_at)
            self.step()
        self.clock.move(to)
        self.step()

    def settle(self, limit_s: float = 3600.0) -> None:
        """Move a VirtualClock until no request waits or loads and no memory is on its way back."""
        end = self.clock() + limit_s
        while self._active or self._queue or self._recovering or self._lane or self._leaving():
            if self.next_at is None or self.next_at > end:
                return
            self.advance(self.next_at)

    def put(self, model: SimModel) -> None:
        """Add a model to the disk, or replace it; what is loaded stays."""
        self._models[key(model.name)] = model

    # -- requests -----------------------------------------------------------------------------------------------------

    def begin(self, name: str, keep_alive: Any = None, options: Mapping[str, Any] | None = None) -> Ticket:
        """Ask for a model; the ticket is running when it is loaded. Without keep_alive the model's own is kept.

        Raises:
            ValueError: a keep_alive that Ollama cannot read.

        """
        self.step()
        keep_s = keep_alive_seconds(keep_alive)
        model = self._models.get(key(name))
        if model is None:
            ticket = Ticket(name, None, keep_s, None, self._at)
            return self._fail(ticket, 404, f"model '{name}' not found")
        ticket = Ticket(name, model, keep_s, self.wanted(model, options or {}), self._at)
        runner = self._loaded.get(model.blob_digest)
        if runner is not None and not runner.loading and not self._needs_reload(runner, ticket.wanted):
            self._use(runner, ticket)  # S16: round the queue
        elif len(self._queue) >= self.settings.max_queue:
            self._say("refused", model, BUSY)
            self._fail(ticket, 503, BUSY)
        else:
            self._queue.append(ticket)
            self._pump()
        return ticket

    def finish(self, ticket: Ticket) -> None:
        """End a running request; nothing where it ended before.

        Raises:
            ValueError: it does not run yet.

        """
        self.step()
        if ticket.state in ("queued", "loading"):
            raise ValueError(f"{ticket.name} is {ticket.state}: only a running request can finish")
        if ticket.state == "running":
            self._end(ticket, "done")

    def cancel(self, ticket: Ticket) -> None:
        """The client hangs up: a load of its own is aborted (S16), a place in the queue is given up."""
        self.step()
        if ticket.state == "running":
            self._end(ticket, "cancelled")
        elif ticket.state == "loading":
            assert self._job is not None
            _, runner = self._job
            self._job = self._active = None
            self._loaded.pop(runner.model.blob_digest, None)  # there only by the older rules
            self._say("load_aborted", runner.model, "client connection closed")
            self._give_back(runner)
            ticket.ended_at = self._at
            ticket.to("cancelled")
            self._pump()
        elif ticket.state == "queued":
            ticket.ended_at = self._at
            ticket.to("cancelled")

    def unload(self, name: str) -> None:
        """An empty prompt with keep_alive 0: leaves now, or when its requests have ended."""
        self.step()
        model = self._models.get(key(name))
        runner = self._loaded.get(model.blob_digest) if model else None
        if runner is not None and not runner.loading:
            runner.expires_at = self._at
            self._expire(runner, "asked")
            self._drain()

    # -- what is injected ---------------------------------------------------------------------------------------------

    def foreign(self, card: int, mb: float, who: str = "foreign") -> None:
        """Set what another process holds of a card."""
        self.step()
        self.cards[card].hold(who, mb)

    def stall(self, until: float) -> None:
        """Let /api/ps answer no earlier than a moment; 0 ends it."""
        self.ps_blocked_until = until if until else 0.0

    def fail_next_load(self, name: str, error: str = OOM, *, oom: bool = True, times: int = 1) -> None:
        """Let the next loads of a model end badly, whatever memory there is."""
        self._faults.setdefault(key(name), []).extend([(error, oom)] * times)

    def runtime_oom(self, name: str) -> None:
        """A loaded model runs out of memory at work: its requests fail; from 0.30 on every model expires (S4)."""
        self.step()
        hit = self._loaded[self._models[key(name)].blob_digest]
        self._say("runtime_oom", hit.model)
        for runner in list(self._loaded.values()) if self.rules.oom_evicts_all else [hit]:
            self._expire(runner, "runtime_oom", shortest(hit.model.name))
        for ticket in sorted(hit.tickets, key=lambda one: one.began_at):
            ticket.status, ticket.error = 500, OOM
            self._end(ticket, "failed")
        self._drain()

    def restart(self) -> None:
        """The server is started anew: nothing is loaded, every connection broke, its memory is free."""
        self.step()
        tickets = [*self._queue, *([self._active] if self._active else [])]
        tickets += [ticket for runner in self._loaded.values() for ticket in runner.tickets]
        for card in self.cards:
            for holder in [holder for holder in card.uses if isinstance(holder, tuple) and holder[0] is self]:
                card.hold(holder, 0)
        for holding in (self._due, self._queue, self._loaded, self._lane, self._faults):
            holding.clear()
        self._active = self._job = self._recovering = None
        self._unloads_to_come = 0
        self.ps_blocked_until = 0.0
        self.events.append(Event(self._at, "restart", ""))
        for ticket in tickets:
            if ticket.state != "cancelled":
                self._fail(ticket, 0, "connection closed")

    # -- what shows ---------------------------------------------------------------------------------------------------

    def ps(self) -> list[PsEntry]:
        """Return what /api/ps lists, the longest remaining first."""
        self.step()
        shown = [self._entry(runner) for runner in self._loaded.values()]
        return sorted(shown, key=lambda entry: (-entry.expires_at, entry.name))

    def names(self) -> list[str]:
        """Return the names in /api/ps, sorted."""
        return sorted(entry.name for entry in self.ps())

    @property
    def models(self) -> list[SimModel]:
        """What is on disk."""
        return list(self._models.values())

    def model(self, name: str) -> SimModel | None:
        """Return the model of a name, in any spelling."""
        return self._models.get(key(name))

    def runner(self, name: str) -> Runner | None:
        """Return the runner of a loaded model."""
        model = self._models[key(name)]
        return self._loaded.get(model.blob_digest)

    def used_mb(self, card: int = 0) -> float:
        """Return what is held of a card, by anybody."""
        self.step()
        return self.cards[card].used_mb

    def predict_mb(self, name: str, options: Mapping[str, Any] | None = None) -> float:
        """Return the size the server expects a load to have."""
        model = self._models[key(name)]
        wanted = self.wanted(model, options or {})
        fixed = self.settings.auto_num_batch
        return forecast(self.rules, model, wanted, self._tokens(model, wanted), self.free_mb, fixed).predicted_mb

    @property
    def free_mb(self) -> list[float]:
        """The free memory of each card as the server takes it (S10)."""
        own = [sum(runner.shares.get(i, 0.0) for runner in self._loaded.values()) for i in range(len(self.cards))]
        return [max(0.0, min(card.free_mb, card.total_mb - own[i])) for i, card in enumerate(self.cards)]

    @property
    def waiting(self) -> int:
        """Requests that wait in the queue; the one that loads, or waits for an unload, is not among them."""
        return sum(ticket.state == "queued" for ticket in self._queue)

    @property
    def max_loaded(self) -> int:
        """How many may be loaded (S2)."""
        return self.settings.max_loaded or RUNNERS_PER_GPU * max(1, len(self.cards))

    # -- what happened ------------------------------------------------------------------------------------------------

    def said(self, *kinds: str) -> list[Event]:
        """Return the events of these kinds."""
        return [event for event in self.events if event.kind in kinds]

    @property
    def ooms(self) -> int:
        """Times that something ran out of memory."""
        return len(self.said("oom", "runtime_oom"))

    @property
    def evictions(self) -> list[Event]:
        """Models that the server pushed out by its own decision, reloads of the same model among them (why reload)."""
        return self.said("evict")

    def left(self, name: str) -> list[Event]:
        """Return each time a model left memory, for whatever reason."""
        return [event for event in self.said("evict", "expire") if key(event.model) == key(name)]

    @property
    def loads(self) -> list[Load]:
        """Every load, in order."""
        found: list[Load] = []
        for event in self.said("load_begin", "load_end", "load_failed", "load_aborted", "oom", "restart"):
            if event.kind == "load_begin":
                found.append(Load(event.model, event.at))
            elif found and found[-1].ok is None:
                found[-1] = Load(found[-1].model, found[-1].begin, event.at, event.kind == "load_end")
        return found

    # -- the loop of requests -----------------------------------------------------------------------------------------

    def _pump(self) -> None:
        while self._active is None and self._queue:
            ticket = self._queue.popleft()
            if ticket.state == "queued":
                self._active = ticket
                self._schedule()

    def _schedule(self) -> None:
        """Decide about the request at the head; called again after each unload while it waits for one."""
        ticket = self._active
        assert ticket is not None and ticket.model is not None and ticket.wanted is not None
        if ticket.state == "cancelled":
            self._active = None
            return
        runner = self._loaded.get(ticket.model.blob_digest)
        if runner is not None and not self._needs_reload(runner, ticket.wanted):
            self._active = None
            self._use(runner, ticket)
            return
        if runner is not None:
            victim, why = runner, "reload"
        elif len(self._loaded) >= self.max_loaded:
            victim, why = self._victim(), "count"
        else:
            first = not self._loaded
            tokens = self._tokens(ticket.model, ticket.wanted)
            fixed = self.settings.auto_num_batch
            args = (self.rules, ticket.model, ticket.wanted, tokens, self.free_mb)
            plan = place(*args, first=first, fixed_batch=fixed)
            if plan is not None:
                self._load(ticket, plan)
                return
            victim, why = self._victim(), "fit"
        self._unloads_to_come = 1
        self._expire(victim, why, shortest(ticket.name))
        self._drain()

    def _victim(self) -> Runner:
        """S3: idle first, then the shortest keep_alive, then the blob's path. Not the least recently used."""
        found = sorted(self._loaded.values(), key=lambda one: (one.session_s, one.model.blob_digest))
        return next((runner for runner in found if not runner.refs), found[0])

    def _needs_reload(self, runner: Runner, wanted: Wanted) -> bool:
        has, exempt = runner.wanted, self.rules.auto_exempt  # S6
        if wanted.num_ctx != has.num_ctx and not (exempt and wanted.auto_ctx and has.auto_ctx):
            return True
        if wanted.num_batch != has.num_batch and not (exempt and wanted.auto_batch and has.auto_batch):
            return True
        return (wanted.num_gpu not in (-1, has.num_gpu)) or wanted.rest != has.rest

    def _tokens(self, model: SimModel, wanted: Wanted) -> int:
        return wanted.num_ctx * (1 if model.embedding else self.settings.parallel)

    def wanted(self, model: SimModel, options: Mapping[str, Any]) -> Wanted:
        """Return the runner options of a request: its own, the Modelfile's, the defaults."""
        given = {**model.params, **options}
        total = sum(card.total_mb for card in self.cards)
        auto_ctx = not isinstance(given.get("num_ctx"), int)
        num_ctx = default_context(self.rules, total) if auto_ctx else max(MIN_CTX, given["num_ctx"])
        auto_batch = not isinstance(given.get("num_batch"), int)
        num_gpu = given.get("num_gpu")
        return Wanted(
            num_ctx=min(num_ctx, model.train_ctx),
            auto_ctx=auto_ctx,
            num_batch=DEFAULT_BATCH if auto_batch else given["num_batch"],
            auto_batch=auto_batch,
            num_gpu=num_gpu if isinstance(num_gpu, int) and num_gpu >= 0 else -1,
            rest=tuple((name, given[name]) for name in STARTED_WITH if given.get(name) is not None),
        )

    # -- loading ------------------------------------------------------------------------------------------------------

    def _load(self, ticket: Ticket, plan: Plan) -> None:
        model = ticket.model
        runner = Runner(model, replace(ticket.wanted, num_batch=plan.num_batch), plan.shares, plan.cpu_mb)
        self._job = job = (ticket, runner)
        self._say("load_begin", model)
        self.ps_blocked_until = max(self.ps_blocked_until, self._at + self.settings.spawn_s)
        if self.rules.loading_in_ps:
            runner.session_s = self.settings.keep_alive_s if ticket.keep_s is None else ticket.keep_s
            runner.refs = 1
            self._loaded[model.blob_digest] = runner
        took = self.settings.load_s if model.load_s is None else model.load_s
        for part in range(1, STEPS + 1):
            self._later(took * part / STEPS, lambda part=part: self._climb(job, part))
        ticket.to("loading")

    def _climb(self, job: tuple[Ticket, Runner], part: int) -> None:
        if self._job is not job:
            return
        ticket, runner = job
        faults = self._faults.get(key(runner.model.name))
        if faults:
            self._load_fails(job, *faults.pop(0))
            return
        for index, share in runner.shares.items():
            card, want = self.cards[index], share * part / STEPS
            if card.free_mb + TINY_MB < want - card.uses.get(self._holder(runner), 0.0):
                self._load_fails(job, OOM, oom=True)
                return
            card.hold(self._holder(runner), want)
        if part == STEPS:
            self._ready(ticket, runner)

    def _ready(self, ticket: Ticket, runner: Runner) -> None:
        self._job = self._active = None
        runner.session_s = self.settings.keep_alive_s if ticket.keep_s is None else ticket.keep_s
        runner.refs, runner.loading = 1, False
        runner.tickets.add(ticket)
        self._loaded[runner.model.blob_digest] = runner
        self._say("load_end", runner.model)
        ticket.runner, ticket.running_at = runner, self._at
        ticket.to("running")
        self._pump()

    def _load_fails(self, job: tuple[Ticket, Runner], error: str, oom: bool) -> None:
        ticket, runner = job
        self._job = None
        self._loaded.pop(runner.model.blob_digest, None)  # there only by the older rules
        self._let_go(runner)  # the process has died
        self._say("oom" if oom else "load_failed", runner.model, error)
        if oom and self.rules.oom_evicts_all and not ticket.retried and self._eased(ticket):
            return
        self._active = None
        self._fail(ticket, 500, error)
        self._pump()

    def _eased(self, ticket: Ticket) -> bool:
        """S4: let go of all others, and of a long automatic context; whether there was either, so a second try is due."""
        assert ticket.wanted is not None
        lower = lower_context(ticket.wanted.num_ctx) if ticket.wanted.auto_ctx else None
        if lower is None and not self._loaded:
            return False
        ticket.retried = True
        ticket.to("queued")
        if lower is not None:
            ticket.wanted = replace(ticket.wanted, num_ctx=lower)
        self._unloads_to_come = len(self._loaded)
        for other in list(self._loaded.values()):
            self._expire(other, "oom", shortest(ticket.name))
        if self._unloads_to_come:
            self._drain()
        else:
            self._schedule()
        return True

    # -- the loop of what ends ----------------------------------------------------------------------------------------

    def _use(self, runner: Runner, ticket: Ticket) -> None:
        runner.refs += 1
        runner.timer += 1
        runner.tickets.add(ticket)
        if ticket.keep_s is not None:  # S5: the last writer wins
            runner.session_s = ticket.keep_s
            if not runner.doomed:
                runner.why = runner.by = ""
        self._say("use", runner.model)
        ticket.runner, ticket.running_at = runner, self._at
        ticket.to("running")

    def _end(self, ticket: Ticket, state: Any) -> None:
        ticket.ended_at = self._at
        assert ticket.runner is not None
        self._say("finish", ticket.runner.model)
        ticket.runner.tickets.discard(ticket)
        ticket.to(state)
        self._lane.append(("finish", ticket.runner))
        self._drain()

    def _expire(self, runner: Runner, why: str, by: str = "") -> None:
        """Let a runner leave as soon as it is idle."""
        runner.session_s = 0.0
        runner.timer += 1
        runner.why, runner.by = why, by
        if runner.refs <= 0:
            self._lane.append(("expire", runner))

    def _drain(self) -> None:
        while self._lane and self._recovering is None:
            what, runner = self._lane.popleft()
            if what == "finish":
                runner.refs -= 1
                self._idle(runner)
            elif self._loaded.get(runner.model.blob_digest) is runner:
                if runner.refs > 0:
                    runner.doomed = True
                else:
                    self._leave(runner)

    def _idle(self, runner: Runner) -> None:
        if runner.refs > 0 or self._loaded.get(runner.model.blob_digest) is not runner:
            return
        if runner.doomed or runner.session_s <= 0:
            self._lane.append(("expire", runner))
            return
        runner.timer += 1
        runner.expires_at = self._at + runner.session_s
        if runner.session_s < FOREVER_S:  # S17
            token = runner.timer
            self._later(runner.session_s, lambda: self._timer(runner, token))

    def _timer(self, runner: Runner, token: int) -> None:
        if runner.timer == token:
            runner.why = runner.why or "keep_alive"
            self._lane.append(("expire", runner))
            self._drain()

    def _leave(self, runner: Runner) -> None:
        """Unload: out of /api/ps at once, the memory later (S8, S9)."""
        del self._loaded[runner.model.blob_digest]
        why = runner.why or "keep_alive"
        self._say("expire" if why in ("keep_alive", "asked") else "evict", runner.model, why, runner.by)
        self.ps_blocked_until = max(self.ps_blocked_until, self._at + self.settings.exit_s)
        self._recovering = runner
        before = self._reported()
        self._give_back(runner)
        if runner.shares:
            self._later(POLL_S, lambda: self._poll(runner, before, 1))
        else:
            self._later(0.0, lambda: self._gone(runner))

    def _reported(self) -> float:
        return sum(card.free_mb for card in self.cards)

    def _poll(self, runner: Runner, before: float, polls: int) -> None:
        if self._recovering is not runner:
            return
        risen = self._reported() - before
        # Less than before counts as all of it: the server's difference of two unsigned numbers wraps around.
        if risen < 0 or risen > RECOVERED * runner.vram_mb or polls * POLL_S >= RECOVERY_LIMIT_S:
            self._gone(runner)
        else:
            self._later(POLL_S, lambda: self._poll(runner, before, polls + 1))

    def _gone(self, runner: Runner) -> None:
        if self._recovering is not runner:
            return
        self._recovering = None
        self._unloads_to_come = max(0, self._unloads_to_come - 1)
        if self._active is not None and self._job is None and not self._unloads_to_come:
            self._schedule()
        self._drain()
        self._pump()

    # -- memory -------------------------------------------------------------------------------------------------------

    def _holder(self, runner: Runner) -> tuple[Sim, Runner]:
        return (self, runner)

    def _give_back(self, runner: Runner) -> None:
        wait = self.settings.recovery_s if runner.model.recovery_s is None else runner.model.recovery_s
        if wait > 0 and any(self._holder(runner) in card.uses for card in self.cards):
            self._later(wait, lambda: self._let_go(runner))
        else:
            self._let_go(runner)

    def _let_go(self, runner: Runner) -> None:
        if any(self._holder(runner) in card.uses for card in self.cards):
            for card in self.cards:
                card.hold(self._holder(runner), 0)
            self._say("memory_back", runner.model)

    def _leaving(self) -> bool:
        held = {holder for card in self.cards for holder in card.uses if isinstance(holder, tuple)}
        stay = {self._holder(runner) for runner in self._loaded.values()}
        return bool({holder for holder in held if holder[0] is self} - stay)

    # -- small --------------------------------------------------------------------------------------------------------

    def _entry(self, runner: Runner) -> PsEntry:
        shown = runner.size_mb if runner.model.shown_mb is None else runner.model.shown_mb
        part = runner.vram_mb / runner.size_mb
        expires = runner.expires_at
        return PsEntry(
            name=shortest(runner.model.name),
            model=runner.model,
            size_mb=shown,
            vram_mb=shown * part,
            expires_at=self._at + runner.session_s if expires is None else expires,
            context=runner.wanted.num_ctx if self.rules.context_in_ps else None,
        )

    def _say(self, kind: str, model: SimModel, why: str = "", by: str = "") -> None:
        self.events.append(Event(self._at, kind, shortest(model.name), why, by))

    def _fail(self, ticket: Ticket, status: int, error: str) -> Ticket:
        ticket.status, ticket.error, ticket.ended_at = status, error, self._at
        ticket.to("failed")
        return ticket

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._due, (self._at + seconds, next(self._count), action))
