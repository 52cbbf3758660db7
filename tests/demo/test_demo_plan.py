"""Who needs a stand-in, and the registry and config that come out of it."""

from __future__ import annotations

import sys
from pathlib import Path

import yaml
from upstreams import Upstream, free_port

from litellm_registry_hook.core.registry import Registry
from litellm_registry_hook.demo.files import write_litellm_config, write_registry
from litellm_registry_hook.demo.plan import derived, environment_names, places_of
from litellm_registry_hook.demo.probe import look
from litellm_registry_hook.demo.show import commands, overview, table, tier_of_mode
from litellm_registry_hook.demo.speech import Canned
from litellm_registry_hook.demo.stand_ins import ollama_models, start_stand_ins
from litellm_registry_hook.edges.registry_file import load_registry

SHIPPED = Path(__file__).parents[2] / "model-registry.yaml"


def registry_of(*models, **routing) -> tuple[dict, Registry]:
    """Return a document and its registry; each model is in a tier of its own kind."""
    tiers = {f"t-{model['id']}": [model["id"]] for model in models}
    document = {"version": 1, "models": list(models), "routing": {"tiers": tiers, **routing}}
    return document, Registry.model_validate(document)


def chat(model_id, **more):
    entry = {"id": model_id, "role": "chat", "lifecycle": "always-on", "metered": False}
    return {**entry, "litellm": {"model": "ollama_chat/gemma3:4b"}, **more}


def shipped(ollama: str, tei: str) -> tuple[dict, Registry]:
    """Return the shipped registry with other local addresses."""
    text = SHIPPED.read_text().replace("http://127.0.0.1:11434", ollama).replace("http://127.0.0.1:8080", tei)
    document = yaml.safe_load(text)
    return document, Registry.model_validate(document)


async def test_nothing_runs_so_everything_stands_in():
    """Of the shipped registry each model gets a stand-in, with its reason; the two Ollama models share one."""
    nothing, less = f"http://127.0.0.1:{free_port()}", f"http://127.0.0.1:{free_port()}"
    _, registry = shipped(nothing, less)
    places = places_of(registry, {})

    running = await start_stand_ins(places, await look(places), Canned("a test"))
    await running.stop()

    assert {found.place.model.id: found.why for found in running.found} == {
        "kimi": "a subscription: the demo never calls it",
        "local-small": f"nothing answers at {nothing}",
        "bge-m3": f"nothing answers at {nothing}",
        "tei-reranker": f"nothing answers at {less}",
        "paid-fallback": "paid: the demo never calls it",
    }
    assert [found.answers for found in running.found] == [
        "stand-in subscription, canned text",
        "stand-in Ollama, canned text",
        "stand-in Ollama, stand-in vectors",
        "stand-in TEI, word overlap",
        "stand-in paid API, canned text",
    ]
    assert running.found[1].api_base == running.found[2].api_base
    assert len(running.served) == 4


async def test_what_runs_here_is_used_and_a_missing_model_is_not():
    """A real Ollama serves the model it has; the one it lacks gets a stand-in that says how to pull it; TEI is used."""
    with Upstream("ollama", models=("GEMMA3:4b",)) as ollama, Upstream("tei") as tei:
        document, registry = shipped(ollama.url, tei.url)
        places = places_of(registry, {})
        running = await start_stand_ins(places, await look(places), Canned("a test"))
        await running.stop()
        result = {entry["id"]: entry for entry in derived(document, running.found)["models"]}

        assert ollama.generating_calls == ollama.load_calls == tei.generating_calls == []
        assert {found.place.model.id: found.real for found in running.found} == {
            "kimi": False,
            "local-small": True,
            "bge-m3": False,
            "tei-reranker": True,
            "paid-fallback": False,
        }
        assert running.found[2].why == f"the Ollama at {ollama.url} lacks bge-m3 (ollama pull bge-m3)"
        assert result["local-small"]["endpoints"] == [{"api_base": ollama.url}]
        assert result["bge-m3"]["endpoints"] == [{"api_base": running.found[2].api_base}]
        assert result["tei-reranker"]["endpoints"][0]["health_url"] == f"{tei.url}/health"


