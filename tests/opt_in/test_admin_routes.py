"""`/registry/opt-in` and `/registry/keys` on a real proxy with two workers: for admins alone, and in force in both."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

import httpx
import pytest
import yaml

from litellm_registry_hook.core.virtual_key import VirtualKey
from litellm_registry_hook.edges.store import audit, virtual_keys
from litellm_registry_hook.edges.store.database import Database
from tests.host.proxy import Proxy, write_folder
from tests.host.shapes import config_for, registry_for, token
from tests.upstreams import Upstream, upstreams

pytestmark = pytest.mark.host
BOSS, PLAIN = "sk-boss-key-000001", "sk-plain-key-000001"
CONSENT = {"x-registry-allow-metered": "true"}
BOT = "ab" * 32
# A custom_auth without LiteLLM's common checks lets everybody through to our routes: the check is ours.
AUTH = """
from litellm.proxy._types import LitellmUserRoles, ProxyException, UserAPIKeyAuth

KEYS = {
    "sk-boss-key-000001": dict(key_alias="boss", user_role=LitellmUserRoles.PROXY_ADMIN),
    "sk-viewer-key-000001": dict(key_alias="viewer", user_role=LitellmUserRoles.PROXY_ADMIN_VIEW_ONLY),
    "sk-plain-key-000001": dict(key_alias="plain"),
}


async def auth(request, api_key):
    if api_key not in KEYS:
        raise ProxyException(message="no such key", type="auth_error", param="key", code=401)
    return UserAPIKeyAuth(api_key=api_key, **KEYS[api_key])
"""


@pytest.fixture(scope="module")
def ups() -> Iterator[dict[str, Upstream]]:
    names = ("kimi", "mid", "paid", "ollama", "tei")
    with upstreams(*names) as found:
        yield dict(zip(names, found, strict=True))


@pytest.fixture(scope="module")
def proxy(ups: dict[str, Upstream], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    folder = tmp_path_factory.mktemp("admin")
    registry = registry_for(ups)
    registry["routing"]["metered_opt_in"] = []
    write_folder(folder, registry, config_for(registry), keys=False)
    (folder / "test_keys.py").write_text(AUTH)
    database = Database(folder / "state.sqlite")
    virtual_keys.add(database, VirtualKey(BOT, "bot", ("large",), datetime(2026, 1, 1, tzinfo=timezone.utc), note="n"))
    database.close()
    with Proxy(folder, workers=2, env={"LITELLM_REGISTRY_STATE": f"sqlite:///{folder / 'state.sqlite'}"}) as one:
        yield one


@pytest.fixture(autouse=True)
def nobody(proxy: Proxy) -> Iterator[None]:
    before = (proxy.folder / "model-registry.yaml").read_text()
    yield
    (proxy.folder / "model-registry.yaml").write_text(before)


def call(
    proxy: Proxy, method: str, body: Any = None, *, key: str = BOSS, path: str = "/registry/opt-in"
) -> httpx.Response:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return httpx.request(method, f"{proxy.url}{path}", json=body, headers=headers, timeout=60)


def listed(proxy: Proxy) -> list[Any]:
    return yaml.safe_load((proxy.folder / "model-registry.yaml").read_text())["routing"]["metered_opt_in"]


def each(proxy: Proxy, wanted: int, seconds: float = 2.0) -> tuple[float, set[int]]:
    """Ask for the paid model by new connections until 30 in a row answer as wanted; returns when the last other answer came."""
    started, last, statuses, alike = time.monotonic(), 0.0, set(), 0
    while alike < 30 and time.monotonic() - started < seconds + 8:
        status = proxy.chat("paid-fallback", key=PLAIN, headers=CONSENT).status_code
        statuses.add(status)
        if status == wanted:
            alike += 1
        else:
            alike, last = 0, time.monotonic() - started
    return last, statuses


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
@pytest.mark.parametrize("key", [PLAIN, "sk-viewer-key-000001"], ids=["plain", "viewer"])
def test_only_a_proxy_admin_may(proxy: Proxy, method: str, key: str) -> None:
    """Whoever is not a proxy admin gets our 403 and changes nothing, also where LiteLLM checks no routes."""
    answer = call(proxy, method, {"key": token(PLAIN)} if method != "GET" else None, key=key)

    assert (answer.status_code, answer.json()) == (
        403,
        {
            "error": {
                "message": "only a proxy admin may see and change who is opted in",
                "type": "permission_error",
                "param": None,
                "code": "admin_only",
            }
        },
    )
    assert listed(proxy) == []


def test_without_a_key_nobody_may(proxy: Proxy) -> None:
    """A caller without a key gets LiteLLM's own 401, on every route."""
    asked = [
        ("GET", "/registry/opt-in"),
        ("POST", "/registry/opt-in"),
        ("DELETE", "/registry/opt-in"),
        ("GET", "/registry/keys"),
    ]

    assert [call(proxy, method, key="", path=path).status_code for method, path in asked] == [401] * 4
    assert [call(proxy, method, key="sk-wrong-key-000001", path=path).status_code for method, path in asked] == [
        401
    ] * 4


def test_keys_are_listed(proxy: Proxy) -> None:
    """The embedded keys are listed by alias and token; LiteLLM's would be at its own route, where it has a database."""
    answer = call(proxy, "GET", path="/registry/keys")

    assert (answer.status_code, answer.json()) == (
        200,
        {
            "keys": [
                {"key": "bot", "token": f"sha256:{BOT}", "models": ["large"], "created": "2026-01-01T00:00:00+00:00", "expires": None, "state": "live", "note": "n"}
            ],
            "litellm_keys": None,
        },
    )  # fmt: skip


