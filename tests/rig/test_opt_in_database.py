"""Opting in keys of LiteLLM's own database, on a real PostgreSQL and a proxy with two workers."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.host.proxy import MASTER, Proxy, write_folder
from tests.host.shapes import config_for, registry_for
from tests.upstreams import Upstream, upstreams

pytestmark = pytest.mark.rig
CONSENT = {"x-registry-allow-metered": "true"}
IN_FORCE_S = 2.0


def token(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


@pytest.fixture(scope="module")
def ups() -> Iterator[dict[str, Upstream]]:
    names = ("kimi", "mid", "paid", "ollama", "tei")
    with upstreams(*names) as found:
        yield dict(zip(names, found, strict=True))


@pytest.fixture(scope="module")
def proxy(
    database: Mapping[str, str], ups: dict[str, Upstream], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Proxy]:
    registry = registry_for(ups)
    registry["routing"]["metered_opt_in"] = []
    registry["routing"]["trust_custom_auth"] = False
    config = config_for(registry)
    del config["general_settings"]["custom_auth"]
    folder = write_folder(tmp_path_factory.mktemp("db"), registry, config, keys=False)
    env = {**database, "LITELLM_REGISTRY_STATE": f"sqlite:///{folder / 'state.sqlite'}"}
    with Proxy(folder, workers=2, env=env) as one:
        yield one


@pytest.fixture
def key(proxy: Proxy, request: pytest.FixtureRequest) -> str:
    """A fresh key with the test's name as its alias, and a permission that is none of ours."""
    name = request.node.name
    value = f"sk-{token(name)[:24]}"
    body = {"key": value, "key_alias": name, "permissions": {"of_others": {"a": [1]}}}
    made = proxy.post("/key/generate", body, key=MASTER)
    assert made.status_code == 200, made.text
    return value


