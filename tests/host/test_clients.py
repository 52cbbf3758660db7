"""The official clients get what they expect, served and refused."""

from __future__ import annotations

import anthropic
import openai
import pytest

from tests.host.proxy import OPTED, PLAIN, Proxy
from tests.upstreams import Upstream

MESSAGES = [{"role": "user", "content": "hi"}]
CONSENT = {"x-registry-allow-metered": "true"}


@pytest.fixture
def client(proxy: Proxy):
    with openai.OpenAI(base_url=f"{proxy.url}/v1", api_key=PLAIN) as one:
        yield one


def test_sync_chat(client: openai.OpenAI, ups: dict[str, Upstream]) -> None:
    """The sync client gets its tier's answer."""
    assert (
        client.chat.completions.create(model="large", messages=MESSAGES).choices[0].message.content
        == "answer from kimi"
    )


def test_sync_stream(client: openai.OpenAI, ups: dict[str, Upstream]) -> None:
    """The sync client streams from the next member when the first is down."""
    ups["kimi"].refuse()

    chunks = client.chat.completions.create(model="large", messages=MESSAGES, stream=True)

    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "answer from mid"


async def test_async_chat_and_stream(proxy: Proxy, ups: dict[str, Upstream]) -> None:
    """The async client gets both forms."""
    async with openai.AsyncOpenAI(base_url=f"{proxy.url}/v1", api_key=PLAIN) as client:
        whole = await client.chat.completions.create(model="small", messages=MESSAGES)
        words = ""
        async for chunk in await client.chat.completions.create(model="small", messages=MESSAGES, stream=True):
            words += (chunk.choices[0].delta.content or "") if chunk.choices else ""

    assert (whole.choices[0].message.content, words) == ("answer from ollama", "answer from ollama")


def test_embeddings_keep_their_width(client: openai.OpenAI, ups: dict[str, Upstream]) -> None:
    """The SDK's default encoding through tier `embed` gives the vectors Ollama made, at their full width."""
    found = client.embeddings.create(model="embed", input=["a", "b"])

    width = len(ups["ollama"].vector("a"))
    assert [len(one.embedding) for one in found.data] == [width, width]
    assert found.data[0].embedding == pytest.approx(ups["ollama"].vector("a"))


def test_refusal_is_one_request_with_our_code(client: openai.OpenAI, ups: dict[str, Upstream]) -> None:
    """A refused metered call raises PermissionDenied with our code, and the SDK does not repeat it."""
    with pytest.raises(openai.PermissionDeniedError) as refused:
        client.chat.completions.create(model="paid-fallback", messages=MESSAGES, extra_headers=CONSENT)

    assert refused.value.code == "metered_key_not_opted_in"
    assert refused.value.body["message"] == (
        "model 'paid-fallback': each call costs money and this virtual key is not opted in; an operator adds it to "
        "routing.metered_opt_in of the registry"
    )


def test_nothing_left_is_one_clear_error(client: openai.OpenAI, ups: dict[str, Upstream]) -> None:
    """When every member failed or is refused, one 503 names each with its reason and carries the known Retry-After."""
    ups["kimi"].fail(500)
    ups["mid"].fail(429, headers={"Retry-After": "7"})

    with pytest.raises(openai.InternalServerError) as refused:
        client.chat.completions.create(model="large", messages=MESSAGES)

    assert refused.value.status_code == 503
    assert refused.value.response.headers["retry-after"] == "7"
    assert refused.value.code == "model_unavailable"
    assert [(one["model"], one["code"]) for one in refused.value.body["candidates"]] == [
        ("kimi", "model_unavailable"), ("mid", "model_unavailable"), ("paid-fallback", "metered_consent_missing"),
    ]  # fmt: skip
    assert [len(ups[name].generating_calls) for name in ("kimi", "mid")] == [1, 1]


@pytest.mark.pays
def test_both_consents_reach_the_paid_model(proxy: Proxy, ups: dict[str, Upstream]) -> None:
    """With this request's consent and an opted-in key the paid member serves when the free ones are down."""
    ups["kimi"].fail(500)
    ups["mid"].refuse()

    with openai.OpenAI(base_url=f"{proxy.url}/v1", api_key=OPTED) as client:
        raw = client.chat.completions.with_raw_response.create(
            model="large", messages=MESSAGES, extra_body={"allow_metered": True}
        )

    assert raw.parse().choices[0].message.content == "answer from paid"
    assert raw.headers["x-registry-model"] == "paid-fallback"
    [call] = ups["paid"].generating_calls
    assert call.json == {"model": "paid-fallback-up", "messages": MESSAGES}
    assert not [name for name in call.headers if "registry" in name]


def test_anthropic_client(proxy: Proxy, ups: dict[str, Upstream]) -> None:
    """The Anthropic client gets its tier, streaming or not."""
    with anthropic.Anthropic(base_url=proxy.url, auth_token=PLAIN) as client:
        whole = client.messages.create(model="large", max_tokens=16, messages=MESSAGES)
        with client.messages.stream(model="large", max_tokens=16, messages=MESSAGES) as stream:
            words = stream.get_final_text()

    assert (whole.content[0].text, words) == ("answer from kimi", "answer from kimi")


def test_anthropic_refusal(proxy: Proxy, ups: dict[str, Upstream]) -> None:
    """The Anthropic client sees a permission error with our code and headers."""
    with anthropic.Anthropic(base_url=proxy.url, auth_token=PLAIN) as client:
        with pytest.raises(anthropic.PermissionDeniedError) as refused:
            client.messages.create(model="paid-fallback", max_tokens=16, messages=MESSAGES)

    assert refused.value.body == {
        "type": "error",
        "error": {
            "type": "permission_error",
            "message": "model 'paid-fallback': each call costs money and this request does not allow it; send the header "
            "x-registry-allow-metered: true and have the virtual key opted in",
            "code": "metered_consent_missing",
            "candidates": [
                {
                    "model": "paid-fallback", "code": "metered_consent_missing",
                    "reason": "each call costs money and this request does not allow it; send the header "
                    "x-registry-allow-metered: true and have the virtual key opted in",
                }
            ],
        },
    }  # fmt: skip
    assert refused.value.response.headers["x-registry-skipped"] == "paid-fallback=metered_consent_missing"
