"""`litellm-registry decisions`, `explain` and `status` as their users see them, without a proxy."""

from __future__ import annotations

import json
import platform
import re
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
import yaml

from litellm_registry_hook.cli.main import main
from litellm_registry_hook.core.availability.facts import Reading
from litellm_registry_hook.core.decision import Decision, Passed
from litellm_registry_hook.edges.store.place import open_state
from litellm_registry_hook.edges.store.port import State
from litellm_registry_hook.watch.rows import FLEET, data_of, name_of
from tests.host.proxy import free_port
from tests.host.shapes import chat_model, token

KEY = "sk-the-key-of-torgash-000001"
START = datetime(2026, 11, 30, 10, 0, tzinfo=timezone.utc)
CONSENT = (
    "each call costs money and this request does not allow it; send the header x-registry-allow-metered: true and have "
    "the virtual key opted in"
)
RECORDS = [
    Decision(
        START, "req-1", "POST /v1/chat/completions", "big", "large", "agent:torgash", "abcdef01", ("kimi",), ("kimi@0",),
        status=200, duration_ms=812.4,
    ),
    Decision(
        START + timedelta(minutes=1), "req-2", "POST /v1/messages", "paid", "", "", "", (), (),
        (Passed("paid", "metered_consent_missing", CONSENT),), "metered_consent_missing", "", 403, 5.0, 3.0,
    ),
    Decision(
        START + timedelta(minutes=2), "req-3", "POST /v1/chat/completions", "nope\x1b[31m", "", "bot", "", code="unknown_model",
        reason="no tier, alias or model is called that", status=400, duration_ms=2.6,
    ),
]  # fmt: skip
Run = Callable[..., tuple[int, str, str]]


def registry(dead: int, **routing: Any) -> dict[str, Any]:
    """Two subscriptions, a paid model, and a local one at a server that is not there."""
    kimi = chat_model("kimi", "http://127.0.0.1:9/v1", lifecycle="quota-gated")
    kimi["quota"] = {"probe_file": "/nowhere", "windows": [{"name": "5h", "field": "five"}], "threshold_pct": 90}
    local = {
        "id": "local", "role": "chat", "lifecycle": "always-on", "metered": False,
        "litellm": {"model": "ollama_chat/gemma3:4b"}, "endpoints": [{"api_base": f"http://127.0.0.1:{dead}"}],
        "gpu_residency": {"vram_mb": 3300, "num_ctx": 4096, "never_evict": True},
    }  # fmt: skip
    paid = chat_model("paid", "http://127.0.0.1:9/v1", metered=True, lifecycle="cost-gated")
    grant = {"token": token(KEY), "models": ["paid"], "expires": "2099-01-01"}
    return {
        "version": 1, "models": [kimi, chat_model("mid", "http://127.0.0.1:9/v1"), paid, local],
        "routing": {
            "tiers": {"large": ["kimi", "mid", "paid"], "small": ["local"]}, "aliases": {"big": "large"},
            "metered_opt_in": [grant, {"key": "gone", "token": "sha256:" + "0" * 64, "expires": "2026-01-01"}], **routing,
        },
        "gpu_residency_policy": {"baseline": {"measured_mb": 3300, "total_mb": 8192}, "never_evict_ids": ["local"]},
    }  # fmt: skip


@pytest.fixture
def dead() -> int:
    """A port that nobody listens on."""
    return free_port()


@pytest.fixture
def run(
    dead: int, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Run]:
    """Run a command in a folder with a registry, in a time zone one hour east of UTC."""
    (tmp_path / "model-registry.yaml").write_text(yaml.safe_dump(registry(dead), sort_keys=False))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LITELLM_REGISTRY", raising=False)
    for name, value in {
        "LITELLM_REGISTRY_STATE": f"sqlite:///{tmp_path}/state.sqlite",
        "TZ": "XXX-1",
        "COLUMNS": "300",
    }.items():
        monkeypatch.setenv(name, value)
    time.tzset()

    def call(*arguments: str) -> tuple[int, str, str]:
        code = main(arguments)
        return code, *capsys.readouterr()

    yield call
    monkeypatch.delenv("TZ")
    time.tzset()


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    one = open_state({}, f"sqlite:///{tmp_path}/state.sqlite")
    yield one
    one.close()


def test_the_table_of_decisions(run: Run, state: State) -> None:
    """A row a request, the newest last, in local time; what a client sent cannot move the cursor."""
    state.append_decisions(RECORDS)

    assert run("decisions") == (
        0,
        """\
WHEN                      REQUEST  ASKED      TIER   KEY                             SERVED BY  STATUS                       MS   PASSED OVER
2026-11-30 11:00:00+0100  req-1    big        large  agent:torgash sha256:abcdef01…  kimi@0     200                          812  -
2026-11-30 11:01:00+0100  req-2    paid       -      -                               -          403 metered_consent_missing  3    paid=metered_consent_missing
2026-11-30 11:02:00+0100  req-3    nope?[31m  -      bot                             -          400 unknown_model            3    -
""",
        "",
    )  # fmt: skip


