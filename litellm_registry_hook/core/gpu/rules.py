"""The two rules of admission, as arithmetic: there is room, and Ollama will not evict a never-evict model. All in MB.

(a) physical: needed <= free - reserve - never-evict models not resident - loads in flight.
(b) eviction, only where that Ollama holds a never-evict model or another one of the registry: Ollama's own prediction
    <= 80 % of the free memory as it sees it, min(free, total - its own runners), once loads in flight on other servers
    have taken theirs; and one more loaded model stays within its limit. The reserve is ours, Ollama does not know it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

from litellm_registry_hook.core.gpu.facts import Slot
from litellm_registry_hook.core.gpu.place import Card, Home, Room, ServerKey, overlap, server_key
from litellm_registry_hook.core.gpu.predict import EVICTS_ABOVE
from litellm_registry_hook.core.gpu.resident import same_runner
from litellm_registry_hook.core.gpu.table import Runner, Table

MODELS_PER_GPU: Final = 3

Rule = Literal["physical", "prediction", "count"]
Gone = frozenset[Runner]


@dataclass(frozen=True, slots=True)
class Numbers:
    """What a rule was judged on.

    Attributes:
        rule: the one that failed; None: both hold.
        gpu: GPU key. needed_mb: what the model takes. predicted_mb: what Ollama predicts.
        free_mb: free memory of the GPU. seen_mb: free as that Ollama sees it.
        reserve_mb: of the policy. missing: never-evict models not resident, by id. promised_mb: loads in flight.
        holds: never-evict models that Ollama holds; where there are none, its other registry models.
        count, limit: loaded models there with this one, and the most.

    """

    rule: Rule | None
    gpu: str
    needed_mb: float
    predicted_mb: float
    free_mb: float
    seen_mb: float
    reserve_mb: float
    missing: dict[str, float]
    promised_mb: float
    holds: tuple[str, ...]
    count: int
    limit: int

    @property
    def reserved_mb(self) -> float:
        """Reserve and never-evict models not resident."""
        return self.reserve_mb + sum(self.missing.values())

    @property
    def available_mb(self) -> float:
        """What a load may take."""
        return self.free_mb - self.reserved_mb - self.promised_mb


@dataclass(frozen=True, slots=True)
class _Standing:
    free_mb: float
    missing: dict[str, float]
    promised_mb: float


@dataclass(frozen=True, eq=False)
class Case:
    """One load to be judged.

    Attributes:
        table: the moment. slot: the wanted runner. room: its memory.
        needed_mb: what it takes. predicted_mb: what Ollama predicts.
        own: its runner where it is loaded already, though not usable as it is.

    """

    table: Table
    slot: Slot
    room: Room
    needed_mb: float
    predicted_mb: float
    own: Runner | None

    @property
    def key(self) -> ServerKey:
        """The wanted server."""
        return server_key(self.slot.api_base)

    @property
    def several(self) -> bool:
        """Whether a runner's GPU is not certain where the registry says `auto`."""
        return len(self.room.cards) + len(self.room.others) > 1

    @property
    def limit(self) -> int:
        """The most models that Ollama keeps loaded: 3 for each GPU that the server is known to see."""
        policy = self.table.registry.gpu_residency_policy
        if policy.max_loaded_models is not None:
            return policy.max_loaded_models
        return MODELS_PER_GPU * (len(self.room.cards) if self.room.mode == "nvml" else 1)

    def judge(self, gone: Gone = frozenset(), *, promises: bool = True) -> Numbers:
        """Judge the load as if these runners had been unloaded.

        Args:
            gone: runners whose memory has come back, the wanted model's own among them.
            promises: False: as if no load were in flight.

        """
        best: Numbers | None = None
        for freed in self._freed(gone):
            card, free = max(freed, key=lambda pair: pair[1])
            numbers = self._numbers(card, free, gone, promises=promises)
            if numbers.rule is None:
                return numbers
            if best is None or numbers.available_mb > best.available_mb:
                best = numbers
        assert best is not None
        return best

    @cached_property
    def _at(self) -> dict[Card, _Standing]:
        """What stands on each GPU whatever is unloaded for the load."""
        table, machine = self.table, self.room.machine
        measured = self.room.mode == "nvml"
        return {
            card: _Standing(
                self._free_of(card),
                table.never_evict_missing(machine, card.key, self.own, self.slot, measured=measured),
                table.promised(machine, card.key),
            )
            for card in self.room.cards
        }

    def _free_of(self, card: Card) -> float:
        """Return free memory: measured, else the total less all that is known to be there."""
        if card.free_mb is not None:
            return card.free_mb
        table, machine = self.table, self.room.machine
        used = sum(one.entry.vram_mb for one in table.runners if one.machine == machine and overlap(one.gpu, card.key))
        for home in table.homes:
            size = home.model.gpu_residency
            if home.slot is not None or size is None or not table.is_on(home, machine, card.key):
                continue
            if table.health.get(server_key(home.api_base)) != "gone":
                used += size.vram_mb
        return card.total_mb - used - table.registry.gpu_residency_policy.foreign_mb

    def _freed(self, gone: Gone) -> Iterator[list[tuple[Card, float]]]:
        """Yield the free memory of each GPU, for each GPU on which the unloaded ones may have been."""
        base = {card: self._at[card].free_mb for card in self.room.cards}
        loose = 0.0
        for runner in gone:
            if runner.machine != self.room.machine:
                continue
            if self.several and runner.gpu == "auto":
                loose += runner.entry.vram_mb
                continue
            for card in base:
                if overlap(runner.gpu, card.key):
                    base[card] += runner.entry.vram_mb
        base = {card: min(card.total_mb, free) for card, free in base.items()}
        homes = [card for card, free in base.items() if loose and card.total_mb - free >= loose]
        if not homes:
            yield list(base.items())
        for home in homes:
            yield [(card, free + (loose if card is home else 0.0)) for card, free in base.items()]

    def _numbers(self, card: Card, free: float, gone: Gone, *, promises: bool) -> Numbers:
        table = self.table
        stay = [one for one in table.runners if one.key == self.key and one not in gone]
        missing = self._at[card].missing
        promised = self._at[card].promised_mb if promises else 0.0
        # A registry model that is not never-evict may go, but by a swap of ours: were it left to Ollama, a request that
        # still counts on it would make Ollama load it again, past this gate.
        pinned = sorted(f"never-evict {one.label}" for one in stay if one.never_evict)
        holds = tuple(pinned or sorted(one.label for one in stay if one.models))
        seen = min(free, card.total_mb - self._own_runners(card, stay)) - promised
        reserve = float(table.registry.gpu_residency_policy.reserve_mb)
        rule: Rule | None = None
        if self.needed_mb > 0 and self.needed_mb > free - reserve - sum(missing.values()) - promised:
            rule = "physical"
        elif holds and self.predicted_mb > EVICTS_ABOVE * seen:
            rule = "prediction"
        elif holds and len(stay) + 1 > self.limit:
            rule = "count"
        return Numbers(
            rule,
            card.key,
            self.needed_mb,
            self.predicted_mb,
            free,
            seen,
            reserve,
            missing,
            promised,
            holds,
            len(stay) + 1,
            self.limit,
        )

    def _own_runners(self, card: Card, stay: list[Runner]) -> float:
        """Return the MB of that Ollama's runners on a GPU; with several GPUs and `auto`, at least so much."""
        sure = sum(one.entry.vram_mb for one in stay if one.gpu != "auto" and overlap(one.gpu, card.key))
        loose = sum(one.entry.vram_mb for one in stay if one.gpu == "auto")
        if self.several:
            elsewhere = sum(
                one.total_mb - (one.free_mb or 0.0) for one in (*self.room.cards, *self.room.others) if one is not card
            )
            loose = max(0.0, loose - elsewhere)
        return sure + loose

    def bare(self) -> Numbers | None:
        """Judge the load on an otherwise empty GPU that holds the never-evict set; None: it fits one."""
        failed: Numbers | None = None
        for card in self.room.cards:
            numbers = self._bare(card)
            if numbers.rule is None:
                return None
            failed = failed or numbers
        return failed

    def _bare(self, card: Card) -> Numbers:
        table = self.table
        policy = table.registry.gpu_residency_policy
        others: dict[str, float] = {}
        holds: dict[str, None] = {}
        for home in table.homes:
            size = home.model.gpu_residency
            if size is None or not size.never_evict or self._is_wanted(home):
                continue
            if home.slot is not None and server_key(home.api_base) == self.key:
                holds[f"never-evict {home.model.id}"] = None
            if table.is_on(home, self.room.machine, card.key):
                others[home.model.id] = float(size.vram_mb)
        foreign = 0.0 if self.room.mode == "nvml" else float(policy.foreign_mb)
        free = card.total_mb - foreign
        seen = free - sum(others.values())
        rule: Rule | None = None
        if self.needed_mb > 0 and self.needed_mb > seen - policy.reserve_mb:
            rule = "physical"
        elif holds and self.predicted_mb > EVICTS_ABOVE * seen:
            rule = "prediction"
        elif holds and len(holds) + 1 > self.limit:
            rule = "count"
        return Numbers(
            rule,
            card.key,
            self.needed_mb,
            self.predicted_mb,
            free,
            seen,
            float(policy.reserve_mb),
            others,
            0.0,
            tuple(holds),
            len(holds) + 1,
            self.limit,
        )

    def _is_wanted(self, home: Home) -> bool:
        """Say whether a place is the wanted runner itself, or shares it."""
        if home.slot is None or server_key(home.api_base) != self.key:
            return False
        server = self.table.servers.get(self.key)
        return home.slot.name == self.slot.name or (
            server is not None and same_runner(server, self.slot.name, home.slot.name)
        )
