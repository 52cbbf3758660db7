"""How a proxy starts, or does not."""

from __future__ import annotations

from collections import Counter
from pathlib import Path


from tests.host.proxy import PLAIN, Proxy, write_folder
from tests.host.shapes import config_for, registry_for
from tests.upstreams import Upstream


def test_invalid_registry_stops_the_start(ups: dict[str, Upstream], tmp_path: Path) -> None:
    """With an invalid registry the proxy ends, and its log lists every problem with its line."""
    registry = registry_for(ups)
    config = config_for(registry)
    registry["models"][0]["lifecylce"] = "always-on"
    registry["routing"]["tiers"]["large"] = ["kimi", "mitt"]
    proxy = Proxy(write_folder(tmp_path, registry, config))
    proxy.start()
    try:
        assert proxy.ended() != 0
    finally:
        proxy.stop()
    assert "unknown_key" in proxy.log and "lifecylce" in proxy.log
    assert "unknown_id" in proxy.log and "mitt" in proxy.log


def test_missing_registry_stops_the_start(ups: dict[str, Upstream], tmp_path: Path) -> None:
    """Without a registry file the proxy ends and says which file it looked for."""
    registry = registry_for(ups)
    folder = write_folder(tmp_path, registry, config_for(registry))
    (folder / "model-registry.yaml").unlink()
    proxy = Proxy(folder)
    proxy.start()
    try:
        assert proxy.ended() != 0
    finally:
        proxy.stop()
    assert "model-registry.yaml" in proxy.log


def test_without_the_plugin_a_tier_leads_nowhere(ups: dict[str, Upstream], tmp_path: Path) -> None:
    """When the callback is missing, a tier is a 400 and no upstream is called."""
    registry = registry_for(ups)
    config = config_for(registry)
    del config["litellm_settings"]
    with Proxy(write_folder(tmp_path, registry, config)) as proxy:
        answers = [proxy.chat(name).status_code for name in ("large", "only-paid", "big")]

    assert answers == [400, 400, 400]
    assert [call.path for up in ups.values() for call in up.generating_calls] == []


def test_two_workers_enforce_the_same_registry(ups: dict[str, Upstream], tmp_path: Path) -> None:
    """Each of two workers serves the tier and refuses the paid model."""
    registry = registry_for(ups)
    with Proxy(write_folder(tmp_path, registry, config_for(registry)), workers=2) as proxy:
        seen: Counter[str] = Counter()
        for _ in range(30):
            served, refused = proxy.chat("large"), proxy.chat("paid-fallback")
            seen[f"{served.status_code} {served.headers.get('x-registry-model')}"] += 1
            seen[f"{refused.status_code} {refused.json()['error']['code']}"] += 1
        attached = proxy.log.count("registry attached")

    assert seen == {"200 kimi": 30, "403 metered_consent_missing": 30}
    assert attached == 2


def test_drift_is_a_clear_refusal(ups: dict[str, Upstream], tmp_path: Path) -> None:
    """A model that the running proxy lacks, or whose entry was edited by hand, is passed over and said to be so."""
    registry = registry_for(ups)
    config = config_for(registry)
    config["model_list"] = [one for one in config["model_list"] if one["model_name"] != "kimi"]
    for one in config["model_list"]:
        if one["model_name"] == "local-small":
            one["litellm_params"] = {"model": "openai/other", "api_base": ups["paid"].openai_base, "api_key": "x"}
    with Proxy(write_folder(tmp_path, registry, config)) as proxy:
        large, small = proxy.chat("large"), proxy.chat("small")

    assert (large.status_code, large.headers["x-registry-model"]) == (200, "mid")
    assert large.headers["x-registry-skipped"] == "kimi=model_unavailable"
    assert small.status_code == 503
    assert small.json()["error"]["message"] == (
        "tier 'small': local-small: it is not in the proxy's model_list; run generate-litellm-config and restart the proxy"
    )


FOREIGN = [
    {"model_name": "gpt-foreign", "litellm_params": {"model": "openai/foreign", "api_key": "x"}},
    {"model_name": "wild/*", "litellm_params": {"model": "openai/*", "api_key": "x"}},
]


