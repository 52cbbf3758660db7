"""What is looked at before a proxy starts, and what is decided of it."""

from __future__ import annotations

import litellm.utils
import pytest
from litellm.integrations.custom_logger import CustomLogger
from litellm.proxy._types import UserAPIKeyAuth
from litellm.router import Router

from litellm_registry_hook.adapter import host, host_keys, host_parts
from litellm_registry_hook.core.compatibility import COMPROMISED, Lack, Verdict, is_known, judge
from litellm_registry_hook.errors import HostError

WALK = Lack("Router.walk", "calls would go past it")
TOKENS = Lack("the count of tokens", "no cost is recorded", gate=False)


def test_a_known_release_with_everything_says_nothing():
    """A release that was checked, with every part there, starts in silence."""
    assert judge("1.108.7") == Verdict("supported", starts=True)


def test_an_unknown_release_with_everything_is_warned_of():
    """Nobody has checked it: it starts, and the sentence says which are known and where to read on."""
    assert judge("1.110.2") == Verdict(
        "untested",
        starts=True,
        text="nobody has checked this plugin with LiteLLM 1.110.2; what its gates stand on is there, so it serves. "
        "Known to work: 1.106.x and 1.108.x. To check it yourself: docs/compatibility.md",
    )


@pytest.mark.parametrize("version", ["1.108.7", "1.110.2"])
def test_an_open_gate_ends_the_proxy_on_any_release(version):
    """What a gate stands on is missing: no start, whatever the version says, and the parts are named."""
    assert judge(version, [TOKENS, WALK, Lack("Auth.token", "who calls would be unknown")]) == Verdict(
        "gate_open",
        starts=False,
        text=f"the registry cannot be enforced on LiteLLM {version}, so the proxy does not start: Router.walk is missing "
        "(calls would go past it); Auth.token is missing (who calls would be unknown). Install a release that is known to "
        "work (1.106.x and 1.108.x); see docs/compatibility.md",
    )


def test_what_no_gate_needs_is_said_and_served():
    """A part that only a count needs is a warning, on a known release too."""
    assert judge("1.108.7", [TOKENS]) == Verdict(
        "supported", starts=True, text="LiteLLM 1.108.7 lacks the count of tokens: no cost is recorded"
    )


@pytest.mark.parametrize("version", sorted(COMPROMISED))
def test_a_compromised_release_never_starts(version):
    """Somebody else's release ends the proxy, with everything there or not."""
    verdicts = [judge(version), judge(version, [WALK])]

    assert [(one.kind, one.starts) for one in verdicts] == [("compromised", False)] * 2
    assert f"LiteLLM {version} was published by somebody else: it sends secrets away." in verdicts[0].text


@pytest.mark.parametrize(
    ("version", "known"),
    [
        ("1.106.0", True),
        ("1.106.12", True),
        ("1.108.99", True),
        ("1.108.7.post1", True),
        ("1.105.7", False),
        ("1.107.0", False),
        ("1.1080.7", False),
        ("2.108.7", False),
        ("1", False),
        ("", False),
        ("of an unknown version", False),
        ("1.x", False),
        ("1.10\u00b2.0", False),
    ],
)
def test_which_releases_are_known(version, known):
    """A release is known by its minor, whatever its patch; a compromised one and what is no version never."""
    assert is_known(version) is known


def test_this_litellm_has_everything():
    """The LiteLLM of the tests lacks nothing of what the gates stand on."""
    assert host_parts.lacks() == []
    assert host.check_host() == Verdict("supported", starts=True)


def named(monkeypatch, owner, name):
    """Take a part away and name what is then found to be missing."""
    monkeypatch.delattr(owner, name)
    return [lack.part for lack in host_parts.lacks() if lack.gate]


@pytest.mark.parametrize(
    ("owner", "name", "found"),
    [
        (litellm.utils, "async_pre_call_deployment_hook", "litellm.utils.async_pre_call_deployment_hook"),
        (Router, "async_function_with_fallbacks", "Router.async_function_with_fallbacks"),
        (Router, "async_get_available_deployment", "Router.async_get_available_deployment"),
        (Router, "set_custom_routing_strategy", "Router.set_custom_routing_strategy"),
        (Router, "get_model_from_alias", "Router.get_model_from_alias"),
        (CustomLogger, "async_pre_call_hook", "CustomLogger.async_pre_call_hook"),
        (Router, "acompletion", "the call of async_function_with_fallbacks in Router.acompletion"),
        (litellm.utils, "client", "the call of async_pre_call_deployment_hook in litellm.utils.client"),
    ],
)
def test_each_part_that_is_gone_is_found(monkeypatch, owner, name, found):
    """A part that was taken away is named, once."""
    assert named(monkeypatch, owner, name) == [found]