async def test_what_answers_otherwise_is_not_an_ollama():
    """A server that refuses /api/version is not used, and the reason gives its status."""
    with Upstream("other") as other:
        other.fail(404, everything=True)
        _, registry = registry_of(chat("m", endpoints=[{"api_base": other.url}]))

        assert await look(places_of(registry, {})) == [f"what answers at {other.url} says 404"]


def test_the_demo_never_calls_what_costs_or_is_elsewhere():
    """A metered or quota-gated model is never called, not even at a loopback address; nor is another machine."""
    _, registry = registry_of(
        chat("paid", metered=True, endpoints=[{"api_base": "http://127.0.0.1:1"}]),
        chat("sub", lifecycle="quota-gated", endpoints=[{"api_base": "http://localhost:1"}]),
        chat("budget", lifecycle="cost-gated", endpoints=[{"api_base": "http://[::1]:1"}]),
        chat("far", endpoints=[{"api_base": "http://10.0.0.1:11434"}]),
        chat("bare"),
        chat("env", endpoints=[{"api_base": "os.environ/OLLAMA_BASE"}]),
        chat("unset", endpoints=[{"api_base": "os.environ/NOT_SET"}]),
    )

    found = {place.model.id: place.never for place in places_of(registry, {"OLLAMA_BASE": "http://127.0.0.1:1"})}

    assert found == {
        "paid": "paid: the demo never calls it",
        "sub": "a subscription: the demo never calls it",
        "budget": "cost-gated: the demo never calls it",
        "far": "not on this machine",
        "bare": "the registry gives no address of its own",
        "env": "",
        "unset": "the registry gives no address of its own",
    }


async def test_a_stand_in_entry_keeps_no_credential():
    """Keys, headers and foreign providers of the original do not reach the derived entry."""
    litellm = {
        "model": "anthropic/claude",
        "api_key": "sk-real",
        "api_base": "https://api.anthropic.com",
        "extra_headers": {"Authorization": "Bearer real"},
        "aws_secret_access_key": "real",
        "max_tokens": 100,
    }
    document, registry = registry_of(chat("claude", metered=True, litellm=litellm))
    places = places_of(registry, {})
    running = await start_stand_ins(places, await look(places), Canned("a test"))
    await running.stop()

    entry = derived(document, running.found)["models"][0]

    assert entry["litellm"] == {
        "model": "openai/claude",
        "max_tokens": 100,
        "api_key": "stand-in-needs-no-key",
        "api_base": running.found[0].api_base,
    }
    assert document["models"][0]["litellm"] == litellm


async def test_quota_probes_become_canned():
    """The subscription's command and the budget's are replaced by ones that need no account; windows stay."""
    document, registry = shipped(f"http://127.0.0.1:{free_port()}", f"http://127.0.0.1:{free_port()}")
    document["state"] = "redis://elsewhere"
    document["models"][0]["quota"]["env"] = ["KIMI_API_KEY"]
    places = places_of(registry, {})
    running = await start_stand_ins(places, await look(places), Canned("a test"))
    await running.stop()

    result = derived(document, running.found)
    quotas = {entry["id"]: entry["quota"] for entry in result["models"] if "quota" in entry}

    probe = f"{sys.executable} -m litellm_registry_hook.demo.quota"
    assert quotas["kimi"]["probe_command"] == (
        f"{probe} five_hour.used_pct=12 five_hour.resets_at=+7200 weekly.used_pct=34"
    )
    assert quotas["paid-fallback"] == {
        "field": "month.spend_usd",
        "limit": 20,
        "probe_command": f"{probe} month.spend_usd=3.2",
    }
    assert "env" not in quotas["kimi"]
    assert "state" not in result


