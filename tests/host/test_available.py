"""Available now: what a real call or a probe has said of a model keeps later requests off it, until its time is over."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.host.proxy import ADMIN, CALLBACK, PLAIN, ROOT, Proxy, write_folder
from tests.host.shapes import config_for, registry_for
from tests.host.test_live import PROMISE_SECONDS, code, within, write
from tests.upstreams import Upstream

KIMI_403 = {
    "error": {"message": "You've reached your usage limit for this billing cycle", "type": "access_terminated_error"}
}


def metrics(proxy: Proxy) -> dict[str, float]:
    """Our numbers of requests and quotas at LiteLLM's own /metrics, by their names without the common prefix."""
    found = re.findall(r"^registry_(?:quota_)?(\S+) (\S+)$", proxy.get("/metrics/").text, re.MULTILINE)
    return {name: float(value) for name, value in found}


def windows(shown: dict[str, float]) -> tuple[float, float]:
    """What the metrics say of kimi's two windows."""
    return tuple(shown[f'used_percent{{model="kimi",window="{name}"}}'] for name in ("5h", "weekly"))


def memory_mb(proxy: Proxy) -> float:
    """Resident memory of the proxy's process."""
    assert proxy.process is not None
    status = Path(f"/proc/{proxy.process.pid}/status").read_text()
    return int(re.findall(r"VmRSS:\s+(\d+) kB", status)[0]) / 1024


def reset_in(seconds: float) -> str:
    return (datetime.now(timezone.utc) + timedelta(seconds=seconds)).isoformat()


def test_a_quota_answer_closes_the_model_until_its_reset(ups: dict[str, Upstream], tmp_path: Path) -> None:
    """Kimi's 403 is served by the next member in the same request; the next hundred leave kimi alone, in both workers;
    after the stated time one finds it open again."""
    registry = registry_for(ups)
    folder = write_folder(tmp_path, registry, config_for(registry))
    with Proxy(folder, workers=2) as proxy:
        ups["kimi"].fail(403, KIMI_403, headers={"Retry-After": "30"}, times=1)
        first = proxy.chat("large")
        assert (code(first), first.headers["x-registry-skipped"]) == ("mid", "kimi=model_unavailable")
        began = time.monotonic()
        # The other worker knows it from the state a moment later.
        assert within(PROMISE_SECONDS, lambda: {code(proxy.chat("large")) for _ in range(8)} == {"mid"})
        ups["kimi"].reset()
        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(lambda _: proxy.chat("large"), range(100)))
        assert {(code(one), one.headers["x-registry-skipped"]) for one in answers} == {("mid", "kimi=quota_exhausted")}
        assert ups["kimi"].generating_calls == []
        named = proxy.chat("kimi")
        assert (named.status_code, code(named)) == (429, "quota_exhausted")
        assert 0 < int(named.headers["retry-after"]) <= 30 - int(time.monotonic() - began) + 1
        assert "answered 403" in named.json()["error"]["message"]
        assert within(60, lambda: code(proxy.chat("large")) == "kimi")


def test_an_admin_opens_a_closed_model_as_the_page_says(ups: dict[str, Upstream], proxy: Proxy) -> None:
    """The command of docs/available.md opens kimi at once; without it the model stays closed for its hour."""
    text = (ROOT / "docs/available.md").read_text()
    [command] = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    [shown] = re.findall(r"```\n(\{.*?)\n```", text)
    ups["kimi"].fail(429, KIMI_403, headers={"Retry-After": "3600"}, times=1)
    assert [code(proxy.chat("large")) for _ in range(3)] == ["mid", "mid", "mid"]
    env = {**os.environ, "LITELLM_MASTER_KEY": ADMIN}
    command = command.replace("http://127.0.0.1:4000", proxy.url)
    opened = subprocess.run(["sh", "-c", command], env=env, capture_output=True, text=True, timeout=60, check=True)
    assert (opened.stdout, code(proxy.chat("large"))) == (shown, "kimi")
    denied = proxy.post("/registry/reopen")
    assert (denied.status_code, denied.json()["error"]["code"]) == (403, "admin_only")
    unknown = proxy.post("/registry/reopen?model=kimmi", key=ADMIN)
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "unknown_model")


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_served_answer_that_was_the_last_of_its_limit_closes(
    ups: dict[str, Upstream], proxy: Proxy, stream: bool
) -> None:
    """`x-ratelimit-remaining-requests: 0` on a 200: the next request leaves kimi alone instead of collecting a 429."""
    ups["kimi"].answer_headers = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1h0m0s"}
    body = {"model": "large", "messages": [{"role": "user", "content": "hi"}], "stream": stream}
    assert code(proxy.post("/v1/chat/completions", body)) == "kimi"
    second = proxy.chat("large")
    assert (code(second), second.headers["x-registry-skipped"]) == ("mid", "kimi=quota_exhausted")
    assert len(ups["kimi"].generating_calls) == 1
    assert proxy.post("/registry/reopen?model=kimi", key=ADMIN).json() == {"opened": ["kimi"]}
    assert code(proxy.chat("large")) == "kimi"
    proxy.post("/registry/reopen?model=kimi", key=ADMIN)


