"""What the gates rely on in LiteLLM's Router; line numbers are those of 1.108.7."""

from __future__ import annotations

import gc
import time
import warnings
from contextvars import ContextVar

import litellm
import pytest
import pytest_asyncio
from fastapi import HTTPException
from kit import FAMILIES, GROUP, Funnel, Hooked, Picks, call, callback, deployment, router_on, wav, whole_router
from litellm.llms.azure.common_utils import BaseAzureLLM
from litellm.llms.openai.openai import OpenAIChatCompletion
from litellm.router_utils.fallback_event_handlers import (
    MID_STREAM_FALLBACK_CONTROLS_KEY,
    per_request_fallback_controls,
)

from litellm_registry_hook.adapter import host
from tests.upstreams import Upstream

# LiteLLM's own deprecation warnings are not ours to fail on. One loop for all: its clients are cached and bound to one.
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.asyncio(loop_scope="module")]

OFF = {"num_retries": 0, "disable_fallbacks": True}


@pytest_asyncio.fixture(scope="module", loop_scope="module", autouse=True)
async def clients():
    """LiteLLM's cached clients are closed at the end; what it forgot is collected without a warning."""
    yield
    await litellm.close_litellm_async_clients()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()


@pytest.fixture(scope="module")
def servers():
    with Upstream("one") as one, Upstream("two") as two:
        yield one, two


@pytest.fixture
def up(servers):
    for server in servers:
        server.reset()
    return servers[0]


@pytest.fixture
def other(servers, up):
    return servers[1]


@pytest.mark.parametrize("family", FAMILIES)
async def test_every_family_goes_through_the_funnel(up, family):
    """A call of each family calls the instance's async_function_with_fallbacks once (router.py:8251)."""
    router = whole_router(up.openai_base)
    funnel = Funnel(router)

    await call(router, family)

    assert (funnel.models, len(up.generating_calls)) == ([GROUP.get(family, "m")], 1)


async def test_moderation_does_not_go_through_the_funnel(up):
    """amoderation picks and calls by itself, so the walk wraps it on its own (router.py:7262)."""
    router = router_on(deployment("m@0", up.openai_base, model="openai/omni-moderation-latest"))
    funnel = Funnel(router)

    await router.amoderation(model="m", input="hi")

    assert (funnel.models, [one.path for one in up.generating_calls]) == ([], ["/v1/moderations"])


# Families whose OpenAI client repeats a failing call by itself, max_retries=0 or not: embeddings take a 0 for "unset"
# (llms/openai/openai.py:1420), images and moderations are not given the number at all (openai.py:1576, main.py:8044).
STUBBORN = ("aembedding", "aimage_generation")
ONCE = [family for family in FAMILIES if family not in STUBBORN]


@pytest.mark.parametrize("family", ONCE)
async def test_without_retries_and_fallbacks_there_is_one_attempt(up, other, family):
    """num_retries=0 and disable_fallbacks end a failing call after one upstream request (router.py:8286, :8380)."""
    await fails_alone(up, other, family)

    assert (len(up.generating_calls), len(other.generating_calls)) == (1, 0)


@pytest.mark.parametrize("family", STUBBORN)
async def test_the_openai_client_repeats_embeddings_and_images(up, other, family):
    """max_retries=0 does not stop it: two hidden repeats of the same deployment, and still no fallback."""
    await fails_alone(up, other, family)

    assert (len(up.generating_calls), len(other.generating_calls)) == (3, 0)


@pytest.mark.parametrize("family", STUBBORN)
async def test_a_client_made_without_retries_does_not_repeat(up, other, family, monkeypatch):
    """_get_openai_client is the one place where every OpenAI client gets its number of retries (openai.py:403)."""
    made = OpenAIChatCompletion._get_openai_client
    monkeypatch.setattr(
        OpenAIChatCompletion,
        "_get_openai_client",
        lambda self, *args, **kwargs: made(self, *args, **{**kwargs, "max_retries": 0}),
    )

    await fails_alone(up, other, family)

    assert (len(up.generating_calls), len(other.generating_calls)) == (1, 0)


async def test_the_openai_client_repeats_moderations(up):
    """A moderation is sent three times to a failing upstream (main.py:8044)."""
    router = router_on(deployment("m@0", up.openai_base, model="openai/omni-moderation-latest"))
    up.fail(500)

    with pytest.raises(Exception):  # noqa: B017  the count is the point
        await router.amoderation(model="m", input="hi", max_retries=0, **OFF)

    assert len(up.generating_calls) == 3


