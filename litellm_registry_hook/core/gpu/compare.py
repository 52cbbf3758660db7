"""What the registry says of its models against what the servers show of them now: for doctor, metrics and calibrate."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from litellm_registry_hook.core.gpu.facts import Loaded, Snapshot
from litellm_registry_hook.core.gpu.place import NONE, Home, homes_of
from litellm_registry_hook.core.gpu.predict import on_cpu
from litellm_registry_hook.core.gpu.resident import is_partial, residency, runner_of, server_of
from litellm_registry_hook.core.gpu.verdict import Want
from litellm_registry_hook.core.registry import Registry

# Beyond this the declared size is wrong, not rounded.
TOLERATED_PERCENT: Final = 15.0


@dataclass(frozen=True, slots=True)
class Shown:
    """A model of the registry that is loaded.

    Attributes:
        home: where. entry: what /api/ps says of it. declared_mb: its vram_mb.

    """

    home: Home
    entry: Loaded
    declared_mb: float

    @property
    def percent(self) -> float:
        """By how much more than declared it takes; negative: less."""
        return off_percent(self.declared_mb, self.entry.vram_mb)

    @property
    def partial(self) -> bool:
        """Whether a part of it is on the CPU, which the registry does not ask for."""
        return is_partial(self.entry) and not on_cpu(self.home.model)

    @property
    def disagrees(self) -> bool:
        """Whether the declared size is wrong; what is partly on the CPU says nothing about that."""
        whole = not is_partial(self.entry) and not on_cpu(self.home.model)
        return whole and abs(self.percent) > TOLERATED_PERCENT


def off_percent(declared_mb: float, real_mb: float) -> float:
    """Return by how many percent of the declared size the real one is more."""
    return (real_mb - declared_mb) / declared_mb * 100


def gpu_homes(registry: Registry) -> tuple[Home, ...]:
    """Return the places on Ollama servers that have a GPU to mind; the registry's addresses must be resolved."""
    return tuple(home for home in homes_of(registry) if home.slot is not None and home.gpu != NONE)


def shown(registry: Registry, snapshot: Snapshot) -> tuple[Shown, ...]:
    """Return the models of known size that are loaded, each at each of its servers."""
    found = []
    for home in gpu_homes(registry):
        size, server = home.model.gpu_residency, server_of(snapshot, home.api_base)
        if size is None or home.slot is None or server is None or server.state != "up":
            continue
        entry = runner_of(server, home.slot.name)
        if entry is not None:
            found.append(Shown(home, entry, float(size.vram_mb)))
    return tuple(found)


def missing(registry: Registry, snapshot: Snapshot, now: float) -> tuple[Home, ...]:
    """Return the places where a never-evict model is not loaded to stay, on servers that answer."""
    return tuple(home for home in _never_evict(gpu_homes(registry)) if _is_missing(registry, snapshot, home, now))


def _never_evict(homes: Iterable[Home]) -> Iterable[Home]:
    return (home for home in homes if home.model.never_evict)


def _is_missing(registry: Registry, snapshot: Snapshot, home: Home, now: float) -> bool:
    server = server_of(snapshot, home.api_base)
    if home.slot is None or server is None or server.state != "up":
        return False
    return residency(registry, snapshot, Want(home.model, home.slot), now) is None
