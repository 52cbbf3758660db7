"""Decisions, explain and status on a real proxy, over its routes and beside it; docs/why.md is followed as it is written."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from openai import OpenAI

from tests.host.proxy import ADMIN, OPTED, PLAIN, ROOT, Proxy, heal, write_folder
from tests.host.shapes import config_for, registry_for
from tests.upstreams import Upstream, upstreams

pytestmark = pytest.mark.host
PAGE = (ROOT / "docs/why.md").read_text(encoding="utf-8")
SH = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
NAMES = ("kimi", "mid", "paid", "ollama", "tei")
CONSENT = {"x-registry-allow-metered": "true"}
NO_CONSENT = (
    "each call costs money and this request does not allow it; send the header x-registry-allow-metered: true and have "
    "the virtual key opted in"
)


@pytest.fixture(scope="module")
def ups() -> Iterator[dict[str, Upstream]]:
    with upstreams(*NAMES) as found:
        yield dict(zip(NAMES, found, strict=True))


@pytest.fixture(scope="module")
def proxy(ups: dict[str, Upstream], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    folder = tmp_path_factory.mktemp("why")
    registry = registry_for(ups)
    with Proxy(write_folder(folder, registry, config_for(registry))) as one:
        yield one


@pytest.fixture(autouse=True)
def healthy(proxy: Proxy, ups: dict[str, Upstream]) -> Iterator[None]:
    heal(ups.values())
    yield
    heal(ups.values())


def hashed(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def within(check: Callable[[], Any], seconds: float = 30.0) -> Any:
    """Ask until the answer is true, and return it; the last answer where it never is."""
    end = time.monotonic() + seconds
    while not (found := check()) and time.monotonic() < end:
        time.sleep(0.05)
    return found


def asked(proxy: Proxy, what: str, /, *, bearer: str = ADMIN, **query: str) -> httpx.Response:
    return httpx.get(
        f"{proxy.url}/registry/{what}", params=query, headers={"Authorization": f"Bearer {bearer}"}, timeout=60
    )


def decision(proxy: Proxy, answer: httpx.Response) -> dict[str, Any]:
    """The one record of an answer, without what is another one each time."""
    [one] = asked(proxy, "decisions", request_id=answer.headers["x-litellm-call-id"]).json()["decisions"]
    took, at = one.pop("duration_ms"), datetime.fromisoformat(one.pop("at"))
    assert 0 < took < 60_000
    assert abs((datetime.now(timezone.utc) - at).total_seconds()) < 90
    assert one.pop("request_id") == answer.headers["x-litellm-call-id"]
    return one


def run(proxy: Proxy, command: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a command line beside the proxy, on its state."""
    path = f"{Path(sys.prefix) / 'bin'}{os.pathsep}{os.environ['PATH']}"
    whole = {**proxy.env, "PATH": path, **env}
    return subprocess.run(
        ["sh", "-c", command], cwd=proxy.folder, env=whole, capture_output=True, text=True, timeout=60
    )


BY_PLAIN = {"alias": "plain", "token": f"sha256:{hashed(PLAIN)[:8]}…"}
CHAT = "POST /v1/chat/completions"
SKIPPED_PAID = {"model": "paid-fallback", "code": "metered_consent_missing", "reason": NO_CONSENT}


def test_a_served_request(proxy: Proxy) -> None:
    """The record of a request that the first member served."""
    assert decision(proxy, proxy.chat("big")) == {
        "route": CHAT, "name": "big", "tier": "large", "key": BY_PLAIN, "models": ["kimi"], "deployments": ["kimi@0"],
        "skipped": [], "code": None, "reason": None, "status": 200, "wait_s": 0.0,
    }  # fmt: skip


