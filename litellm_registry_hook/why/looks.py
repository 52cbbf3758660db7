"""What is known at one moment: the machines, what the workers have written, quotas and servers. It writes nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import final

from litellm_registry_hook.core.availability.facts import Facts, Health, HealthWord
from litellm_registry_hook.core.availability.judge import HEALTH_AGE_S
from litellm_registry_hook.core.consent import grant_for
from litellm_registry_hook.core.gpu.facts import Snapshot
from litellm_registry_hook.core.gpu.ports import Eyes, Ledger, Row
from litellm_registry_hook.core.gpu.verdict import No, Open, Resident, Verdict
from litellm_registry_hook.core.match import resolve_env
from litellm_registry_hook.core.plan import Ask, Running
from litellm_registry_hook.core.refusal import Skip
from litellm_registry_hook.core.registry import Model, Registry
from litellm_registry_hook.edges.store.port import State
from litellm_registry_hook.errors import StateError
from litellm_registry_hook.residency import records
from litellm_registry_hook.residency.board import Board
from litellm_registry_hook.residency.build import build
from litellm_registry_hook.residency.runners import InForce
from litellm_registry_hook.watch.board import Board as WatchBoard
from litellm_registry_hook.watch.rows import CIRCUIT, CLOSURE, HEALTH, READING, value_in

RETRY_S = 10.0


@final
class Remembered:
    """Eyes that have looked already."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    def look(self, bases: Sequence[str] | None = None) -> Snapshot:
        """Return what was seen."""
        _ = bases
        return self.snapshot


@dataclass(frozen=True, slots=True)
class Looks:
    """What is known now.

    Attributes:
        registry: in force. env: resolves `os.environ/NAME`.
        state: the state; None where there is none. state_error: why it cannot be used; empty where it can.
        board: the facts of GPU residency, of all workers. in_force: the runners of the registry.
        facts: of quotas, budgets and servers.
        now: when the looks were taken, seconds since the epoch.

    """

    registry: Registry
    env: Mapping[str, str]
    state: State | None
    state_error: str
    board: Board
    in_force: InForce
    facts: Facts
    now: float

    def ask_of(self, ask: Ask) -> Ask:
        """Return an ask at the moment of the looks, so that ages and ends are those of one moment."""
        return Ask(ask.caller, ask.allow_metered, datetime.fromtimestamp(self.now, timezone.utc))

    def gpu(self, target: Running) -> Verdict | None:
        """Return what the residency gate would say; None where the deployment needs no GPU of ours."""
        want = self.in_force().behind(target, lambda base: resolve_env(base, self.env))
        if want is None:
            return None
        name, shared = target.model.id, self.board.shared
        if want.slot in self.in_force().open:
            return Open()
        if want.slot in shared.fences:
            return No("gpu_no_headroom", f"{name} is about to be unloaded", 2.0)
        verdict = self.board.decide(want, may_swap=True)
        if isinstance(verdict, (Open, Resident)):
            return verdict
        if self.state is None or self.state_error:
            why = f"{name} is not loaded, and nothing is loaded without the state"
            return No("gpu_state_unknown", f"{why} ({self.state_error})" if self.state_error else why, RETRY_S)
        failed = shared.failed.get(want.slot)
        if failed is not None:
            reason, until = failed
            left = max(1.0, until - self.now)
            text = f"{name} could not be loaded: {reason}; not tried again for {left:.0f} s"
            return No("model_unavailable", text, left)
        return verdict

    def meter(self, ask: Ask) -> Callable[[Model], Skip | None]:
        """Return what the meter would say of a metered model that both keys let through; nothing is booked."""

        def check(model: Model) -> Skip | None:
            if self.state is None or self.state_error:
                why = "the state cannot be used, and no metered call leaves without a record"
                return Skip(model.id, "model_unavailable", why)
            grant = grant_for(self.registry, ask.caller, model.id, ask.now)
            if grant is None or grant.max_calls is None or not self.state.exists():
                return None
            day = ask.now.astimezone(timezone.utc).date().isoformat()
            made = self.state.calls(ask.caller.token or ask.caller.kind, model.id, day)
            if made < grant.max_calls:
                return None
            why = f"this virtual key has made its {grant.max_calls} calls of today (UTC); raise max_calls to allow more"
            return Skip(model.id, "metered_cap_reached", why, 86400.0 - ask.now.timestamp() % 86400.0)

        return check


def look(
    registry: Registry,
    env: Mapping[str, str],
    state: State | None,
    *,
    snapshot: Snapshot | None = None,
    facts: Facts | None = None,
    clock: Callable[[], float] = time.time,
) -> Looks:
    """Look once. Blocks for seconds where a server stalls.

    Args:
        registry: in force. env: resolves `os.environ/NAME`.
        state: what the workers share; reading makes no file.
        snapshot: what a proxy has seen of the machines; without it they are looked at now, which loads nothing.
        facts: what a proxy knows of quotas and servers; without it what the workers have written.
        clock: seconds since the epoch.

    """
    ledger = state.ledger if state is not None else None
    eyes: Eyes | None = Remembered(snapshot) if snapshot is not None else None
    residency, in_force = build(lambda: registry, env, ledger, eyes=eyes)
    board = residency.board
    in_force()
    error = ""
    rows: list[Row] = []
    if state is not None:
        try:
            rows = _read(state, board)
        except StateError as caught:
            error = str(caught)
    board.state_ok = state is not None and not error
    if board.wants() or in_force().registry.gpu_residency_policy.gpus:
        board.look()
    now = clock()
    known = facts if facts is not None else _with_health(facts_in(rows, clock), registry, env, board.snapshot, now)
    return Looks(registry, env, state, error, board, in_force, known, now)


def _with_health(facts: Facts, registry: Registry, env: Mapping[str, str], snapshot: Snapshot, now: float) -> Facts:
    """Add what this look has seen of servers that no proxy has asked lately."""
    found = {model: dict(places) for model, places in facts.health.items()}
    for model in registry.models:
        for place in model.places:
            seen = snapshot.health.get(resolve_env(place.api_base, env))
            known = found.get(model.id, {}).get(place.api_base)
            if place.health_url is None or seen is None or (known is not None and now - known.read_at <= HEALTH_AGE_S):
                continue
            state: HealthWord = "gone" if seen == "gone" else "up"
            found.setdefault(model.id, {})[place.api_base] = Health(model.id, place.api_base, state, now)
    return replace(facts, health=found)


def _read(state: State, board: Board) -> list[Row]:
    if not state.exists():
        # No proxy has written anything yet.
        return []
    ledger: Ledger = state.ledger
    board.shared = records.read(ledger, "")
    return ledger.rows(READING, HEALTH, CLOSURE, CIRCUIT)


def facts_in(rows: Sequence[Row], clock: Callable[[], float] = time.time) -> Facts:
    """Return what the workers have written of quotas, budgets and servers."""
    known = WatchBoard(None, "", clock)
    known.put(*(value for row in rows if (value := value_in(row)) is not None))
    return known.facts
