"""Tiers, sizes, what stays on the GPU, what is metered: from facts to a proposal."""

from __future__ import annotations

from typing import Any

import pytest

from litellm_registry_hook.core.gpu.facts import Gpu, Nvml
from litellm_registry_hook.core.start.choices import Choices
from litellm_registry_hook.core.start.found import Found, OllamaSeen, OpenAiModel, OpenAiSeen, TeiSeen
from litellm_registry_hook.core.start.own import is_own
from litellm_registry_hook.core.start.proposal import Left, Proposal
from litellm_registry_hook.core.start.propose import propose
from litellm_registry_hook.core.start.questions import next_question
from tests.start.init_kit import chat, embedder, held

OLLAMA = "http://127.0.0.1:11434"
TEI = TeiSeen("http://127.0.0.1:8080", "BAAI/bge-reranker-v2-m3", "reranker", 8192)
CARD = Nvml("ok", "ok", "", (Gpu("GPU-1070", 0, "GTX 1070", 8192.0, 6000.0),))
V = (0, 33, 0)


def entry(proposal: Proposal, model_id: str) -> dict[str, Any]:
    """One entry."""
    return dict(next(model.entry for model in proposal.models if model.id == model_id))


def test_the_home_of_the_shipped_registry() -> None:
    """gemma3:4b and bge-m3 resident, a reranker, 8 GB: the shipped figures, marked as measured, embedder and reranker kept."""
    loaded = (held("gemma3:4b", 3299.2), held("bge-m3", 1200, 8192))
    found = Found((OllamaSeen(OLLAMA, V, (chat("gemma3:4b"), embedder()), loaded),), (TEI,), nvml=CARD)
    proposal = propose(found, Choices())
    assert [dict(model.entry) for model in proposal.models] == [
        {
            "id": "gemma3:4b", "tier": "large", "role": "chat", "lifecycle": "always-on", "metered": False,
            "litellm": {"model": "ollama_chat/gemma3:4b"}, "endpoints": [{"api_base": OLLAMA}],
            "gpu_residency": {"vram_mb": 3300, "num_ctx": 4096},
        },
        {
            "id": "bge-m3", "tier": "embed", "role": "embedder", "lifecycle": "always-on", "metered": False,
            "dimensions": 1024, "litellm": {"model": "ollama/bge-m3"}, "endpoints": [{"api_base": OLLAMA}],
            "gpu_residency": {"vram_mb": 1200, "never_evict": True},
        },
        {
            "id": "BAAI/bge-reranker-v2-m3", "tier": "rerank", "role": "reranker", "lifecycle": "on-demand",
            "metered": False, "litellm": {"model": "huggingface/BAAI/bge-reranker-v2-m3"},
            "endpoints": [{"api_base": TEI.base, "health_url": f"{TEI.base}/health"}],
            "gpu_residency": {"vram_mb": 1700, "never_evict": True},
        },
    ]  # fmt: skip
    assert [model.marks["gpu_residency.vram_mb"].partition(":")[0] for model in proposal.models] == [
        "measured", "measured", "estimated",
    ]  # fmt: skip
    assert proposal.tiers == {
        "large": ("gemma3:4b",), "small": ("gemma3:4b",), "embed": ("bge-m3",), "rerank": ("BAAI/bge-reranker-v2-m3",),
    }  # fmt: skip
    assert (proposal.aliases, proposal.left) == ({"embedder": "embed"}, ())
    assert proposal.policy == {
        "never_evict_ids": ["bge-m3", "BAAI/bge-reranker-v2-m3"], "reserve_mb": 300,
        "gpus": {"GPU-1070": {"total_mb": 8192}},
    }  # fmt: skip


def test_large_and_small() -> None:
    """Chat models: large has the largest first, small the smallest first, up to five milliard parameters."""
    models = (chat("a:27b", 100, 27e9), chat("b:270m", 100, 270e6), chat("c:4b", 100, 4e9), chat("d:70b", 100, 70e9))
    proposal = propose(Found((OllamaSeen(OLLAMA, V, models),), gpus_asked=False), Choices())
    assert proposal.tiers == {"large": ("d:70b", "a:27b"), "small": ("b:270m", "c:4b")}


