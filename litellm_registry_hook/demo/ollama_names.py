"""How Ollama writes the name of a model (`types/model/name.go`): parts that have their default value are left out."""

from __future__ import annotations

DEFAULT_HOST = "registry.ollama.ai"
DEFAULT_NAMESPACE = "library"
DEFAULT_TAG = "latest"


def shortest(name: str) -> str:
    """Return the form that /api/ps prints: default host and namespace left out, the tag always there.

    >>> shortest("gemma3"), shortest("registry.ollama.ai/library/gemma3:4b"), shortest("hf.co/u/m:Q4")
    ('gemma3:latest', 'gemma3:4b', 'hf.co/u/m:Q4')
    """
    path, _, last = name.rpartition("/")
    model, _, tag = last.partition(":")
    parts = path.split("/") if path else []
    if len(parts) > 1 and parts[0].lower() == DEFAULT_HOST:
        parts = parts[1:]
    if parts == [DEFAULT_NAMESPACE]:
        parts = []
    return "/".join([*parts, f"{model}:{tag or DEFAULT_TAG}"])


def key(name: str) -> str:
    """Return what two spellings of one name share; Ollama compares names without regard to case."""
    return shortest(name).lower()
