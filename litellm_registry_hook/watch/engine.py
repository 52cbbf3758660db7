"""The watch of one worker: its thread, and the door to it for requests on the event loop."""

from __future__ import annotations

import logging
import os
import random
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from litellm_registry_hook.core.availability import judge as _judge
from litellm_registry_hook.core.availability.facts import Circuit, Closure, Facts, Reading
from litellm_registry_hook.core.availability.judge import Target
from litellm_registry_hook.core.availability.learn import (
    after_failure,
    after_success,
    from_ahead,
    is_network_failure,
    is_quota_answer,
    lapsed,
    learn,
    learn_from_success,
    learned_again,
    trial_due,
    tried,
)
from litellm_registry_hook.core.availability.moments import clock as clock_text
from litellm_registry_hook.core.availability.probes import Answer, Probe
from litellm_registry_hook.core.failure import Failure
from litellm_registry_hook.core.gpu.ports import Ledger
from litellm_registry_hook.core.refusal import Skip
from litellm_registry_hook.core.registry import Model, Registry
from litellm_registry_hook.edges.probes.ask import ask as _ask
from litellm_registry_hook.watch.board import Board
from litellm_registry_hook.watch.prober import Prober, Start
from litellm_registry_hook.watch.rows import CIRCUIT, CLOSURE, Name, name_of

log = logging.getLogger("litellm_registry_hook")
PERIOD_S: Final = 0.5
T = TypeVar("T", bound=Target)


@dataclass(frozen=True, slots=True)
class Seen:
    """What status says of one probe.

    Attributes:
        key: of the probe. model: registry id. kind: command, file, url or health. what: what is asked.
        used_pct: by window, the last good values; of a server's health empty. state: up, gone, unknown; else empty.
        read_at: when the oldest of them was read, None for never. age_s: seconds since then.
        next_in_s: seconds until it is asked again, None where this worker does not know.
        error: why the last try failed, with its detail; empty where it did not.
        here: whether this worker asks it.

    """

    key: str
    model: str
    kind: str
    what: str
    used_pct: Mapping[str, float]
    state: str
    read_at: float | None
    age_s: float | None
    next_in_s: float | None
    error: str
    here: bool


def threads(name: str, work: Callable[[], None]) -> None:
    """Start work in a thread that ends with the process."""
    threading.Thread(target=work, name=name, daemon=True).start()


