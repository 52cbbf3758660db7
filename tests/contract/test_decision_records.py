"""What becomes of a request's record: memory, log and state, and what happens while the state is gone."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from litellm_registry_hook.adapter.records import BATCH, RECENT, Records
from litellm_registry_hook.adapter.scope import HOP, Scope
from litellm_registry_hook.core.consent import Caller
from litellm_registry_hook.core.decision import decision_of, line_of, told
from litellm_registry_hook.core.plan import Running
from litellm_registry_hook.core.refusal import Skip, refuse
from litellm_registry_hook.core.registry import Model
from litellm_registry_hook.core.routes import Route
from litellm_registry_hook.edges.store.sqlite_state import SqliteState


class Kept(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[tuple[str, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append((record.name, record.getMessage()))


@pytest.fixture
def logged() -> Iterator[list[tuple[str, str]]]:
    """What the plugin logs, as an operator's own handler gets it."""
    kept = Kept()
    loggers = [logging.getLogger(f"litellm_registry_hook{part}") for part in ("", ".decisions")]
    before = [(one.level, one.propagate, one.handlers[:]) for one in loggers]
    for one in loggers:
        one.handlers[:], one.propagate = [], one.name.endswith("decisions")
    loggers[0].addHandler(kept)
    loggers[0].setLevel(logging.INFO)
    loggers[1].setLevel(logging.NOTSET)
    yield kept.lines
    for one, (level, propagate, handlers) in zip(loggers, before, strict=True):
        one.setLevel(level)
        one.propagate, one.handlers[:] = propagate, handlers


def request(name: str = "large", **more: object) -> Scope:
    """A request that the hooks have seen."""
    scope = Scope(Route("model"), {}, caller=Caller("virtual_key", "ab" * 32, "bot"), hooked=True, asked=name, **more)
    scope.where = ("POST", "/v1/chat/completions")
    scope.request_id = name
    return scope


def test_a_request_that_was_served(tmp_path: Path, logged: list[tuple[str, str]]) -> None:
    """Its record is in the state, in memory and in the log, and is the same everywhere."""
    state = SqliteState(tmp_path / "state.sqlite")
    records = Records(state)
    scope = request(tier="large", status=200, skipped=(Skip("first", "quota_exhausted", "used up", 9.0),))
    entry = {"id": "kimi", "role": "chat", "lifecycle": "always-on", "metered": False, "litellm": {"model": "openai/k"}}
    token = HOP.set(Running("kimi@1", Model.model_validate(entry), ""))
    scope.mark_served("kimi")
    HOP.reset(token)
    records.add(scope)
    records.flush()
    [one] = state.decisions()

    assert list(records.recent) == [one]
    assert logged == [("litellm_registry_hook.decisions", line_of(one))]
    assert (one.models, one.deployments, one.skipped) == (
        ("kimi",),
        ("kimi@1",),
        (("first", "quota_exhausted", "used up"),),
    )
    assert (one.name, one.tier, one.alias, one.key, one.status, one.code) == (
        "large",
        "large",
        "bot",
        "abababab",
        200,
        "",
    )
    assert records.find(None, None, None) == ([one], None)
    state.close()


def test_what_no_gate_saw_makes_no_record() -> None:
    """A request that LiteLLM has turned away is none of ours; a refusal of ours is, also before any hook."""
    records = Records(None)
    records.add(Scope(Route("model"), {}, status=401))
    refused = Scope(Route("ungoverned"), {}, refusal=refuse("route_not_governed", "it is closed"), status=403)
    records.add(refused)
    records.flush()

    assert [(one.code, one.reason, one.alias) for one in records.recent] == [
        ("route_not_governed", "it is closed", "anonymous")
    ]


def test_without_a_state_the_worker_keeps_its_last_thousand() -> None:
    """Without a state decisions are found in memory, the newest first, and it is said why."""
    records = Records(None)
    for number in range(RECENT + 5):
        records.add(request(str(number)))
    found, why = records.find(None, None, 2)

    assert ([one.name for one in found], why) == ([str(RECENT + 4), str(RECENT + 3)], "there is no state")
    assert len(records.recent) == RECENT
    assert [one.name for one in records.find("77", None, None)[0]] == ["77"]
    assert records.find("2", None, None)[0] == []


def test_a_state_that_comes_back(tmp_path: Path, logged: list[tuple[str, str]]) -> None:
    """While the state is gone decisions wait for it, told once; when it is back they are written."""
    file = tmp_path / "state.sqlite"
    state = SqliteState(file)
    records = Records(state)
    records.add(request("before"))
    records.flush()
    state.close()
    state.version()
    kept = {path: path.read_bytes() for path in tmp_path.iterdir()}
    for path in kept:
        path.unlink()
    for name in ("one", "two"):
        records.add(request(name))
        records.flush()
    alone = records.find(None, None, None)
    file.write_bytes(kept[file])
    records.flush()

    warnings = [text for name, text in logged if name == "litellm_registry_hook"]
    assert warnings == [f"state file {file} is gone; decisions are logged, and kept by this worker alone"]
    assert ([one.name for one in alone[0]], alone[1]) == (["two", "one", "before"], f"state file {file} is gone")
    assert [one.name for one in state.decisions()][:2] == ["two", "one"]
    assert records.lost == 0
    state.close()


def test_a_burst_is_written_in_batches(tmp_path: Path) -> None:
    """More than a batch at once: all of them are written, in order."""
    state = SqliteState(tmp_path / "state.sqlite")
    records = Records(state)
    for number in range(BATCH * 2 + 1):
        records.add(request(str(number)))
    records.flush()

    assert [one.name for one in state.decisions()] == [str(number) for number in range(BATCH * 2, -1, -1)]
    state.close()


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("sk-a-key-that-does-not-belong-here", "***"),
        ("x" * 300, "x" * 255 + "…"),
        ("\ud800 half a character", "? half a character"),
    ],
)
def test_what_a_client_sends_is_kept_safely(sent: str, kept: str) -> None:
    """No key, nothing endless, nothing that cannot be stored."""
    assert told(sent) == kept


def test_nothing_breaks_the_line() -> None:
    """Line breaks and terminal codes in a name stay inside one line of ASCII, and come back as they were."""
    records = Records(None)
    records.add(request("a\nb\x1b[31m\u2028é"))
    records.flush()
    [one] = records.recent
    line = line_of(one)

    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line)["name"] == "a\nb\x1b[31m\u2028é"
    assert decision_of(line).name == one.name


def test_a_line_that_is_none() -> None:
    """What is no decision is refused by its reader."""
    for text in ("{}", "[]", "nonsense"):
        with pytest.raises(ValueError, match="no decision|Expecting value"):
            decision_of(text)
