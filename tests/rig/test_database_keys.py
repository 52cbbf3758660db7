"""Virtual keys of LiteLLM's own, in a real PostgreSQL: who is opted in is decided by the key's hash alone."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.host.proxy import heal, MASTER, Proxy, write_folder
from tests.host.shapes import config_for, registry_for
from tests.upstreams import Upstream, upstreams

pytestmark = pytest.mark.rig
CONSENT = {"x-registry-allow-metered": "true"}
OPTED = "sk-database-opted-000001"


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
    registry["routing"]["metered_opt_in"] = ["sha256:" + hashlib.sha256(OPTED.encode()).hexdigest()]
    registry["routing"]["trust_custom_auth"] = False
    config = config_for(registry)
    del config["general_settings"]["custom_auth"]
    with Proxy(write_folder(tmp_path_factory.mktemp("db"), registry, config, keys=False), env=database) as one:
        for body in (
            {"key": OPTED, "key_alias": "opted"},
            {"key": "sk-database-plain-000001", "key_alias": "plain", "metadata": {"metered_opt_in": True}},
            {"key": "sk-database-large-000001", "key_alias": "large", "models": ["large"]},
            {"key": "sk-database-kimi-000001", "key_alias": "kimi", "models": ["kimi"]},
        ):
            made = one.post("/key/generate", body, key=MASTER)
            assert made.status_code == 200, made.text
        yield one


@pytest.fixture(autouse=True)
def healthy(ups: dict[str, Upstream]) -> None:
    heal(ups.values())


def outcome(response: Any) -> tuple[int, str | None]:
    if response.status_code < 400:
        return response.status_code, response.headers.get("x-registry-model")
    return response.status_code, response.json()["error"]["code"]


def test_opted_in_key_with_consent_reaches_the_paid_model(proxy: Proxy, ups: dict[str, Upstream]) -> None:
    """A virtual key whose hash the registry lists is served by the paid model when the request consents."""
    assert outcome(proxy.chat("paid-fallback", key=OPTED, headers=CONSENT)) == (200, "paid-fallback")
    assert len(ups["paid"].generating_calls) == 1


@pytest.mark.parametrize(
    ("key", "headers", "code"),
    [
        (OPTED, {}, "metered_consent_missing"),
        ("sk-database-plain-000001", CONSENT, "metered_key_not_opted_in"),
        (MASTER, CONSENT, "metered_key_not_opted_in"),
    ],
    ids=["no consent", "key metadata says opted in", "master key"],
)
def test_everybody_else_is_refused(
    proxy: Proxy, ups: dict[str, Upstream], key: str, headers: dict[str, str], code: str
) -> None:
    """Without both consents nobody reaches the paid model: not by key metadata, not by the master key."""
    assert outcome(proxy.chat("paid-fallback", key=key, headers=headers)) == (403, code)
    assert ups["paid"].generating_calls == []


def test_key_of_a_tier_uses_its_whole_pool(proxy: Proxy, ups: dict[str, Upstream]) -> None:
    """A key that lists only `large` is served by the pool's next member when the first is down."""
    ups["kimi"].fail(500)

    assert outcome(proxy.chat("large", key="sk-database-large-000001")) == (200, "mid")


@pytest.mark.parametrize(
    ("key", "name"),
    [("large", "kimi"), ("large", "small"), ("large", "big"), ("kimi", "large"), ("kimi", "mid")],
)
def test_key_of_a_name_uses_no_other(proxy: Proxy, ups: dict[str, Upstream], key: str, name: str) -> None:
    """A key that lists a tier gets no member by name, and one that lists a member gets no tier."""
    response = proxy.chat(name, key=f"sk-database-{key}-000001")

    assert response.status_code in {401, 403}, response.text
    assert [call.path for up in ups.values() for call in up.generating_calls] == []


def test_path_model_is_checked_against_the_key(proxy: Proxy, ups: dict[str, Upstream]) -> None:
    """A model in the path or query is held against the key's list although the body names an allowed one."""
    body = {"model": "large", "messages": [{"role": "user", "content": "hi"}]}
    answers = [
        proxy.post(path, body, key="sk-database-large-000001")
        for path in ("/engines/small/chat/completions", "/v1/chat/completions?model=small")
    ]

    assert [outcome(one) for one in answers] == [(403, "model_not_allowed_for_key")] * 2


def test_listing_of_a_limited_key(proxy: Proxy, ups: dict[str, Upstream]) -> None:
    """A key that lists only `large` sees only `large`."""
    listed = proxy.get("/v1/models", key="sk-database-large-000001").json()["data"]

    assert [one["id"] for one in listed] == ["large"]
