"""What a person may decide about an import; everything else follows from the config."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Choices:
    """Answers given before the import starts.

    Attributes:
        keep_foreign: model_names whose entries stay as they are.
        free: model_names that cost nothing though they look as if they did: a subscription, a server of one's own.
        dimensions: length of an embedding model's vectors, by model_name.
        secrets_to_env: replace keys that stand in the config by os.environ/NAME.
        catalogue: LiteLLM's model_prices_and_context_window by model string; only `mode`, `litellm_provider`,
            `output_vector_size` and `max_input_tokens` are looked at. Empty where LiteLLM is not installed.
        elsewhere: model_names that included files have entries for.

    """

    keep_foreign: frozenset[str] = frozenset()
    free: frozenset[str] = frozenset()
    dimensions: Mapping[str, int] = field(default_factory=dict)
    secrets_to_env: bool = False
    catalogue: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    elsewhere: frozenset[str] = frozenset()
