"""A client's own ways of steering get no further than the registry allows."""

from __future__ import annotations

from typing import Any

import pytest

from tests.host.proxy import ONLY_LARGE, OPTED, PLAIN, Proxy
from tests.upstreams import Upstream

MESSAGES = [{"role": "user", "content": "hi"}]
CONSENT = {"x-registry-allow-metered": "true"}
SPOOF = {"user_api_key_hash": "0" * 64, "user_api_key_alias": "opted", "user_api_key_auth": {"token": "0" * 64}}


def outcome(response: Any) -> tuple[int, str | None]:
    body = response.json()
    return response.status_code, body["error"]["code"] if response.status_code >= 400 else response.headers.get(
        "x-registry-model"
    )


NO_CONSENT = (403, "metered_consent_missing")
REFUSED: dict[str, tuple[dict[str, Any], tuple[int, str]]] = {
    "the model itself": ({"model": "paid-fallback"}, NO_CONSENT),
    "its deployment id": ({"model": "paid-fallback@0"}, NO_CONSENT),
    "its litellm string": ({"model": "openai/paid-fallback-up"}, NO_CONSENT),
    "a tier of only paid members": ({"model": "only-paid"}, NO_CONSENT),
    "a comma list": ({"model": "large,paid-fallback"}, NO_CONSENT),
    "fastest_response": ({"model": "large,paid-fallback", "fastest_response": True}, NO_CONSENT),
    "an unknown name": ({"model": "gpt-9"}, (400, "unknown_model")),
    "a comma list with an unknown name": ({"model": "large,gpt-9"}, (400, "unknown_model")),
    "a fallback map": ({"model": "large", "fallbacks": [{"large": ["paid-fallback"]}]}, (400, "bad_fallbacks")),
    "a fallback with metadata": (
        {"model": "large", "fallbacks": [{"model": "paid-fallback", "metadata": SPOOF}]},
        (400, "bad_fallbacks"),
    ),
    "a fallback to a deployment id": ({"model": "large", "fallbacks": ["paid-fallback@0"]}, (400, "bad_fallbacks")),
    "a context fallback map": (
        {"model": "large", "context_window_fallbacks": [{"large": ["paid-fallback"]}]},
        (400, "bad_fallbacks"),
    ),
    "consent that is no word": ({"model": "large", "allow_metered": "perhaps"}, (400, "bad_consent")),
}


@pytest.mark.parametrize("lever", REFUSED)
def test_lever_is_refused(proxy: Proxy, ups: dict[str, Upstream], lever: str) -> None:
    """This way of naming a model is refused before any upstream call."""
    body, wanted = REFUSED[lever]

    assert outcome(proxy.chat(**body)) == wanted
    assert [call.path for up in ups.values() for call in up.generating_calls] == []


HARMLESS: dict[str, dict[str, Any]] = {
    "deployment_id": {"deployment_id": "paid-fallback-up"},
    "azure": {"azure": True},
    "custom_llm_provider": {"custom_llm_provider": "anthropic"},
    "router_settings_override": {"router_settings_override": {"fallbacks": [{"kimi": ["paid-fallback"]}]}},
    "num_retries": {"num_retries": 3},
    "max_retries": {"max_retries": 3},
    "disable_fallbacks": {"disable_fallbacks": True},
    "excluded deployments": {"_excluded_deployment_ids": ["kimi@0"]},
    "specific_deployment": {"specific_deployment": True},
    "own api key": {"api_key": "sk-of-the-client"},
    "auth header": {"extra_headers": {"Authorization": "Bearer sk-of-the-client", "x-registry-allow-metered": "true"}},
    "extra_body model": {"extra_body": {"model": "paid-fallback-up", "allow_metered": True}},
    "silent_model": {"silent_model": "paid-fallback"},
    "spoofed metadata": {"metadata": SPOOF, "litellm_metadata": SPOOF},
}


@pytest.mark.parametrize("failing", [False, True], ids=["healthy", "first member down"])
@pytest.mark.parametrize("lever", HARMLESS)
def test_lever_has_no_effect(proxy: Proxy, ups: dict[str, Upstream], lever: str, failing: bool) -> None:
    """This parameter is dropped: the tier's own order holds, each member is asked once, with the proxy's own key."""
    if failing:
        ups["kimi"].fail(500)

    response = proxy.chat("large", **HARMLESS[lever])

    assert outcome(response) == (200, "mid" if failing else "kimi")
    assert [len(ups[name].generating_calls) for name in ("kimi", "mid")] == ([1, 1] if failing else [1, 0])
    for call in ups["kimi"].generating_calls:
        assert call.headers["authorization"] == "Bearer dummy"
        assert call.json == {"model": "kimi-up", "messages": MESSAGES}