@pytest.mark.parametrize(("patched", "calls"), [(False, 3), (True, 1)])
async def test_azures_client_repeats_transcriptions(up, patched, calls, monkeypatch):
    """It is given no number of retries (llms/azure/audio_transcriptions.py:131); try_once reaches that client too."""
    if patched:
        for owner, name in ((OpenAIChatCompletion, "_get_openai_client"), (BaseAzureLLM, "get_azure_openai_client")):
            # Kept by monkeypatch, and so given back.
            monkeypatch.setattr(owner, name, getattr(owner, name))
        host.try_once(lambda: True)
    azure = deployment("w@0", up.url, group="w", model="azure/whisper-1", api_version="2024-10-21")
    router = router_on(azure)
    up.fail(500)

    with pytest.raises(Exception):  # noqa: B017  the count is the point
        await router.atranscription(model="w", file=wav(), max_retries=0, **OFF)

    assert len(up.generating_calls) == calls


async def fails_alone(up, other, family):
    """One call of a family on a failing deployment beside a spare one, with retries and fallbacks off."""
    group = GROUP.get(family, "m")
    router = router_on(
        *whole_router(up.openai_base).model_list,
        deployment("spare@0", other.openai_base, group="spare"),
        fallbacks=[{group: ["spare"]}],
        num_retries=3,
    )
    up.fail(500)
    with pytest.raises(Exception):  # noqa: B017  each family has its own class; the counts are the point
        await call(router, family, max_retries=0, fallbacks=[], **OFF)


async def test_with_fallbacks_on_the_spare_is_called(up, other):
    """The same router does fall back when it may: the test above can fail."""
    router = router_on(
        deployment("m@0", up.openai_base),
        deployment("spare@0", other.openai_base, group="spare"),
        fallbacks=[{"m": ["spare"]}],
        num_retries=0,
    )
    up.fail(500)

    await call(router, "acompletion")

    assert (len(up.generating_calls), len(other.generating_calls)) == (1, 1)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("by_id", [False, True], ids=["by group", "by deployment id"])
async def test_a_custom_strategy_picks_for_every_family(up, family, by_id):
    """set_custom_routing_strategy replaces the choice of a deployment, also of one named by its id (router.py:15924)."""
    router = whole_router(up.openai_base)
    picks = Picks(router)
    router.set_custom_routing_strategy(picks)
    name = GROUP.get(family, "m") + ("@0" if by_id else "")

    await call(router, family, m=name, **OFF)

    assert (set(picks.asked), len(up.generating_calls)) == ({name}, 1)


def test_a_change_of_strategy_removes_ours(up):
    """update_settings(routing_strategy=another) deletes the instance's choice; other settings leave it (router.py:15945)."""
    router = whole_router(up.openai_base)
    router.set_custom_routing_strategy(Picks(router))
    there = []
    for change in ({"num_retries": 1}, {"routing_strategy": "simple-shuffle"}, {"routing_strategy": "least-busy"}):
        router.update_settings(**change)
        there.append("async_get_available_deployment" in router.__dict__)

    assert there == [True, True, False]


def test_an_alias_of_itself_leads_nowhere_and_is_not_listed(up):
    """A tier that is its own alias has no deployment, so get_model_names leaves it out (router.py:12629)."""
    router = whole_router(up.openai_base)
    router.model_group_alias = {"large": "large"}

    assert (router.get_model_names(), router.get_model_list(model_name="large")) == (["m", "rerank"], [])


def test_list_names_adds_the_tiers_to_the_listing(up):
    """host.list_names makes each name its own alias and shows it after LiteLLM's own, once."""
    router = whole_router(up.openai_base)
    router.model_group_alias = {"cheap": "m"}

    host.list_names(router, ("large", "m"))

    assert (router.model_group_alias, router.get_model_names()) == (
        {"cheap": "m", "large": "large", "m": "m"},
        ["cheap", "m", "rerank", "large"],
    )


@pytest.mark.parametrize(("models", "allowed"), [(["large"], True), (["m"], False), ([], True)])
def test_an_alias_of_itself_opens_a_tier_only_to_keys_that_list_it(up, models, allowed):
    """A key that lists a member does not get the tier with it (auth_checks.py:4874)."""
    from litellm_registry_hook.adapter.host_keys import can_object_call_model

    router = whole_router(up.openai_base)
    router.model_group_alias = {"large": "large"}

    def may():
        try:
            return can_object_call_model(model="large", llm_router=router, models=models, object_type="key")
        except Exception:
            return False

    assert may() is allowed


def test_an_alias_of_a_member_would_open_the_tier_to_the_member(up):
    """Why the alias is its own target: aliased to a member, a key of the member would have the tier."""
    from litellm_registry_hook.adapter.host_keys import can_object_call_model

    router = whole_router(up.openai_base)
    router.model_group_alias = {"large": "m"}

    assert can_object_call_model(model="large", llm_router=router, models=["m"], object_type="key") is True


