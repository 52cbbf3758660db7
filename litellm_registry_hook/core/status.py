"""The present state as data for JSON: tiers and who would serve, GPU memory, quotas, grants. No secret in it.

Each function answers for one section; `why/gather.py` puts them together, `cli/status_text.py` draws them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from litellm_registry_hook.core.availability.facts import Facts
from litellm_registry_hook.core.availability.moments import clock
from litellm_registry_hook.core.explain import NOTHING_KNOWN, explain
from litellm_registry_hook.core.gpu.compare import missing
from litellm_registry_hook.core.gpu.facts import Snapshot
from litellm_registry_hook.core.gpu.names import short_name
from litellm_registry_hook.core.gpu.place import (
    NONE,
    Card,
    Home,
    Room,
    gpu_key,
    is_loopback,
    machine_of,
    overlap,
    room_of,
)
from litellm_registry_hook.core.gpu.resident import server_of
from litellm_registry_hook.core.gpu.table import Table
from litellm_registry_hook.core.gpu.verdict import Verdict
from litellm_registry_hook.core.known import known_data, known_of
from litellm_registry_hook.core.plan import Ask, Index, Running
from litellm_registry_hook.core.registry import OptIn, Registry
from litellm_registry_hook.core.sync_masking import shown_text
from litellm_registry_hook.core.virtual_key import TOKEN_PREFIX, short

Part = Literal["never-evict", "resident", "foreign"]


def tiers_data(
    index: Index, ask: Ask, facts: Facts = NOTHING_KNOWN, gpu: Callable[[Running], Verdict | None] | None = None
) -> list[dict[str, Any]]:
    """Return each tier with who would serve it now, by the decision that the proxy makes."""
    routing = index.registry.routing
    aliases: dict[str, list[str]] = {}
    for alias, target in routing.aliases.items():
        aliases.setdefault(target, []).append(alias)
    found = []
    for tier in routing.tiers:
        one = explain(index, tier, ask, facts, gpu)
        assert one is not None
        found.append(
            {
                "tier": tier,
                "aliases": aliases.get(tier, []),
                "model": one.serves.model.id if one.serves is not None else None,
                "deployment": one.serves.id if one.serves is not None else None,
                "code": one.refusal.code if one.refusal is not None else None,
                "reason": one.refusal.message if one.refusal is not None else None,
                "skipped": [
                    {"model": skip.model, "code": skip.code} for one in one.candidates if (skip := one.skip) is not None
                ],
                "next": [candidate.model.id for candidate in one.candidates if candidate.word == "next"],
            }
        )
    return found


@dataclass(frozen=True, slots=True)
class _Held:
    """Something that takes memory on a GPU."""

    machine: str
    gpu: str
    part: Part
    data: dict[str, Any]
    mb: float


def gpus_data(table: Table) -> list[dict[str, Any]]:
    """Return the memory of each GPU and what holds it, all in MB.

    What may be on any of several GPUs of a machine is told of with the machine, and counted on none of them.
    """
    registry, snapshot = table.registry, table.snapshot
    rooms = {(room.machine, room.key): room for home in table.homes for room in _room(registry, snapshot, home)}
    cards: dict[tuple[str, str], tuple[Card, str]] = {}
    for room in rooms.values():
        for card in room.cards:
            cards.setdefault((room.machine, card.key), (card, room.mode))
    held = list(_held(table))
    found = []
    for (machine, key), (card, mode) in cards.items():
        alone = sum(1 for other, _ in cards if other == machine) == 1
        here = [one for one in held if one.machine == machine and (alone or _same(one.gpu, key))]
        promised = [claim for claim in table.claims if machine_of(claim.slot.api_base, snapshot.machine) == machine]
        promised_mb = sum(claim.mb for claim in promised if alone or _same(claim.gpu, key))
        found.append(_card_data(registry, snapshot, card, mode, machine, here, promised_mb))
    for room in rooms.values():
        if not room.cards:
            here = [one for one in held if one.machine == room.machine]
            found.append(_unknown_data(room, here))
    return found


def _room(registry: Registry, snapshot: Snapshot, home: Home) -> tuple[Room, ...]:
    on_gpu = home.gpu != NONE and (home.slot is not None or home.model.gpu_residency is not None)
    return (room_of(registry.gpu_residency_policy, snapshot, home.api_base, home.gpu),) if on_gpu else ()


def _same(one: str, other: str) -> bool:
    return one not in {"", "auto"} and overlap(one, other)


def _held(table: Table) -> Iterable[_Held]:
    now = table.now
    for runner in table.runners:
        part: Part = "never-evict" if runner.never_evict else "resident" if runner.models else "foreign"
        until = runner.entry.expires_at
        data = {
            "model": runner.label,
            "part": part,
            "mb": round(runner.entry.vram_mb),
            "api_base": shown_text(runner.server.api_base),
            "pinned": until is None,
            "leaves_in_s": max(0, round(until - now)) if until is not None else None,
            "in_flight": runner.busy,
            "read_age_s": round(max(0.0, now - runner.server.read_at), 1),
        }
        yield _Held(runner.machine, runner.gpu, part, data, runner.entry.vram_mb)
    for home in table.homes:
        size, state = home.model.gpu_residency, table.snapshot.health.get(home.api_base)
        if home.slot is not None or size is None or state not in {"up", "busy"} or home.gpu == NONE:
            continue
        part = "never-evict" if size.never_evict else "resident"
        data = {
            "model": home.model.id,
            "part": part,
            "mb": size.vram_mb,
            "api_base": shown_text(home.api_base),
            "pinned": True,
            "leaves_in_s": None,
            "in_flight": None,
            "read_age_s": round(max(0.0, now - table.snapshot.at), 1),
        }
        machine = machine_of(home.api_base, table.snapshot.machine)
        key = gpu_key(home.gpu, table.snapshot.nvml, local=is_loopback(home.api_base))
        yield _Held(machine, key, part, data, float(size.vram_mb))


def _card_data(  # noqa: PLR0917
    registry: Registry,
    snapshot: Snapshot,
    card: Card,
    mode: str,
    machine: str,
    held: list[_Held],
    promised_mb: float,
) -> dict[str, Any]:
    never, resident, foreign = (
        sum(one.mb for one in held if one.part == part) for part in ("never-evict", "resident", "foreign")
    )
    if card.free_mb is not None:
        # What NVML says is taken and nobody of ours shows: other programs.
        foreign = max(foreign, card.total_mb - card.free_mb - never - resident)
        free = card.free_mb
    else:
        foreign += registry.gpu_residency_policy.foreign_mb
        free = max(0.0, card.total_mb - never - resident - foreign)
    name = next((gpu.name for gpu in snapshot.nvml.gpus if gpu.uuid == card.key), "")
    return {
        "gpu": card.key,
        "name": name,
        "machine": machine,
        "source": mode,
        "total_mb": round(card.total_mb),
        "never_evict_mb": round(never),
        "resident_mb": round(resident),
        "promised_mb": round(promised_mb),
        "foreign_mb": round(foreign),
        "free_mb": round(free),
        "reserve_mb": registry.gpu_residency_policy.reserve_mb,
        "models": [one.data for one in held],
        "reason": None,
    }


def _unknown_data(room: Room, held: list[_Held]) -> dict[str, Any]:
    sizes = ("total_mb", "never_evict_mb", "resident_mb", "promised_mb", "foreign_mb", "free_mb")
    return {
        "gpu": room.key,
        "name": "",
        "machine": room.machine,
        "source": "unknown",
        **dict.fromkeys(sizes),
        "reserve_mb": None,
        "models": [one.data for one in held],
        "reason": room.reason,
    }


def loads_data(table: Table) -> list[dict[str, Any]]:
    """Return the loads in flight."""
    return [
        {
            "model": claim.model or short_name(claim.slot.name),
            "api_base": shown_text(claim.slot.api_base),
            "mb": round(claim.mb),
            "for_s": round(max(0.0, table.now - claim.began), 1),
        }
        for claim in table.claims
    ]


def missing_data(table: Table) -> list[dict[str, Any]]:
    """Return the never-evict models that are not loaded to stay, and those whose server does not answer."""
    absent = list(missing(table.registry, table.snapshot, table.now))
    found = []
    for home in table.homes:
        if not home.model.never_evict or home.gpu == NONE:
            continue
        reason = "its server does not answer" if _is_gone(table, home) else "not loaded" if home in absent else None
        if reason is not None:
            found.append({"model": home.model.id, "api_base": shown_text(home.api_base), "reason": reason})
    return found


def _is_gone(table: Table, home: Home) -> bool:
    if home.slot is None:
        return table.snapshot.health.get(home.api_base) == "gone"
    server = server_of(table.snapshot, home.api_base)
    return server is not None and server.state == "gone"


def servers_data(snapshot: Snapshot, now: float) -> list[dict[str, Any]]:
    """Return the model servers that share a GPU, and how they are."""
    found: list[dict[str, Any]] = [
        {
            "api_base": shown_text(server.api_base),
            "kind": "ollama",
            "state": server.state,
            "reason": server.reason or None,
            "read_age_s": round(max(0.0, now - server.read_at), 1) if server.read_at > 0 else None,
        }
        for server in snapshot.servers.values()
    ]
    age = round(max(0.0, now - snapshot.at), 1)
    for base, state in snapshot.health.items():
        one = {"api_base": shown_text(base), "kind": "other", "state": state, "reason": None, "read_age_s": age}
        found.append(one)
    return found


def quotas_data(index: Index, facts: Facts, now: float) -> list[dict[str, Any]]:
    """Return what is known of quotas, budgets, closed models and servers, a row a fact, with the age of each."""
    return [
        {"model": model.id, **known_data(known)}
        for model in index.registry.models
        for known in known_of(model, index.running.get(model.id, ()), facts, now)
    ]


def grants_data(registry: Registry, now: datetime) -> dict[str, Any]:
    """Return how many grants the registry has, and which of them ends first."""
    entries = registry.routing.metered_opt_in
    ends = [(one.expires_at, one) for one in entries if isinstance(one, OptIn) and one.expires_at is not None]
    ahead = sorted(((end, one) for end, one in ends if end is not None and end > now), key=lambda pair: pair[0])
    past = sum(1 for end, _ in ends if end is not None and end <= now)
    return {
        "count": len(entries) - past,
        "expired": past,
        "soonest": {"key": _named(ahead[0][1]), "expires": clock(ahead[0][0].timestamp())} if ahead else None,
    }


def _named(entry: OptIn) -> str:
    return entry.key or f"{TOKEN_PREFIX}{short((entry.token or '').removeprefix(TOKEN_PREFIX))}…"
