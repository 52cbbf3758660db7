"""What the audit trail holds: one record a grant, removal, refused or made metered call. No secret is ever in it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

Kind = Literal["granted", "removed", "refused", "called", "cost"]


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """One append-only record.

    Attributes:
        at: when, aware.
        kind: granted | removed | refused | called (a metered call leaves for its upstream) | cost (what it cost).
        alias: the key's alias; empty where it has none. key: first eight digits of its token.
        model: registry id, or a foreign model's name; `*` for a grant to every metered model. tier: as asked for.
        request_id: the host's call id; it joins `called` and `cost`.
        who: who granted or removed: the system user of the command line, or the admin key's alias.
        code: the refusal's code. cost: US dollars, where LiteLLM knows it.
        note: free text of a grant.

    """

    at: datetime
    kind: Kind
    alias: str = ""
    key: str = ""
    model: str = ""
    tier: str = ""
    request_id: str = ""
    who: str = ""
    code: str = ""
    cost: float | None = None
    note: str = ""
