"""custom_auth as LiteLLM loads and calls it."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
# LiteLLM's own deprecation warnings are not ours to fail on.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import litellm
    from litellm.proxy import proxy_server
from litellm.proxy._types import LitellmUserRoles, LiteLLMRoutes, ProxyErrorTypes, ProxyException, UserAPIKeyAuth
from litellm.proxy.types_utils.utils import get_instance_fn

from litellm_registry_hook.adapter import custom_auth, host_keys
from litellm_registry_hook.core.sync_settings import CUSTOM_AUTH
from litellm_registry_hook.core.virtual_key import VirtualKey, token_of
from litellm_registry_hook.edges.store import virtual_keys
from litellm_registry_hook.edges.store.database import Database
from litellm_registry_hook.edges.store.mirror import KeyMirror
from litellm_registry_hook.edges.store.sqlite_state import SqliteState

MASTER = "sk-the-master-key-of-this-test"
NOW = datetime.now(timezone.utc)


class Request:
    """What the function reads of Starlette's request."""

    def __init__(self, query: bytes = b"", **path_params: str) -> None:
        self.scope = {"type": "http", "query_string": query, "path_params": path_params}


@pytest.fixture
def proxy(state: Path, monkeypatch: pytest.MonkeyPatch):
    """This process as a proxy that authenticates with us."""
    mirror = KeyMirror(lambda: SqliteState(state), every_s=60)
    monkeypatch.setattr(custom_auth, "MIRROR", mirror)
    monkeypatch.setattr(proxy_server, "master_key", MASTER)
    monkeypatch.setitem(proxy_server.general_settings, "custom_auth_run_common_checks", True)
    monkeypatch.setattr(litellm, "enable_post_custom_auth_checks", True, raising=False)
    monkeypatch.setattr(proxy_server, "user_custom_auth", get_instance_fn(CUSTOM_AUTH))
    yield
    mirror.stop()


def keep(database: Database, key: str, **more) -> VirtualKey:
    row = VirtualKey(token_of(key), **{"alias": key[3:], "models": None, "created": NOW, **more})
    virtual_keys.add(database, row)
    return row


async def refusal(key: object, request: Request | None = None) -> tuple[str, str, str, str]:
    with pytest.raises(ProxyException) as refused:
        await custom_auth.user_api_key_auth(request or Request(), key)
    return refused.value.code, refused.value.type, refused.value.param, refused.value.message


def test_litellm_loads_the_very_function(proxy) -> None:
    """The name in the config leads to the function whose callers count as embedded."""
    assert get_instance_fn(CUSTOM_AUTH, "/somewhere/litellm-config.yaml") is custom_auth.user_api_key_auth
    assert custom_auth.is_ours()


