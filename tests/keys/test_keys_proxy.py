"""Embedded keys on a real proxy, with the config that the generator writes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.host.proxy import MASTER, Proxy, write_folder
from tests.host.shapes import config_for, registry_for
from tests.upstreams import Upstream

Ups = dict[str, Upstream]
MESSAGES = [{"role": "user", "content": "hi"}]
IN_FORCE_S = 2.0
AUTH = {"custom_auth": "litellm_registry_hook.user_api_key_auth", "custom_auth_run_common_checks": True}


class Rig:
    """A proxy and the command line on the same state."""

    def __init__(self, folder: Path, ups: Ups, *, workers: int = 1, **change: Any) -> None:
        registry = registry_for(ups)
        registry["routing"]["metered_opt_in"] = ["payer"]
        registry["routing"]["trust_custom_auth"] = False
        config = config_for(registry, general=AUTH)
        config["litellm_settings"]["enable_post_custom_auth_checks"] = True
        for section, settings in change.items():
            config[section].update(settings)
        self.state = folder / "state.sqlite"
        write_folder(folder, registry, config, keys=False)
        self.env = {"LITELLM_REGISTRY_STATE": f"sqlite:///{self.state}"}
        self.proxy = Proxy(folder, workers=workers, env=self.env)

    def keys(self, *arguments: str) -> tuple[int, Any]:
        done = subprocess.run(
            [Path(sys.executable).parent / "litellm-registry", "keys", *arguments, "--json"],
            cwd=self.proxy.folder, env=self.proxy.env, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        self.said = done.stderr
        return done.returncode, json.loads(done.stdout) if done.stdout else None

    def make(self, alias: str, *arguments: str) -> str:
        code, made = self.keys("create", "--alias", alias, *arguments)
        assert code == 0, self.said
        return str(made["key"])


@pytest.fixture(scope="module")
def rig(started: Ups, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    one = Rig(tmp_path_factory.mktemp("embedded"), started)
    with one.proxy:
        yield one


Call = Callable[[Proxy, str, str], httpx.Response]
CONTENTS = [{"role": "user", "parts": [{"text": "hi"}]}]
# family: (call of a model with a key, a name that it serves)
ROUTES: dict[str, tuple[Call, str]] = {
    "chat": (lambda p, m, k: p.chat(m, key=k), "small"),
    "chat stream": (lambda p, m, k: p.chat(m, key=k, stream=True), "small"),
    "completions": (lambda p, m, k: p.post("/v1/completions", {"model": m, "prompt": "hi"}, key=k), "large"),
    "responses": (lambda p, m, k: p.post("/v1/responses", {"model": m, "input": "hi"}, key=k), "large"),
    "messages": (
        lambda p, m, k: p.post("/v1/messages", {"model": m, "max_tokens": 9, "messages": MESSAGES}, key=k),
        "small",
    ),
    "embeddings": (lambda p, m, k: p.post("/v1/embeddings", {"model": m, "input": ["a"]}, key=k), "embed"),
    "rerank": (lambda p, m, k: p.post("/v1/rerank", {"model": m, "query": "q", "documents": ["a"]}, key=k), "rerank"),
    "gemini": (
        lambda p, m, k: p.post(f"/v1beta/models/{m}:generateContent", {"contents": CONTENTS}, key=k),
        "large",
    ),
    "engines": (lambda p, m, k: p.post(f"/engines/{m}/chat/completions", {"messages": MESSAGES}, key=k), "small"),
    "deployments": (
        lambda p, m, k: p.post(f"/openai/deployments/{m}/chat/completions", {"messages": MESSAGES}, key=k),
        "small",
    ),
    "query": (lambda p, m, k: p.post(f"/v1/chat/completions?model={m}", {"messages": MESSAGES}, key=k), "small"),
    "comma list": (lambda p, m, k: p.chat(f"{m},{m}", key=k), "small"),
    "queue": (
        lambda p, m, k: p.post("/queue/chat/completions", {"model": m, "messages": MESSAGES, "priority": 1}, key=k),
        "small",
    ),
    "rag": (
        lambda p, m, k: p.post("/v1/rag/query", {"model": m, "messages": MESSAGES, "retrieval_config": {}}, key=k),
        "small",
    ),
}  # fmt: skip
# A model in path or query with another one, that the key may use, in the body.
ELSEWHERE: dict[str, Call] = {
    "query": lambda p, m, k: p.post(f"/v1/chat/completions?model={m}", {"model": "embed", "messages": MESSAGES}, key=k),
    "query twice": lambda p, m, k: p.post(
        f"/v1/chat/completions?model={m}&model=embed", {"model": "embed", "messages": MESSAGES}, key=k
    ),
    "engines": lambda p, m, k: p.post(
        f"/engines/{m}/chat/completions", {"model": "embed", "messages": MESSAGES}, key=k
    ),
    "deployments": lambda p, m, k: p.post(
        f"/openai/deployments/{m}/chat/completions", {"model": "embed", "messages": MESSAGES}, key=k
    ),
    "queue by query": lambda p, m, k: p.post(
        f"/queue/chat/completions?model={m}", {"model": "embed", "messages": MESSAGES, "priority": 1}, key=k
    ),
    "fallbacks": lambda p, m, k: p.chat("embed", key=k, fallbacks=[m]),
    "gemini": lambda p, m, k: p.post(
        f"/v1beta/models/{m}:generateContent", {"model": "embed", "contents": CONTENTS}, key=k
    ),
}


def generating(ups: Ups) -> list[str]:
    return [f"{name} {call.path}" for name, up in ups.items() for call in up.generating_calls]


@pytest.fixture(scope="module")
def free(rig: Rig) -> str:
    return rig.make("free")


@pytest.fixture(scope="module")
def narrow(rig: Rig) -> str:
    return rig.make("narrow", "--models", "embed,kimi")


@pytest.mark.parametrize("family", [name for name in ROUTES if name not in {"rag", "queue"}])
def test_a_key_made_while_the_proxy_runs_works(rig: Rig, ups: Ups, free: str, family: str) -> None:
    """A key without a list of models is served on every route."""
    call, name = ROUTES[family]

    answer = call(rig.proxy, name, free)

    assert answer.status_code == 200, answer.text
    assert generating(ups) != []


@pytest.mark.parametrize("family", ROUTES)
def test_a_model_that_the_list_lacks_is_refused(rig: Rig, ups: Ups, narrow: str, family: str) -> None:
    """On every route a model outside the key's list is a 403 and no upstream is called."""
    call, name = ROUTES[family]
    name = "mid" if name == "embed" else name

    answer = call(rig.proxy, name, narrow)

    assert answer.status_code == 403, answer.text
    assert generating(ups) == []


