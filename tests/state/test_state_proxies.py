"""Two proxies, as on two hosts, share keys, caps, revocations and the audit trail on one Redis."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.host.proxy import Proxy, write_folder
from tests.host.shapes import config_for, registry_for
from tests.state.valkey import Valkey
from tests.upstreams import Upstream

pytestmark = pytest.mark.host
NAMES = ("kimi", "mid", "paid", "ollama", "tei")
CONSENT = {"x-registry-allow-metered": "true"}
AUTH = {"custom_auth": "litellm_registry_hook.user_api_key_auth", "custom_auth_run_common_checks": True}
# Two seconds is the promise; a busy machine gets as much again for asking.
PROMISE_SECONDS = 4
PASSWORD = "the-password-of-the-state"
Ups = dict[str, Upstream]


@pytest.fixture
def ups() -> Iterator[Ups]:
    every = {name: Upstream(name) for name in NAMES}
    for one in every.values():
        one.__enter__()
    yield every
    for one in every.values():
        one.__exit__(None, None, None)


class Host:
    """One host: a folder with a registry, a proxy, and the command line."""

    def __init__(self, folder: Path, ups: Ups, state: str, workers: int) -> None:
        registry = registry_for(ups)
        registry["routing"] |= {"metered_opt_in": [], "trust_custom_auth": False}
        config = config_for(registry, general=AUTH)
        config["litellm_settings"]["enable_post_custom_auth_checks"] = True
        write_folder(folder, registry, config, keys=False)
        self.proxy = Proxy(folder, workers=workers, env={"LITELLM_REGISTRY_STATE": state})

    def run(self, *arguments: str) -> Any:
        done = subprocess.run(
            [Path(sys.executable).parent / "litellm-registry", *arguments, "--json"],
            cwd=self.proxy.folder, env=self.proxy.env, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        self.said = done.stderr
        return json.loads(done.stdout)

    def paid(self, key: str) -> str:
        return code(self.proxy.chat("paid-fallback", key=key, headers=CONSENT))


def code(response: httpx.Response) -> str:
    return response.headers["x-registry-model"] if response.status_code < 400 else response.json()["error"]["code"]


def within(check: Callable[[], bool]) -> bool:
    """Ask until it holds; False where it does not in the promised time."""
    end = time.monotonic() + PROMISE_SECONDS
    while time.monotonic() < end:
        if check():
            return True
        time.sleep(0.05)
    return False


@pytest.mark.pays
def test_two_hosts_on_one_state(ups: Ups, tmp_path: Path) -> None:
    """A key made once works on both; five calls a day are five on both together; a revocation reaches every worker.

    Without the server, known keys are served what is free and nothing metered leaves; with it back, all goes on.
    """
    with Valkey(tmp_path, password=PASSWORD) as server:
        one, two = Host(tmp_path / "one", ups, server.url, 2), Host(tmp_path / "two", ups, server.url, 1)
        with one.proxy, two.proxy, ThreadPoolExecutor(6) as pool:
            key = one.run("keys", "create", "--alias", "payer")["key"]
            assert one.said == f"state: unix://{server.socket}\n"
            assert {code(host.proxy.chat("large", key=key)) for host in (one, one, one, two)} == {"kimi"}
            assert {host.paid(key) for host in (one, two)} == {"metered_key_not_opted_in"}
            for host in (one, two):
                host.run("opt-in", "add", "payer", "--model", "paid-fallback", "--max-calls", "5")
            for up in ups.values():
                up.reset()
            assert within(lambda: two.paid(key) == "paid-fallback")

            codes = list(pool.map(lambda n: (one, two)[n % 2].paid(key), range(19)))
            assert sorted(set(codes)) == ["metered_cap_reached", "paid-fallback"]
            assert (codes.count("paid-fallback"), len(ups["paid"].generating_calls)) == (4, 5)
            kinds = [record["kind"] for record in two.run("audit")]
            assert (kinds.count("called"), kinds.count("granted")) == (5, 2)
            [grant] = two.run("opt-in", "list")
            assert (grant["calls_today"], grant["max_calls"]) == ({"paid-fallback": 5}, 5)

            server.kill()
            assert within(lambda: "no metered calls until it is back" in two.proxy.log)
            assert {code(host.proxy.chat("large", key=key)) for host in (one, one, one, two)} == {"kimi"}
            answers = [host.proxy.chat("paid-fallback", key=key, headers=CONSENT) for host in (one, two)]
            assert {(answer.status_code, answer.json()["error"]["message"]) for answer in answers} == {
                (503, "model 'paid-fallback': the state cannot be used, and no metered call leaves without a record; "
                      "see the proxy's log"),
            }  # fmt: skip
            assert two.proxy.chat("large", key="sk-somebody-else-0001").status_code == 503
            assert len(ups["paid"].generating_calls) == 5

            server.start()
            assert within(lambda: two.proxy.chat("large", key=key).status_code == 401)
            again = two.run("keys", "create", "--alias", "again")["key"]
            for host in (one, two):
                host.run("opt-in", "add", "again", "--model", "paid-fallback")
            assert within(lambda: {host.paid(again) for host in (one, one, one, two)} == {"paid-fallback"})
            two.run("keys", "revoke", "again")
            assert within(
                lambda: (
                    {one.proxy.chat("large", key=again).status_code for _ in range(8)}
                    | {two.proxy.chat("large", key=again).status_code}
                    == {401}
                )
            )
        for host in (one, two):
            assert "background failed" not in host.proxy.log
            assert PASSWORD not in host.proxy.log
            assert list(host.proxy.folder.glob("*.sqlite*")) == []
