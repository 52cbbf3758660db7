"""What the tests of the import share: the configs, the registries they become, a price list that does not change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from litellm_registry_hook.cli.init_import import read_import
from litellm_registry_hook.core.registry import Registry
from litellm_registry_hook.core.start.proposal import Proposal
from litellm_registry_hook.edges.start.render import document, render

CONFIGS = Path(__file__).with_name("configs")
# A few lines of LiteLLM's own, as 1.108.7 has them.
PRICES: dict[str, dict[str, Any]] = {
    "text-embedding-3-small": {"litellm_provider": "openai", "mode": "embedding", "output_vector_size": 1536},
    "text-embedding-3-large": {"litellm_provider": "openai", "mode": "embedding", "output_vector_size": 3072},
    "amazon.titan-embed-text-v2:0": {"litellm_provider": "bedrock", "mode": "embedding", "output_vector_size": 1024},
    "rerank-v3.5": {"litellm_provider": "cohere", "mode": "rerank", "max_input_tokens": 4096},
    "gpt-5-codex": {"litellm_provider": "openai", "mode": "responses"},
    "omni-moderation-latest": {"litellm_provider": "openai", "mode": "moderation"},
}
# File name to the options it is imported with beside the plain import.
ANSWERS: dict[str, dict[str, Any]] = {
    "homelab-ollama.answers": {"keep_foreign": ["llama3"]},
    "clouds.answers": {"free": ["kimi", "from-env"]},
    "credentials.answers": {"secrets_to_env": True},
    "embeddings-rerank.answers": {"dimensions": ["bge=1024"]},
}


def configs() -> list[Path]:
    return sorted(path for path in CONFIGS.glob("*.yaml") if not path.name.endswith(".registry.yaml"))


def cases() -> dict[str, tuple[Path, dict[str, Any]]]:
    """Name of the registry file -> config and options."""
    plain = {path.stem: (path, {}) for path in configs()}
    return plain | {name: (CONFIGS / f"{name.split('.')[0]}.yaml", options) for name, options in ANSWERS.items()}


def imported(path: Path, **options: Any) -> Proposal:
    return read_import(str(path), catalogue=PRICES, **options)


def registry_of(proposal: Proposal) -> Registry:
    return Registry.model_validate(document(proposal))


def golden(name: str) -> Path:
    return CONFIGS / f"{name}.registry.yaml"


def text_of(proposal: Proposal) -> str:
    return render(proposal)