def test_windows_of_a_probe_close_and_open_a_model(ups: dict[str, Upstream], tmp_path: Path) -> None:
    """One full window of two is enough to close; room in both opens it again, without a restart."""
    usage = tmp_path / "usage.json"

    def used(five: float, week: float) -> None:
        ends = {"resets_at": reset_in(3600)}
        usage.write_text(json.dumps({"five_hour": {"used_pct": five, **ends}, "weekly": {"used_pct": week, **ends}}))

    used(10, 10)
    registry = registry_for(ups)
    registry["models"][0]["lifecycle"] = "quota-gated"
    registry["models"][0]["quota"] = {
        "probe_file": str(usage), "interval_s": 1,
        "windows": [
            {"name": "5h", "field": "five_hour.used_pct", "resets_at_field": "five_hour.resets_at"},
            {"name": "weekly", "field": "weekly.used_pct", "resets_at_field": "weekly.resets_at"},
        ],
    }  # fmt: skip
    config = config_for(registry)
    config["litellm_settings"]["callbacks"] = [CALLBACK, "prometheus"]
    folder = write_folder(tmp_path / "proxy", registry, config)
    with Proxy(folder) as proxy:
        assert within(PROMISE_SECONDS, lambda: code(proxy.chat("large")) == "kimi")
        for five, week in ((100, 0), (0, 100)):
            used(five, week)
            assert within(10, lambda: code(proxy.chat("large")) == "mid")
            refused = proxy.chat("kimi")
            assert (refused.status_code, code(refused)) == (429, "quota_exhausted")
            assert (
                f"the window {'5h' if five else 'weekly'} is used up: 100 % used" in refused.json()["error"]["message"]
            )
            assert 3500 < int(refused.headers["retry-after"]) <= 3600
            # Four times a second they are carried over.
            assert within(10, lambda: windows(metrics(proxy)) == (five, week))
            shown = metrics(proxy)
            assert shown['passed_over_total{code="quota_exhausted",model="kimi"}'] >= 1
            assert shown['decisions_total{code="quota_exhausted",model="",tier=""}'] >= 1
            assert shown['decisions_total{code="served",model="mid",tier="large"}'] >= 1
            assert shown["file_broken"] == 0
            used(20, 20)
            assert within(10, lambda: code(proxy.chat("large")) == "kimi")
        (folder / "model-registry.yaml").write_text("version: 1\nmodels: [{id: broken}]\n")
        assert within(10, lambda: metrics(proxy)["file_broken"] == 1)


def test_a_dead_server_is_left_alone_and_found_again(ups: dict[str, Upstream], tmp_path: Path) -> None:
    """After three refused connections nobody tries it for a while; once it is back, one request finds out."""
    registry = registry_for(ups)
    folder = write_folder(tmp_path, registry, config_for(registry))
    with Proxy(folder) as proxy:
        ups["kimi"].refuse()
        skipped = [proxy.chat("large").headers["x-registry-skipped"] for _ in range(6)]
        assert skipped == ["kimi=model_unavailable"] * 6
        assert "is not asked until" in proxy.log
        ups["kimi"].ok()
        assert within(40, lambda: code(proxy.chat("large")) == "kimi")


@pytest.mark.pays
def test_a_thousand_edits_while_fifty_clients_ask(ups: dict[str, Upstream], tmp_path: Path) -> None:
    """No request fails and no half-read file shows while the registry is edited a thousand times; the last edit is in
    force at the end."""
    registry: dict[str, Any] = registry_for(ups)
    folder = write_folder(tmp_path, registry, config_for(registry))
    body = {"model": "large", "messages": [{"role": "user", "content": "hi"}]}
    headers = {"Authorization": f"Bearer {PLAIN}"}
    with (
        Proxy(folder) as proxy,
        ThreadPoolExecutor(50) as pool,
        httpx.Client(
            base_url=proxy.url, headers=headers, timeout=60, limits=httpx.Limits(max_connections=50)
        ) as client,
    ):
        assert code(proxy.chat("large")) == "kimi"
        done = False

        def ask(_: int) -> set[int]:
            seen = set()
            while not done:
                seen.add(client.post("/v1/chat/completions", json=body).status_code)
            return seen

        asking = [pool.submit(ask, n) for n in range(50)]
        early = 0
        for turn in range(1000):
            if turn == 200:
                early = memory_mb(proxy)
            registry["routing"]["tiers"]["large"] = ["kimi", "mid"] if turn % 2 else ["mid", "kimi"]
            registry["routing"]["tiers"]["turn"] = ["kimi" if turn % 2 else "mid"]
            write(folder, registry)
        assert within(30, lambda: code(proxy.chat("turn")) == "kimi" and code(proxy.chat("large")) == "kimi")
        done = True
        # What a thousand decisions kept in memory take is less; a registry kept for each edit would be far more.
        assert memory_mb(proxy) - early < 60
        assert set().union(*(one.result() for one in asking)) == {200}
        assert "is not in force" not in proxy.log