def test_unlisted_models_and_host_aliases(ups: dict[str, Upstream], tmp_path: Path) -> None:
    """What the registry does not know counts as metered, by name, wildcard, or an alias that leads to a paid model."""
    registry = registry_for(ups)
    foreign = [
        {**one, "litellm_params": {**one["litellm_params"], "api_base": ups["paid"].openai_base}} for one in FOREIGN
    ]
    config = config_for(
        registry, foreign=foreign, router={"model_group_alias": {"cheap": "paid-fallback", "tiny": "local-small"}}
    )
    with Proxy(write_folder(tmp_path, registry, config)) as proxy:
        codes = {
            name: proxy.chat(name).json().get("error", {}).get("code")
            for name in ("gpt-foreign", "wild/x", "cheap", "tiny")
        }

    assert codes == {
        "gpt-foreign": "unlisted_model", "wild/x": "unlisted_model", "cheap": "metered_consent_missing", "tiny": None,
    }  # fmt: skip


def test_host_fallbacks_stop_at_the_gate(ups: dict[str, Upstream], tmp_path: Path) -> None:
    """LiteLLM's own fallbacks of a foreign model end where they would reach a paid registry model."""
    registry = registry_for(ups)
    registry["routing"]["unlisted_models"] = "allow"
    foreign = [
        {
            "model_name": "free",
            "litellm_params": {"model": "openai/free", "api_key": "x", "api_base": ups["mid"].openai_base},
        }
    ]
    config = config_for(
        registry,
        foreign=foreign,
        router={"fallbacks": [{"free": ["paid-fallback"]}], "default_fallbacks": ["paid-fallback"], "num_retries": 0},
    )
    with Proxy(write_folder(tmp_path, registry, config)) as proxy:
        healthy = proxy.chat("free")
        ups["mid"].fail(500)
        failing = proxy.chat("free")
        ups["kimi"].fail(500)
        pool = proxy.chat("large")

    assert healthy.status_code == 200
    assert (failing.status_code, failing.json()["error"]["code"]) == (403, "metered_consent_missing")
    assert (pool.status_code, pool.json()["error"]["code"]) == (503, "model_unavailable")


def test_several_endpoints_of_one_model(ups: dict[str, Upstream], tmp_path: Path) -> None:
    """Each endpoint of a member is tried once, in order, before the next member; then its name counts once as skipped."""
    registry = registry_for(ups)
    kimi = registry["models"][0]
    del kimi["litellm"]["api_base"]
    kimi["endpoints"] = [{"api_base": ups["kimi"].openai_base}, {"api_base": ups["tei"].openai_base}]
    with Proxy(write_folder(tmp_path, registry, config_for(registry))) as proxy:
        ups["kimi"].fail(500)
        second = proxy.chat("large")
        ups["tei"].fail(500)
        next_member = proxy.chat("large")
        by_id = proxy.chat("kimi@1")

    assert second.headers["x-registry-model"] == "kimi"
    assert "x-registry-skipped" not in second.headers
    assert next_member.headers["x-registry-model"] == "mid"
    assert next_member.headers["x-registry-skipped"] == "kimi=model_unavailable"
    assert (by_id.status_code, by_id.json()["error"]["code"]) == (503, "model_unavailable")
    assert [len(ups[name].generating_calls) for name in ("kimi", "tei", "mid")] == [2, 3, 1]


def test_observe_serves_and_logs(ups: dict[str, Upstream], tmp_path: Path) -> None:
    """In observe mode foreign models and unknown routes go on and are logged; metered registry models stay closed."""
    registry = registry_for(ups)
    registry["routing"]["mode"] = "observe"
    foreign = [
        {
            "model_name": "free",
            "litellm_params": {"model": "openai/free", "api_key": "x", "api_base": ups["mid"].openai_base},
        }
    ]
    with Proxy(write_folder(tmp_path, registry, config_for(registry, foreign=foreign))) as proxy:
        served, paid, route = proxy.chat("free"), proxy.chat("paid-fallback"), proxy.get("/v1/vector_stores/x")
        log = proxy.log

    assert (served.status_code, paid.status_code) == (200, 403)
    assert route.status_code != 403
    assert "observe: would refuse: model 'free'" in log
    assert "observe: would refuse: route GET /v1/vector_stores/x" in log