def test_a_request_that_a_later_member_served(proxy: Proxy, ups: dict[str, Upstream]) -> None:
    """One record for the whole walk, with the member that failed and why."""
    ups["kimi"].fail(500, times=1)
    one = decision(proxy, proxy.chat("large", headers={"x-registry-wait": "7"}))

    [skip] = one.pop("skipped")
    assert one == {
        "route": CHAT, "name": "large", "tier": "large", "key": BY_PLAIN, "models": ["mid"], "deployments": ["mid@0"],
        "code": None, "reason": None, "status": 200, "wait_s": 7.0,
    }  # fmt: skip
    assert (skip["model"], skip["code"]) == ("kimi", "model_unavailable")
    assert "500" in skip["reason"]


def test_a_refused_request(proxy: Proxy) -> None:
    """A refusal has an id for its client, and a record with the members and their reasons."""
    answer = proxy.chat("only-paid")

    assert answer.status_code == 403
    assert decision(proxy, answer) == {
        "route": CHAT, "name": "only-paid", "tier": "only-paid", "key": BY_PLAIN, "models": [], "deployments": [],
        "skipped": [SKIPPED_PAID], "code": "metered_consent_missing", "reason": None, "status": 403, "wait_s": 0.0,
    }  # fmt: skip


def test_a_refusal_without_candidates(proxy: Proxy) -> None:
    """A name that nobody knows and a route that nobody governs have a record with the refusal's sentence."""
    unknown = decision(proxy, proxy.chat("nobody-has-this"))
    closed = decision(proxy, proxy.post("/v1/assistants", {}))

    assert (unknown["name"], unknown["code"], unknown["status"]) == ("nobody-has-this", "unknown_model", 400)
    assert unknown["reason"].startswith("no tier, alias or model is called 'nobody-has-this'")
    assert closed == {
        "route": "POST /v1/assistants", "name": "", "tier": None, "key": {"alias": "anonymous", "token": None}, "models": [],
        "deployments": [], "skipped": [], "code": "route_not_governed", "status": 403, "wait_s": 0.0,
        "reason": "route POST /v1/assistants is closed: the registry cannot see which model it calls",
    }  # fmt: skip


def test_a_stream(proxy: Proxy) -> None:
    """A streamed answer has one record too, written when its last token has gone out."""
    client = OpenAI(base_url=f"{proxy.url}/v1", api_key=PLAIN, max_retries=0)
    raw = client.chat.completions.with_raw_response.create(
        model="large", messages=[{"role": "user", "content": "hi"}], stream=True
    )
    words = "".join(chunk.choices[0].delta.content or "" for chunk in raw.parse() if chunk.choices)
    name = raw.headers["x-litellm-call-id"]
    found = within(lambda: asked(proxy, "decisions", request_id=name).json()["decisions"])

    assert words == "answer from kimi"
    assert [(one["models"], one["status"], one["code"]) for one in found] == [(["kimi"], 200, None)]


def test_a_paid_request_and_an_embedding(proxy: Proxy) -> None:
    """Other kinds of calls are recorded alike; a metered one names its key by the short hash alone."""
    paid = decision(proxy, proxy.chat("only-paid", key=OPTED, headers=CONSENT))
    vector = decision(proxy, proxy.post("/v1/embeddings", {"model": "embedder", "input": "hi"}))

    assert (paid["models"], paid["key"]) == (
        ["paid-fallback"],
        {"alias": "opted", "token": f"sha256:{hashed(OPTED)[:8]}…"},
    )
    assert (vector["name"], vector["tier"], vector["deployments"]) == ("embedder", "embed", ["bge-m3@0"])


def test_what_makes_no_record(proxy: Proxy) -> None:
    """Reading, administration and a request that LiteLLM has turned away are no decisions."""
    before = asked(proxy, "decisions", limit="10000").json()["decisions"]
    answers = [
        proxy.get("/v1/models").status_code, proxy.get("/health/liveliness").status_code,
        asked(proxy, "status").status_code, proxy.chat("large", key="sk-nobody-at-all-00").status_code,
    ]  # fmt: skip

    assert answers == [200, 200, 200, 401]
    assert asked(proxy, "decisions", limit="10000").json() == {"decisions": before, "this_worker_alone": None}