@pytest.mark.parametrize(
    ("params", "tiers"),
    [
        ((70e9, 27e9), {"large": ("m0",), "small": ("m1",)}),
        ((1e9, 2e9), {"large": ("m1", "m0"), "small": ("m0", "m1")}),
        ((0.0, 0.0), {"large": ("m0", "m1"), "small": ("m0", "m1")}),
        ((70e9, 0.0), {"large": ("m1",), "small": ("m0",)}),
    ],
)
def test_both_tiers_always_have_a_model(params: tuple[float, ...], tiers: dict[str, tuple[str, ...]]) -> None:
    """Two large ones: the smaller one is small. Two small ones: both are in both."""
    models = tuple(chat(f"m{number}", 100, size) for number, size in enumerate(params))
    assert propose(Found((OllamaSeen(OLLAMA, V, models),), gpus_asked=False), Choices()).tiers == tiers


def test_a_pool_has_one_embedding_model() -> None:
    """The resident embedder is the one; another, also one of the same length, has a tier of its own."""
    models = (embedder("a-embed"), embedder("b-embed"), embedder("c-embed", width=384))
    found = Found((OllamaSeen(OLLAMA, V, models, (held("b-embed", 1200),)),), gpus_asked=False)
    assert propose(found, Choices()).tiers == {
        "embed": ("b-embed",), "embed-a-embed": ("a-embed",), "embed-c-embed": ("c-embed",),
    }  # fmt: skip
    assert propose(found, Choices(embedder="c-embed")).tiers["embed"] == ("c-embed",)


def test_two_servers_with_the_same_model() -> None:
    """Same name and file: one model with two places. Another file of that name: a model of its own, named after its host."""
    one = OllamaSeen(OLLAMA, V, (chat("gemma3:4b", digest="aa"),))
    two = OllamaSeen("http://gpu-box:11434", V, (chat("gemma3:4b", digest="aa"),), (held("gemma3:4b", 3300),))
    three = OllamaSeen("http://10.0.0.9:11434", V, (chat("gemma3:4b", digest="zz"),))
    proposal = propose(Found((one, two, three), gpus_asked=False), Choices())
    assert [(model.id, [place["api_base"] for place in model.entry["endpoints"]]) for model in proposal.models] == [
        ("gemma3:4b", [OLLAMA, "http://gpu-box:11434"]),
        ("gemma3:4b-10.0.0.9", ["http://10.0.0.9:11434"]),
    ]
    assert proposal.models[0].marks["gpu_residency.vram_mb"] == "measured: resident now"


def test_a_copy_is_an_alias() -> None:
    """What `ollama cp` made has the same digest and runs in the same runner: an alias, also where it was loaded by that name."""
    models = (chat("gemma3:4b", digest="aa"), chat("mine:latest", digest="aa"))
    proposal = propose(Found((OllamaSeen(OLLAMA, V, models, (held("mine", 3300),)),), gpus_asked=False), Choices())
    assert [model.id for model in proposal.models] == ["gemma3:4b"]
    assert proposal.aliases == {"mine": "gemma3:4b"}
    assert entry(proposal, "gemma3:4b")["gpu_residency"]["vram_mb"] == 3300


def test_a_cloud_model_costs_money() -> None:
    """It is metered, takes no memory, and is in the tier `paid` alone; --free says otherwise."""
    found = Found((OllamaSeen(OLLAMA, V, (chat("gpt-oss:120b-cloud", 0, remote=True),)),), gpus_asked=False)
    paid = propose(found, Choices())
    assert entry(paid, "gpt-oss:120b-cloud") == {
        "id": "gpt-oss:120b-cloud", "tier": "paid", "role": "chat", "lifecycle": "cost-gated", "metered": True,
        "opt_in_required": True, "litellm": {"model": "ollama_chat/gpt-oss:120b-cloud"},
        "endpoints": [{"api_base": OLLAMA, "gpu": "none"}],
    }  # fmt: skip
    assert paid.tiers == {"paid": ("gpt-oss:120b-cloud",)}
    free = propose(found, Choices(free=frozenset({"gpt-oss:120b-cloud"})))
    assert (entry(free, "gpt-oss:120b-cloud")["metered"], list(free.tiers)) == (False, ["large", "small"])


def test_somebody_elses_server_costs_money() -> None:
    """A server outside the house is metered until somebody says that it is free; its key is a variable's."""
    base = "https://llm.example.com/v1"
    found = Found(openais=(OpenAiSeen(base, (OpenAiModel("big-70b", 32768),), "MY_KEY"),), gpus_asked=False)
    question = next_question(found, Choices())
    assert question is not None
    assert (question.kind, question.about, question.flag, question.safe) == ("free", base, f"--free {base}", "no")
    assert entry(propose(found, Choices()), "big-70b") == {
        "id": "big-70b", "tier": "paid", "role": "chat", "lifecycle": "cost-gated", "metered": True,
        "opt_in_required": True, "context": 32768,
        "litellm": {"model": "openai/big-70b", "api_key": "os.environ/MY_KEY"}, "endpoints": [{"api_base": base}],
    }  # fmt: skip
    free = propose(found, Choices(free=frozenset({base})))
    assert (entry(free, "big-70b")["metered"], free.tiers) == (False, {"large": ("big-70b",), "small": ("big-70b",)})


