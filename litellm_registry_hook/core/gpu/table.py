"""All that the decision needs of one moment, brought together: who is loaded where, whose it is, and who is in use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from litellm_registry_hook.core.gpu.facts import Claim, HealthState, Loaded, Server, Slot, Snapshot, Usage
from litellm_registry_hook.core.gpu.names import short_name
from litellm_registry_hook.core.gpu.place import (
    AUTO,
    NONE,
    Home,
    ServerKey,
    gpu_key,
    homes_of,
    is_loopback,
    machine_of,
    overlap,
    server_key,
)
from litellm_registry_hook.core.gpu.resident import is_partial, same_runner
from litellm_registry_hook.core.registry import Model, Registry


@dataclass(frozen=True, eq=False)
class Runner:
    """One loaded model of one server.

    Attributes:
        server: where it is. key: of that server. machine: its name.
        gpu: GPU key, `auto` where it may be on any.
        entry: what /api/ps says.
        slot: where it is, by the name it was loaded under.
        models: registry entries that it serves: same name or same weights.
        busy: requests in flight through us. last_used: through us; None: never.
        claimed: it is being loaded again right now.

    """

    server: Server
    key: ServerKey
    machine: str
    gpu: str
    entry: Loaded
    slot: Slot
    models: tuple[Model, ...]
    busy: int
    last_used: float | None
    claimed: bool

    @property
    def never_evict(self) -> bool:
        """Whether it must stay."""
        return any(model.never_evict for model in self.models)

    @property
    def evictable(self) -> bool:
        """Whether we may unload it once it is idle: of the registry, not never-evict, on a server that answers."""
        return bool(self.models) and not self.never_evict and self.server.state == "up" and not self.claimed

    @property
    def label(self) -> str:
        """What people call it: the registry id, else the server's name."""
        return self.models[0].id if self.models else short_name(self.entry.name)


