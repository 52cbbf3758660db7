"""Every fault of every kind of probe, really run: what is decided then, and in which words."""

from __future__ import annotations

import json
import os
import shlex
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from availability.avail_kit import facts_of, gated, http_server, one, says, served, target

from litellm_registry_hook.core.availability.facts import Facts, Health, Reading
from litellm_registry_hook.core.availability.judge import judge, judge_target
from litellm_registry_hook.core.availability.parse import failed, merged, readings_of
from litellm_registry_hook.core.availability.probes import Answer
from litellm_registry_hook.edges.probes.command import ask_command
from litellm_registry_hook.edges.probes.file import ask_file
from litellm_registry_hook.edges.probes.health import ask_health
from litellm_registry_hook.edges.probes.http import ask_url

SHORT_S = 0.4
OLD_S = 3600.0
Asked = Callable[[], Answer]

PAYLOADS: dict[str, str] = {
    "fine": '{"used": 40}',
    "full": '{"used": 99}',
    "slow": '{"used": 40}',
    "empty": "",
    "not JSON": "<html>Sign in</html>",
    "missing field": '{"usage": 40}',
    "string for number": '{"used": "99 %"}',
    "word for number": '{"used": "most"}',
    "120 %": '{"used": 120}',
    "-1": '{"used": -1}',
}

# fault: (what is decided with on_unknown.quota use and nothing read before, the reading's error)
SAME: dict[str, tuple[str | None, str]] = {
    "fine": (None, ""),
    "full": ("quota_exhausted", ""),
    "slow": (None, ""),
    "empty": (None, "its answer is empty"),
    "not JSON": (None, "its answer is not JSON"),
    "missing field": (None, "the answer has no `used`"),
    "string for number": ("quota_exhausted", ""),
    "word for number": (None, '`used` is "most", not a number'),
    "120 %": ("quota_exhausted", ""),
    "-1": (None, "`used` is -1, below zero"),
}
COMMAND = {
    "hang": (None, "no answer within 0.4 s, killed"),
    "exit 1": (None, "exit 1"),
    "not there": (None, "probe_command cannot be started: No such file or directory"),
}
FILE = {
    "hang": (None, "probe_file is no regular file"),
    "not there": (None, "probe_file cannot be read: No such file or directory"),
    "stale file": (None, ""),
    "clock jump": (None, ""),
}
URL = {
    "hang": (None, "no answer within 0.4 s"),
    "exit 1": (None, "it answered 500"),
    "429": (None, "it answered 429"),
    "not there": (None, "probe_url cannot be asked (ConnectError)"),
}
CASES = [
    *(("command", fault, *said) for fault, said in {**SAME, **COMMAND}.items()),
    *(("file", fault, *said) for fault, said in {**SAME, **FILE}.items() if fault != "slow"),
    *(("url", fault, *said) for fault, said in {**SAME, **URL}.items()),
]


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """What a test opens, closed after it."""
    with ExitStack() as found:
        yield found


def command(fault: str, folder: Path, stack: ExitStack) -> Asked:
    """A real program with the fault."""
    payload = PAYLOADS.get(fault, "")
    script = {
        "hang": "import time; time.sleep(600)",
        "exit 1": "import sys; sys.exit('no such account')",
        "slow": f"import time; time.sleep(0.15); print({payload!r})",
    }.get(fault, f"print({payload!r}, end='')")
    line = "/no/such/usage" if fault == "not there" else shlex.join([sys.executable, "-S", "-c", script])
    return lambda: ask_command(line, (), os.environ, timeout_s=SHORT_S if fault == "hang" else 20.0)


def file(fault: str, folder: Path, stack: ExitStack) -> Asked:
    """A real file with the fault."""
    path = folder / "usage.json"
    if fault == "hang":
        os.mkfifo(path)
    elif fault != "not there":
        path.write_text(PAYLOADS.get(fault, PAYLOADS["full"]))
    if fault in {"stale file", "clock jump"}:
        at = time.time() + (OLD_S if fault == "clock jump" else -OLD_S)
        os.utime(path, (at, at))
    return lambda: ask_file(str(path))


def url(fault: str, folder: Path, stack: ExitStack) -> Asked:
    """A real server with the fault."""
    over = threading.Event()

    def answer(handler: Any) -> None:
        if fault == "hang":
            over.wait(30)
        elif fault == "slow":
            threading.Event().wait(0.15)
        status = {"exit 1": 500, "429": 429}.get(fault, 200)
        says(PAYLOADS.get(fault, ""), status)(handler)

    address = stack.enter_context(http_server(answer))
    if fault == "not there":
        stack.close()
    stack.callback(over.set)
    return lambda: ask_url(address, time.time(), timeout_s=SHORT_S if fault == "hang" else 20.0)


