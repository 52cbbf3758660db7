"""Books a metered call before it leaves: the grant as it stands now, the day's cap, and a record of the audit trail.

Only metered calls come by here, so only they wait for the state. Without the state there are none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Final

from litellm_registry_hook.adapter.live import Live
from litellm_registry_hook.adapter.scope import Scope
from litellm_registry_hook.core.audit import AuditRecord, Kind
from litellm_registry_hook.core.consent import Caller, Grant, grant_for
from litellm_registry_hook.core.refusal import Skip
from litellm_registry_hook.core.registry import Registry
from litellm_registry_hook.core.virtual_key import short
from litellm_registry_hook.edges.store.port import State
from litellm_registry_hook.errors import StateError

AUDITED: Final = frozenset(
    {"metered_consent_missing", "metered_key_not_opted_in", "metered_cap_reached", "unlisted_model"}
)
NO_STATE: Final = "the state cannot be used, and no metered call leaves without a record; see the proxy's log"
GONE: Final = "the grant of this virtual key has just ended"


class Meter:
    """The last step before a metered call."""

    def __init__(self, live: Live, registry: Callable[[], Registry]) -> None:
        self.live = live
        self.registry = registry

    async def admit(self, scope: Scope, model: str, times: int = 1, note: str = "") -> Skip | None:
        """Book one metered call, or the calls of a batch, all or none; None lets it leave.

        Args:
            scope: the request.
            model: registry id of the metered model, or the name of one that the registry does not know.
            times: how many calls it makes.
            note: for the audit trail.

        """
        return await asyncio.to_thread(self._admit, scope, model, times, note)

    def _admit(self, scope: Scope, model: str, times: int, note: str) -> Skip | None:
        if self.live.state is None:
            return Skip(model, "model_unavailable", NO_STATE)
        # A grant that was removed a moment ago must not pay for one more call: look again before it leaves.
        self.live.look()
        ask = scope.ask()
        caller = replace(ask.caller, revoked=self.live.revoked.get(ask.caller.token, frozenset()))
        grant = grant_for(self.registry(), caller, model, ask.now) if ask.allow_metered else None
        if grant is None:
            skip = Skip(model, "metered_key_not_opted_in", GONE)
            self.refused(scope, skip)
            return skip
        who = scope.caller.token or scope.caller.kind
        try:
            if _book(self.live.state, grant, _record("called", scope, model, ask.now, note=note), who, times):
                return None
        except StateError:
            return Skip(model, "model_unavailable", NO_STATE)
        tomorrow = (ask.now + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
        reason = (
            f"this virtual key has made its {grant.max_calls} calls of today (UTC); raise max_calls to allow more"
            if times == 1
            else f"{times} calls are more than this virtual key has left of its {grant.max_calls} of today (UTC); "
            "send fewer lines or raise max_calls"
        )
        skip = Skip(model, "metered_cap_reached", reason, (tomorrow - ask.now).total_seconds())
        self.refused(scope, skip)
        return skip

    def refused(self, scope: Scope, skip: Skip) -> None:
        """Record a metered call that was refused; once a request, whoever meets it again."""
        if skip.code in AUDITED and (skip.model, skip.code) not in scope.audited:
            scope.audited = (*scope.audited, (skip.model, skip.code))
            self.live.record(_record("refused", scope, skip.model, datetime.now(timezone.utc), code=skip.code))

    def cost(self, caller: Caller, model: str, request_id: str, dollars: float) -> None:
        """Record what a metered call has cost."""
        now = datetime.now(timezone.utc)
        entry = AuditRecord(now, "cost", caller.alias, short(caller.token), model, "", request_id, cost=dollars)
        self.live.record(entry)


def _book(state: State, grant: Grant, record: AuditRecord, who: str, times: int) -> bool:
    if grant.max_calls is not None:
        day = record.at.astimezone(timezone.utc).date().isoformat()
        if not state.take_call(who, record.model, day, grant.max_calls, more=times):
            return False
    state.append_audit(record)
    return True


def _record(kind: Kind, scope: Scope, model: str, now: datetime, *, code: str = "", note: str = "") -> AuditRecord:
    caller = scope.caller
    return AuditRecord(
        now,
        kind,
        caller.alias or (caller.kind if not caller.token else ""),
        short(caller.token),
        model,
        scope.tier or "",
        scope.request_id,
        code=code,
        note=note,
    )