def test_the_log_has_each_decision_as_a_line_of_json(proxy: Proxy) -> None:
    """The proxy's log has the record as one line, and no key in it."""
    name = proxy.chat("large").headers["x-litellm-call-id"]

    def logged() -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in proxy.log.splitlines() if line.startswith('{"at":')]
        return [line for line in lines if line["request_id"] == name]

    [line] = within(logged)
    [stored] = asked(proxy, "decisions", request_id=name).json()["decisions"]
    assert line == stored
    assert PLAIN not in proxy.log


def test_the_newest_come_first_and_can_be_chosen(proxy: Proxy) -> None:
    """The route gives the newest first, of a tier, since a moment, so many at most."""
    proxy.chat("kimi")
    for tier in ("large", "big", "only-paid"):
        proxy.chat(tier)

    newest = asked(proxy, "decisions", limit="2").json()["decisions"]
    of_tier = asked(proxy, "decisions", tier="large", limit="2").json()["decisions"]
    assert [one["name"] for one in newest] == ["only-paid", "big"]
    assert [one["name"] for one in of_tier] == ["big", "large"]
    assert asked(proxy, "decisions", since="2099-01-01").json()["decisions"] == []


@pytest.mark.parametrize("what", ["decisions", "explain", "status"])
def test_for_admins_alone(proxy: Proxy, what: str) -> None:
    """Nobody else sees what was decided, not even of a request of their own."""
    answer = asked(proxy, what, bearer=PLAIN)

    assert answer.status_code in {401, 403}
    assert "kimi" not in answer.text


@pytest.mark.parametrize(
    ("what", "query", "code", "says"),
    [
        ("decisions", {"limit": "0"}, "bad_request", "limit: a number from 1 to 10000"),
        ("decisions", {"since": "soon"}, "bad_request", "since: 'soon' is no moment"),
        ("decisions", {"request": "x"}, "bad_request", "no parameter is called 'request'; there are: request_id, tier"),
        ("explain", {"tier": "nope"}, "unknown_model", "the registry has no tier `nope`; tiers: large"),
        ("explain", {"model": "nope"}, "unknown_model", "the registry has no model `nope`"),
        ("explain", {}, "unknown_model", "name a tier or a model, one of them"),
        ("explain", {"tier": "large", "allow_metered": "maybe"}, "bad_request", "allow_metered: true or false"),
        ("explain", {"tier": "large", "key": "sha256:12"}, "bad_key", "that token is no sha256"),
        ("status", {"all": "1"}, "bad_request", "no parameter is called 'all'; there are: none"),
    ],
)
def test_bad_questions(proxy: Proxy, what: str, query: dict[str, str], code: str, says: str) -> None:
    """A question that makes no sense is a 400 that says what would."""
    answer = asked(proxy, what, **query)
    error = answer.json()["error"]

    assert (answer.status_code, error["code"]) == (400, code), answer.text
    assert error["message"].startswith(says)


def words(data: dict[str, Any]) -> list[tuple[str, str, str | None]]:
    return [(one["model"], one["verdict"], one["code"]) for one in data["candidates"]]


def test_explain_says_what_then_happens(proxy: Proxy) -> None:
    """The route's answer is what a request gets: who serves, and who is passed over with which code."""
    for query, body in (
        ({"tier": "large"}, {"model": "large"}),
        ({"tier": "only-paid"}, {"model": "only-paid"}),
        ({"model": "paid-fallback", "key": f"sha256:{hashed(PLAIN)}"}, {"model": "paid-fallback"}),
    ):
        found = asked(proxy, "explain", **query).json()
        answer = proxy.chat(**body)
        assert found["served"] == (answer.status_code == 200)
        assert found["model"] == answer.headers.get("x-registry-model")
        if not found["served"]:
            error = answer.json()["error"]
            refusal = (found["refusal"]["status"], found["refusal"]["code"], found["refusal"]["message"])
            assert refusal == (answer.status_code, error["code"], error["message"])


