"""Loads the never-evict set now, through the desk like everybody else: what may not be pushed out stays."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from litellm_registry_hook.core.gpu.compare import gpu_homes
from litellm_registry_hook.core.gpu.place import Home, homes_of, server_key
from litellm_registry_hook.core.gpu.resident import runner_of, server_of
from litellm_registry_hook.core.gpu.verdict import Use, Want
from litellm_registry_hook.residency.aside import Aside
from litellm_registry_hook.residency.ticket import Answer, Granted, Ticket

PIN_S: Final = 30.0
AGAIN_S: Final = 1.0


@dataclass(slots=True)
class Warmed:
    """What came of it; ids, with the address behind where a model has several.

    Attributes:
        loaded: loaded now. already: was loaded. failed: name and why.

    """

    loaded: list[str] = field(default_factory=list)
    already: list[str] = field(default_factory=list)
    failed: list[tuple[str, str]] = field(default_factory=list)


def warm(aside: Aside, timeout_s: float, began: Callable[[str], None], ended: Callable[[], None]) -> Warmed:
    """Load every never-evict model that is missing, the biggest first: the small ones fit beside it or nowhere.

    Args:
        aside: entered.
        timeout_s: for all of them.
        began: told the name of each before it. ended: told after it.

    Raises:
        StateError: the state has gone meanwhile.

    """
    end = time.monotonic() + timeout_s
    found = Warmed()
    for home in never_evict(aside):
        name = name_of(home)
        began(name)
        if home.slot is None:
            _look_at(aside, home, name, found)
        else:
            _load(aside, home, name, end, found)
        ended()
    return found


def never_evict(aside: Aside) -> list[Home]:
    """Return the never-evict models at each of their servers, the biggest first."""
    registry = aside.in_force().resolved
    homes = [*gpu_homes(registry), *(home for home in homes_of(registry) if home.slot is None and home.gpu != "none")]
    mine = [home for home in homes if home.model.never_evict]
    return sorted(mine, key=lambda home: -(home.model.gpu_residency.vram_mb if home.model.gpu_residency else 0))


def name_of(home: Home) -> str:
    """Return the id, and the server where there are several."""
    return home.model.id if len(home.model.places) < 2 else f"{home.model.id} at {home.api_base}"  # noqa: PLR2004


def want_of(aside: Aside, home: Home) -> Want:
    """Return what a place needs, under the name that the server has in every slot."""
    assert home.slot is not None
    runners = aside.in_force()
    slot = home.slot._replace(api_base=runners.servers.get(server_key(home.api_base), home.slot.api_base))
    return runners.wants.get(Use(slot, home.model.id), Want(home.model, slot))


def _look_at(aside: Aside, home: Home, name: str, found: Warmed) -> None:
    key = server_key(home.api_base)
    states = {server_key(base): state for base, state in aside.board.snapshot.health.items()}
    if states.get(key, "gone") == "gone":
        found.failed.append((name, f"its server at {home.api_base} does not answer; only Ollama is loaded from here"))
    else:
        found.already.append(name)


def _load(aside: Aside, home: Home, name: str, end: float, found: Warmed) -> None:
    want = want_of(aside, home)
    aside.board.look([want.slot.api_base])
    if want.use in aside.view.resident:
        error = _pin(aside, want)
        if error is None:
            found.already.append(name)
        else:
            found.failed.append((name, f"it is loaded, and cannot be pinned: {error}"))
        return
    why = _ask(aside, want, end)
    if why is None:
        found.loaded.append(name)
    else:
        found.failed.append((name, why))


def _ask(aside: Aside, want: Want, end: float) -> str | None:
    """Have the desk load it; None, or why not. Waits while others load or use what would have to go."""
    while True:
        answers: list[Answer] = []
        now, left = aside.board.clock(), max(0.0, end - time.monotonic())
        ticket = Ticket((want,), answers.append, came=now, deadline=now + left, purpose="keep")
        aside.desk.submit(ticket)
        if not aside.until(lambda answers=answers: bool(answers), left + AGAIN_S):  # type: ignore[misc]
            aside.desk.cancel(ticket)
            return "it was not loaded in time; give a longer --timeout"
        [answer] = answers
        if isinstance(answer, Granted):
            aside.view.take_over(answer.slot, wanted=False)
            return None
        shared = aside.board.shared
        passing = answer[0].transient and (shared.claims or shared.busy or shared.fences)
        if not passing or time.monotonic() >= end:
            return answer[0].reason
        aside.until(lambda: False, AGAIN_S)


def _pin(aside: Aside, want: Want) -> str | None:
    """Set keep_alive -1 again where it was lost."""
    server = server_of(aside.board.snapshot, want.slot.api_base)
    entry = runner_of(server, want.slot.name) if server is not None else None
    if entry is None or entry.expires_at is None:
        return None
    said: list[str | None] = []
    aside.desk.swaps.starter.load(want, said.append)
    return said[0] if aside.until(lambda: bool(said), PIN_S) else f"no answer in {PIN_S:g} s"