async def test_derived_registry_is_valid_and_makes_a_config(tmp_path):
    """The derived file loads like any registry, and the config has one entry a model and the callback."""
    document, registry = shipped(f"http://127.0.0.1:{free_port()}", f"http://127.0.0.1:{free_port()}")
    places = places_of(registry, {})
    running = await start_stand_ins(places, await look(places), Canned("a test"))
    await running.stop()
    registry_file, config_file = tmp_path / "registry.yaml", tmp_path / "config.yaml"

    write_registry(registry_file, derived(document, running.found))
    write_litellm_config(config_file, load_registry(registry_file))

    config = yaml.safe_load(config_file.read_text())
    bases = {entry["model_name"]: entry["litellm_params"]["api_base"] for entry in config["model_list"]}
    assert bases == {found.place.model.id: found.api_base for found in running.found}
    assert config["general_settings"]["master_key"] == "os.environ/LITELLM_MASTER_KEY"
    assert config["litellm_settings"]["callbacks"] == ["litellm_registry_hook.proxy_handler_instance"]
    assert {file.stat().st_mode & 0o777 for file in (registry_file, config_file)} == {0o600}


async def test_real_servers_keep_their_environment_names():
    """Variables that a real local server's entry reads are carried into the demo, others are not."""
    with Upstream("vllm") as vllm:
        litellm = {"model": "openai/local", "api_key": "os.environ/VLLM_KEY"}
        _, registry = registry_of(
            chat("local", litellm=litellm, endpoints=[{"api_base": vllm.openai_base}]),
            chat("paid", metered=True, litellm={"model": "openai/gpt", "api_key": "os.environ/OPENAI_API_KEY"}),
        )
        places = places_of(registry, {})
        running = await start_stand_ins(places, await look(places), Canned("a test"))
        await running.stop()

    assert [found.real for found in running.found] == [True, False]
    assert environment_names(running.found) == ["VLLM_KEY"]


def test_ollama_models_come_from_the_registry():
    """Kind, dimensions and memory of an Ollama stand-in's models are what the registry says, each name once."""
    _, registry = shipped("http://127.0.0.1:1", "http://127.0.0.1:2")
    places = [place for place in places_of(registry, {}) if place.form == "ollama"]

    found = ollama_models([*places, *places])

    mib = 1024 * 1024
    assert [(m.name, m.kind, m.vram_bytes // mib, m.dimensions, m.num_ctx) for m in found] == [
        ("gemma3:4b", "chat", 3300, 0, 4096),
        ("bge-m3", "embedding", 1200, 1024, 4096),
    ]
    assert all(m.file_bytes < m.vram_bytes for m in found)


async def test_table_and_commands():
    """The table has a line a model; the commands carry the key, and the last ones show the refusal."""
    _, registry = shipped("http://127.0.0.1:1", "http://127.0.0.1:2")
    places = places_of(registry, {})
    running = await start_stand_ins(places, await look(places), Canned("a test"))
    await running.stop()

    lines = table(registry, running.found).splitlines()
    shown = commands(registry, running.found, "http://127.0.0.1:4000", "sk-key")

    assert [line.split()[:2] for line in lines] == [
        ["model", "tier"],
        ["kimi", "large"],
        ["local-small", "small"],
        ["bge-m3", "embed"],
        ["tei-reranker", "rerank"],
        ["paid-fallback", "large"],
    ]
    assert overview(registry, running.found).splitlines()[6:9] == [
        "",
        "Why there is a stand-in:",
        "  kimi: a subscription: the demo never calls it",
    ]
    assert [what for what, _ in shown] == [
        "a chat answer from tier small",
        "a vector from tier embed",
        "an order from tier rerank",
        "paid-fallback costs money, so it is refused without this request's consent",
        "and paid-fallback was never called",
    ]
    assert shown[1][1] == (
        "curl -sS http://127.0.0.1:4000/v1/embeddings -H 'Authorization: Bearer sk-key' "
        '-H \'Content-Type: application/json\' -d \'{"model": "embed", "input": "a blue cat"}\''
    )
    assert shown[4][1] == f"curl -sS {running.found[4].api_base.removesuffix('/v1')}/calls"


def test_tier_of_mode_prefers_what_is_free_and_local():
    """A tier that starts with a paid model is never suggested, one with a subscription only if there is no other."""
    _, registry = registry_of(chat("paid", metered=True), chat("sub", lifecycle="quota-gated"), chat("local"))

    assert tier_of_mode(registry, "chat") == "t-local"
    assert tier_of_mode(registry, "rerank") is None
