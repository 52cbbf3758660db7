"""The decision on one request as a value: who was asked for, who served, who was passed over and why. No secret."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Final, NamedTuple

from litellm_registry_hook.core.sync_masking import shown_text

KEEP_DECISIONS: Final = 10_000
"""The state keeps the newest so many."""
KEEP_DAYS: Final = 7
"""The state keeps none that is older."""
# What a client can make long: its model's name, its path, its call id. A pool can have a thousand members.
_MAX_TEXT: Final = 256
_MAX_REASON: Final = 1000
_MAX_PASSED: Final = 100


class Passed(NamedTuple):
    """A member that was passed over.

    Attributes:
        model: registry id. code: a code of core.refusal.STATUS. reason: a sentence for people.

    """

    model: str
    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class Decision:
    """One request.

    Attributes:
        at: when it came, aware.
        request_id: what the client got as x-litellm-call-id.
        route: method and path.
        name: what was asked for: a tier, an alias or a model; empty where the request names none.
        tier: the tier behind it; empty for a named model.
        alias: the virtual key's alias, else how the caller was authenticated. key: first eight digits of its token.
        models: registry ids that served; several for a list of models. deployments: their deployments.
        skipped: members passed over, in pool order.
        code: of the refusal; empty where it was none of ours. reason: its sentence where no member was looked at.
        status: HTTP status; 0 where no answer went out.
        wait_s: seconds that the client was ready to wait for GPU memory.
        duration_ms: from its arrival to the end of its answer.

    """

    at: datetime
    request_id: str = ""
    route: str = ""
    name: str = ""
    tier: str = ""
    alias: str = ""
    key: str = ""
    models: tuple[str, ...] = ()
    deployments: tuple[str, ...] = ()
    skipped: tuple[Passed, ...] = ()
    code: str = ""
    reason: str = ""
    status: int = 0
    wait_s: float = 0.0
    duration_ms: float = 0.0


def told(text: str, limit: int = _MAX_TEXT) -> str:
    """Return a client's text as it may be kept: cut, without what looks like a key, in characters that UTF-8 has."""
    kept = shown_text(text.encode(errors="replace").decode())
    return kept if len(kept) <= limit else f"{kept[: limit - 1]}…"


def why(reason: str) -> str:
    """Return a sentence as it may be kept."""
    return told(reason, _MAX_REASON)


def passed_over(skips: Sequence[tuple[str, str, str]]) -> tuple[Passed, ...]:
    """Return members passed over as they are kept: (model, code, reason) each, the first hundred."""
    return tuple(Passed(told(model), code, why(reason)) for model, code, reason in skips[:_MAX_PASSED])


def chosen(decisions: Iterable[Decision], tier: str | None, limit: int | None) -> list[Decision]:
    """Return the decisions of a tier, asked for by its name or by an alias of it; so many at most."""
    return [one for one in decisions if tier is None or tier in {one.tier, one.name}][:limit]


def as_data(decision: Decision) -> dict[str, Any]:
    """Return a decision for JSON; the time is ISO, UTC."""
    return {
        "at": decision.at.astimezone(timezone.utc).isoformat(timespec="milliseconds"),
        "request_id": decision.request_id,
        "route": decision.route,
        "name": decision.name,
        "tier": decision.tier or None,
        "key": {"alias": decision.alias, "token": f"sha256:{decision.key}…" if decision.key else None},
        "models": list(decision.models),
        "deployments": list(decision.deployments),
        "skipped": [one._asdict() for one in decision.skipped],
        "code": decision.code or None,
        "reason": decision.reason or None,
        "status": decision.status,
        "wait_s": decision.wait_s,
        "duration_ms": decision.duration_ms,
    }


def line_of(decision: Decision) -> str:
    """Return a decision as one line of JSON, ASCII alone: nothing that a client sent can break the line."""
    return json.dumps(as_data(decision), separators=(",", ":"))


def decision_of(line: str) -> Decision:
    """Read a decision back; what a later version has added is left out.

    Raises:
        ValueError: no decision.

    """
    try:
        data: Mapping[str, Any] = json.loads(line)
        key = data.get("key") or {}
        return Decision(
            at=datetime.fromisoformat(data["at"]),
            request_id=str(data["request_id"]),
            route=str(data["route"]),
            name=str(data["name"]),
            tier=str(data["tier"] or ""),
            alias=str(key.get("alias") or ""),
            key=str(key.get("token") or "").removeprefix("sha256:").removesuffix("…"),
            models=tuple(data["models"]),
            deployments=tuple(data["deployments"]),
            skipped=tuple(Passed(one["model"], one["code"], one["reason"]) for one in data["skipped"]),
            code=str(data["code"] or ""),
            reason=str(data["reason"] or ""),
            status=int(data["status"]),
            wait_s=float(data["wait_s"]),
            duration_ms=float(data["duration_ms"]),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no decision: {error!r}") from None