def test_one_decision(run: Run, state: State) -> None:
    """One request is told with its reasons."""
    state.append_decisions(RECORDS)

    assert run("decisions", "--request-id", "req-2") == (
        0,
        f"""\
2026-11-30 11:01:00+0100  POST /v1/messages
  request      req-2
  asked for    paid
  by           -
  served by    -
  answer       403 metered_consent_missing, 3 ms
  would wait   5 s for memory
  passed over  paid: metered_consent_missing: {CONSENT}
""",
        "",
    )
    assert "  reason       no tier, alias or model is called that\n" in run("decisions", "--request-id", "req-3")[1]
    assert "  asked for    big (tier large)\n" in run("decisions", "--request-id", "req-1")[1]


def test_decisions_are_chosen(run: Run, state: State) -> None:
    """By tier or alias, by moment, so many at most; as JSON with UTC times."""
    state.append_decisions(RECORDS)

    def names(*options: str) -> list[str]:
        return [one["request_id"] for one in json.loads(run("decisions", "--json", *options)[1])]

    assert names() == ["req-1", "req-2", "req-3"]
    assert (names("--tier", "large"), names("--tier", "big"), names("--tier", "small")) == (["req-1"], ["req-1"], [])
    assert names("--since", "2026-11-30T11:01") == ["req-2", "req-3"]
    assert names("--limit", "1") == ["req-3"]
    assert json.loads(run("decisions", "--json", "--request-id", "req-1")[1]) == [
        {
            "at": "2026-11-30T10:00:00.000+00:00", "request_id": "req-1", "route": "POST /v1/chat/completions", "name": "big",
            "tier": "large", "key": {"alias": "agent:torgash", "token": "sha256:abcdef01…"}, "models": ["kimi"],
            "deployments": ["kimi@0"], "skipped": [], "code": None, "reason": None, "status": 200, "wait_s": 0.0,
            "duration_ms": 812.4,
        }
    ]  # fmt: skip


def test_no_decisions(run: Run, tmp_path: Path) -> None:
    """Where nothing was decided yet, that is said, and reading makes no state."""
    assert run("decisions") == (0, "", f"no decisions in {tmp_path}/state.sqlite\n")
    assert run("decisions", "--json")[:2] == (0, "[]\n")
    assert not (tmp_path / "state.sqlite").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("decisions", "--since", "soon"), "'soon' is no moment"),
        (("decisions", "--limit", "0"), "0 is not in the range"),
        (("explain",), "give --tier T or --model M, one of them"),
        (("explain", "--tier", "large", "--model", "kimi"), "give --tier T or --model M, one of them"),
        (("explain", "--tier", "nope"), "the registry has no tier `nope`"),
        (("explain", "--tier", "kimi"), "`kimi` is a model, not a tier"),
        (("explain", "--model", "nope"), "the registry has no model `nope`"),
        (("explain", "--tier", "large", "--key", "sha256:12"), "that token is no sha256"),
        (("status", "--watch", "--json"), "--watch shows a table"),
    ],
)
def test_bad_usage(run: Run, arguments: tuple[str, ...], says: str) -> None:
    """A question that makes no sense ends with 2 and one line that says why."""
    code, out, err = run(*arguments)

    assert (code, out, err.count("\n")) == (2, "", 1)
    assert says in err


def test_explain_a_tier(run: Run, tmp_path: Path) -> None:
    """Who serves, who is tried next, who is passed over and why; nothing is written."""
    assert run("explain", "--tier", "big") == (
        0,
        f"""\
big (tier large), asked by nobody; the request does not allow metered models
MODEL  VERDICT      WHY
kimi   serves       window 5h: it has not been read yet
mid    tried next   nothing stands in the way
paid   passed over  metered_consent_missing: {CONSENT}
                    consent: key not opted in
served by kimi@0
""",
        "",
    )
    assert [path.name for path in tmp_path.iterdir()] == ["model-registry.yaml"]


def test_explain_by_what_the_workers_know(run: Run, state: State) -> None:
    """A window that a worker has read as full passes the member over, with numbers, age and the time until it is anew."""
    now = time.time()
    full = Reading("kimi", "5h", 97.5, now + 3000, now - 40, now - 40)
    kind, key = name_of(full)
    state.ledger.take(kind, key, FLEET, 3600, data=data_of(full))
    code, out, _ = run("explain", "--tier", "large")
    _, data, _ = run("explain", "--tier", "large", "--json")
    [first, *_] = json.loads(data)["candidates"]

    assert code == 0
    assert "served by mid@0" in out
    assert re.search(r"kimi +passed over +quota_exhausted: the window 5h is used up: 97.5 % used of at most 90 %", out)
    assert (first["code"], first["known"][0]["used_pct"], first["known"][0]["limit_pct"]) == (
        "quota_exhausted",
        97.5,
        90,
    )
    assert 39 <= first["known"][0]["age_s"] < 100
    assert 2900 < first["retry_after_s"] <= 3000


