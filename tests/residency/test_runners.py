"""What every call to an Ollama model carries."""

from __future__ import annotations

from typing import Any

import pytest
from residency.test_crowd import two_big

from litellm_registry_hook.core.registry import Registry
from litellm_registry_hook.residency.engine import stays_of
from litellm_registry_hook.residency.runners import Runners


@pytest.mark.parametrize(
    ("keep_alive", "sent", "stays_s"),
    [("0", "60s", 60.0), (10, "60s", 60.0), ("90s", "90s", 90.0), (-1, -1, None), (None, "5m", 300.0)],
)
def test_a_call_keeps_a_model_for_a_minute_at_least(keep_alive: Any, sent: Any, stays_s: float | None) -> None:
    """A shorter keep_alive would end a model that another worker still counts on."""
    registry = two_big()
    if keep_alive is not None:
        registry["models"][0]["gpu_residency"]["keep_alive"] = keep_alive
    parsed = Registry.model_validate(registry)
    runners = Runners(parsed, {})
    [want] = [one for one in runners.wants.values() if one.model is not None and one.model.id == "big-a"]
    assert runners.params(parsed.models[0]) == {"keep_alive": sent, "num_ctx": 4096, "num_batch": 512}
    assert stays_of(want) == stays_s