def test_explain_for_a_key(proxy: Proxy) -> None:
    """With both consents the metered member would serve, by the grant in the registry; without, it is passed over."""
    with_key = {"tier": "only-paid", "key": f"sha256:{hashed(OPTED)}", "allow_metered": "true"}
    found = asked(proxy, "explain", **with_key).json()
    other = asked(proxy, "explain", **(with_key | {"key": f"sha256:{hashed(PLAIN)}"})).json()

    assert words(found) == [("paid-fallback", "serves", None)]
    assert found["candidates"][0]["consent"] == {
        "request_allows": True, "key_opted_in": True, "source": "registry", "expires": None, "max_calls": None,
    }  # fmt: skip
    assert words(other) == [("paid-fallback", "skipped", "metered_key_not_opted_in")]


def test_explain_and_a_model_that_a_call_has_closed(proxy: Proxy, ups: dict[str, Upstream]) -> None:
    """What a 429 has taught is in the next explanation, of the route and of the command, with its age."""
    ups["kimi"].fail(429, headers={"retry-after": "600"}, times=1)
    proxy.chat("large")
    found = asked(proxy, "explain", tier="large").json()

    assert words(found) == [
        ("kimi", "skipped", "quota_exhausted"), ("mid", "serves", None), ("paid-fallback", "skipped", "metered_consent_missing"),
    ]  # fmt: skip
    [closure] = found["candidates"][0]["known"]
    assert (closure["kind"], closure["name"], closure["ok"]) == ("closure", "kimi", False)
    assert 0 <= closure["age_s"] < 60

    def said() -> bool:
        return words(json.loads(run(proxy, "litellm-registry explain --tier large --json").stdout)) == words(found)

    assert within(said)


def test_explain_shows_the_gpu(proxy: Proxy) -> None:
    """A model on Ollama has the residency gate's answer, after a request that loaded it: resident."""
    assert proxy.chat("small").status_code == 200
    loaded = within(
        lambda: (found := asked(proxy, "explain", tier="small").json())["candidates"][0]["deployments"][0]["gpu"]["answer"]
        == "resident" and found
    )  # fmt: skip

    assert words(loaded) == [("local-small", "serves", None)]
    gpu = loaded["candidates"][0]["deployments"][0]["gpu"]
    assert re.fullmatch(
        r"it is loaded, at least until \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC|it is loaded and pinned", gpu["text"]
    )


def test_status(proxy: Proxy) -> None:
    """The route's status: tiers by the same decision, the registry in force, the worker, the state, the GPU."""
    proxy.chat("small")
    found = within(lambda: (one := asked(proxy, "status").json())["state"]["in_force"] and one)
    digest = hashlib.sha256((proxy.folder / "model-registry.yaml").read_bytes()).hexdigest()[:12]

    assert [(one["tier"], one["model"]) for one in found["tiers"]] == [
        ("large", "kimi"), ("small", "local-small"), ("embed", "bge-m3"), ("rerank", "tei-reranker"), ("only-paid", None),
    ]  # fmt: skip
    assert found["tiers"][0]["skipped"] == [{"model": "paid-fallback", "code": "metered_consent_missing"}]
    assert (found["registry"]["path"], found["registry"]["digest"], found["registry"]["broken"], found["registry"]["models"]) == (
        str(proxy.folder / "model-registry.yaml"), digest, [], 6,
    )  # fmt: skip
    assert (found["state"]["place"], found["state"]["workers"]) == (f"{proxy.folder}/state.sqlite", 1)
    assert [one["digest"] for one in found["state"]["in_force"]] == [digest]
    [gpu] = found["gpus"]
    assert (gpu["source"], gpu["total_mb"]) == ("declared", 65536)
    parts = ("never_evict_mb", "resident_mb", "foreign_mb", "free_mb")
    assert sum(gpu[part] for part in parts) == 65536
    assert {"local-small", "bge-m3"} <= {one["model"] for one in gpu["models"]}
    assert found["opt_ins"] == {"count": 1, "expired": 0, "soonest": None}


