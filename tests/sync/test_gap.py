"""The gap this began with: no bge-m3 entry, and `embedder` at another embedding model on another port."""

from __future__ import annotations

from sync_kit import CONFIGS, ROOT, owned, registry

from litellm_registry_hook.edges.config_file import read_config, sync_config
from litellm_registry_hook.edges.registry_file import load_registry

BEFORE = CONFIGS / "gap" / "before.yaml"


def test_the_shipped_config_is_the_adopted_fixture() -> None:
    """The shipped litellm-config.yaml is what --adopt makes of the fixture with the shipped registry, byte for byte."""
    shipped = load_registry(ROOT / "model-registry.yaml")

    assert (ROOT / "litellm-config.yaml").read_text() == sync_config(shipped, read_config(BEFORE), adopt=True).text


def test_the_shipped_config_is_up_to_date() -> None:
    """The shipped config needs no change and gives no warning."""
    done = sync_config(load_registry(ROOT / "model-registry.yaml"), read_config(ROOT / "litellm-config.yaml"))

    assert not done.changed
    assert done.warnings == ()


def test_without_adopt_both_entries_stay_and_are_named() -> None:
    """A plain run leaves foreign entries that carry names of the registry and says which they are."""
    done = sync_config(registry(), read_config(BEFORE))

    assert [(w.code, w.path) for w in done.warnings] == [
        ("shadowed_entry", "model_list[0]"),
        ("shadowed_entry", "model_list[1]"),
    ]
    assert "ollama/nomic-embed-text" in done.text
    assert done.removed == ()


def test_adopt_warns_about_stored_vectors() -> None:
    """After adoption `embedder` is no entry any more, and people are told to compute their vectors again."""
    done = sync_config(registry(), read_config(BEFORE), adopt=True)

    assert "embedder" not in done.text
    assert "nomic" not in done.text
    assert [e["model_name"] for e in owned(done.text)] == [
        "kimi",
        "local-small",
        "bge-m3",
        "tei-reranker",
        "paid-fallback",
    ]
    assert [(w.code, w.message, w.hint) for w in done.warnings] == [
        (
            "vectors_not_comparable",
            "'embedder' was ollama/nomic-embed-text and now reaches bge-m3: vectors of the two models are not comparable",
            "compute every stored vector again before searching with the new model",
        )
    ]


def test_adopt_of_the_same_model_elsewhere_does_not_warn() -> None:
    """The same embedding model on another port gives comparable vectors: no warning."""
    text = BEFORE.read_text().replace("ollama/nomic-embed-text", "ollama/bge-m3:latest")
    from sync_kit import config

    assert sync_config(registry(), config(text), adopt=True).warnings == ()
