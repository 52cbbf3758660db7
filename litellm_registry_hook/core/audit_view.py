"""The audit trail as people read it: what a call cost stands beside the call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from litellm_registry_hook.core.audit import AuditRecord, Kind
from litellm_registry_hook.core.virtual_key import TOKEN_PREFIX, read_token, short


@dataclass(frozen=True, slots=True)
class KeyChoice:
    """Whose records are wanted.

    Attributes:
        alias: the alias; empty where a key or token was given. digits: the short token; empty where an alias was given.

    """

    alias: str = ""
    digits: str = ""

    def wants(self, record: AuditRecord) -> bool:
        """Say whether a record is this key's."""
        return record.key == self.digits if self.digits else record.alias == self.alias


def read_key(text: str) -> KeyChoice:
    """Read a KEY argument: an alias, `sha256:<hex>` or `sk-…`; what is kept of a key is the short token.

    Raises:
        ValueError: it begins with sha256: and is no token.

    """
    token = read_token(text)
    if token is not None:
        return KeyChoice(digits=short(token))
    if text.startswith(TOKEN_PREFIX):
        raise ValueError("the token is not a sha256: write sha256: and 64 lower-case hex digits")
    return KeyChoice(alias=text)


def with_costs(records: Sequence[AuditRecord]) -> list[AuditRecord]:
    """Put the cost of each metered call into its `called` record, by request id and model; `cost` records stay.

    A request can have several calls, one a model; several costs of one call are added up.
    """
    costs: dict[tuple[str, str], float] = {}
    for record in records:
        if record.kind == "cost" and record.request_id and record.cost is not None:
            place = record.request_id, record.model
            costs[place] = costs.get(place, 0.0) + record.cost
    return [
        replace(record, cost=costs[record.request_id, record.model])
        if record.kind == "called" and (record.request_id, record.model) in costs
        else record
        for record in records
    ]


def without_joined(records: Sequence[AuditRecord]) -> list[AuditRecord]:
    """Leave out the `cost` records whose call is among the records: the call shows the sum."""
    calls = {(record.request_id, record.model) for record in records if record.kind == "called"}
    return [record for record in records if record.kind != "cost" or (record.request_id, record.model) not in calls]


def choose(records: Sequence[AuditRecord], key: KeyChoice | None, kind: Kind | None) -> list[AuditRecord]:
    """Return the records of a key, of a kind, or both."""
    wanted: Callable[[AuditRecord], bool] = lambda one: (  # noqa: E731
        (key is None or key.wants(one)) and (kind is None or one.kind == kind)
    )
    return [record for record in records if wanted(record)]
