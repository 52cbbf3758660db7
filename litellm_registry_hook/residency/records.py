"""The desk's rows in the ledger: what the workers tell each other. Kinds, keys, and how they are written and read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from litellm_registry_hook.core.gpu.facts import Claim, Slot
from litellm_registry_hook.core.gpu.ports import Ledger, Row

LOCK: Final = "gpu-lock"
CLAIM: Final = "gpu-claim"
FENCE: Final = "gpu-fence"
ACK: Final = "gpu-ack"
FAILED: Final = "gpu-failed"
WORKER: Final = "gpu-worker"
KEEPER: Final = "gpu-keeper"
WAITING: Final = "gpu-wait:"
SHARED: Final = (CLAIM, FENCE, ACK, FAILED, WORKER)

# A worker that dies leaves its rows; they lapse after this. Renewed five times in that time.
LIFE_S: Final = 10.0
RENEW_S: Final = 2.0


def key_of(slot: Slot) -> str:
    """Write a slot as a key."""
    return f"{slot.api_base}|{slot.name}"


def slot_in(key: str) -> Slot:
    """Read a slot from a key."""
    base, _, name = key.rpartition("|")
    return Slot(base, name)


@dataclass(frozen=True, slots=True)
class Shared:
    """What all workers have written, at one moment.

    Attributes:
        claims: loads in flight. fences: slots about to be unloaded, to the worker that does it.
        fence_ids: the same slots, to what tells this fence from an earlier one.
        acks: (slot, worker) to the requests that the worker has in flight there, said of the fence that stands now.
        failed: why the last load of a slot failed, while it is not to be tried again; and up to when.
        workers: live workers. busy, last_used: of all of them but this one.

    """

    claims: tuple[Claim, ...] = ()
    fences: Mapping[Slot, str] = field(default_factory=dict)
    fence_ids: Mapping[Slot, int] = field(default_factory=dict)
    acks: Mapping[tuple[Slot, str], int] = field(default_factory=dict)
    failed: Mapping[Slot, tuple[str, float]] = field(default_factory=dict)
    workers: frozenset[str] = frozenset()
    busy: Mapping[Slot, int] = field(default_factory=dict)
    last_used: Mapping[Slot, float] = field(default_factory=dict)


def read(ledger: Ledger, me: str) -> Shared:
    """Read what the workers have written.

    Raises:
        StateError: the state cannot be read.

    """
    rows: dict[str, list[Row]] = {kind: [] for kind in SHARED}
    for row in ledger.rows(*SHARED):
        rows[row.kind].append(row)
    fence_ids = {slot_in(row.key): row.seq for row in rows[FENCE]}
    acks: dict[tuple[Slot, str], int] = {}
    for row in rows[ACK]:
        slot_key, _, worker = row.key.rpartition("#")
        slot = slot_in(slot_key)
        # An answer to an earlier fence says nothing: its worker may have opened the runner since.
        if row.data.get("fence") == fence_ids.get(slot):
            acks[slot, worker] = int(row.data.get("busy", 0))
    busy: dict[Slot, int] = {}
    used: dict[Slot, float] = {}
    for row in rows[WORKER]:
        if row.key == me:
            continue
        for key, count in row.data.get("busy", {}).items():
            busy[slot_in(key)] = busy.get(slot_in(key), 0) + int(count)
        for key, moment in row.data.get("used", {}).items():
            used[slot_in(key)] = max(float(moment), used.get(slot_in(key), 0.0))
    return Shared(
        claims=tuple(claim_in(row) for row in rows[CLAIM]),
        fences={slot_in(row.key): row.owner for row in rows[FENCE]},
        fence_ids=fence_ids,
        acks=acks,
        failed={slot_in(row.key): (str(row.data.get("why", "")), row.until) for row in rows[FAILED]},
        workers=frozenset(row.key for row in rows[WORKER]),
        busy=busy,
        last_used=used,
    )


def claim_data(claim: Claim) -> dict[str, object]:
    """Write a claim as a row's data."""
    return {"model": claim.model, "mb": claim.mb, "gpu": claim.gpu, "began": claim.began}


def claim_in(row: Row) -> Claim:
    """Read a claim from its row."""
    data = row.data
    slot = slot_in(row.key)
    return Claim(
        slot=slot,
        model=str(data.get("model", "")),
        mb=float(data.get("mb", 0.0)),
        gpu=str(data.get("gpu", "")),
        owner=row.owner,
        began=float(data.get("began", 0.0)),
        until=row.until,
    )


def worker_data(busy: Mapping[Slot, int], last_used: Mapping[Slot, float], known: Iterable[Slot]) -> dict[str, object]:
    """Write what a worker has in flight, and when it used the runners that are loaded."""
    return {
        "busy": {key_of(slot): count for slot, count in busy.items()},
        "used": {key_of(slot): last_used[slot] for slot in known if slot in last_used},
    }