def test_a_changed_routing_strategy_does_not_detach(ups: dict[str, Upstream], tmp_path: Path) -> None:
    """Whatever routing_strategy the config names, the pool order is ours."""
    registry = registry_for(ups)
    for strategy in ("usage-based-routing", "least-busy"):
        folder = write_folder(
            tmp_path / strategy, registry, config_for(registry, router={"routing_strategy": strategy})
        )
        with Proxy(folder) as proxy:
            assert proxy.chat("large").headers["x-registry-model"] == "kimi"
            assert proxy.chat("paid-fallback@0").status_code == 403


PROVIDER_KEYS = {
    name: "sk-provider" for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "COHERE_API_KEY", "GEMINI_API_KEY")
}
PASS_THROUGH = {
    "/openai/v1/chat/completions": {"model": "gpt-5", "messages": []},
    "/openai_passthrough/v1/chat/completions": {"model": "gpt-5", "messages": []},
    "/anthropic/v1/messages": {"model": "claude", "messages": []},
    "/cohere/v1/chat": {"model": "command", "message": "hi"},
    "/gemini/v1beta/models/gemini-pro:generateContent": {"contents": []},
}


def test_pass_through_counts_as_metered(ups: dict[str, Upstream], tmp_path: Path) -> None:
    """LiteLLM's pass-through routes, with provider keys in the environment, are refused without both consents."""
    registry = registry_for(ups)
    env = PROVIDER_KEYS | {"OPENAI_API_BASE": ups["paid"].openai_base}
    with Proxy(write_folder(tmp_path, registry, config_for(registry)), env=env) as proxy:
        codes = {
            path: proxy.post(path, body, headers={"x-goog-api-key": PLAIN}).json()
            for path, body in PASS_THROUGH.items()
        }
        without_model = proxy.post("/v1/moderations", {"input": "x"}).json()

    assert {path: body["error"]["code"] for path, body in codes.items()} == dict.fromkeys(
        PASS_THROUGH, "unlisted_model"
    )
    assert codes["/anthropic/v1/messages"]["type"] == "error"
    # LiteLLM fills in a moderation model of its own choice, which nobody has listed.
    assert without_model["error"]["code"] == "unknown_model"


OVERFLOW = {
    "error": {
        "message": "This model's maximum context length is 4096 tokens. However, your messages resulted in 9000 tokens.",
        "type": "invalid_request_error",
        "code": "context_length_exceeded",
    }
}


def test_slow_member_and_full_context(ups: dict[str, Upstream], tmp_path: Path) -> None:
    """A member slower than its timeout_s hands over; a context overflow goes on to a larger context only."""
    registry = registry_for(ups)
    kimi, mid = registry["models"][:2]
    kimi.update(timeout_s=1, context=4096)
    mid["context"] = 4096
    registry["models"][2]["context"] = 32768
    registry["routing"]["tiers"]["long"] = ["kimi", "mid", "local-small"]
    registry["routing"]["tiers"]["short"] = ["kimi", "mid"]
    with Proxy(write_folder(tmp_path, registry, config_for(registry))) as proxy:
        ups["kimi"].hang(30)
        slow = proxy.chat("short", timeout=20)
        slow_calls = [len(ups[name].generating_calls) for name in ("kimi", "mid")]
        ups["kimi"].ok()
        ups["kimi"].fail(400, OVERFLOW)
        long, short = proxy.chat("long"), proxy.chat("short")

    assert (slow.status_code, slow.headers["x-registry-model"], slow_calls) == (200, "mid", [1, 1])
    assert slow.elapsed.total_seconds() < 15
    assert (long.status_code, long.headers["x-registry-model"]) == (200, "local-small")
    assert (short.status_code, short.json()["error"]["code"]) == (400, "400")
    assert "maximum context length" in short.json()["error"]["message"]
    assert len(ups["mid"].generating_calls) == 1