@pytest.mark.parametrize("where", ELSEWHERE)
def test_a_model_beside_the_body_is_compared_with_the_list(rig: Rig, ups: Ups, narrow: str, where: str) -> None:
    """A model in path, query or fallbacks is refused though the body names one that the key may use."""
    answer = ELSEWHERE[where](rig.proxy, "small", narrow)

    assert answer.status_code == 403, answer.text
    assert generating(ups) == []


def test_the_list_is_what_the_key_sees_and_may_use(rig: Rig, ups: Ups, narrow: str) -> None:
    """A key with a list sees its names in /v1/models and is served by each."""
    listed = rig.proxy.get("/v1/models", key=narrow).json()

    assert sorted(one["id"] for one in listed["data"]) == ["embed", "kimi"]
    assert rig.proxy.chat("kimi", key=narrow).status_code == 200
    assert rig.proxy.post("/v1/embeddings", {"model": "embed", "input": ["a"]}, key=narrow).status_code == 200


@pytest.mark.parametrize("key", ["sk-not-a-key-of-anybody-1", "not-even-sk", "litellm_proxy_master_key", "x"])
def test_a_wrong_key_is_refused_in_litellms_shape(rig: Rig, ups: Ups, key: str) -> None:
    """An unknown key is LiteLLM's 401 and its message names no alias."""
    answer = rig.proxy.chat("small", key=key)

    error = answer.json()["error"]
    assert answer.status_code == 401
    assert (error["param"], error["code"]) == ("key", "401")
    assert "free" not in answer.text and "narrow" not in answer.text
    assert generating(ups) == []


