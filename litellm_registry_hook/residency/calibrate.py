"""Measures what a model really takes: load, read, unload, with its machine to itself.

While it measures, this worker holds the machine's lock, so no proxy loads there, and has the model closed in every
worker, so no request uses what is about to be unloaded. What was loaded before stays as it is.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from litellm_registry_hook.core.gpu.compare import TOLERATED_PERCENT, gpu_homes, off_percent
from litellm_registry_hook.core.gpu.facts import Claim, Loaded, Slot
from litellm_registry_hook.core.gpu.names import short_name
from litellm_registry_hook.core.gpu.place import Home, is_loopback
from litellm_registry_hook.core.gpu.predict import on_cpu
from litellm_registry_hook.core.gpu.resident import is_partial, runner_of, server_of
from litellm_registry_hook.core.gpu.verdict import Admit, No, Open, Resident, Swap, Want
from litellm_registry_hook.residency.aside import Aside
from litellm_registry_hook.residency.engine import LOAD_S
from litellm_registry_hook.residency.records import CLAIM, FENCE, LIFE_S, RENEW_S, claim_data, key_of
from litellm_registry_hook.residency.swap import ACK_S, RECOVERY_S
from litellm_registry_hook.residency.warm import name_of, want_of

LOCK_S: Final = 30.0
IN_FLIGHT_S: Final = 60.0
SETTLE_S: Final = 10.0
# Two looks this far apart that agree to this many MB: it has settled.
SAME_AFTER_S: Final = 0.5
SAME_MB: Final = 8.0
POLL_S: Final = 0.25
# NVML's difference is believed between these bounds of what Ollama says; outside somebody else has moved.
LEAST: Final = 0.9
MOST: Final = 1.5
MOST_MB: Final = 1000.0


class NotMeasuredError(Exception):
    """Why a model was not measured."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What a model takes at one server.

    Attributes:
        id: of the registry. api_base: the server.
        how: `loaded`: for the measurement, and unloaded again; `resident`: it was there before.
        declared_mb: its vram_mb; None: it has none.
        size_mb, vram_mb: of /api/ps. nvml_mb: by how much the GPUs' used memory rose; None where NVML cannot say.
        note: what makes a number doubtful.

    """

    id: str
    api_base: str
    how: str
    declared_mb: int | None
    size_mb: float
    vram_mb: float
    nvml_mb: float | None = None
    note: str = ""

    @property
    def real_mb(self) -> int:
        """What it takes, rounded up: NVML counts what Ollama does not, the context of the driver say."""
        return math.ceil(max(self.vram_mb, self.nvml_mb or 0.0))

    @property
    def percent(self) -> float | None:
        """By how many percent of the declared size it takes more."""
        return None if self.declared_mb is None else off_percent(self.declared_mb, self.real_mb)

    @property
    def marked(self) -> bool:
        """Whether the declared size is wrong, not rounded."""
        return self.percent is not None and abs(self.percent) > TOLERATED_PERCENT

    @property
    def proposed_mb(self) -> int | None:
        """The vram_mb to write; None where it is right. Only NVML lowers it: Ollama's figure is not all of it."""
        lower = self.declared_mb is not None and self.real_mb < self.declared_mb
        if self.real_mb == self.declared_mb or (lower and self.nvml_mb is None):
            return None
        return self.real_mb


def homes_to_measure(aside: Aside, ids: Sequence[str]) -> list[Home]:
    """Return the places of these models on Ollama servers, machine by machine; without ids all of them.

    What its own options keep on the CPU is left out.
    """
    homes = [home for home in gpu_homes(aside.in_force().resolved) if home.model.on_ollama and not on_cpu(home.model)]
    chosen = [home for home in homes if not ids or home.model.id in ids]
    return sorted(chosen, key=lambda home: aside.board.machine(want_of(aside, home).slot))