def test_a_deployment_is_found_by_its_id(up):
    """live_deployment reads model_id_to_deployment_index_map and model_list (router.py)."""
    router = whole_router(up.openai_base)

    assert (
        host.live_deployment(router, "rerank@0") is router.model_list[1],
        host.live_deployment(router, "gone"),
        router.has_model_id("m@0"),
        router.has_model_id("m"),
    ) == (True, None, True, False)


def test_a_name_of_the_host_is_known_by_its_deployments(up):
    """get_model_list(model_name) has deployments for a group and a wildcard, and none for anything else."""
    router = router_on(
        deployment("m@0", up.openai_base), deployment("w@0", up.openai_base, group="openai/*", model="openai/*")
    )

    assert [bool(router.get_model_list(model_name=name)) for name in ("m", "openai/gpt-4o", "nobody")] == [
        True,
        True,
        False,
    ]


def test_get_model_from_alias(up):
    """An alias gives its target, a group nothing."""
    router = whole_router(up.openai_base)
    router.model_group_alias = {"cheap": "m"}

    assert (router.get_model_from_alias(model="cheap"), router.get_model_from_alias(model="m")) == ("m", None)


@pytest.mark.parametrize("status", [400, 403, 422])
async def test_an_http_exception_of_a_guardrail_ends_the_call(up, other, status):
    """400, 403 and 422 raised at the deployment count as a guardrail: no retry, no fallback (custom_guardrail.py:78)."""
    router = router_on(
        deployment("m@0", up.openai_base),
        deployment("spare@0", other.openai_base, group="spare"),
        fallbacks=[{"m": ["spare"]}],
        num_retries=2,
    )

    with callback(Hooked(raises=HTTPException(status, detail={"error": "no"}))) as hook:
        with pytest.raises(HTTPException) as caught:
            await call(router, "acompletion")

    assert (caught.value.status_code, len(hook.seen), up.calls, other.calls) == (status, 1, [], [])


@pytest.mark.parametrize("family", FAMILIES)
async def test_an_http_exception_without_retries_is_raised_once(up, family):
    """num_retries = 0 on the exception stops the router's retries, which default to 2 (router.py:8427)."""
    router = whole_router(up.openai_base)
    refused = HTTPException(503, detail={"error": "no"}, headers={"retry-after": "7"})
    refused.num_retries = 0
    picks = Picks(router, raises=refused)
    router.set_custom_routing_strategy(picks)
    began = time.monotonic()

    with pytest.raises(HTTPException) as caught:
        await call(router, family)

    assert (caught.value.status_code, caught.value.headers, len(picks.asked), up.calls) == (
        503,
        {"retry-after": "7"},
        1,
        [],
    )
    assert time.monotonic() - began < 2


@pytest.mark.parametrize("family", FAMILIES)
async def test_the_deployment_hook_sees_what_is_called(up, family):
    """async_pre_call_deployment_hook gets the deployment's model, api_base and model_info (utils.py:2082)."""
    router = whole_router(up.openai_base)
    group = GROUP.get(family, "m")
    model = {"m": "openai/m-up", "rerank": "cohere/rerank-up"}[group]

    with callback(Hooked()) as hook:
        await call(router, family, **OFF)

    first_model, first_base, first_id = hook.seen[0]
    assert first_model in {model, model.partition("/")[2]}
    assert (first_base, first_id) == (up.openai_base, f"{group}@0")
    assert {base for _, base, _ in hook.seen} == {up.openai_base}


@pytest.mark.parametrize("family", FAMILIES)
async def test_what_the_deployment_hook_raises_stops_the_call(up, family):
    """An exception there is not swallowed: nothing reaches the upstream."""
    router = whole_router(up.openai_base)
    refused = HTTPException(403, detail={"error": "no"})

    with callback(Hooked(raises=refused)):
        with pytest.raises(HTTPException) as caught:
            await call(router, family, **OFF)

    assert (caught.value is refused, up.calls) == (True, [])


SEEN: ContextVar[str] = ContextVar("seen", default="nothing")


@pytest.mark.parametrize("family", FAMILIES)
async def test_a_context_variable_reaches_the_deployment_hook(up, family):
    """What is set before the router's call is seen at the deployment: the walk's hop and the request's scope."""
    router = whole_router(up.openai_base)
    token = SEEN.set("the hop")

    with callback(Hooked(look=lambda kwargs, call_type: SEEN.get())) as hook:
        await call(router, family, **OFF)
    SEEN.reset(token)

    assert set(hook.seen) == {"the hop"}


async def test_a_refused_connection_is_an_answer_of_500(up):
    """LiteLLM maps a refused connection to an InternalServerError, which the walk takes as no fault of the request."""
    router = router_on(deployment("m@0", "http://127.0.0.1:9/v1"))

    with pytest.raises(litellm.InternalServerError) as caught:
        await call(router, "acompletion", max_retries=0, **OFF)

    assert host.failure_of(caught.value).status == 500