def test_the_hash_of_a_key_is_no_key(rig: Rig, ups: Ups) -> None:
    """What the state holds opens nothing."""
    token = rig.keys("create", "--alias", "hashed")[1]["token"]

    assert [rig.proxy.chat("small", key=text).status_code for text in (token, f"sha256:{token}")] == [401, 401]


@pytest.mark.parametrize("header", ["x-api-key", "api-key", "x-goog-api-key"])
def test_a_key_comes_in_any_header_of_litellms(rig: Rig, ups: Ups, free: str, header: str) -> None:
    """The clients' other headers carry a key as well."""
    answer = httpx.post(
        f"{rig.proxy.url}/v1/chat/completions", json={"model": "small", "messages": MESSAGES},
        headers={header: free}, timeout=60,
    )  # fmt: skip

    assert answer.status_code == 200, answer.text


ADMIN = [
    ("POST", "/key/generate", {}),
    ("POST", "/key/delete", {"keys": ["x"]}),
    ("GET", "/key/list", None),
    ("POST", "/config/update", {"general_settings": {}}),
    ("GET", "/get/config/callbacks", None),
    ("POST", "/model/new", {"model_name": "x", "litellm_params": {"model": "openai/x"}}),
    ("POST", "/model/delete", {"id": "kimi@0"}),
    ("POST", "/user/new", {}),
    ("POST", "/team/new", {}),
    ("GET", "/spend/logs", None),
    ("GET", "/global/spend", None),
    ("POST", "/cache/flushall", None),
    ("POST", "/credentials", {}),
    ("GET", "/get_config", None),
    ("GET", "/health", None),
    ("POST", "/queue/chat/completions", {"model": "small", "messages": MESSAGES}),
    ("POST", "/config/field/update", {}),
    ("GET", "/no/such/route", None),
]


@pytest.mark.parametrize(("method", "path", "body"), ADMIN)
def test_a_key_gets_no_admin_route(rig: Rig, ups: Ups, free: str, method: str, path: str, body: Any) -> None:
    """Administration is closed to a virtual key."""
    answer = httpx.request(
        method, rig.proxy.url + path, json=body, headers={"Authorization": f"Bearer {free}"}, timeout=60
    )

    assert answer.status_code == 403, answer.text
    assert "No DB" not in answer.text and "not connected" not in answer.text


def test_a_key_reads_about_the_models(rig: Rig, ups: Ups, free: str) -> None:
    """What the models are is open to a key."""
    assert rig.proxy.get("/model/info", key=free).status_code == 200


def test_the_master_key_is_admin(rig: Rig, ups: Ups) -> None:
    """The master key is served and reaches an admin route, as without custom_auth."""
    assert rig.proxy.chat("small", key=MASTER).status_code == 200
    assert rig.proxy.get("/get/config/callbacks", key=MASTER).status_code == 200


def test_an_alias_is_opted_in_where_aliases_are_ours(rig: Rig, ups: Ups, free: str) -> None:
    """An embedded key whose alias the registry lists pays with consent; without consent, another key and the master do not."""
    payer = rig.make("payer")
    consent = {"x-registry-allow-metered": "true"}
    calls = [(payer, consent), (payer, None), (free, consent), (MASTER, consent)]
    answers = [rig.proxy.chat("paid-fallback", key=key, headers=headers) for key, headers in calls]

    assert [one.status_code for one in answers] == [200, 403, 403, 403]
    assert [one.json()["error"]["code"] for one in answers[1:]] == [
        "metered_consent_missing",
        "metered_key_not_opted_in",
        "metered_key_not_opted_in",
    ]
    assert generating(ups) == ["paid /v1/chat/completions"]


def test_an_expired_key_is_refused(rig: Rig, ups: Ups) -> None:
    """A key whose end has come is a 401 that says when; until then it works."""
    from datetime import datetime, timedelta, timezone

    ends = datetime.now(timezone.utc) + timedelta(seconds=4)
    key = rig.make("brief", "--expires", ends.isoformat())
    before = rig.proxy.chat("small", key=key).status_code
    while datetime.now(timezone.utc) < ends:
        time.sleep(0.05)
    answer = rig.proxy.chat("small", key=key)

    assert (before, answer.status_code) == (200, 401)
    assert answer.json()["error"] == {
        "message": f"this virtual key expired on {ends:%Y-%m-%d %H:%M} UTC; ask the proxy's operator for a new one",
        "type": "expired_key",
        "param": "key",
        "code": "401",
    }


