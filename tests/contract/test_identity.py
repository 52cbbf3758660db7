"""Who is calling: LiteLLM's authenticated object, and how it cannot be forged."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from litellm.proxy._types import LitellmUserRoles, UserAPIKeyAuth

from litellm_registry_hook.adapter.host_keys import MASTER_KEY_TOKEN
from litellm_registry_hook.adapter.identity import auth_in, caller_of
from litellm_registry_hook.core.consent import ANONYMOUS, Caller
from tests.strategies import json_values

KEY = "sk-some-key-of-a-test"
HASH = hashlib.sha256(KEY.encode()).hexdigest()


def auth(*, via=False, custom=False, **fields):
    """The object as LiteLLM leaves it after authentication: its markers are assigned, not passed in."""
    made = UserAPIKeyAuth(**fields)
    made.via_virtual_key = via
    made.authenticated_by_custom_auth = custom
    return made


@pytest.mark.parametrize("marker", ["via_virtual_key", "authenticated_by_custom_auth"])
@pytest.mark.parametrize(
    "make", [lambda data: UserAPIKeyAuth(**data), UserAPIKeyAuth.model_validate], ids=["built", "validated"]
)
def test_the_markers_are_stripped_from_input(marker, make):
    """What a custom_auth or a claim says of itself is not believed (types/proxy/auth/user_api_key_auth.py:177)."""
    assert getattr(make({"api_key": KEY, marker: True}), marker) is False


def test_the_token_is_the_hash_of_the_key():
    """The hash that everything downstream sees is sha256 of the key, whatever token is passed beside it."""
    made = UserAPIKeyAuth(api_key=KEY, token="h")

    assert (made.api_key, made.token) == (HASH, HASH)


def test_the_master_keys_token_is_a_fixed_word():
    """The literal that stands in for the master key's hash is LiteLLM's (constants.py)."""
    from litellm.constants import LITELLM_PROXY_MASTER_KEY_ALIAS

    assert MASTER_KEY_TOKEN == LITELLM_PROXY_MASTER_KEY_ALIAS


ADMIN = LitellmUserRoles.PROXY_ADMIN


@pytest.mark.parametrize(
    ("made", "caller"),
    [
        (auth(api_key=KEY, key_alias="agent:one", via=True), Caller("virtual_key", HASH, "agent:one")),
        (auth(token=HASH, via=True), Caller("virtual_key", HASH, "")),
        (auth(api_key=KEY, key_alias="a", custom=True), Caller("custom_auth", HASH, "a")),
        (auth(api_key=KEY), ANONYMOUS),
        (auth(token="not-a-hash", via=True), ANONYMOUS),
        (auth(token=HASH.upper(), via=True), ANONYMOUS),
        (auth(), ANONYMOUS),
        (auth(token=MASTER_KEY_TOKEN, user_role=ADMIN, via=True), Caller("master_key", "", "")),
        (auth(token=MASTER_KEY_TOKEN, via=True), ANONYMOUS),
        (auth(token=MASTER_KEY_TOKEN, user_role=ADMIN, custom=True), ANONYMOUS),
        (None, ANONYMOUS),
        ({"token": HASH, "via_virtual_key": True}, ANONYMOUS),
        ("sk-x", ANONYMOUS),
    ],
)
def test_the_authenticated_object_is_translated(made, caller):
    """A virtual key wants a hash and LiteLLM's marker; everything else is less than that."""
    assert caller_of(made) == caller


@pytest.mark.parametrize("bucket", ["metadata", "litellm_metadata"])
def test_the_object_is_found_in_either_bucket(bucket):
    """Some routes carry it in metadata, some in litellm_metadata (litellm_pre_call_utils.py:286)."""
    made = auth(api_key=KEY, via=True)

    assert auth_in({bucket: {"user_api_key_auth": made}, "model": "m"}) is made


def test_a_dict_beside_the_object_does_not_hide_it():
    """A client's metadata that looks like one is passed over for the real one in the other bucket."""
    made = auth(api_key=KEY, via=True)
    spoof = {"user_api_key_auth": {"token": HASH, "via_virtual_key": True}}

    assert auth_in({"metadata": spoof, "litellm_metadata": {"user_api_key_auth": made}}) is made


@pytest.mark.parametrize("kwargs", [None, {}, {"metadata": None}, {"metadata": "user_api_key_auth"}])
def test_no_object_is_nobody(kwargs):
    """Without buckets there is no authenticated object."""
    assert auth_in(kwargs) is None


spoofs = st.fixed_dictionaries(
    {},
    optional={
        "user_api_key_auth": json_values
        | st.fixed_dictionaries(
            {"token": st.just(HASH), "api_key": st.just(KEY), "via_virtual_key": st.just(True)},
            optional={"key_alias": st.just("agent:one"), "user_role": st.just("proxy_admin")},
        ),
        "user_api_key_hash": st.just(HASH),
        "user_api_key_alias": st.just("agent:one"),
        "user_api_key": st.just(HASH),
    },
)


@given(st.fixed_dictionaries({}, optional={"metadata": spoofs | json_values, "litellm_metadata": spoofs | json_values}))
def test_a_spoofed_dict_never_yields_a_caller(kwargs):
    """Whatever a client puts into its metadata, JSON is never an authenticated object."""
    assert caller_of(auth_in(kwargs)) == ANONYMOUS


@given(json_values | spoofs)
def test_json_is_never_a_caller(value):
    """Only LiteLLM's own object is anybody."""
    assert caller_of(value) == ANONYMOUS


@given(
    st.fixed_dictionaries(
        {"api_key": st.just(KEY)},
        optional={
            "via_virtual_key": st.just(True),
            "authenticated_by_custom_auth": st.just(True),
            "key_alias": st.just("agent:one"),
            "metadata": st.just({"via_virtual_key": True}),
        },
    )
)
def test_no_input_of_the_object_makes_a_virtual_key(fields):
    """An object that was only built, and not authenticated by LiteLLM, is nobody."""
    assert caller_of(UserAPIKeyAuth(**fields)) == ANONYMOUS