def test_explain_for_a_key(run: Run) -> None:
    """With both consents a metered model would serve; the key itself is nowhere in the answer."""
    code, out, err = run("explain", "--model", "paid", "--key", KEY, "--allow-metered")
    short = token(KEY)[: len("sha256:") + 8]

    assert (code, err) == (0, "")
    assert out == (
        f"paid, asked by {short}…; the request allows metered models\n"
        "MODEL  VERDICT  WHY\n"
        "paid   serves   consent: key opted in (registry) until 2099-01-01 00:00 UTC\n"
        "served by paid@0\n"
    )
    assert run("explain", "--model", "paid", "--key", KEY)[0] == 1
    assert run("explain", "--model", "paid", "--key", "gone", "--allow-metered")[0] == 1


def test_explain_a_cap(run: Run, state: State, tmp_path: Path, dead: int) -> None:
    """A grant whose calls of today are made passes the model over, as the meter would; nothing is counted."""
    capped = registry(dead)
    capped["routing"]["metered_opt_in"][0]["max_calls"] = 2
    (tmp_path / "model-registry.yaml").write_text(yaml.safe_dump(capped, sort_keys=False))
    ask = ("explain", "--model", "paid", "--key", token(KEY), "--allow-metered", "--json")
    day = datetime.now(timezone.utc).date().isoformat()
    digits = token(KEY).removeprefix("sha256:")
    state.take_call(digits, "paid", day, 2)
    before = run(*ask)[0]
    state.take_call(digits, "paid", day, 2)
    code, out, _ = run(*ask)

    assert (before, code, json.loads(out)["refusal"]["code"]) == (0, 1, "metered_cap_reached")
    assert state.calls(digits, "paid", day) == 2


def test_explain_a_model_whose_server_is_gone(run: Run, dead: int) -> None:
    """The GPU gate's no is the reason, with Retry-After, and the exit code is 1."""
    code, out, err = run("explain", "--tier", "small")

    assert (code, err) == (1, "")
    assert out == (
        "tier small, asked by nobody; the request does not allow metered models\n"
        "MODEL  VERDICT      WHY\n"
        "local  passed over  model_unavailable: local is not available: Ollama at "
        f"http://127.0.0.1:{dead} does not answer (/api/ps: connection refused); start it\n"
        "refused: 503 model_unavailable, Retry-After 10 s\n"
    )


def test_status_without_a_proxy(run: Run, tmp_path: Path, dead: int) -> None:
    """The whole picture of an installation where nothing runs; plain text into a pipe."""
    code, out, err = run("status")
    digest = re.search(r"\(([0-9a-f]{12}), 4 models\)", out)

    assert (code, err) == (0, "")
    assert digest is not None
    assert (
        out
        == f"""\
registry  {tmp_path}/model-registry.yaml ({digest[1]}, 4 models)
state     {tmp_path}/state.sqlite
workers   0

TIER        SERVED BY                  NEXT  PASSED OVER
large, big  kimi@0                     mid   paid=metered_consent_missing
small       nobody: model_unavailable  -     local=model_unavailable

GPU auto on {platform.node()}  [........................................]  8192 MB (declared)
  # never-evict 0, = resident 0, + being loaded 0, x others 0, . free 8192 MB
server http://127.0.0.1:{dead}: gone /api/ps: connection refused
never-evict local at http://127.0.0.1:{dead}: its server does not answer

MODEL  WHAT       USED  STATE                     READ
kimi   window 5h  -     it has not been read yet  never

opt-ins   1; the first to end is {token(KEY)[:15]}…'s, at 2099-01-01 00:00:00 UTC; 1 have ended
"""
    )
    assert not (tmp_path / "state.sqlite").exists()


def test_status_as_json(run: Run) -> None:
    """JSON holds every section."""
    code, out, _ = run("status", "--json")

    assert code == 0
    assert list(json.loads(out)) == [
        "at", "registry", "state", "tiers", "gpus", "servers", "loads", "waiting", "never_evict_missing", "quotas", "opt_ins",
    ]  # fmt: skip


def test_status_of_a_registry_that_is_not_valid(run: Run, tmp_path: Path) -> None:
    """The problems are shown with their places, and the exit code is 2."""
    (tmp_path / "model-registry.yaml").write_text("version: one\n")
    code, out, _ = run("status")

    assert code == 2
    assert "  not valid: model-registry.yaml:1:" in out
    assert "tiers" not in json.loads(run("status", "--json")[1])


def test_status_with_a_state_that_cannot_be_used(run: Run, tmp_path: Path) -> None:
    """A broken state is told of, and what needs none is shown all the same."""
    (tmp_path / "state.sqlite").write_text("this is no database, and never was one " * 40)
    code, out, _ = run("status")

    assert code == 0
    assert f"state     {tmp_path}/state.sqlite: state file {tmp_path}/state.sqlite: file is not a database\n" in out
    assert "large, big  kimi@0" in out
