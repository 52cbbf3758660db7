"""What a config says and what runs: the config's entries win and get the sizes."""

from __future__ import annotations

from litellm_registry_hook.core.gpu.facts import Gpu, Nvml
from litellm_registry_hook.core.start.carry import carry
from litellm_registry_hook.core.start.carry_choices import Choices as Decided
from litellm_registry_hook.core.start.choices import Choices
from litellm_registry_hook.core.start.found import Found, OllamaSeen
from litellm_registry_hook.core.start.merge import merge
from litellm_registry_hook.core.start.proposal import Left, Proposal, ProposedModel
from litellm_registry_hook.core.start.propose import propose
from tests.start.init_kit import chat, embedder, held

OLLAMA = "http://127.0.0.1:11434"
CARD = Nvml("ok", "ok", "", (Gpu("GPU-1070", 0, "GTX 1070", 8192.0, 6000.0),))
MODELS = (chat("gemma3:4b"), embedder(), chat("qwen:14b", 3000, 14e9))


def found(*loaded: str) -> Proposal:
    """A house with two chat models and an embedder."""
    held_now = tuple(held(name, {"gemma3:4b": 3300, "bge-m3": 1200}[name]) for name in loaded)
    return propose(Found((OllamaSeen(OLLAMA, (0, 33, 0), MODELS, held_now),), nvml=CARD), Choices())


def from_config(id: str, model: str, **more: object) -> ProposedModel:
    """An entry as an import makes it."""
    params = {"model": model, "api_base": "http://localhost:11434/", **more}
    return ProposedModel({"id": id, "role": "chat", "lifecycle": "always-on", "metered": False, "litellm": params})


def test_the_imported_entry_wins_and_gets_the_measured_size() -> None:
    """Same model, same server: one entry under the config's name; what Ollama is told moves to where it counts."""
    mine = from_config("chatty", "ollama_chat/gemma3:4b", num_ctx=8192, keep_alive="10m", num_gpu=20, temperature=0.1)
    imported = Proposal(
        (mine,), {"talk": ("chatty",)}, {"gpt": "chatty"}, left=(Left("x", "y"),), notes=("from a config",)
    )
    merged = merge(found("gemma3:4b", "bge-m3"), imported)
    assert [model.id for model in merged.models] == ["chatty", "bge-m3", "qwen:14b"]
    assert merged.models[0].entry == {
        **mine.entry,
        "litellm": {"model": "ollama_chat/gemma3:4b", "api_base": "http://localhost:11434/", "temperature": 0.1},
        "gpu_residency": {"vram_mb": 3300, "num_ctx": 8192, "keep_alive": "10m", "options": {"num_gpu": 20}},
    }
    assert merged.models[0].marks == {"gpu_residency.vram_mb": "measured: resident now, with num_ctx 4096"}
    assert merged.tiers == {"talk": ("chatty",), "large": ("qwen:14b",), "small": ("chatty",), "embed": ("bge-m3",)}
    assert merged.aliases == {"gpt": "chatty", "embedder": "embed"}
    assert merged.policy == {
        "never_evict_ids": ["bge-m3"], "reserve_mb": 300, "gpus": {"GPU-1070": {"total_mb": 8192}},
    }  # fmt: skip
    assert (merged.left, merged.notes[0]) == ((Left("x", "y"),), "from a config")


def test_a_size_of_the_config_stays_unless_it_was_measured() -> None:
    """An estimate does not replace what somebody wrote; a measurement does."""
    mine = from_config("chatty", "ollama_chat/gemma3:4b")
    sized = ProposedModel({**mine.entry, "gpu_residency": {"vram_mb": 5000, "num_ctx": 4096}})
    guessed, measured = (merge(seen, Proposal((sized,))).models[0].entry for seen in (found(), found("gemma3:4b")))
    assert (guessed["gpu_residency"]["vram_mb"], measured["gpu_residency"]["vram_mb"]) == (5000, 3300)


def test_an_openai_entry_at_an_ollama_is_the_same_model() -> None:
    """It gets the size, and nothing that only Ollama's own providers are told."""
    mine = from_config("chatty", "openai/gemma3:4b", api_base="http://127.0.0.1:11434/v1")
    assert merge(found(), Proposal((mine,))).models[0].entry["gpu_residency"] == {"vram_mb": 3864}


