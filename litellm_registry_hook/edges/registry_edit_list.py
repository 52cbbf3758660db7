"""Every grant there is, with what the state and LiteLLM know of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, time, timezone
from typing import Any, Literal

from litellm_registry_hook.core.consent import EVERY, Caller, grant_for, read_permission
from litellm_registry_hook.core.opt_in import KeyRef, Models, OptInError, as_opt_in, check_models, expired, names_key
from litellm_registry_hook.core.registry import OptIn, Registry
from litellm_registry_hook.core.virtual_key import TOKEN_PREFIX, short
from litellm_registry_hook.edges.registry_edit_desk import PERMISSION, Desk
from litellm_registry_hook.edges.registry_file import load_registry


@dataclass(frozen=True, slots=True)
class GrantRow:
    """One grant.

    Attributes:
        key: alias; empty where there is none. token: `sha256:<hex>`; empty for a free alias.
        models: ids; None for every metered model.
        since: when it was given, by the audit trail; None for a grant written by hand.
        until: when it ends, as written; None for never.
        note: why.
        calls_today: metered calls since midnight UTC, by model. max_calls: calls a day and model; None for no limit.
        source: where it stands.
        marks: `expired`, `revoked`, `no live key` (where keys are known), `free alias`.

    """

    key: str
    token: str
    models: Models
    since: datetime | None
    until: str | None
    note: str
    calls_today: Mapping[str, int]
    max_calls: int | None
    source: Literal["registry", "permission"]
    marks: tuple[str, ...]

    def as_data(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "key": self.key or None,
            "token": self.token or None,
            "models": list(self.models) if self.models is not None else None,
            "since": self.since.isoformat(timespec="seconds") if self.since is not None else None,
            "until": self.until,
            "note": self.note or None,
            "calls_today": dict(self.calls_today),
            "max_calls": self.max_calls,
            "source": self.source,
            "marks": list(self.marks),
        }


@dataclass(frozen=True, slots=True)
class Answer:
    """Whether a key is opted in.

    Attributes:
        key: the key. opted_in: for every model asked about, or for one at least where none was named.
        models: each model looked at, and whether the key is opted in for it.
        reason: why not, for people; empty for yes.

    """

    key: KeyRef
    opted_in: bool
    models: Mapping[str, bool]
    reason: str = ""


@dataclass
class _View:
    """What the state and LiteLLM know, read once."""

    desk: Desk
    registry: Registry
    now: datetime
    live: frozenset[str] | None
    revoked: Mapping[str, frozenset[str]]
    since: dict[str, datetime] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    called: Counter[tuple[str, str]] = field(default_factory=Counter)

    def row(self, entry: OptIn, source: Literal["registry", "permission"]) -> GrantRow:
        """Return one grant with all that is known of it."""
        token = (entry.token or "").removeprefix(TOKEN_PREFIX)
        who = short(token) or entry.key or ""
        return GrantRow(
            key=entry.key or "",
            token=entry.token or "",
            models=entry.models,
            since=self.since.get(who),
            until=entry.expires,
            note=entry.note or (self.notes.get(who, "") if source == "permission" else ""),
            calls_today=dict(self._calls(entry, token)),
            max_calls=entry.max_calls,
            source=source,
            marks=tuple(self._marks(entry, token, source)),
        )

    def _calls(self, entry: OptIn, token: str) -> Iterator[tuple[str, int]]:
        day = self.now.astimezone(timezone.utc).date().isoformat()
        every = [one.id for one in self.registry.models if one.metered]
        counted = entry.max_calls is not None and token and self.desk.state.exists()
        for model in entry.models if entry.models is not None else every:
            count = self.called[short(token), model] if token else 0
            if counted:
                count = self.desk.state.calls(token, model, day)
            if count or entry.max_calls is not None:
                yield model, count

    def _marks(self, entry: OptIn, token: str, source: str) -> Iterator[str]:
        if expired(entry, self.now):
            yield "expired"
        gone = self.revoked.get(token, frozenset())
        if source == "permission" and (EVERY in gone or (entry.models is not None and gone >= set(entry.models))):
            yield "revoked"
        if not token:
            yield "free alias"
        elif self.live is not None and token not in self.live:
            yield "no live key"


def rows(desk: Desk) -> list[GrantRow]:
    """Return all grants: those of the registry in file order, then those in LiteLLM's permissions.

    Raises:
        RegistryError, StateError; OptInError where a proxy was named and does not answer.

    """
    registry, now = load_registry(desk.registry_file), desk.now()
    theirs = desk.stores.of_litellm()
    embedded = desk.stores.embedded()
    tokens = {key.token for key in embedded if key.live(now)} | {key.token for key in theirs or ()}
    view = _view(desk, registry, frozenset(tokens) if embedded or theirs is not None else None, now)
    found = [view.row(as_opt_in(entry), "registry") for entry in registry.routing.metered_opt_in]
    for key in theirs or ():
        grant = read_permission(key.permissions.get(PERMISSION))
        if grant is not None:
            value = key.permissions[PERMISSION]
            until = value.get("expires") if isinstance(value, Mapping) else None
            pinned = KeyRef(key.token, key.alias)
            entry = OptIn(
                key=key.alias or None,
                token=pinned.pinned,
                models=grant.models,
                expires=until,
                max_calls=grant.max_calls,
            )
            found.append(view.row(entry, "permission"))
    return found


def rows_of(desk: Desk, keys: tuple[KeyRef, ...]) -> list[GrantRow]:
    """Return the grants of some keys."""
    mine = {name for key in keys for name in key.names}
    return [row for row in rows(desk) if row.token in mine or (not row.token and row.key in mine)]


def check(desk: Desk, text: str, models: tuple[str, ...] = (), *, foreign: bool = False) -> Answer:
    """Say whether a key is opted in now.

    Args:
        desk: where to look.
        text: an alias, `sha256:<hex>` or `sk-…`.
        models: all of them must be covered; none means any metered model.
        foreign: models that only the proxy knows are meant.

    Raises:
        as rows(); OptInError for a model that is unknown or not metered.

    """
    registry, now = load_registry(desk.registry_file), desk.now()
    check_models(registry, models, foreign=foreign)
    key, caller = caller_named(desk, registry, text, now)
    asked = models or tuple(model.id for model in registry.models if model.metered)
    if caller is None:
        return Answer(key, opted_in=False, models=dict.fromkeys(asked, False), reason="the key is revoked or expired")
    covered = {model: grant_for(registry, caller, model, now) is not None for model in asked}
    yes = (all if models else any)(covered.values())
    return Answer(key, yes, covered, "" if yes else _why_not(registry, key, now))


def caller_named(desk: Desk, registry: Registry, text: str, now: datetime) -> tuple[KeyRef, Caller | None]:
    """Return the key that a text means, and who the gates would see with it; None for a key that has ended.

    Raises:
        StateError; OptInError: bad_key, ambiguous_key, or a proxy was named and does not answer.

    """
    key = desk.stores.one(text, now) or _by_grant(registry, text.strip())
    mine = {one.token: one for one in desk.stores.embedded()}.get(key.token)
    if mine is not None and not mine.live(now):
        return key, None
    permission = None
    if desk.api is not None and key.token and mine is None:
        row = _quiet_row(desk, key.token)
        permission = read_permission(row.get(PERMISSION)) if row is not None else None
    return key, Caller(
        "embedded" if mine is not None else "virtual_key",
        # A free alias has no token; any will do, for only the alias can match.
        key.token or "0" * 64,
        key.alias,
        permission,
        _revoked(desk).get(key.token, frozenset()),
    )


def _by_grant(registry: Registry, alias: str) -> KeyRef:
    """Return the key that the list has pinned to an alias which no store knows."""
    pinned = [
        entry
        for entry in registry.routing.metered_opt_in
        if isinstance(entry, OptIn) and entry.token is not None and entry.key == alias
    ]
    return KeyRef((pinned[-1].token or "").removeprefix(TOKEN_PREFIX), alias) if pinned else KeyRef(alias=alias)


def _why_not(registry: Registry, key: KeyRef, now: datetime) -> str:
    entries = [as_opt_in(one) for one in registry.routing.metered_opt_in if names_key(one, key)]
    if not entries:
        return "no grant names it"
    if all(expired(one, now) for one in entries):
        return "its grant has ended"
    if not key.token and not registry.routing.trust_key_alias:
        return "its alias stands in the list without a token, and routing.trust_key_alias is false"
    return "its grant does not cover that model"


def _quiet_row(desk: Desk, token: str) -> Mapping[str, Any] | None:
    assert desk.api is not None
    try:
        found = desk.api.with_token(token)
    except OptInError as error:
        if error.code != "no_key_database":
            raise
        return None
    return found.permissions if found is not None else None


def _revoked(desk: Desk) -> Mapping[str, frozenset[str]]:
    return desk.state.revocations() if desk.state.exists() else {}


def _view(desk: Desk, registry: Registry, live: frozenset[str] | None, now: datetime) -> _View:
    view = _View(desk, registry, now, live, _revoked(desk))
    if not desk.state.exists():
        return view
    for record in desk.state.grants():
        who = record.key or record.alias
        if record.kind == "granted":
            view.since.setdefault(who, record.at)
            view.notes[who] = record.note or view.notes.get(who, "")
        elif record.model == EVERY:
            view.since.pop(who, None)
            view.notes.pop(who, None)
    midnight = datetime.combine(now.astimezone(timezone.utc).date(), time(), timezone.utc)
    for record in desk.state.audit(midnight):
        if record.kind == "called":
            view.called[record.key, record.model] += 1
    return view
