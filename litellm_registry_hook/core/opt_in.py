"""Who is opted in for which metered model: the change of `routing.metered_opt_in` that a wish asks for.

Pure: entries in, an edit out. An entry is a string (an alias or a token) or a mapping; what is written is always a
mapping. A grant of several kinds of limits is one entry a key: wishes for the same key are joined.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Final

from litellm_registry_hook.core.registry import OptIn, Registry
from litellm_registry_hook.core.suggest import did_you_mean
from litellm_registry_hook.core.virtual_key import TOKEN_PREFIX
from litellm_registry_hook.core.when import read_when
from litellm_registry_hook.errors import RegistryHookError

Entry = Mapping[str, Any]
Models = tuple[str, ...] | None

STATUS: Final[dict[str, int]] = {
    "bad_request": 400,
    "bad_key": 400,
    "bad_expires": 400,
    "bad_max_calls": 400,
    "unknown_model": 400,
    "model_not_metered": 400,
    "foreign_needs_permission": 400,
    "alias_not_trusted": 400,
    "admin_only": 403,
    "unknown_key": 404,
    "ambiguous_key": 409,
    "no_key_database": 409,
    "registry_invalid": 409,
    "registry_not_editable": 409,
    "registry_locked": 409,
    "proxy_failed": 502,
    "state_unavailable": 503,
}
"""HTTP status by code of an opt-in error; docs/opt-in.md explains each."""


class OptInError(RegistryHookError):
    """Say why a key is not opted in or out, and what to do.

    Attributes:
        code: one of STATUS.

    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code

    @property
    def status(self) -> int:
        """HTTP status of the code."""
        return STATUS[self.code]


@dataclass(frozen=True, slots=True)
class KeyRef:
    """A key as far as it is known.

    Attributes:
        token: 64 hex digits; empty for a free alias. alias: empty where none is known.

    """

    token: str = ""
    alias: str = ""

    @property
    def pinned(self) -> str:
        """The token as the registry writes it; empty for a free alias."""
        return TOKEN_PREFIX + self.token if self.token else ""

    @property
    def names(self) -> frozenset[str]:
        """What an entry may call the key."""
        return frozenset(name for name in (self.pinned, self.alias) if name)


