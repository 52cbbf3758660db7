"""Decisions in the state: kept, found, and dropped when they are too many or too old; on SQLite and on Redis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone

from litellm_registry_hook.core.decision import KEEP_DECISIONS, Decision, Passed
from litellm_registry_hook.edges.store.port import State

NOW = datetime.now(timezone.utc).replace(microsecond=0)
WHOLE = Decision(
    NOW, "id-1", "POST /v1/chat/completions", "big", "large", "bot", "abcdef01", ("kimi",), ("kimi@0",),
    (Passed("paid", "metered_consent_missing", "it costs money ‰ \n"),), "", "", 200, 2.5, 12.3,
)  # fmt: skip


def at(seconds: float, name: str) -> Decision:
    return Decision(NOW + timedelta(seconds=seconds), name, name=name)


def test_what_is_kept_comes_back_whole(state: State, opened: Callable[[], State]) -> None:
    """Another process reads every field of a decision as it was written."""
    refused = replace(
        WHOLE, request_id="id-2", models=(), deployments=(), code="bad_wait", reason="no number", status=400
    )
    state.append_decisions([WHOLE, refused])

    assert opened().decisions() == [refused, WHOLE]


def test_nothing_is_written_for_nothing(state: State) -> None:
    """No decisions are no error, and none are there."""
    state.append_decisions([])

    assert state.decisions() == []


def test_they_are_found(state: State) -> None:
    """By request, from a moment on, so many at most; the newest first."""
    state.append_decisions([at(-30, "a"), at(-20, "b")])
    state.append_decisions([at(-10, "c"), at(0, "b")])

    def names(*arguments: object) -> list[str]:
        return [one.name for one in state.decisions(*arguments)]

    assert names() == ["b", "c", "b", "a"]
    assert names("b") == ["b", "b"]
    assert names("b", NOW - timedelta(seconds=5)) == ["b"]
    assert names(None, NOW - timedelta(seconds=15)) == ["b", "c"]
    assert names(None, None, 2) == ["b", "c"]
    assert names("nobody") == []


def test_the_newest_ten_thousand_stay(state: State) -> None:
    """More than that, and the oldest go."""
    for first in range(0, KEEP_DECISIONS, 500):
        state.append_decisions([at(number - KEEP_DECISIONS, str(number)) for number in range(first, first + 500)])
    state.append_decisions([at(0, "new"), at(0, "newer")])
    kept = [one.name for one in state.decisions()]

    assert len(kept) == KEEP_DECISIONS
    assert (kept[:3], kept[-1]) == (["newer", "new", str(KEEP_DECISIONS - 1)], "2")


def test_seven_days_stay(state: State) -> None:
    """What is older than a week is not told any more."""
    week = 7 * 86400
    state.append_decisions([at(-week - 3600, "old"), at(-week + 3600, "young")])
    state.append_decisions([at(0, "new")])

    assert [one.name for one in state.decisions()] == ["new", "young"]