def test_a_call_that_is_made_no_more_is_found(monkeypatch):
    """A family that goes round the walk, a hook that is not called: the code of the caller is looked at."""

    async def elsewhere(self, *args, **kwargs):
        return await self.somewhere(*args, **kwargs)

    async def hook(kwargs, call_type):
        return kwargs

    monkeypatch.setattr(Router, "aembedding", elsewhere)
    monkeypatch.setattr(litellm.utils, "async_pre_call_deployment_hook", hook)

    assert [lack.part for lack in host_parts.lacks()] == [
        "the call of async_pre_call_deployment_hook in litellm.utils.async_pre_call_deployment_hook",
        "the call of async_function_with_fallbacks in Router.aembedding",
    ]


def test_a_walk_that_is_no_coroutine_is_found(monkeypatch):
    """The walk is awaited in the place of LiteLLM's."""
    monkeypatch.setattr(Router, "async_function_with_fallbacks", lambda self: None)

    assert [lack.part for lack in host_parts.lacks()] == ["Router.async_function_with_fallbacks as a coroutine"]


def test_a_new_argument_of_a_hook_is_found(monkeypatch):
    """LiteLLM's own hook takes what it is called with; an argument that ours does not take would fail each request."""

    async def hook(self, user_api_key_dict, cache, data, call_type, tenant):
        return data

    monkeypatch.setattr(CustomLogger, "async_pre_call_hook", hook)

    assert [lack.part for lack in host_parts.lacks()] == [
        "CustomLogger.async_pre_call_hook without the argument tenant"
    ]


def test_an_identity_without_its_marks_is_found(monkeypatch):
    """The fields that say who is calling are looked at one by one."""
    fields = {name: field for name, field in UserAPIKeyAuth.model_fields.items() if name != "via_virtual_key"}
    monkeypatch.setattr(host_parts, "AUTH", f"{__name__}:Auth")
    monkeypatch.setitem(globals(), "Auth", type("Auth", (), {"model_fields": fields}))

    assert [lack.part for lack in host_parts.lacks()] == ["Auth.via_virtual_key"]


def test_a_part_goes_by_the_name_of_an_earlier_release_too(monkeypatch):
    """`_name` is taken for `name` where that is asked for; neither of them is an error that names the part."""
    name = "litellm.proxy.auth.auth_checks:can_object_call_model"
    found = host_keys.can_object_call_model
    home = __import__("litellm.proxy.auth.auth_checks", fromlist=["x"])
    for one in ("can_object_call_model", "_can_object_call_model"):
        monkeypatch.delattr(home, one, raising=False)
    monkeypatch.setattr(home, "_can_object_call_model", found, raising=False)

    assert (host_parts.part(name), host_parts.part(name, older=True), host_parts.needed(name, "")) == (
        None,
        found,
        found,
    )

    monkeypatch.delattr(home, "_can_object_call_model")
    with pytest.raises(
        HostError, match=r"litellm\.proxy\.auth\.auth_checks\.can_object_call_model is missing \(lists\)"
    ):
        host_parts.needed(name, "lists")


def test_the_count_of_streams_is_no_gate(monkeypatch):
    """Without LiteLLM's functions for it a stream is served as it came, and the lack is said to be no gate."""
    monkeypatch.setattr(host_parts, "STREAM_PARTS", ("litellm.proxy.nowhere:x",))
    monkeypatch.setattr(host, "stream_usage_updates", None)
    data = {"model": "m", "stream": True}

    host.count_stream(data, ["m"])

    assert data == {"model": "m", "stream": True}
    assert [(lack.part, lack.gate) for lack in host_parts.lacks()] == [("the count of a stream's tokens", False)]


def test_an_import_that_fails_is_a_sentence():
    """A module that LiteLLM has no more ends the proxy with the name of it."""
    with pytest.raises(HostError, match="litellm.nowhere as the plugin knows it is missing"), host_parts.imported():
        import litellm.nowhere

    with pytest.raises(HostError) as caught, host_parts.imported():
        from litellm.router import gone  # noqa: F401
    assert "(cannot import name 'gone' from 'litellm.router')" in str(caught.value)