@pytest.mark.parametrize(("kind", "fault", "code", "error"), CASES, ids=[f"{k}: {f}" for k, f, _, _ in CASES])
def test_every_fault_of_every_probe(
    kind: str, fault: str, code: str | None, error: str, tmp_path: Path, stack: ExitStack
) -> None:
    """A fault is neither full nor free: nothing known follows the policy, and the last good value holds while young."""
    registry, model = one(gated(windows=[{"name": "5h", "field": "used"}]))
    strict, _ = one(gated(windows=[{"name": "5h", "field": "used"}]), on_unknown={"quota": "skip"})
    asked = {"command": command, "file": file, "url": url}[kind](fault, tmp_path, stack)

    answer = asked()
    now = time.time()

    if answer.error:
        (found,) = failed(model, answer.error, now, answer.detail)
    else:
        (found,) = readings_of(model, answer.text, answer.read_at or now, now)
    assert found.error == error
    skip = judge(registry, model, facts_of(found), now)
    assert (skip.code if skip else None) == code
    assert (found.used_pct is not None) == (not error)
    known = found.used_pct is not None and fault not in {"stale file", "clock jump"}
    careful = judge(strict, model, facts_of(found), now)
    assert (careful.code if careful else None) == (code if known else "model_unavailable")
    if careful is not None and error:
        assert f"is not known: the probe failed ({error}); " in careful.reason
        # Nothing of the machine is shown to clients.
        assert str(tmp_path) not in careful.reason
        assert "account" not in careful.reason
        assert "html" not in careful.reason
    # With a good value of a minute ago, that is what holds.
    before = Reading("sub", "5h", 99.0, None, now - 60, now - 60)
    later = judge(strict, model, facts_of(merged(before, found)), now)
    if error:
        assert later is not None
        assert later.code == "quota_exhausted"
        assert f"(read 1 min ago, the probe has failed since ({error}))" in later.reason
    if fault == "120 %":
        assert skip is not None
        assert "100 % used of at most 95 % (read 0 s ago, the probe said 120 %)" in skip.reason


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("stale file", "it was read 1 h ago (max_age_s is 900)"),
        ("clock jump", "it was read 1 h from now, so the clock was set back"),
    ],
)
def test_a_file_is_as_old_as_it_was_written(fault: str, why: str, tmp_path: Path, stack: ExitStack) -> None:
    """What a writer left an hour ago, or dated an hour ahead, is not known: not 99 %, whatever it says."""
    registry, model = one(gated(windows=[{"name": "5h", "field": "used"}]), on_unknown={"quota": "skip"})
    answer = file(fault, tmp_path, stack)()
    now = time.time()
    found = readings_of(model, answer.text, answer.read_at or now, now)
    skip = judge(registry, model, facts_of(*found), now)

    assert skip is not None
    assert why in skip.reason


@pytest.mark.parametrize(
    ("fault", "text", "use", "skip"),
    [
        ("fine", "up", None, None),
        ("401", "up", None, None),
        ("500", "unknown", None, "model_unavailable"),
        ("hang", "unknown", None, "model_unavailable"),
        ("not there", "gone", "model_unavailable", "model_unavailable"),
    ],
)
def test_every_fault_of_a_servers_health(
    fault: str, text: str, use: str | None, skip: str | None, stack: ExitStack
) -> None:
    """Only a refused connection is gone; a server that answers 500 or nothing is not known to be up."""
    over = threading.Event()

    def answer(handler: Any) -> None:
        if fault == "hang":
            over.wait(30)
        says("", {"401": 401, "500": 500}.get(fault, 200))(handler)

    address = stack.enter_context(http_server(answer))
    if fault == "not there":
        stack.close()
    stack.callback(over.set)
    found = ask_health(address, read_s=SHORT_S)

    assert found.text == text
    for policy, code in (("use", use), ("skip", skip)):
        registry, model = one(served("tei", 8080), on_unknown={"health": policy})
        base = model.places[0].api_base
        health = Health("tei", base, found.text, time.time(), found.error)  # type: ignore[arg-type]
        said = judge_target(registry, model, target(model), Facts(health={"tei": {base: health}}), time.time())
        assert (said.code if said else None) == code


def test_the_table_is_whole() -> None:
    """Each fault that was thought of stands in the table of each kind that can have it."""
    wanted = {"hang", "empty", "not JSON", "missing field", "string for number", "120 %", "-1"}

    for kind in ("command", "file", "url"):
        faults = {fault for one_kind, fault, _, _ in CASES if one_kind == kind}
        assert wanted <= faults
    assert json.loads(PAYLOADS["fine"])["used"] == 40