@pytest.mark.parametrize("status", [401, 403, 404, 408, 409, 422, 429, 500, 503])
async def test_the_upstreams_status_and_words_come_through(up, status):
    """failure_of has the status the upstream answered, its sentence, and its Retry-After."""
    router = router_on(deployment("m@0", up.openai_base))
    up.fail(status, {"error": {"message": "because of this", "type": "x", "code": "y"}}, {"Retry-After": "7"})

    with pytest.raises(Exception) as caught:  # noqa: B017  the status is the point
        await call(router, "acompletion", max_retries=0, **OFF)

    failure = host.failure_of(caught.value)
    assert (failure.status, "because of this" in failure.text, failure.retry_after_s, failure.context_overflow) == (
        status,
        True,
        7.0,
        False,
    )


async def test_retry_after_stands_in_litellm_response_headers(up):
    """The exception carries the upstream's headers (exception_mapping_utils.py:2794)."""
    router = router_on(deployment("m@0", up.openai_base))
    up.fail(429, {"error": {"message": "slow down"}}, {"Retry-After": "7"})

    with pytest.raises(litellm.RateLimitError) as caught:
        await call(router, "acompletion", max_retries=0, **OFF)

    assert caught.value.litellm_response_headers["retry-after"] == "7"


async def test_context_overflow_has_its_own_class(up):
    """The usual 400 of a too long input becomes ContextWindowExceededError, still a 400."""
    router = router_on(deployment("m@0", up.openai_base))
    up.fail(
        400,
        {
            "error": {
                "message": "This model's maximum context length is 4096 tokens. However, you requested 9000 tokens.",
                "type": "invalid_request_error",
                "code": "context_length_exceeded",
            }
        },
    )

    with pytest.raises(litellm.ContextWindowExceededError) as caught:
        await call(router, "acompletion", max_retries=0, **OFF)

    failure = host.failure_of(caught.value)
    assert (failure.status, failure.context_overflow) == (400, True)


async def test_a_timeout_is_a_408(up):
    """LiteLLM's Timeout has status 408, on which the walk goes on."""
    router = router_on(deployment("m@0", up.openai_base, timeout=0.2))
    up.hang(5)

    with pytest.raises(litellm.Timeout) as caught:
        await call(router, "acompletion", max_retries=0, **OFF)

    assert host.failure_of(caught.value).status == 408


async def test_a_streams_settings_are_copied_when_it_comes_in(up):
    """A stream carries its fallback settings under a key of its own, which once_only must replace (router.py:2898)."""
    router = whole_router(up.openai_base)
    funnel = Funnel(router)

    await call(router, "acompletion, stream", num_retries=5)

    controls = funnel.kwargs[0][MID_STREAM_FALLBACK_CONTROLS_KEY]
    assert controls.overrides["num_retries"] == 5


def test_the_settings_of_a_stream_are_fallbacks_and_retries():
    """per_request_fallback_controls copies these; disable_fallbacks rides along in the call itself (…handlers.py:350)."""
    off = {"num_retries": 0, "disable_fallbacks": True, "fallbacks": [], "model": "m"}

    assert dict(per_request_fallback_controls(off).overrides) == {"num_retries": 0, "fallbacks": []}


def test_once_only_turns_everything_off():
    """One attempt's arguments have no retry and no fallback left, of the stream either."""
    kwargs = {"model": "m", "num_retries": 5, MID_STREAM_FALLBACK_CONTROLS_KEY: object()}

    host.once_only(kwargs)
    controls = kwargs.pop(MID_STREAM_FALLBACK_CONTROLS_KEY)

    assert (kwargs, dict(controls.overrides)) == (
        {"model": "m", "num_retries": 0, "max_retries": 0, "disable_fallbacks": True, "fallbacks": []},
        {"num_retries": 0, "fallbacks": []},
    )


async def test_a_broken_stream_is_not_taken_up_elsewhere_when_fallbacks_are_off(up, other):
    """After once_only, a stream that breaks before its end calls no other deployment."""
    router = router_on(
        deployment("m@0", up.openai_base),
        deployment("spare@0", other.openai_base, group="spare"),
        fallbacks=[{"m": ["spare"]}],
    )
    walk = type(router).async_function_with_fallbacks.__get__(router)

    async def once(*args, **kwargs):
        host.once_only(kwargs)
        return await walk(*args, **kwargs)

    router.async_function_with_fallbacks = once
    up.break_stream(after_chunks=1)

    with pytest.raises(Exception):  # noqa: B017  the counts are the point
        await call(router, "acompletion, stream")

    assert (len(up.generating_calls), len(other.generating_calls)) == (1, 0)