def until_refused(rig: Rig, key: str, seconds: float = IN_FORCE_S) -> list[int]:
    """Ask on and off for `seconds`; return the answers after that."""
    time.sleep(seconds)
    return [rig.proxy.chat("small", key=key).status_code for _ in range(8)]


def test_a_rotated_key_ends_at_once_and_its_successor_works(rig: Rig, ups: Ups) -> None:
    """After keys rotate the old key is refused within two seconds, the new one is served with the same list."""
    old = rig.make("turning", "--models", "small")
    first = rig.proxy.chat("small", key=old).status_code
    new = rig.keys("rotate", "turning")[1]["key"]

    assert (first, rig.proxy.chat("small", key=new).status_code) == (200, 200)
    assert rig.proxy.chat("kimi", key=new).status_code == 403
    assert until_refused(rig, old) == [401] * 8


def test_revocation_reaches_every_worker(started: Ups, ups: Ups, tmp_path: Path) -> None:
    """With two workers a new key works at once in both, and a revoked one in none two seconds later."""
    rig = Rig(tmp_path, started, workers=2)
    with rig.proxy:
        key = rig.make("both")
        before = [rig.proxy.chat("small", key=key).status_code for _ in range(12)]
        code, said = rig.keys("revoke", "both")
        after = until_refused(rig, key)
        warned = "no running proxy" in rig.said

    assert before == [200] * 12
    assert (code, said["alias"]) == (0, "both")
    assert after == [401] * 8
    assert not warned


def test_no_key_of_anybody_is_in_the_state_or_the_log(rig: Rig, ups: Ups, free: str, narrow: str) -> None:
    """Neither the state's files nor the proxy's log hold a key."""
    held = b"".join(path.read_bytes() for path in rig.proxy.folder.iterdir() if path.is_file())

    assert free.encode() not in held and narrow.encode() not in held
    assert [oct(path.stat().st_mode & 0o777) for path in sorted(rig.proxy.folder.glob("state.sqlite*"))] == [
        "0o600"
    ] * 3


def test_known_keys_go_on_when_the_state_is_gone(started: Ups, ups: Ups, tmp_path: Path) -> None:
    """Without its file the proxy serves the keys it knows and answers 503 to others, for it cannot know them."""
    rig = Rig(tmp_path, started)
    with rig.proxy:
        key = rig.make("known")
        before = rig.proxy.chat("small", key=key).status_code
        for path in tmp_path.glob("state.sqlite*"):
            path.unlink()
        os.mkdir(rig.state)
        time.sleep(IN_FORCE_S)
        known = rig.proxy.chat("small", key=key).status_code
        unknown = rig.proxy.chat("small", key="sk-somebody-else-0001")
        admin = rig.proxy.chat("small", key=MASTER).status_code

    assert (before, known, admin) == (200, 200, 200)
    assert (unknown.status_code, unknown.json()["error"]["message"]) == (
        503,
        "the store of virtual keys cannot be read; try again",
    )


def test_keys_are_off_without_the_switches(started: Ups, ups: Ups, tmp_path: Path) -> None:
    """Where the config lacks what makes LiteLLM check keys, they are refused, and the master key is not."""
    rig = Rig(tmp_path, started, general_settings={"custom_auth_run_common_checks": False})
    with rig.proxy:
        key = rig.make("open-door")
        answers = [rig.proxy.chat("small", key=key), rig.proxy.post("/key/generate", {}, key=key)]
        admin = rig.proxy.chat("small", key=MASTER).status_code

    assert admin == 200
    assert [(one.status_code, one.json()["error"]["message"]) for one in answers] == [
        (
            503,
            "virtual keys are off until the proxy's config has general_settings.custom_auth_run_common_checks: true "
            "(generate-litellm-config writes the switches)",
        )
    ] * 2
