"""The answers of the residency gate."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from litellm_registry_hook.core.gpu.facts import Claim, Slot
from litellm_registry_hook.core.registry import Model


class Use(NamedTuple):
    """A runner used as one entry of the registry.

    Attributes:
        slot: the runner. model: registry id; empty for a model that the registry does not know.

    """

    slot: Slot
    model: str


@dataclass(frozen=True, slots=True)
class Want:
    """What is to be used.

    Attributes:
        model: the registry entry; None for a model that the registry does not know, whose size is not known either.
        slot: its runner.

    """

    model: Model | None
    slot: Slot

    @property
    def use(self) -> Use:
        """The runner, and as what it is wanted: two entries may ask for one model with different contexts."""
        return Use(self.slot, self.model.id if self.model is not None else "")


@dataclass(frozen=True, slots=True)
class Open:
    """No check is needed: not on a GPU of ours (`gpu: none`, a cloud model), or not an Ollama server."""


@dataclass(frozen=True, slots=True)
class Resident:
    """It is loaded and stays long enough: use it.

    Attributes:
        until: moment it may leave; None: pinned.

    """

    until: float | None


@dataclass(frozen=True, slots=True)
class Join:
    """It is being loaded already: wait for that load."""

    claim: Claim


@dataclass(frozen=True, slots=True)
class Admit:
    """Load it.

    Attributes:
        mb: memory to book. gpu: where it goes, UUID or index; empty where that is Ollama's choice.
        reason: the numbers, for the log.
        measured: whether the free memory was read; else memory on its way back counts as free already.

    """

    mb: float
    gpu: str
    reason: str
    measured: bool = field(default=True, compare=False)


@dataclass(frozen=True, slots=True)
class Swap:
    """Unload these first, in this order, then ask again.

    Attributes:
        victims: idle, evictable registry models; never one that is never-evict or in use.
        reason: the numbers, for the log.

    """

    victims: tuple[Slot, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class No:
    """It cannot be loaded now.

    Attributes:
        code: gpu_no_headroom, gpu_state_unknown, or model_unavailable where the server is gone.
        reason: one sentence for people: needed, free, reserved and promised MB, the rule and the fix.
        retry_after_s: an estimate, >= 1.
        transient: whether waiting can help (a victim is busy, a load is in flight, numbers are missing); false where
            it can never fit.
        needed_mb, free_mb, reserved_mb, promised_mb: the numbers; None where not known.

    """

    code: str
    reason: str
    retry_after_s: float
    transient: bool = True
    needed_mb: float | None = None
    free_mb: float | None = None
    reserved_mb: float | None = None
    promised_mb: float | None = None


Verdict = Open | Resident | Join | Admit | Swap | No