def test_a_provider_that_bills_is_not_asked_about() -> None:
    """No question whether api.openai.com is free: an absent-minded yes would open it."""
    found = Found(openais=(OpenAiSeen("https://api.openai.com/v1", (OpenAiModel("gpt-5.2"),), "K"),), gpus_asked=False)
    assert next_question(found, Choices()) is None
    assert entry(propose(found, Choices()), "gpt-5.2")["metered"] is True


def test_what_does_not_fit_does_not_stay() -> None:
    """Embedder and reranker over the GPU's size: the embedder stays, the reranker is left out with the figures."""
    small = Nvml("ok", "ok", "", (Gpu("GPU-2g", 0, "", 2900.0, 2900.0),))
    found = Found((OllamaSeen(OLLAMA, V, (embedder(),), (held("bge-m3", 1200),)),), (TEI,), nvml=small)
    proposal = propose(found, Choices())
    assert proposal.policy["never_evict_ids"] == ["bge-m3"]
    assert proposal.left == (
        Left(
            "never-evict: BAAI/bge-reranker-v2-m3",
            "with bge-m3 it needs 3200 MB (reserve 300 included), the GPU of localhost has 2900 MB",
            "take a smaller model, or keep fewer",
        ),
    )


def test_a_model_larger_than_the_gpu_is_left() -> None:
    """It is named with its figures and the option that says otherwise; one that would push the kept ones out comes last."""
    models = (chat("huge:70b", 40000, 70e9), chat("mid:12b", 5000, 12e9), chat("less:8b", 900, 8e9), embedder())
    found = Found((OllamaSeen(OLLAMA, V, models, (held("bge-m3", 1200),)),), nvml=CARD)
    proposal = propose(found, Choices())
    assert [(one.what, one.fix) for one in proposal.left] == [
        (f"huge:70b at {OLLAMA}", "--size huge:70b=MB if it takes less")
    ]
    assert proposal.tiers["large"] == ("less:8b", "mid:12b")
    notes = {model.id: model.notes for model in proposal.models}
    assert "too large beside the never-evict models: the gate will pass it over" in notes["mid:12b"]


def test_the_context_is_that_of_now() -> None:
    """Resident with 32768 tokens: that size and that context, since another one would reload it; --num-ctx says otherwise."""
    found = Found((OllamaSeen(OLLAMA, V, (chat("gemma3:4b"),), (held("gemma3:4b", 5100, 32768),)),), gpus_asked=False)
    assert entry(propose(found, Choices()), "gemma3:4b")["gpu_residency"] == {"vram_mb": 5100, "num_ctx": 32768}
    other = propose(found, Choices(num_ctx=4096))
    assert entry(other, "gemma3:4b")["gpu_residency"] == {"vram_mb": 3864, "num_ctx": 4096}
    assert other.models[0].marks["gpu_residency.vram_mb"].startswith("estimated")
    modelfile = Found((OllamaSeen(OLLAMA, V, (chat("gemma3:4b", num_ctx=8192),)),), gpus_asked=False)
    assert entry(propose(modelfile, Choices()), "gemma3:4b")["gpu_residency"] == {"vram_mb": 4544, "num_ctx": 8192}


def test_where_nobody_knows_the_gpu_the_file_works() -> None:
    """No NVML and no answer: `gpu: none` opens the gate, says so, and nothing is promised to stay."""
    found = Found((OllamaSeen(OLLAMA, V, (embedder(),)),))
    question = next_question(found, Choices())
    assert question is not None and (question.kind, question.flag) == ("gpu_mb", "--gpu-total MB")
    proposal = propose(found, Choices(gpu_mb={"localhost": None}))
    assert entry(proposal, "bge-m3")["endpoints"] == [{"api_base": OLLAMA, "gpu": "none"}]
    assert proposal.models[0].marks["endpoints"] == "the memory of its GPU is not known: the gate is open here"
    assert (proposal.policy, [one.fix for one in proposal.left]) == ({}, ["--gpu-total MB"])