def test_a_broken_edit_shows(proxy: Proxy) -> None:
    """After an edit that is not valid, status says so: the route, and the command, which then exits with 2."""
    file = proxy.folder / "model-registry.yaml"
    good = file.read_text()
    before = asked(proxy, "status").json()["registry"]
    try:
        file.write_text(good.replace("version: 1", "version: one"))
        broken = within(lambda: (one := asked(proxy, "status").json()["registry"])["broken"] and one)
        told = within(
            lambda: (
                (found := json.loads(run(proxy, "litellm-registry status --json").stdout))["state"]["in_force"][0][
                    "broken"
                ]
                and found
            )
        )
        shown = run(proxy, "litellm-registry status")
    finally:
        file.write_text(good)

    assert (broken["digest"], broken["loaded_at"]) == (before["digest"], before["loaded_at"])
    assert broken["broken"][0].startswith("model-registry.yaml:1:")
    assert "tiers" not in told
    assert told["state"]["in_force"][0]["digest"] == before["digest"]
    assert shown.returncode == 2
    assert "keeps its last good registry" in shown.stdout
    assert within(lambda: asked(proxy, "status").json()["registry"]["broken"] == [])


def test_an_edit_in_force_shows(proxy: Proxy) -> None:
    """After a good edit the digest and the moment of the reload are new."""
    file = proxy.folder / "model-registry.yaml"
    good = file.read_text()
    before = asked(proxy, "status").json()["registry"]
    try:
        edited = yaml.safe_load(good)
        edited["routing"]["tiers"]["extra"] = ["mid"]
        file.write_text(yaml.safe_dump(edited, sort_keys=False))
        after = within(lambda: (one := asked(proxy, "status").json())["registry"]["digest"] != before["digest"] and one)
    finally:
        file.write_text(good)

    assert after["registry"]["loaded_at"] >= before["loaded_at"]
    assert [one["model"] for one in after["tiers"] if one["tier"] == "extra"] == ["mid"]
    assert within(lambda: asked(proxy, "status").json()["registry"]["digest"] == before["digest"])


def test_the_page(proxy: Proxy) -> None:
    """Every command block of docs/why.md runs as it is written, on the state of a running proxy."""
    env = {"PROXY": proxy.url, "KEY": PLAIN, "ADMIN_KEY": ADMIN, "TOKEN": hashed(OPTED)}
    first, one, some, large, more, now, over = SH
    line = run(proxy, first, **env).stdout
    env["ID"] = line.partition(":")[2].strip()
    [stored] = within(lambda: asked(proxy, "decisions", request_id=env["ID"]).json()["decisions"])

    report = run(proxy, one, **env)
    assert stored["code"] == "metered_consent_missing"
    assert [text.split("  ")[1].strip() for text in report.stdout.splitlines()[1:]] == [
        "request", "asked for", "by", "served by", "answer", "passed over",
    ]  # fmt: skip
    assert f"passed over  paid-fallback: metered_consent_missing: {NO_CONSENT}" in report.stdout
    done = run(proxy, some, **env)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("WHEN ")
    assert run(proxy, large, **env).stdout.splitlines()[:4] == [
        "tier large, asked by nobody; the request does not allow metered models",
        "MODEL          VERDICT      WHY",
        "kimi           serves       nothing stands in the way",
        "mid            tried next   nothing stands in the way",
    ]
    both = run(proxy, more, **env)
    assert "paid-fallback  tried next  consent: key opted in (registry)" in both.stdout
    shown = run(proxy, now, **env)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "# never-evict" in shown.stdout
    answers = [
        json.loads(text)
        for text in run(proxy, over.replace('KEY"\n', 'KEY"; echo\n'), **env).stdout.splitlines()
        if text
    ]
    assert [sorted(answer)[0] for answer in answers] == ["decisions", "allow_metered", "at"]