def test_another_function_is_not_ours(proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """A custom_auth of somebody else, or none, makes nobody embedded."""
    for other in (None, lambda request, api_key: None):
        monkeypatch.setattr(proxy_server, "user_custom_auth", other)
        assert not custom_auth.is_ours()


def test_importing_it_attaches_nothing(tmp_path: Path) -> None:
    """The attribute needs no registry, leaves the proxy's app as it is, and starts no thread."""
    code = (
        "import threading, litellm_registry_hook\n"
        "from litellm.proxy import proxy_server\n"
        "before = proxy_server.app.middleware_stack, set(threading.enumerate())\n"
        "assert callable(litellm_registry_hook.user_api_key_auth)\n"
        "assert (proxy_server.app.middleware_stack, set(threading.enumerate())) == before\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120)

    assert done.returncode == 0, done.stderr


async def test_a_live_key_is_what_litellm_makes_of_a_key_of_its_own(proxy, database: Database) -> None:
    """Token, alias, list and end are the row's; the role and the routes are those of LiteLLM's type llm_api."""
    ends = NOW + timedelta(days=1)
    row = keep(database, "sk-a", models=("large",), expires=ends)

    auth = await custom_auth.user_api_key_auth(Request(), "sk-a")

    assert type(auth) is UserAPIKeyAuth
    assert (auth.token, auth.api_key, auth.key_alias, auth.models, auth.expires) == (
        row.token,
        row.token,
        "a",
        ["large"],
        ends,
    )
    assert (auth.user_role, auth.allowed_routes) == (LitellmUserRoles.INTERNAL_USER, ["llm_api_routes"])
    assert (auth.user_id, auth.team_id, auth.permissions, auth.metadata) == (None, None, {}, {})
    assert (auth.via_virtual_key, auth.authenticated_by_custom_auth) == (False, False)
    assert custom_auth.embedded_live(row.token)
    assert "llm_api_routes" in LiteLLMRoutes._member_names_


async def test_the_master_key_is_the_admin_under_litellms_own_word(proxy, database: Database) -> None:
    """The admin's object carries neither the master key nor its hash."""
    auth = await custom_auth.user_api_key_auth(Request(), MASTER)

    assert (auth.token, auth.user_role, auth.user_id) == (
        host_keys.MASTER_KEY_TOKEN,
        LitellmUserRoles.PROXY_ADMIN,
        proxy_server.litellm_proxy_admin_name,
    )
    assert not custom_auth.embedded_live(token_of(MASTER))


@pytest.mark.parametrize(
    "key", ["", None, b"sk-a", 7, "a", "SK-A", " sk-a", host_keys.MASTER_KEY_TOKEN, token_of("sk-a")]
)
async def test_what_is_no_key_is_refused_without_a_look(proxy, state: Path, key: object) -> None:
    """Only text that begins with sk- is looked up."""
    code, kind, param, message = await refusal(key)

    assert (code, kind, param) == ("401", "auth_error", "key")
    assert message.startswith("the virtual key is ")
    assert not state.parent.exists()


async def test_every_refusal_says_why_and_names_no_other(proxy, database: Database) -> None:
    """Unknown, revoked and expired keys are 401 in LiteLLM's types."""
    keep(database, "sk-other")
    gone = keep(database, "sk-gone", revoked=NOW)
    over = keep(database, "sk-over", expires=NOW - timedelta(minutes=1))

    assert [await refusal(key) for key in ("sk-nobody", "sk-gone", "sk-over")] == [
        ("401", "token_not_found_in_db", "key", "this virtual key is not known here; ask the proxy's operator for one"),
        (
            "401",
            "auth_error",
            "key",
            f"this virtual key was revoked on {NOW:%Y-%m-%d %H:%M} UTC; ask the proxy's operator for its successor",
        ),
        (
            "401",
            "expired_key",
            "key",
            f"this virtual key expired on {over.expires:%Y-%m-%d %H:%M} UTC; ask the proxy's operator for a new one",
        ),
    ]
    assert [custom_auth.embedded_live(one.token) for one in (gone, over)] == [False, False]
    assert {"auth_error", "expired_key", "token_not_found_in_db", "key_model_access_denied"} <= {
        one.value for one in ProxyErrorTypes
    }


@pytest.mark.parametrize(
    "request_",
    [
        Request(b"model=small"),
        Request(b"x=1&model=large&model=small"),
        Request(b"model=sm%61ll"),
        Request(model="small"),
    ],
    ids=["query", "one of two", "encoded", "path"],
)
async def test_a_model_beside_the_body_is_compared_with_the_list(proxy, database: Database, request_: Request) -> None:
    """Path and query win over the body in LiteLLM, so they are compared with the key's list here."""
    keep(database, "sk-a", models=("large",))

    assert await refusal("sk-a", request_) == (
        "403",
        "key_model_access_denied",
        "model",
        "this virtual key may not use 'small'; its list of models does not have it",
    )


@pytest.mark.parametrize("request_", [Request(b"model=large"), Request(model="large"), Request(b"supermodel=small")])
async def test_a_model_of_the_list_passes_by_any_name(proxy, database: Database, request_: Request) -> None:
    """A listed model in path or query, or another parameter, is no obstacle."""
    keep(database, "sk-a", models=("large",))

    assert (await custom_auth.user_api_key_auth(request_, "sk-a")).key_alias == "a"


@pytest.mark.parametrize("missing", ["common", "post", "master"])
async def test_without_what_litellm_needs_there_are_no_keys(
    proxy, database: Database, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    """A config that would make everybody admin is a 503 that names the setting."""
    keep(database, "sk-a")
    name = {
        "common": "general_settings.custom_auth_run_common_checks: true",
        "post": "litellm_settings.enable_post_custom_auth_checks: true",
        "master": "general_settings.master_key",
    }[missing]
    if missing == "common":
        monkeypatch.setitem(proxy_server.general_settings, "custom_auth_run_common_checks", "true")
    elif missing == "post":
        monkeypatch.setattr(litellm, "enable_post_custom_auth_checks", False)
    else:
        monkeypatch.setattr(proxy_server, "master_key", None)

    assert await refusal("sk-a") == (
        "503",
        "auth_error",
        "key",
        f"virtual keys are off until the proxy's config has {name} (generate-litellm-config writes the switches)",
    )
