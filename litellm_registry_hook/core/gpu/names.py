"""Names as Ollama reads them (`types/model/name.go`), and which runner a model of the registry is."""

from __future__ import annotations

from typing import Final

from litellm_registry_hook.core.gpu.facts import Slot
from litellm_registry_hook.core.registry import OLLAMA_PROVIDERS, Model

HOST: Final = "registry.ollama.ai"
NAMESPACE: Final = "library"
TAG: Final = "latest"
DEFAULT_BASE: Final = "http://localhost:11434"


def full_name(name: str) -> str:
    """Return a name with host, namespace and tag filled in, lower case: Ollama compares without regard to case.

    >>> full_name("gemma3"), full_name("me/Gemma3:4B"), full_name("hf.co/u/m:Q4")
    ('registry.ollama.ai/library/gemma3:latest', 'registry.ollama.ai/me/gemma3:4b', 'hf.co/u/m:q4')
    """
    path, _, last = name.rpartition("/")
    model, _, tag = last.partition(":")
    parts = path.split("/") if path else []
    parts = [*(HOST, NAMESPACE)[: max(0, 2 - len(parts))], *parts]
    return "/".join([*parts, f"{model}:{tag or TAG}"]).lower()


def short_name(name: str) -> str:
    """Return a full name as people write it: default host and namespace left out, the tag always there.

    >>> short_name("registry.ollama.ai/library/gemma3:latest"), short_name("hf.co/u/m:q4")
    ('gemma3:latest', 'hf.co/u/m:q4')
    """
    return name.removeprefix(f"{HOST}/{NAMESPACE}/").removeprefix(f"{HOST}/")


def ollama_name(model: Model) -> str:
    """Return the name that LiteLLM gives the server: without the provider's prefix."""
    head, slash, rest = model.litellm_model.partition("/")
    return rest if slash and (head in OLLAMA_PROVIDERS or head == model.provider) else model.litellm_model


def base_of(api_base: str) -> str:
    """Return the server of an api_base: no trailing slash, and Ollama's own address where none is given."""
    return api_base.rstrip("/") or DEFAULT_BASE


def slot_of(model: Model, api_base: str) -> Slot:
    """Return the runner of a model at one of its endpoints (the address resolved, no `os.environ/`)."""
    return Slot(base_of(api_base), full_name(ollama_name(model)))