@dataclass(frozen=True, slots=True)
class Terms:
    """What a grant shall say.

    Attributes:
        models: ids; None for every metered model.
        limits: `expires`, `max_calls`, `note`; a key that is absent leaves what stands there, None takes it away.

    """

    models: Models = None
    limits: Mapping[str, str | int | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ListEdit:
    """A change of the list.

    Attributes:
        replace: new entries by index. remove: indexes. append: new entries for its end.

    """

    replace: Mapping[int, Entry] = field(default_factory=dict)
    remove: tuple[int, ...] = ()
    append: tuple[Entry, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether nothing changes."""
        return not (self.replace or self.remove or self.append)

    def applied(self, entries: Sequence[Any]) -> list[Any]:
        """Return what the list must be afterwards."""
        kept = [self.replace.get(index, old) for index, old in enumerate(entries) if index not in self.remove]
        return [*kept, *self.append]


def add(entries: Sequence[str | OptIn], key: KeyRef, terms: Terms, now: datetime) -> ListEdit:
    """Return the edit that opts a key in.

    A live entry of the key is joined with the wish: the models of both, the limits of the wish where it names them. An
    expired entry grants nothing and is written anew. An alias that stands free is pinned to its token.
    """
    mine = [(index, as_opt_in(entry)) for index, entry in enumerate(entries) if names_key(entry, key)]
    if not mine:
        return ListEdit(append=(_entry(key, None, terms),))

    def rank(pair: tuple[int, OptIn]) -> tuple[bool, bool]:
        return expired(pair[1], now), not _overlap(pair[1].models, terms.models)

    index, old = min(mine, key=rank)
    new = _entry(key, None if expired(old, now) else old, terms)
    was = entries[index]
    same = not isinstance(was, str) and _entry(KeyRef(), was, Terms(was.models)) == new
    return ListEdit() if same else ListEdit(replace={index: new})


def remove(
    entries: Sequence[str | OptIn], key: KeyRef, models: Models, metered: Sequence[str], *, by_alias: bool
) -> tuple[ListEdit, list[tuple[KeyRef, Models]]]:
    """Return the edit that opts a key out of models, or of all.

    An entry for every metered model that loses some becomes one that lists the others: what is metered later is not
    covered by it.

    Args:
        entries: the list.
        key: whose grants end.
        models: the models it loses; None for all.
        metered: the metered models there are.
        by_alias: the key was named by its alias: whatever carries the alias ends, also grants of its former tokens.

    Returns:
        the edit; and each key that loses something, with the models that its entry still covers (`()` for none).

    """
    replace: dict[int, Entry] = {}
    gone: list[int] = []
    losers: list[tuple[KeyRef, Models]] = []
    for index, was in enumerate(entries):
        if not names_key(was, key, any_alias=by_alias):
            continue
        entry = as_opt_in(was)
        covered = tuple(metered) if entry.models is None else entry.models
        left = () if models is None else tuple(one for one in covered if one not in models)
        if left == entry.models:
            continue
        if left:
            replace[index] = _entry(KeyRef(), entry, Terms(left), narrow=True)
        else:
            gone.append(index)
        losers.append((ref_of(entry), left))
    return ListEdit(replace, tuple(gone)), losers


def as_opt_in(entry: str | OptIn) -> OptIn:
    """Return a string entry as the mapping it means."""
    if not isinstance(entry, str):
        return entry
    return OptIn(token=entry) if entry.startswith(TOKEN_PREFIX) else OptIn(key=entry)


def ref_of(entry: str | OptIn) -> KeyRef:
    """Return the key that an entry names."""
    found = as_opt_in(entry)
    return KeyRef((found.token or "").removeprefix(TOKEN_PREFIX), found.key or "")


def names_key(entry: str | OptIn, key: KeyRef, *, any_alias: bool = False) -> bool:
    """Say whether an entry names a key.

    Args:
        entry: an entry.
        key: the key.
        any_alias: an alias counts beside a token too; for people who take a grant away by its alias.

    """
    found = as_opt_in(entry)
    if found.token is not None:
        return found.token == key.pinned or (any_alias and bool(key.alias) and found.key == key.alias)
    return bool(key.alias) and found.key == key.alias


def expired(entry: OptIn, now: datetime) -> bool:
    """Say whether an entry has ended."""
    return entry.expires_at is not None and entry.expires_at <= now


def joined(models: Models, more: Models) -> Models:
    """Return the models of both; None covers every metered model."""
    return None if models is None or more is None else tuple(dict.fromkeys((*models, *more)))


def check_models(registry: Registry, models: Iterable[str], *, foreign: bool = False) -> None:
    """Make sure that a grant of these models means something.

    Args:
        registry: the registry.
        models: ids.
        foreign: models that the registry does not know are meant.

    Raises:
        OptInError: a model is unknown (unless foreign), or is not metered.

    """
    metered = [model.id for model in registry.models if model.metered]
    for name in models:
        model = registry.by_id.get(name)
        if model is None and not foreign:
            hint = did_you_mean(name, metered, what="metered models")
            message = f"the registry has no model {name!r}; {hint} (for a model of the proxy alone say `foreign`)"
            raise OptInError("unknown_model", message)
        if model is not None and not model.metered:
            hint = did_you_mean(name, metered, what="metered models")
            raise OptInError("model_not_metered", f"{name} is not metered and needs no grant; {hint}")


def _entry(key: KeyRef, old: OptIn | None, terms: Terms, *, narrow: bool = False) -> dict[str, Any]:
    """Write an entry in the order that people read it, without what says nothing."""
    models = terms.models if old is None or narrow else joined(old.models, terms.models)
    said: dict[str, Any] = {
        "key": key.alias or (old.key if old is not None else None),
        "token": key.pinned or (old.token if old is not None else None),
        "models": list(models) if models is not None else None,
    }
    for name in ("expires", "max_calls", "note"):
        said[name] = terms.limits.get(name, getattr(old, name) if old is not None else None)
    return {name: value for name, value in said.items() if value is not None}


def _overlap(models: Models, others: Models) -> bool:
    return models is None or others is None or bool(set(models) & set(others))


def limits_of(
    expires: str | None, max_calls: str | int | None, note: str | None, now: datetime
) -> dict[str, str | int | None]:
    """Read the limits of a wish; what is None was not said, and a word takes each away.

    Args:
        expires: as read_when reads it; `never` takes it away.
        max_calls: calls a day and model, at least 1; `unlimited` takes it away.
        note: why; empty takes it away.
        now: an aware moment.

    Raises:
        OptInError: bad_expires or bad_max_calls.

    """
    said: dict[str, str | int | None] = {}
    if expires is not None:
        try:
            said["expires"] = None if expires == "never" else _written(read_when(expires, now))
        except ValueError as error:
            raise OptInError("bad_expires", f"expires {expires!r}: {error}, or never") from None
    if max_calls is not None:
        said["max_calls"] = _cap(max_calls)
    if note is not None:
        said["note"] = note.strip() or None
    return said


def _cap(value: str | int) -> int | None:
    if value == "unlimited":
        return None
    if not isinstance(value, bool) and re.fullmatch(r"[1-9][0-9]{0,8}", str(value)):
        return int(value)
    raise OptInError("bad_max_calls", f"max_calls {value!r}: write the calls a day, 1 or more, or unlimited")


def _written(moment: datetime) -> str:
    return f"{moment.astimezone(timezone.utc):%Y-%m-%dT%H:%M:%SZ}"