class Calibration:
    """One run.

    Attributes:
        say: told what is being done.

    """

    def __init__(self, aside: Aside, say: Callable[[str], None] = lambda _text: None) -> None:
        self.aside = aside
        self.board = aside.board
        self.say = say
        self._rows: dict[tuple[str, str], dict[str, object] | None] = {}
        self._renewed = 0.0

    def entry(self, home: Home) -> Loaded | None:
        """Return what /api/ps last said of a model."""
        server = server_of(self.board.snapshot, home.api_base)
        return runner_of(server, want_of(self.aside, home).slot.name) if server is not None else None

    @contextmanager
    def machine(self, machine: str) -> Iterator[None]:
        """Have a machine to oneself.

        Raises:
            NotMeasuredError: others keep its lock.

        """
        if not self.aside.until(lambda: self.board.lock(machine), LOCK_S):
            raise NotMeasuredError(f"others have been loading on {machine} for {LOCK_S:g} s; try again")
        # As the row of the lock is renewed with the others.
        self._rows["gpu-lock", machine] = None
        try:
            yield
        finally:
            self._rows.pop(("gpu-lock", machine), None)
            self.board.unlock(machine)

    def measure(self, home: Home) -> Measured:
        """Measure a model; its machine must be held.

        Raises:
            NotMeasuredError: it could not be; everything is as before.
            StateError: the state has gone meanwhile.

        """
        want = want_of(self.aside, home)
        self.board.look(self._bases(want))
        server = server_of(self.board.snapshot, home.api_base)
        if server is None or server.state != "up":
            why = server.reason if server is not None and server.reason else "it does not answer"
            raise NotMeasuredError(f"Ollama at {home.api_base}: {why}")
        entry = self.entry(home)
        if entry is not None:
            _whole(entry)
            return self._result(home, "resident", entry, None)
        self._may(want)
        with self._closed(want):
            return self._load_and_read(home, want)

    def _may(self, want: Want) -> None:
        """Ask the gate; waits while a load is in flight."""
        end = time.monotonic() + IN_FLIGHT_S
        while True:
            verdict = self.board.decide(want, may_swap=True)
            if isinstance(verdict, Admit):
                return
            loading = any(self.board.machine(one.slot) == self.board.machine(want.slot) for one in self._others())
            if loading and time.monotonic() < end:
                self._turns(lambda: False, POLL_S)
                self.board.look(self._bases(want))
                continue
            if isinstance(verdict, Swap):
                names = ", ".join(short_name(slot.name) for slot in verdict.victims)
                raise NotMeasuredError(f"{names} would have to be unloaded for it; {verdict.reason}")
            if isinstance(verdict, No):
                raise NotMeasuredError(verdict.reason)
            what = "it takes no GPU memory here" if isinstance(verdict, Open) else "it is loaded by somebody else"
            raise NotMeasuredError("it is loaded now" if isinstance(verdict, Resident) else what)

    def _others(self) -> list[Claim]:
        return [one for one in self.board.shared.claims if one.owner != self.board.worker]

    @contextmanager
    def _closed(self, want: Want) -> Iterator[None]:
        """Keep every worker's requests away from a model, under all its names, and book it."""
        slots = self.board.alike(want.slot)
        claim = Claim(want.slot, want.use.model, 0.0, "", self.board.worker, self.board.clock(), 0.0)
        size = want.model.gpu_residency if want.model is not None else None
        data = {**claim_data(claim), "mb": float(size.vram_mb) if size is not None else 0.0}
        wanted: dict[tuple[str, str], dict[str, object] | None] = {(FENCE, key_of(slot)): None for slot in slots}
        wanted[CLAIM, key_of(want.slot)] = data
        taken: list[tuple[str, str]] = []
        try:
            for (kind, key), row in wanted.items():
                if not self.board.take(kind, key, LIFE_S, row):
                    raise NotMeasuredError("another worker is loading or unloading it")
                taken.append((kind, key))
                self._rows[kind, key] = row
            self._wait_for_workers(slots)
            yield
        finally:
            for kind, key in taken:
                self._rows.pop((kind, key), None)
                self.board.drop(kind, key)
            # Or the next one would wait for a load that has ended.
            self.board.read_shared()

    def _wait_for_workers(self, slots: Sequence[Slot]) -> None:
        def answered() -> bool:
            self.board.read_shared()
            others = self.board.shared.workers - {self.board.worker}
            return all((slot, worker) in self.board.shared.acks for slot in slots for worker in others)

        if not self._turns(answered, ACK_S):
            raise NotMeasuredError("a proxy worker did not say whether the model is in use")
        if any(
            self.board.shared.acks.get((slot, worker), 0) for slot, worker in self.board.shared.acks if slot in slots
        ):
            raise NotMeasuredError("a request uses it")

    def _load_and_read(self, home: Home, want: Want) -> Measured:
        self.board.look(self._bases(want))
        before = self._used(home)
        said: list[str | None] = []
        self.aside.desk.swaps.starter.load(want, said.append)
        try:
            if not self._turns(lambda: bool(said), LOAD_S):
                raise NotMeasuredError(f"it was not loaded in {LOAD_S:g} s")
            if said[0] is not None:
                raise NotMeasuredError(said[0])
            entry = self._settled(home, want)
            after = self._used(home)
            risen = after - before if before is not None and after is not None else None
            _whole(entry)
            return self._result(home, "loaded", entry, risen)
        finally:
            self._unload(home, want, before, loaded=bool(said))

    def _settled(self, home: Home, want: Want) -> Loaded:
        """Return what /api/ps says once neither it nor the GPU's memory moves any more."""
        seen: list[tuple[float, float]] = []

        def still() -> bool:
            self.board.look(self._bases(want))
            entry = self.entry(home)
            now = (entry.vram_mb if entry is not None else -1.0, self._used(home) or 0.0)
            seen.append(now)
            earlier = seen[-3:-1]
            return len(earlier) == 2 and now[0] >= 0 and all(_same(one, now) for one in earlier)  # noqa: PLR2004

        end = time.monotonic() + SETTLE_S
        while not still() and time.monotonic() < end:
            self._turns(lambda: False, SAME_AFTER_S)
        entry = self.entry(home)
        if entry is None:
            raise NotMeasuredError("the server took the load, but /api/ps does not show it")
        return entry

    def _unload(self, home: Home, want: Want, before: float | None, *, loaded: bool) -> None:
        """Unload what was loaded for the measurement, and wait until its memory is back."""
        if not loaded:
            return  # Interrupted: with this process its connection goes, and with that the load.
        self.say(f"unloading {name_of(home)}")
        said: list[str | None] = []
        self.aside.desk.swaps.starter.unload(want, said.append)
        self._turns(lambda: bool(said), RECOVERY_S)

        def back() -> bool:
            self.board.look(self._bases(want))
            used = self._used(home)
            return self.entry(home) is None and (before is None or used is None or used <= before + SAME_MB)

        end = time.monotonic() + RECOVERY_S
        while not back() and time.monotonic() < end:
            self._turns(lambda: False, POLL_S)

    def _turns(self, done: Callable[[], bool], seconds: float) -> bool:
        """Take turns until something is so, and keep our rows alive meanwhile."""

        def renewed() -> bool:
            now = time.monotonic()
            if now - self._renewed >= RENEW_S:
                self._renewed = now
                for (kind, key), row in self._rows.items():
                    self.board.take(kind, key, LIFE_S, row)
            return done()

        return self.aside.until(renewed, seconds)

    def _bases(self, want: Want) -> list[str]:
        return self.board.bases_of(self.board.machine(want.slot))

    def _used(self, home: Home) -> float | None:
        """Return the used MB of this machine's GPUs; None where NVML does not count for the server."""
        nvml = self.board.snapshot.nvml
        if not is_loopback(home.api_base) or nvml.state != "ok" or any(gpu.state != "ok" for gpu in nvml.gpus):
            return None
        return sum(gpu.total_mb - gpu.free_mb for gpu in nvml.gpus)

    def _result(self, home: Home, how: str, entry: Loaded, risen: float | None) -> Measured:
        note = ""
        if risen is not None and not entry.vram_mb * LEAST <= risen <= entry.vram_mb * MOST + MOST_MB:
            note = f"NVML rose by {risen:.0f} MB, so others have moved: the size is that of /api/ps"
            risen = None
        written = self.aside.written.by_id[home.model.id].gpu_residency
        declared = written.vram_mb if written is not None else None
        return Measured(home.model.id, home.api_base, how, declared, entry.size_mb, entry.vram_mb, risen, note)


def _whole(entry: Loaded) -> None:
    if is_partial(entry):
        part = f"{entry.vram_mb:.0f} of its {entry.size_mb:.0f} MB"
        raise NotMeasuredError(f"only {part} are on the GPU, which says nothing of what the whole takes")


def _same(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return abs(one[0] - other[0]) <= SAME_MB and abs(one[1] - other[1]) <= SAME_MB
