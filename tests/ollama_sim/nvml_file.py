"""The text file that the NVML stub reads, kept equal to the cards, so that the real pynvml sees loads and unloads."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from nvml import stub
from ollama_sim.things import Card

OF_DRIVER = ("err_init", "err_count", "hang_ms")


class NvmlFile:
    """The file; it is replaced in one step at each change.

    Attributes:
        path: of the text file.

    """

    def __init__(self, path: Path, cards: Sequence[Card]) -> None:
        self.path = path
        self._cards = list(cards)
        self._faults: dict[str, Any] = {}
        self._lock = threading.Lock()
        for card in cards:
            card.watchers.append(self.write)
        self.write()

    def write(self) -> None:
        """Write the cards as they are."""
        with self._lock:
            of_driver = {name: self._faults[name] for name in OF_DRIVER if name in self._faults}
            of_card = {name: value for name, value in self._faults.items() if name not in OF_DRIVER}
            stub.write(self.path, [replace(_stub_card(card), **of_card) for card in self._cards], **of_driver)

    def fail(self, **faults: int) -> None:
        """Let the driver or every card fail: err_init, err_mem, mig and so on, as tests/nvml/stub.py names them."""
        self._faults = dict(faults)
        self.write()

    def ok(self) -> None:
        """End every fault."""
        self.fail()


def _stub_card(card: Card) -> stub.Card:
    return stub.Card(name=card.name, uuid=card.uuid, total_mib=int(card.total_mb), used_mib=round(card.used_mb))