def test_named_fallbacks_are_gated_one_by_one(proxy: Proxy, ups: dict[str, Upstream]) -> None:
    """A client's plain fallback names are tried in order, and the one that costs money is passed over."""
    ups["ollama"].fail(500)

    response = proxy.chat("small", fallbacks=["paid-fallback", "big"])

    assert outcome(response) == (200, "kimi")
    assert (
        response.headers["x-registry-skipped"] == "local-small=model_unavailable, paid-fallback=metered_consent_missing"
    )


def test_comma_list_serves_each_of_its_names(proxy: Proxy, ups: dict[str, Upstream]) -> None:
    """A comma list of tiers is answered by the member of each."""
    ups["kimi"].fail(500)

    response = proxy.chat("large,small")

    assert [one["choices"][0]["message"]["content"] for one in response.json()] == [
        "answer from mid",
        "answer from ollama",
    ]
    assert sorted(response.headers["x-registry-model"].split(", ")) == ["local-small", "mid"]


def test_embedding_never_becomes_another_model(proxy: Proxy, ups: dict[str, Upstream]) -> None:
    """A failing embedding is a 503, even when the client names a fallback."""
    ups["ollama"].fail(500)

    response = proxy.post("/v1/embeddings", {"model": "embed", "input": "x", "fallbacks": ["large"]})

    assert outcome(response) == (503, "model_unavailable")
    assert [call.path for call in ups["kimi"].generating_calls] == []


RETRIED = [401, 404, 408, 409, 429, 500, 502, 503]
FINAL = [400, 403, 422]


@pytest.mark.parametrize("status", RETRIED)
def test_status_that_moves_on(proxy: Proxy, ups: dict[str, Upstream], status: int) -> None:
    """This answer of a member hands over to the next, and nobody is asked twice."""
    ups["kimi"].fail(status)

    assert outcome(proxy.chat("large")) == (200, "mid")
    assert [len(ups[name].generating_calls) for name in ("kimi", "mid")] == [1, 1]


@pytest.mark.parametrize("status", FINAL)
def test_status_that_is_final(proxy: Proxy, ups: dict[str, Upstream], status: int) -> None:
    """This answer of a member is the client's own fault and goes back as it is."""
    ups["kimi"].fail(status)

    assert proxy.chat("large").status_code == status
    assert [len(ups[name].generating_calls) for name in ("kimi", "mid")] == [1, 0]


def test_quota_answer_moves_on(proxy: Proxy, ups: dict[str, Upstream]) -> None:
    """A 403 that speaks of a used-up quota hands over to the next member."""
    ups["kimi"].fail(
        403, {"error": {"message": "usage limit exceeded for this billing cycle", "type": "access_terminated"}}
    )

    assert outcome(proxy.chat("large")) == (200, "mid")


def test_refused_connection_moves_on(proxy: Proxy, ups: dict[str, Upstream]) -> None:
    """A member whose port is closed hands over to the next."""
    ups["kimi"].refuse()

    assert outcome(proxy.chat("large")) == (200, "mid")


def test_named_model_has_no_substitute(proxy: Proxy, ups: dict[str, Upstream]) -> None:
    """A model named by its id is not replaced when it fails."""
    ups["kimi"].fail(500)

    response = proxy.chat("kimi")

    assert outcome(response) == (503, "model_unavailable")
    assert "x-registry-tier" not in response.headers
    assert [call.path for call in ups["mid"].generating_calls] == []


def test_consent_of_the_request_alone(proxy: Proxy, ups: dict[str, Upstream]) -> None:
    """A key that is not opted in does not reach the paid model by asking for it."""
    assert outcome(proxy.chat("paid-fallback", headers=CONSENT)) == (403, "metered_key_not_opted_in")


def test_consent_of_the_key_alone(proxy: Proxy, ups: dict[str, Upstream]) -> None:
    """An opted-in key does not reach the paid model without this request's consent."""
    assert outcome(proxy.chat("paid-fallback", key=OPTED)) == NO_CONSENT


