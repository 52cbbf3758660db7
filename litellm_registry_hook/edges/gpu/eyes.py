"""Looks at NVML, the Ollama servers and the other model servers, all at once; one look takes at most three seconds."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from litellm_registry_hook.core.gpu.facts import HealthState, Nvml, Server, Snapshot
from litellm_registry_hook.core.gpu.names import base_of
from litellm_registry_hook.core.gpu.place import server_key
from litellm_registry_hook.core.registry import Registry
from litellm_registry_hook.edges.gpu.health import HealthReader
from litellm_registry_hook.edges.gpu.nvml import Driver
from litellm_registry_hook.edges.gpu.ollama import OllamaReader
from litellm_registry_hook.edges.gpu.parallel import AtOnce
from litellm_registry_hook.edges.gpu.places import OllamaPlace, Places, places_of

LOOK_S: Final = 3.0
READ_S: Final = 2.0
_NVML: Final = ("nvml", "")


class MachineEyes:
    """Implements core.gpu.ports.Eyes. Thread-safe; readings of one server never run side by side."""

    def __init__(
        self,
        registry: Callable[[], Registry],
        env: Mapping[str, str],
        clock: Callable[[], float],
        *,
        driver: Driver | None = None,
        machine: str | None = None,
        look_s: float = LOOK_S,
        read_s: float = READ_S,
    ) -> None:
        """Open nothing yet.

        Args:
            registry: gives the registry in force. env: resolves `os.environ/NAME`.
            clock: seconds since the epoch.
            driver: the process's NVML; a fresh one where none is given.
            machine: name of this machine; the host name where none is given.
            look_s: seconds a look may take. read_s: seconds one server may take for one answer.

        """
        self.driver = driver or Driver()
        self._registry = registry
        self._env = env
        self._clock = clock
        self._machine = machine or socket.gethostname()
        self._look_s = look_s
        self._read_s = read_s
        self._lock = threading.Lock()
        self._seen: Registry | None = None
        self._places = Places({}, {})
        self._ollama: dict[str, OllamaReader] = {}
        self._health: dict[str, HealthReader] = {}
        self._asked: set[str] = set()
        self._jobs: AtOnce[tuple[str, str]] = AtOnce()

    def look(self, bases: Sequence[str] | None = None) -> Snapshot:
        """Return a fresh snapshot; with `bases` only those servers, NVML and what was never read are read anew."""
        places, ollama, health, asked = self._readers()
        chosen = None if bases is None else {server_key(base_of(base)) for base in bases}
        at = self._clock()
        jobs: dict[tuple[str, str], Callable[[], Nvml | Server | HealthState]] = {_NVML: lambda: self.driver.read(at)}
        for base, reader in ollama.items():
            if chosen is None or server_key(base) in chosen or base not in asked:
                jobs["ollama", base] = _reading(reader, at, places.ollama[base])
        for base, one in health.items():
            if chosen is None or server_key(base) in chosen or base not in asked:
                jobs["health", base] = one.read
        found = self._jobs.run(jobs, self._look_s)
        with self._lock:
            self._asked |= {base for _, base in jobs}
        servers = {base: self._server(base, reader, jobs, found) for base, reader in ollama.items()}
        states = {base: self._state(base, one, jobs, found) for base, one in health.items()}
        nvml = found.get(_NVML)
        return Snapshot(
            at=at,
            nvml=nvml if isinstance(nvml, Nvml) else self.driver.late(self._look_s),
            servers=servers,
            health=states,
            machine=self._machine,
        )

    def close(self) -> None:
        """Close the kept connections."""
        with self._lock:
            readers: list[OllamaReader | HealthReader] = [*self._ollama.values(), *self._health.values()]
            self._ollama, self._health, self._seen = {}, {}, None
            self._asked.clear()
        for reader in readers:
            reader.close()

    def _server(self, base: str, reader: OllamaReader, jobs: Mapping[tuple[str, str], object], found: _Found) -> Server:
        if ("ollama", base) not in jobs:
            return reader.last
        server = found.get(("ollama", base))
        return server if isinstance(server, Server) else reader.late(self._look_s)

    def _state(
        self, base: str, one: HealthReader, jobs: Mapping[tuple[str, str], object], found: _Found
    ) -> HealthState:
        if ("health", base) not in jobs:
            return one.last
        state = found.get(("health", base))
        return state if state == "up" or state == "gone" else "busy"  # noqa: PLR1714  mypy narrows by ==

    def _readers(self) -> tuple[Places, dict[str, OllamaReader], dict[str, HealthReader], frozenset[str]]:
        """Return the readers of the registry in force, and the addresses that were asked before."""
        registry = self._registry()
        with self._lock:
            if registry is not self._seen:
                self._places = places_of(registry, self._env)
                self._seen = registry
                self._renew(self._places)
            return self._places, dict(self._ollama), dict(self._health), frozenset(self._asked)

    def _renew(self, places: Places) -> None:
        """Make the readers fit; one that stays keeps what it knows."""
        before: set[OllamaReader | HealthReader] = {*self._ollama.values(), *self._health.values()}
        self._ollama = {
            base: known
            if (known := self._ollama.get(base)) is not None and known.speaks_with(place.headers)
            else OllamaReader(base, place.headers, read_s=self._read_s)
            for base, place in places.ollama.items()
        }
        self._health = {
            base: same
            if (same := self._health.get(base)) is not None and same.url == url
            else HealthReader(url, read_s=self._read_s)
            for base, url in places.health.items()
        }
        gone = before - {*self._ollama.values(), *self._health.values()}
        self._asked &= {base for base, reader in (*self._ollama.items(), *self._health.items()) if reader in before}
        for reader in gone:
            reader.close()  # a look that still uses it sees a stalled server, which the registry has no more


_Found = Mapping[tuple[str, str], Nvml | Server | HealthState]


def _reading(reader: OllamaReader, at: float, place: OllamaPlace) -> Callable[[], Server]:
    return lambda: reader.read(at, place.wanted)