class Watch:
    """The watch of one worker.

    Its methods are for the event loop, but for `start`, `stop` and `step`; none blocks. What is known is `facts`; the
    decision made of it are the functions of core.availability.judge.
    """

    def __init__(
        self,
        registry: Callable[[], Registry],
        ledger: Ledger | None,
        clock: Callable[[], float],
        env: Mapping[str, str],
        *,
        ask: Callable[[Probe], Answer] | None = None,
        spend: Callable[[Probe], Answer] | None = None,
        start: Start = threads,
        chance: Callable[[], float] = random.random,
        worker: str | None = None,
    ) -> None:
        """Make a watch that is not started yet.

        Args:
            registry: gives the registry in force. ledger: what the workers share; None: this one watches for itself.
            clock: seconds since the epoch. env: where commands get their environment from.
            spend: reads what LiteLLM has spent, where there is one.
            ask, start, chance, worker: other probes, threads, jitter and name; for tests.

        """
        name = worker or f"{os.uname().nodename}-{os.getpid()}-{secrets.token_hex(3)}"
        self.registry = registry
        self.clock = clock
        self.board = Board(ledger, name, clock)
        self._awake = threading.Event()
        self.prober = Prober(
            self.board,
            registry,
            ask or (lambda probe: spend(probe) if spend and probe.kind == "spend" else _ask(probe, env)),
            start=start,
            chance=chance,
            wake=self._awake.set,
        )
        # Failures in a row of circuits that are closed yet, of this worker's own requests.
        self._failing: dict[str, Circuit] = {}
        self._stopping = False
        self._thread: threading.Thread | None = None

    @property
    def facts(self) -> Facts:
        """What is known now."""
        return self.board.facts

    def usable(self, model: Model, targets: Sequence[T]) -> tuple[tuple[T, ...], Skip | None]:
        """Return the deployments of a model that may be tried, in order; where none may, why not. Changes nothing."""
        return _judge.usable(self.registry(), model, targets, self.board.facts, self.clock())

    def enter(self, model: Model, target: Target) -> Skip | None:
        """Decide one attempt right before it is made, and take the trial where it is one; None lets it through."""
        registry, facts, now = self.registry(), self.board.facts, self.clock()
        skip = _judge.judge(registry, model, facts, now) or _judge.judge_target(registry, model, target, facts, now)
        if skip is not None or not (facts.closures or facts.circuits):
            return skip
        known = (facts.closures.get(model.id), facts.closures.get(target.id), facts.circuits.get(target.id))
        due = [what for what in known if what is not None and trial_due(what, now) and not _over(what, now)]
        if not due:
            return None
        self._awake.set()
        mine = all(self.board.permitted(name_of(what)[1]) for what in due)
        if mine and all(self.board.swap(what, tried(what, now)) for what in due):
            return None
        return Skip(model.id, "model_unavailable", "another request finds out whether it works again", 1.0)

    def succeeded(
        self, deployment: str, model: Model, began: float | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        """Learn that an attempt was answered.

        Args:
            deployment: its deployment's id. model: the registry entry.
            began: when it was sent, seconds since the epoch: only one that was sent after a closure opens it.
            headers: those of the answer that speak of limits; names in lower case.

        """
        if self._failing:
            self._failing.pop(deployment, None)
        if self.board.facts.closures or self.board.facts.circuits:
            self._opened(deployment, model, began)
        if headers:
            key = _key(deployment, model)
            closure = learn_from_success(key, headers, self.clock())
            before = self.board.facts.closures.get(key)
            if closure is not None and (before is None or lapsed(before, closure.since)):
                self.board.put(closure)
                self._awake.set()
                log.info("%s is closed until %s: it %s", key, clock_text(closure.until), closure.why)

    def _opened(self, deployment: str, model: Model, began: float | None) -> None:
        facts = self.board.facts
        now = self.clock()
        at = now if began is None else began
        names: list[Name] = []
        for key in (model.id, deployment):
            closure = facts.closures.get(key)
            if closure is not None and after_success(closure, at, now):
                names.append((CLOSURE, key))
        circuit = facts.circuits.get(deployment)
        if circuit is not None and after_success(circuit, at, now):
            names.append((CIRCUIT, deployment))
        if names:
            self.board.drop(*names)
            self._awake.set()

    def failed(
        self,
        deployment: str,
        model: Model,
        failure: Failure,
        headers: Mapping[str, str] | None = None,
        began: float | None = None,
    ) -> None:
        """Learn from a failed attempt; arguments as of `succeeded`, and the answer's headers."""
        at = self.clock() if began is None else began
        self._quota(deployment, model, failure, headers or {}, at)
        self._network(deployment, failure, at)

    def undecided(self, deployment: str, model: Model, began: float | None = None) -> None:
        """Give back the trial of an attempt that came to nothing, the client having hung up say.

        Args:
            deployment, model: as of `succeeded`.
            began: a moment after its `enter`: a trial that was taken later is another request's.

        """
        facts = self.board.facts
        for what in (facts.closures.get(model.id), facts.closures.get(deployment), facts.circuits.get(deployment)):
            if what is not None and _tried_by(what, began):
                self.board.swap(what, tried(what, None))

    def reopen(self, model: Model) -> tuple[str, ...]:
        """Forget what calls have taught of a model, as after a top-up; returns what was closed, by key."""
        facts = self.board.facts
        own = {model.id, *(key for key in (*facts.closures, *facts.circuits) if key.rpartition("@")[0] == model.id)}
        closed = [(CLOSURE, key) for key in own & facts.closures.keys()]
        broken = [(CIRCUIT, key) for key in own & facts.circuits.keys()]
        for key in own:
            self._failing.pop(key, None)
        for key in [key for key in self._failing if key.rpartition("@")[0] == model.id]:
            self._failing.pop(key)
        self.board.drop(*closed, *broken)
        self._awake.set()
        return tuple(sorted({key for _, key in (*closed, *broken)}))

    def seen(self) -> tuple[Seen, ...]:
        """Return what status says of each probe."""
        return tuple(self._seen(key) for key in list(self.prober.works))

    def start(self) -> None:
        """Take the first look at what the others know, then start the thread; it ends with the process. Blocks."""
        self.step()
        self._thread = threading.Thread(target=self._run, name="registry-watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread and wait for it; probes under way end by themselves."""
        self._stopping = True
        self._awake.set()
        if self._thread is not None:
            self._thread.join()

    def step(self) -> None:
        """Do what is due once."""
        self.board.sync()
        self.prober.step()

    def _run(self) -> None:
        while True:
            self._awake.wait(PERIOD_S)
            self._awake.clear()
            if self._stopping:
                return
            try:
                self.step()
            except Exception:
                log.exception("watching the models' availability failed; it goes on")
                threading.Event().wait(PERIOD_S)

    def _quota(self, deployment: str, model: Model, failure: Failure, headers: Mapping[str, str], began: float) -> None:
        now = self.clock()
        key = _key(deployment, model)
        before = self.board.facts.closures.get(key)
        closure = learn(key, failure, headers, now)
        if closure is None:
            if before is not None and _tried_by(before, began) and not is_network_failure(failure):
                self.board.swap(before, tried(before, None))
            return
        if before is not None and not closure.stated and not from_ahead(before, now):
            if began < before.since:
                return  # of the same burst: it tells nothing new
            if before.stated and before.until > now:
                closure = learned_again(closure, before)
        self.board.put(closure)
        self._awake.set()
        log.info("%s is closed until %s: %s", key, clock_text(closure.until), closure.why)

    def _network(self, deployment: str, failure: Failure, began: float) -> None:
        now = self.clock()
        before = self.board.facts.circuits.get(deployment) or self._failing.get(deployment)
        if is_network_failure(failure):
            after = after_failure(before, deployment, failure, now)
            if after is None or after.opened_at is None:
                if after is not None:
                    self._failing[deployment] = after
                return
            self._failing.pop(deployment, None)
            self.board.put(after)
            self._awake.set()
            if before is None or before.until != after.until:
                log.warning("%s is not asked until %s: it %s", deployment, clock_text(after.until), after.why)
        elif before is not None and (is_quota_answer(failure) or failure.status < 500):  # noqa: PLR2004
            # It answered, so it is there.
            self._failing.pop(deployment, None)
            if before.opened_at is not None and after_success(before, began, now):
                self.board.drop((CIRCUIT, deployment))
                self._awake.set()

    def _seen(self, key: str) -> Seen:
        work = self.prober.works[key]
        probe, facts, now = work.probe, self.board.facts, self.clock()
        readings = list(facts.readings.get(probe.model, {}).values()) if probe.kind != "health" else []
        health = facts.health.get(probe.model, {}).get(probe.api_base) if probe.kind == "health" else None
        good = [one for one in readings if one.used_pct is not None]
        read_at = min((one.read_at for one in good), default=None) if health is None else health.read_at
        plan = self.board.plans.get(key)
        here = self.board.ledger is None or not self.board.state_ok or now < work.held_until
        next_at = work.next_at if here else plan.data.get("next_at") if plan is not None else None
        error = next((_told(one) for one in readings if one.error), health.error if health is not None else "")
        return Seen(
            key=key,
            model=probe.model,
            kind=probe.kind,
            what=probe.what,
            used_pct={one.window: one.used_pct for one in good if one.used_pct is not None},
            state=health.state if health is not None else "",
            read_at=read_at,
            age_s=max(0.0, now - read_at) if read_at is not None else None,
            next_in_s=max(0.0, float(next_at) - now) if next_at is not None else None,
            error=error,
            here=here,
        )


def _key(deployment: str, model: Model) -> str:
    """Return what an answer closes: of several endpoints each has a limit of its own."""
    return model.id if len(model.places) <= 1 else deployment


def _over(what: Closure | Circuit, now: float) -> bool:
    return isinstance(what, Closure) and lapsed(what, now)


def _tried_by(what: Closure | Circuit, began: float | None) -> bool:
    return what.trial_at is not None and (began is None or began >= what.trial_at)


def _told(reading: Reading) -> str:
    return f"{reading.error}: {reading.detail}" if reading.detail else reading.error