def test_grant_and_removal_by_alias(proxy: Proxy) -> None:
    """POST pins the alias to its embedded key and answers with the grant; GET lists it; DELETE by query takes it back."""
    before = (proxy.folder / "model-registry.yaml").read_bytes()
    added = call(
        proxy,
        "POST",
        {"key": "bot", "models": ["paid-fallback"], "expires": "2099-01-01", "max_calls": 7, "note": "why"},
    )
    [grant] = added.json()["grants"]
    shown = call(proxy, "GET")
    entry = listed(proxy)
    taken = call(proxy, "DELETE", path="/registry/opt-in?key=bot")

    assert added.status_code == 200, added.text
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", grant.pop("since"))
    assert grant == {
        "key": "bot", "token": f"sha256:{BOT}", "models": ["paid-fallback"], "until": "2099-01-01T00:00:00Z", "note": "why",
        "calls_today": {"paid-fallback": 0}, "max_calls": 7, "source": "registry", "marks": [],
    }  # fmt: skip
    assert shown.json() == {"grants": added.json()["grants"]}
    assert entry == [
        {
            "key": "bot",
            "token": f"sha256:{BOT}",
            "models": ["paid-fallback"],
            "expires": "2099-01-01T00:00:00Z",
            "max_calls": 7,
            "note": "why",
        }
    ]
    assert (taken.status_code, taken.json()) == (
        200,
        {"keys": [{"key": "bot", "token": f"sha256:{BOT}"}], "grants": [], "notes": []},
    )
    assert (proxy.folder / "model-registry.yaml").read_bytes() == before
    trail = audit.read(Database(proxy.folder / "state.sqlite"))
    assert [(one.kind, one.alias, one.model, one.who, one.note) for one in trail if one.kind in {"granted", "removed"}][-2:] == [
        ("granted", "bot", "paid-fallback", "boss", "why"), ("removed", "bot", "*", "boss", ""),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("method", "body", "status", "code", "said"),
    [
        ("POST", {"key": "nobody"}, 404, "unknown_key", "no live key has the alias 'nobody' in the embedded store. Make it with `litellm-registry keys create --alias nobody`, or give its token as sha256:<hex>."),
        ("DELETE", {"key": "nobody"}, 404, "unknown_key", "no live key has the alias 'nobody' in the embedded store. Make it with `litellm-registry keys create --alias nobody`, or give its token as sha256:<hex>."),
        ("POST", {"key": "bot", "models": ["paid-falback"]}, 400, "unknown_model", "the registry has no model 'paid-falback'; did you mean `paid-fallback`? (for a model of the proxy alone say `foreign`)"),
        ("POST", {"key": "bot", "models": ["kimi"]}, 400, "model_not_metered", "kimi is not metered and needs no grant; metered models: paid-fallback"),
        ("POST", {"key": "bot", "modells": ["kimi"]}, 400, "bad_request", "modells: Extra inputs are not permitted; send JSON with key, models, expires, note, max_calls, permission, foreign, unpinned"),
        ("POST", {}, 400, "bad_request", "key: Field required; send JSON with key, models, expires, note, max_calls, permission, foreign, unpinned"),
        ("POST", {"key": "bot", "permission": True}, 409, "no_key_database", "this proxy has no database, so its keys have no permissions; opt the key in without `permission`"),
        ("POST", {"key": "bot", "max_calls": 0}, 400, "bad_max_calls", "max_calls 0: write the calls a day, 1 or more, or unlimited"),
        ("POST", {"key": "bot", "unpinned": True}, 400, "alias_not_trusted", "an unpinned alias has no effect without routing.trust_key_alias: true, for anybody may take the alias 'bot' in LiteLLM's database; give the key's token as sha256:<hex>"),
    ],
)  # fmt: skip
def test_what_is_refused_over_the_proxy(
    proxy: Proxy, method: str, body: Any, status: int, code: str, said: str
) -> None:
    """A wish that cannot be meant is refused with our code and what to do; nothing is written."""
    answer = call(proxy, method, body)

    assert answer.status_code == status, answer.text
    assert (answer.json()["error"]["code"], answer.json()["error"]["message"]) == (code, said)
    assert listed(proxy) == []


def test_broken_registry_is_told(proxy: Proxy) -> None:
    """While the file is broken nobody is opted in through it, and the answer lists its problems."""
    (proxy.folder / "model-registry.yaml").write_text("version: 1\nmodels: []\nrouting: {tierz: {}}\n")

    answer = call(proxy, "POST", {"key": "bot"})

    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "registry_invalid")
    assert "tierz" in answer.json()["error"]["message"]


def test_grant_and_removal_are_in_force_in_both_workers(proxy: Proxy, ups: dict[str, Upstream]) -> None:
    """Two seconds after a grant both workers serve the paid call; two seconds after its removal both refuse it."""
    refused = each(proxy, 403)
    call(proxy, "POST", {"key": token(PLAIN), "models": ["paid-fallback"]}).raise_for_status()
    granted_after, seen = each(proxy, 200)
    call(proxy, "DELETE", {"key": token(PLAIN)}).raise_for_status()
    removed_after, after = each(proxy, 403)
    paid = len(ups["paid"].generating_calls)

    assert refused == (0.0, {403})
    assert granted_after < 2.0 and 200 in seen, (granted_after, seen)
    assert removed_after < 2.0 and 403 in after, (removed_after, after)
    assert each(proxy, 403)[1] == {403}
    assert len(ups["paid"].generating_calls) == paid