def test_two_machines_without_nvml() -> None:
    """Each has its own declared size, and its endpoints name it."""
    one = OllamaSeen(OLLAMA, V, (chat("a", digest="a"),))
    two = OllamaSeen("http://gpu-box:11434", V, (chat("b", digest="b"), embedder()))
    proposal = propose(Found((one, two)), Choices(gpu_mb={"localhost": 8192, "gpu-box": 24576}))
    assert proposal.policy["gpus"] == {0: {"total_mb": 8192}, 1: {"total_mb": 24576}}
    assert [place["gpu"] for model in proposal.models for place in model.entry["endpoints"]] == [0, 1, 1]
    assert proposal.policy["never_evict_ids"] == ["bge-m3"]


def test_an_embedder_that_does_not_tell_its_length() -> None:
    """It is asked for; without an answer the model is left, as nothing is embedded to find out."""
    found = Found(teis=(TeiSeen("http://127.0.0.1:8081", "acme/own", "embedder"),), gpus_asked=False)
    question = next_question(found, Choices())
    assert question is not None and question.flag == "--dimensions acme/own=N"
    left = propose(found, Choices(dimensions={"acme/own": 0}))
    assert (left.models, [one.fix for one in left.left]) == ((), ["--dimensions acme/own=N"])
    told = entry(propose(found, Choices(dimensions={"acme/own": 512})), "acme/own")
    assert (told["dimensions"], told["litellm"], told["endpoints"][0]["api_base"]) == (
        512,
        {"model": "openai/acme/own", "api_key": "unused"},
        "http://127.0.0.1:8081/v1",
    )


def test_a_name_that_cannot_be_called_is_left() -> None:
    """Line ends and blanks around a name: the model is named with the reason, the others are proposed."""
    models = (chat("a\nb"), chat(" c"), chat("d"))
    proposal = propose(Found((OllamaSeen(OLLAMA, V, models),), gpus_asked=False), Choices())
    assert [model.id for model in proposal.models] == ["d"]
    assert [(one.what, one.fix) for one in proposal.left] == [
        (f"'a\\nb' at {OLLAMA}", "rename it there"), (f"' c' at {OLLAMA}", "rename it there"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("base", "own"),
    [
        ("http://127.0.0.1:1", True),
        ("http://localhost:1", True),
        ("http://[::1]:1", True),
        ("http://192.168.1.7:1", True),
        ("http://172.20.0.2", True),
        ("http://100.100.1.1", True),
        ("http://gpu-box:11434", True),
        ("http://ollama", True),
        ("http://nas.local", True),
        ("http://8.8.8.8", False),
        ("http://172.32.0.1", False),
        ("https://gpu.example.com", False),
        ("https://api.openai.com", False),
        ("https://x.openrouter.ai", False),
        ("http://2130706433", False),
        ("http://127.0.0.1.example.com", False),
        ("nonsense", False),
    ],
)
def test_whose_server_it_is(base: str, own: bool) -> None:
    """Loopback, private networks and names without a dot are the house's own; everything else may send a bill."""
    assert is_own(base) is own


@pytest.mark.parametrize(
    ("free", "metered"), [((), True), (("http://127.0.0.1:8000/v1",), False), (("gpt-4o",), False)]
)
def test_a_gateway_of_the_house_may_call_what_costs_money(free: tuple[str, ...], metered: bool) -> None:
    """A LiteLLM proxy on this machine lists its models as OpenAI's: they are metered until a person says otherwise."""
    gateway = OpenAiSeen("http://127.0.0.1:8000/v1", (OpenAiModel("gpt-4o", owner="openai"),))
    found = Found(openais=(gateway,), nvml=CARD)
    proposal = propose(found, Choices(free=frozenset(free)))
    assert (entry(proposal, "gpt-4o")["metered"], "paid" in proposal.tiers) == (metered, metered)
    own = OpenAiSeen("http://127.0.0.1:8000/v1", (OpenAiModel("qwen", owner="vllm"),))
    assert entry(propose(Found(openais=(own,), nvml=CARD), Choices()), "qwen")["metered"] is False


@pytest.mark.parametrize(
    ("base", "own"),
    [
        ("http://ada:8000", True), ("http://cafe", True), ("http://0x8080808", False), ("http://134744072", False),
        ("http://gpu.1", False), ("http://x.svc", True), ("http://x.localdomain", True),
    ],
)  # fmt: skip
def test_a_name_of_hex_letters_is_a_name(base: str, own: bool) -> None:
    """A host is a number only where its last part is one; `ada` is a machine of the house."""
    assert is_own(base) is own