@dataclass(frozen=True, eq=False)
class Table:
    """One moment.

    Attributes:
        registry, snapshot, usage: as given. now: the moment.
        claims: loads in flight that have not lapsed.

    """

    registry: Registry
    snapshot: Snapshot
    claims: tuple[Claim, ...]
    usage: Usage
    now: float

    @cached_property
    def homes(self) -> tuple[Home, ...]:
        """The places of the registry's models."""
        return homes_of(self.registry)

    @cached_property
    def servers(self) -> dict[ServerKey, Server]:
        """Ollama servers, each once whatever its addresses are called."""
        found: dict[ServerKey, Server] = {}
        for base, server in self.snapshot.servers.items():
            key = server_key(base)
            if key not in found or server.read_at > found[key].read_at:
                found[key] = server
        return found

    @cached_property
    def health(self) -> dict[ServerKey, HealthState]:
        """Other model servers."""
        return {server_key(base): state for base, state in self.snapshot.health.items()}

    @cached_property
    def at_server(self) -> dict[ServerKey, list[Home]]:
        """Places of registry models by Ollama server."""
        found: dict[ServerKey, list[Home]] = {}
        for home in self.homes:
            if home.slot is not None:
                found.setdefault(server_key(home.api_base), []).append(home)
        return found

    @cached_property
    def runners(self) -> tuple[Runner, ...]:
        """Every loaded model of every server that is not gone."""
        claimed = {(server_key(claim.slot.api_base), claim.slot.name) for claim in self.claims}
        return tuple(
            self._runner(server, key, entry, claimed)
            for key, server in self.servers.items()
            if server.state != "gone"
            for entry in server.loaded
        )

    def _runner(self, server: Server, key: ServerKey, entry: Loaded, claimed: set[tuple[ServerKey, str]]) -> Runner:
        names: dict[str, None] = {entry.name: None}
        mine: list[Home] = []
        for home in self.at_server.get(key, ()):
            assert home.slot is not None
            if same_runner(server, home.slot.name, entry.name, entry.digest):
                mine.append(home)
                names[home.slot.name] = None
        mine.sort(key=lambda home: home.slot is None or home.slot.name != entry.name)
        used = [(key, name) for name in names]
        last = [self._last_used[one] for one in used if one in self._last_used]
        return Runner(
            server=server,
            key=key,
            machine=machine_of(server.api_base, self.snapshot.machine),
            gpu=self._gpu_of(mine or self.at_server.get(key, [])),
            entry=entry,
            slot=Slot(server.api_base, entry.name),
            models=tuple({home.model.id: home.model for home in mine}.values()),
            # One request may be noted under every name of its runner.
            busy=max(self._busy.get(one, 0) for one in used),
            last_used=max(last) if last else None,
            claimed=any(one in claimed for one in used),
        )

    def _gpu_of(self, homes: Sequence[Home]) -> str:
        keys = {self.gpu_of(home.api_base, home.gpu) for home in homes if home.gpu != NONE}
        return keys.pop() if len(keys) == 1 else AUTO

    def gpu_of(self, api_base: str, gpu: str) -> str:
        """Return the GPU key of an endpoint."""
        return gpu_key(gpu, self.snapshot.nvml, local=is_loopback(api_base))

    def is_on(self, home: Home, machine: str, gpu: str) -> bool:
        """Say whether a place of a model may be on this GPU of this machine."""
        if home.gpu == NONE or machine_of(home.api_base, self.snapshot.machine) != machine:
            return False
        return overlap(self.gpu_of(home.api_base, home.gpu), gpu)

    @cached_property
    def _busy(self) -> dict[tuple[ServerKey, str], int]:
        found: dict[tuple[ServerKey, str], int] = {}
        for slot, count in self.usage.busy.items():
            at = server_key(slot.api_base), slot.name
            found[at] = found.get(at, 0) + count
        return found

    @cached_property
    def _last_used(self) -> dict[tuple[ServerKey, str], float]:
        found: dict[tuple[ServerKey, str], float] = {}
        for slot, moment in self.usage.last_used.items():
            at = server_key(slot.api_base), slot.name
            found[at] = max(found.get(at, moment), moment)
        return found

    def runner_at(self, key: ServerKey, name: str) -> Runner | None:
        """Return the runner that serves a full name at a server."""
        here = [runner for runner in self.runners if runner.key == key]
        for runner in here:
            if runner.entry.name == name:
                return runner
        return next((one for one in here if same_runner(one.server, name, one.entry.name, one.entry.digest)), None)

    def claim_at(self, key: ServerKey, name: str) -> Claim | None:
        """Return the load in flight of a full name at a server, under whatever name it was booked."""
        server = self.servers.get(key)
        for claim in self.claims:
            if server_key(claim.slot.api_base) != key:
                continue
            if claim.slot.name == name or (server is not None and same_runner(server, name, claim.slot.name)):
                return claim
        return None

    def promised(self, machine: str, gpu: str) -> float:
        """Return the MB of loads in flight that can go to a GPU; what /api/ps shows is not promised any more."""
        total = 0.0
        for claim in self.claims:
            if machine_of(claim.slot.api_base, self.snapshot.machine) != machine:
                continue
            if not overlap(self.gpu_of(claim.slot.api_base, claim.gpu), gpu):
                continue
            shown = self.runner_at(server_key(claim.slot.api_base), claim.slot.name)
            total += max(0.0, claim.mb - (shown.entry.vram_mb if shown is not None else 0.0))
        return total

    def never_evict_missing(
        self, machine: str, gpu: str, besides: Runner | None, want: Slot, *, measured: bool
    ) -> dict[str, float]:
        """Return the MB that never-evict models still need on a GPU, by registry id, the wanted one left out.

        A load in flight is promised, not missing. A model that is partly on the CPU misses the rest. A server that was
        never read has loaded nothing as far as we know.

        Args:
            machine, gpu: which GPU. besides: the runner that the wanted model shares. want: the wanted slot.
            measured: whether free memory is measured; else a model server without a health reading is subtracted from
                it already.

        """
        found: dict[str, float] = {}
        seen: set[tuple[ServerKey, str]] = set()
        for home in self.homes:
            size = home.model.gpu_residency
            if size is None or not size.never_evict or not self.is_on(home, machine, gpu):
                continue
            key = server_key(home.api_base)
            if home.slot is None:
                state = self.health.get(key)
                mb = float(size.vram_mb) if state == "gone" or (state is None and measured) else 0.0
            elif (key, home.slot.name) in seen:
                continue
            else:
                seen.add((key, home.slot.name))
                mb = self._missing(key, home.slot, float(size.vram_mb), besides, want)
            if mb > 0:
                found[home.model.id] = found.get(home.model.id, 0.0) + mb
        return found

    def _missing(self, key: ServerKey, slot: Slot, vram_mb: float, besides: Runner | None, want: Slot) -> float:
        if key == server_key(want.api_base):
            server = self.servers.get(key)
            if slot.name == want.name or (server is not None and same_runner(server, want.name, slot.name)):
                return 0.0
        if self.claim_at(key, slot.name) is not None:
            return 0.0
        runner = self.runner_at(key, slot.name)
        if runner is None:
            return vram_mb
        if runner is besides or not is_partial(runner.entry):
            return 0.0
        return max(0.0, vram_mb - runner.entry.vram_mb)
