"""What a worker says of a fence counts for that fence only."""

from __future__ import annotations

from pathlib import Path

from litellm_registry_hook.core.gpu.facts import Slot
from litellm_registry_hook.edges.store.place import open_state
from litellm_registry_hook.residency import records
from litellm_registry_hook.residency.records import ACK, FENCE, key_of

SLOT = Slot("http://127.0.0.1:11434", "registry.ollama.ai/library/gemma3:4b")


def test_an_answer_to_an_earlier_fence_does_not_count(tmp_path: Path) -> None:
    """A worker that opens a runner again may be slower in taking its answer back than the next swap in asking anew."""
    state = open_state({}, f"sqlite:///{tmp_path}/state.sqlite")
    ledger, key = state.ledger, key_of(SLOT)
    assert ledger.take(FENCE, key, "swapper", 10)
    first = records.read(ledger, "swapper").fence_ids[SLOT]
    assert ledger.take(ACK, f"{key}#other", "other", 10, data={"busy": 0, "fence": first})
    assert ledger.take(FENCE, key, "swapper", 10)  # a sign of life, the same fence
    assert records.read(ledger, "swapper").acks == {(SLOT, "other"): 0}
    ledger.drop(FENCE, key, "swapper")
    assert ledger.take(FENCE, key, "swapper", 10)
    assert records.read(ledger, "swapper").acks == {}
    second = records.read(ledger, "swapper").fence_ids[SLOT]
    assert ledger.take(ACK, f"{key}#other", "other", 10, data={"busy": 2, "fence": second})
    assert records.read(ledger, "swapper").acks == {(SLOT, "other"): 2}
    state.close()