@pytest.mark.pays
@pytest.mark.parametrize(
    "how",
    [{"headers": CONSENT}, {"allow_metered": True}, {"metadata": {"allow_metered": "1"}}],
    ids=["header", "body", "metadata"],
)
def test_each_way_to_consent(proxy: Proxy, ups: dict[str, Upstream], how: dict[str, Any]) -> None:
    """Any one of the three forms of consent suffices for an opted-in key, and none is sent upstream."""
    assert outcome(proxy.chat("paid-fallback", key=OPTED, **how)) == (200, "paid-fallback")
    [call] = ups["paid"].generating_calls
    assert "allow_metered" not in call.body.decode()
    assert [name for name in call.headers if "registry" in name] == []


CLOSED = [
    ("POST", "/v1/assistants"), ("POST", "/v1/threads"), ("POST", "/openai/v1/batches"), ("POST", "/openai/v1/files"),
    ("POST", "/v1/fine_tuning/jobs"), ("POST", "/a2a/agent/message/send"), ("POST", "/bedrock/model/m/invoke"),
    ("POST", "/vertex_ai/v1/x"), ("POST", "/azure/openai/deployments/x/chat/completions"), ("POST", "/v1/rag/ingest"),
    ("POST", "/some/new/route"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path"), CLOSED)
def test_route_that_nobody_governs_is_closed(proxy: Proxy, ups: dict[str, Upstream], method: str, path: str) -> None:
    """A route whose model the gates cannot see is a 403 with our code."""
    assert outcome(proxy.post(path, {"model": "paid-fallback"})) == (403, "route_not_governed")


def test_key_limited_to_a_tier(proxy: Proxy, ups: dict[str, Upstream]) -> None:
    """A key that lists only a tier uses the tier's whole pool and nothing else, by no way of naming it."""
    ups["kimi"].fail(500)

    assert outcome(proxy.chat("large", key=ONLY_LARGE)) == (200, "mid")
    refused = [
        proxy.chat("kimi", key=ONLY_LARGE),
        proxy.chat("small", key=ONLY_LARGE),
        proxy.chat("big", key=ONLY_LARGE),
        proxy.chat("large,small", key=ONLY_LARGE),
        proxy.post("/engines/small/chat/completions", {"model": "large", "messages": MESSAGES}, key=ONLY_LARGE),
        proxy.post("/v1/chat/completions?model=small", {"model": "large", "messages": MESSAGES}, key=ONLY_LARGE),
        proxy.post("/v1/embeddings", {"model": "embed", "input": "x"}, key=ONLY_LARGE),
    ]
    assert [outcome(one) for one in refused] == [(403, "model_not_allowed_for_key")] * len(refused)
    assert outcome(proxy.chat("large", key=ONLY_LARGE, fallbacks=["small"])) == (200, "mid")


def test_tiers_and_aliases_are_listed(proxy: Proxy, ups: dict[str, Upstream]) -> None:
    """/v1/models names every tier and alias beside the models."""
    listed = {one["id"] for one in proxy.get("/v1/models").json()["data"]}

    assert listed == {
        "kimi", "mid", "local-small", "bge-m3", "tei-reranker", "paid-fallback",
        "large", "small", "embed", "rerank", "only-paid", "embedder", "big",
    }  # fmt: skip


def test_health_calls_no_model(proxy: Proxy, ups: dict[str, Upstream]) -> None:
    """/health asks no model, also not the one it is told to ask."""
    for path in ("/health", "/health?model=paid-fallback", "/health?model=local-small", "/health/readiness"):
        proxy.get(path)

    assert [call.path for up in ups.values() for call in [*up.generating_calls, *up.load_calls]] == []


def test_runner_options_of_the_client_are_dropped(proxy: Proxy, ups: dict[str, Upstream]) -> None:
    """A client's keep_alive and runner options do not reach Ollama, the registry's do; sampling options go through."""
    proxy.chat(
        "small", keep_alive=0, num_ctx=99999, options={"num_gpu": 1}, extra_body={"keep_alive": 0}, temperature=0.1
    )

    [call] = ups["ollama"].generating_calls
    assert call.json == {
        "model": "gemma3:4b", "messages": [{"role": "user", "content": "hi", "images": []}],
        "options": {"num_ctx": 4096, "num_batch": 512, "temperature": 0.1}, "keep_alive": "5m", "stream": False,
    }  # fmt: skip


def test_wrong_key_is_401(proxy: Proxy, ups: dict[str, Upstream]) -> None:
    """A key that nobody issued is LiteLLM's 401, untouched."""
    assert proxy.chat("large", key="sk-nobody").status_code == 401