def opt_in(proxy: Proxy, *words: str) -> tuple[int, Any, str]:
    """Run the command beside the proxy, with its admin key in the environment."""
    done = subprocess.run(
        [Path(sys.executable).parent / "litellm-registry", "opt-in", *words, "--proxy", proxy.url, "--json"],
        cwd=proxy.folder, env=proxy.env, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr


def permissions(proxy: Proxy, key: str) -> dict[str, Any]:
    return dict(proxy.get(f"/key/info?key={token(key)}", key=MASTER).json()["info"]["permissions"])


def listed(proxy: Proxy) -> list[Any]:
    return list(yaml.safe_load((proxy.folder / "model-registry.yaml").read_text())["routing"]["metered_opt_in"])


def settle(proxy: Proxy, key: str, wanted: int, limit_s: float) -> float:
    """Ask for the paid model by new connections until 30 in a row answer as wanted; seconds to the last other answer."""
    started, last, alike = time.monotonic(), 0.0, 0
    while alike < 30:
        assert time.monotonic() - started < limit_s + 20, "it does not settle"
        if proxy.chat("paid-fallback", key=key, headers=CONSENT).status_code == wanted:
            alike += 1
        else:
            alike, last = 0, time.monotonic() - started
    return last


def test_alias_is_pinned_and_in_force(
    proxy: Proxy, ups: dict[str, Upstream], key: str, request: pytest.FixtureRequest
) -> None:
    """An alias of the database is pinned to its token in the registry; grant and removal are in force within two seconds."""
    alias = request.node.name
    assert settle(proxy, key, 403, 0) == 0.0

    code, added, said = opt_in(proxy, "add", alias, "--model", "paid-fallback")
    entry = listed(proxy)
    granted = settle(proxy, key, 200, IN_FORCE_S)
    gone, _, _ = opt_in(proxy, "remove", alias)
    removed = settle(proxy, key, 403, IN_FORCE_S)

    assert (code, gone) == (0, 0), said
    assert "warning" not in said
    assert entry == [{"key": alias, "token": f"sha256:{token(key)}", "models": ["paid-fallback"]}]
    assert [one["marks"] for one in added["grants"]] == [[]]
    assert (granted < IN_FORCE_S, removed < IN_FORCE_S) == (True, True), (granted, removed)
    assert listed(proxy) == []
    assert permissions(proxy, key) == {"of_others": {"a": [1]}}


def test_permission_and_its_removal(
    proxy: Proxy, ups: dict[str, Upstream], key: str, request: pytest.FixtureRequest
) -> None:
    """A permission keeps the others; its removal outranks LiteLLM's key cache: both workers refuse within two seconds."""
    alias = request.node.name
    code, added, said = opt_in(proxy, "add", alias, "--permission", "--model", "paid-fallback", "--max-calls", "1000")
    held = permissions(proxy, key)
    settle(proxy, key, 200, 60)  # LiteLLM's key cache, where the key was used before
    checked, answer, _ = opt_in(proxy, "check", alias, "--model", "paid-fallback")
    gone, taken, _ = opt_in(proxy, "remove", alias)
    removed = settle(proxy, key, 403, IN_FORCE_S)

    assert (code, checked, gone) == (0, 0, 0), said
    assert held == {"of_others": {"a": [1]}, "metered_opt_in": {"models": ["paid-fallback"], "max_calls": 1000}}
    assert [(one["key"], one["source"], one["max_calls"]) for one in added["grants"]] == [(alias, "permission", 1000)]
    assert answer["models"] == {"paid-fallback": True}
    assert taken["grants"] == []
    assert removed < IN_FORCE_S
    assert permissions(proxy, key) == {"of_others": {"a": [1]}}
    assert listed(proxy) == []


def test_cached_permission_is_outranked(
    proxy: Proxy, ups: dict[str, Upstream], key: str, request: pytest.FixtureRequest
) -> None:
    """A removal without the proxy's help leaves the permission in the database, and no worker obeys it any more."""
    alias = request.node.name
    opt_in(proxy, "add", alias, "--permission")
    settle(proxy, key, 200, 60)
    env = {name: value for name, value in proxy.env.items() if name != "LITELLM_MASTER_KEY"}
    done = subprocess.run(
        [Path(sys.executable).parent / "litellm-registry", "opt-in", "remove", f"sha256:{token(key)}"],
        cwd=proxy.folder, env=env, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    removed = settle(proxy, key, 403, IN_FORCE_S)
    _, rows, _ = opt_in(proxy, "list")

    assert done.returncode == 0
    assert "a permission that LiteLLM may hold for it is revoked; --proxy URL takes it out" in done.stderr
    assert removed < IN_FORCE_S
    assert permissions(proxy, key)["metered_opt_in"] is True
    assert [one["marks"] for one in rows if one["key"] == alias] == [["revoked"]]


def test_over_the_proxy(proxy: Proxy, key: str, request: pytest.FixtureRequest) -> None:
    """The route looks the alias up in LiteLLM's database as the caller, and writes permissions beside the others."""
    alias = request.node.name
    added = proxy.post("/registry/opt-in", {"key": alias, "permission": True, "expires": "2099-01-01"}, key=MASTER)
    held = permissions(proxy, key)
    pinned = proxy.post("/registry/opt-in", {"key": alias, "models": ["paid-fallback"]}, key=MASTER)
    entry = listed(proxy)
    keys = proxy.get("/registry/keys", key=MASTER).json()
    url = f"{proxy.url}/registry/opt-in"
    taken = httpx.request("DELETE", url, json={"key": alias}, headers={"Authorization": f"Bearer {MASTER}"}, timeout=60)
    unknown = proxy.post("/registry/opt-in", {"key": "nobody"}, key=MASTER)
    by_key = proxy.post("/registry/opt-in", {"key": alias}, key=key)

    assert (added.status_code, pinned.status_code) == (200, 200), (added.text, pinned.text)
    assert held == {"of_others": {"a": [1]}, "metered_opt_in": {"expires": "2099-01-01T00:00:00Z"}}
    assert entry == [{"key": alias, "token": f"sha256:{token(key)}", "models": ["paid-fallback"]}]
    assert keys == {"keys": [], "litellm_keys": "/key/list"}
    assert (taken.status_code, taken.json()["grants"]) == (200, [])
    assert permissions(proxy, key) == {"of_others": {"a": [1]}}
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "unknown_key")
    assert by_key.status_code in {401, 403}
    assert listed(proxy) == []


def test_alias_taken_by_another_is_not_opted_in(proxy: Proxy, key: str, request: pytest.FixtureRequest) -> None:
    """A grant stays with its token: whoever takes the alias of a deleted key is not opted in."""
    alias = request.node.name
    assert opt_in(proxy, "add", alias)[0] == 0
    assert settle(proxy, key, 200, IN_FORCE_S) < IN_FORCE_S
    proxy.post("/key/delete", {"keys": [token(key)]}, key=MASTER).raise_for_status()
    thief = "sk-thief-key-0000000001"
    proxy.post("/key/generate", {"key": thief, "key_alias": alias}, key=MASTER).raise_for_status()

    _, rows, _ = opt_in(proxy, "list")

    assert proxy.chat("paid-fallback", key=thief, headers=CONSENT).status_code == 403
    assert [one["marks"] for one in rows if one["token"] == f"sha256:{token(key)}"] == [["no live key"]]
    assert opt_in(proxy, "remove", f"sha256:{token(key)}")[0] == 0
