"""Processes that are killed while they write."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

from litellm_registry_hook.edges.store.port import State

WRITER = """
import sys
from litellm_registry_hook.edges.store.place import open_state
state, number = open_state({}, sys.argv[1]), sys.argv[2]
turn = 0
while True:
    turn += 1
    assert state.take_call("t", "paid", "2026-11-30", 10**9)
    assert state.ledger.take("claim", f"{number}-{turn % 3}", number, 600, data={"turn": turn})
    print(turn, flush=True)
"""
WRITERS, TURNS = 4, 60


def test_what_was_answered_is_kept(url: str, opened: Callable[[], State]) -> None:
    """Four writers are killed in the middle of their work: all that they were told is there, at most one step more of each, and others go on."""
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, url, str(n)], stdout=subprocess.PIPE, text=True)
        for n in range(WRITERS)
    ]
    told = []
    for one in writers:
        assert one.stdout is not None
        for _ in range(TURNS):
            one.stdout.readline()
    for one in writers:
        one.kill()
        rest = one.communicate()[0].splitlines()
        told.append(TURNS + sum(line.isdigit() for line in rest))
    state = opened()
    counted = state.calls("t", "paid", "2026-11-30")
    last = [0] * WRITERS
    for row in state.ledger.rows("claim"):
        last[int(row.owner)] = max(last[int(row.owner)], row.data["turn"])

    assert sum(told) <= counted <= sum(told) + WRITERS
    # A line that was cut off in the pipe was told to nobody.
    assert all(said <= kept <= said + 1 for said, kept in zip(told, last, strict=True))
    assert state.ledger.take("lock", "host", "the next", 60)
    assert state.take_call("t", "paid", "2026-11-30", 10**9)