def test_two_names_for_one_embedder_keep_it_once() -> None:
    """Both get the size; one of them stays on the GPU."""
    params = {"model": "ollama/bge-m3", "api_base": OLLAMA}
    both = [
        ProposedModel(
            {
                "id": name,
                "role": "embedder",
                "lifecycle": "always-on",
                "metered": False,
                "dimensions": 1024,
                "litellm": params,
            }
        )
        for name in ("vec", "vectors")
    ]
    merged = merge(found(), Proposal(tuple(both)))
    assert [model.entry.get("gpu_residency") for model in merged.models[:2]] == [
        {"vram_mb": 1541, "never_evict": True}, {"vram_mb": 1541},
    ]  # fmt: skip
    assert (merged.policy["never_evict_ids"], merged.tiers["embed"]) == (["vec"], ("vec",))


def test_names_that_the_config_has_make_way() -> None:
    """A config's model called `large`, its tier called as a found model, another embedding pool: nothing clashes or mixes."""
    mine = [
        from_config("large", "openai/gpt-4o", api_base="https://api.openai.com/v1"),
        from_config("v", "openai/v", api_base="http://x"),
    ]
    imported = Proposal(tuple(mine), {"qwen:14b": ("large",), "embed": ("v",)})
    merged = merge(found(), imported)
    assert [model.id for model in merged.models] == ["large", "v", "gemma3:4b", "bge-m3", "qwen:14b-2"]
    assert merged.tiers == {
        "qwen:14b": ("large",), "embed": ("v",), "large-found": ("qwen:14b-2",), "small": ("gemma3:4b",),
        "embed-found": ("bge-m3",),
    }  # fmt: skip
    assert [model.entry.get("tier") for model in merged.models] == [None, None, "small", "embed-found", "large-found"]


def test_a_sized_entry_is_not_called_unsized() -> None:
    """What the import says of a missing size is gone where the size is there."""
    entry = {"model_name": "local", "litellm_params": {"model": "ollama_chat/gemma3:4b", "api_base": OLLAMA}}
    imported = carry({"model_list": [entry]})
    assert "calibrate" in str(imported)
    merged = merge(found("gemma3:4b"), imported).models[0]
    assert (merged.id, merged.entry["gpu_residency"]["vram_mb"], "calibrate" in str((merged.notes, merged.marks))) == (
        "local",
        3300,
        False,
    )


def test_what_is_found_never_takes_a_name_that_stays_litellms() -> None:
    """--adopt takes every entry that carries a registry name: a foreign entry, an alias and an id keep theirs."""
    leaked = {"api_key": "sk-0123456789abcdef", "api_base": "http://127.0.0.1:9/v1"}
    config = {
        "model_list": [
            {
                "model_name": "gemma3:4b",
                "litellm_params": {"model": "openai/x", **leaked},
                "model_info": {"id": "bge-m3"},
            },
            {"model_name": "large", "litellm_params": {"model": "openai/y", **leaked}},
        ],
        "router_settings": {"model_group_alias": {"small": "large"}},
    }
    merged = merge(found(), carry(config))
    assert [model.id for model in merged.models] == ["gemma3:4b-2", "bge-m3-2", "qwen:14b"]
    assert merged.tiers == {
        "large-found": ("qwen:14b",), "small-found": ("gemma3:4b-2",), "embed": ("bge-m3-2",),
    }  # fmt: skip
    assert merged.aliases == {"embedder": "embed"}


def test_an_entry_that_its_server_calls_elsewhere_is_metered() -> None:
    """The config cannot know that `mine` is a cloud model; the server does, and only --free outranks it."""
    cloud = chat("mine:latest", 0.001, remote=True)
    seen = propose(Found((OllamaSeen(OLLAMA, (0, 33, 0), (cloud,)),), nvml=CARD), Choices())
    params = {"model": "ollama_chat/mine", "api_base": OLLAMA}
    config = {"model_list": [{"model_name": "m", "litellm_params": params}]}
    [model] = merge(seen, carry(config)).models
    assert (model.entry["metered"], model.entry["lifecycle"]) == (True, "cost-gated")
    assert model.marks["metered"] == "its server calls it elsewhere, which costs money"
    [free] = merge(seen, carry(config, Decided(free=frozenset({"m"})))).models
    assert free.entry["metered"] is False
