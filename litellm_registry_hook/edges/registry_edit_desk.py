"""Opting keys in and out: one code path for the command line and the proxy's routes.

The registry file or the key's permissions say who is opted in; the state holds revocations and the audit trail.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Final

from litellm_registry_hook.core.audit import AuditRecord, Kind
from litellm_registry_hook.core.consent import EVERY, read_permission
from litellm_registry_hook.core.opt_in import (
    KeyRef,
    ListEdit,
    Models,
    OptInError,
    Terms,
    add,
    check_models,
    limits_of,
    names_key,
    ref_of,
    remove,
)
from litellm_registry_hook.core.registry import OptIn, Registry
from litellm_registry_hook.core.suggest import did_you_mean
from litellm_registry_hook.core.virtual_key import TOKEN_PREFIX, short
from litellm_registry_hook.edges.atomic import one_writer
from litellm_registry_hook.edges.proxy_api import ProxyApi, ProxyKey
from litellm_registry_hook.edges.registry_edit import edit_grants
from litellm_registry_hook.edges.registry_edit_keys import KeyStores
from litellm_registry_hook.edges.registry_file import load_registry
from litellm_registry_hook.edges.store.port import State
from litellm_registry_hook.errors import RegistryError

PERMISSION: Final = "metered_opt_in"


def utc_now() -> datetime:
    """Return the present moment, aware."""
    return datetime.now(timezone.utc)


@dataclass(frozen=True, slots=True)
class Wish:
    """What somebody asks for.

    Attributes:
        key: an alias, `sha256:<hex>` or `sk-…`.
        models: ids; empty for every metered model.
        expires, max_calls, note: as limits_of reads them; None where not said.
        permission: write the key's own permissions in LiteLLM instead of the registry.
        foreign: models that only the proxy knows are meant.
        unpinned: opt the alias itself in, whoever has it.

    """

    key: str
    models: tuple[str, ...] = ()
    expires: str | None = None
    max_calls: str | int | None = None
    note: str | None = None
    permission: bool = False
    foreign: bool = False
    unpinned: bool = False


@dataclass(frozen=True, slots=True)
class Done:
    """What was done.

    Attributes:
        keys: the keys meant. notes: what the person should know.
        left: models each key's grants still cover, by alias or token; only of a removal.

    """

    keys: tuple[KeyRef, ...]
    notes: tuple[str, ...] = ()
    left: Mapping[str, Models] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Desk:
    """Where grants are given and taken.

    Attributes:
        registry_file: the registry. state: the state. who: who does it, for the audit trail.
        api: LiteLLM's keys, where a proxy was named.
        now: the clock.
        on_proxy: this is the proxy itself: nobody can name another one.

    """

    registry_file: Path
    state: State
    who: str
    api: ProxyApi | None = None
    now: Callable[[], datetime] = utc_now
    on_proxy: bool = False

    @property
    def stores(self) -> KeyStores:
        """Where keys are looked up."""
        return KeyStores(self.state, self.api, self.on_proxy)

    def add(self, wish: Wish) -> Done:
        """Opt a key in.

        Raises:
            OptInError: with its code. RegistryError, ConfigError: the registry cannot be edited; it is as it was.
            StateError: the state cannot be used, so nothing was done.

        """
        now = self.now()
        terms = Terms(wish.models or None, limits_of(wish.expires, wish.max_calls, wish.note, now))
        self.state.version()  # without an audit trail nobody is opted in
        key = self._key_for_grant(wish, now)
        if wish.permission:
            notes = self._add_permission(key, terms, foreign=wish.foreign, now=now)
        else:
            notes = self._add_entry(key, terms, wish, now)
        self._record("granted", key, terms.models, now, str(terms.limits.get("note") or ""))
        return Done((key,), tuple(notes))

    def remove(self, key: str, models: tuple[str, ...] = (), *, foreign: bool = False) -> Done:
        """Opt a key out of models, or of all; an alias ends whatever grant carries it.

        The revocation is written first: it outranks a permission that a worker still has in its cache.

        Raises:
            as add(); unknown_key where neither a key nor a grant has the alias.

        """
        now = self.now()
        found = self.stores.one(key, now)
        try:
            registry = load_registry(self.registry_file)
        except RegistryError:
            if found is not None:
                self.state.revoke_grant(found.token, models or None, now, self.who)
            raise
        by_alias = not key.strip().startswith((TOKEN_PREFIX, "sk-"))
        ref = found or KeyRef(alias=key.strip())
        entries = registry.routing.metered_opt_in
        mine = [entry for entry in entries if names_key(entry, ref, any_alias=by_alias)]
        if found is None and not mine:
            raise self.stores.unknown(key)
        self._check_removed(registry, mine, models, foreign=foreign or self.api is not None)
        gone = models or None
        tokens = {ref_of(entry).token: ref_of(entry) for entry in mine} | {ref.token: ref}
        keys = tuple(one for token, one in tokens.items() if token) or (ref,)
        for one in keys:
            if one.token:
                self.state.revoke_grant(one.token, gone, now, self.who)
        losers: list[tuple[KeyRef, Models]] = []

        def decide(present: Registry) -> ListEdit:
            metered = [model.id for model in present.models if model.metered]
            edit, lost = remove(present.routing.metered_opt_in, ref, gone, metered, by_alias=by_alias)
            losers[:] = lost
            return edit

        edit_grants(self.registry_file, decide)
        for one in keys:
            self._record("removed", one, gone, now)
        notes = [] if losers else ["the registry's list had no grant for it"]
        for one in keys:
            notes += self._clear_permission(one, gone, registry, seen=bool(losers))
        return Done(keys, tuple(notes), {one.alias or one.pinned: left for one, left in losers})

    def _key_for_grant(self, wish: Wish, now: datetime) -> KeyRef:
        if wish.unpinned:
            alias = wish.key.strip()
            if wish.permission or alias.startswith((TOKEN_PREFIX, "sk-")):
                raise OptInError("bad_request", "--unpinned is for an alias in the registry's list alone")
            self.stores.find(alias, now)  # the form of the alias
            return KeyRef(alias=alias)
        found = self.stores.one(wish.key, now)
        if found is None:
            raise self.stores.unknown(wish.key.strip())
        return found

    def _add_entry(self, key: KeyRef, terms: Terms, wish: Wish, now: datetime) -> list[str]:
        if wish.foreign:
            message = "the registry's list holds ids of the registry; a model of the proxy alone needs --permission"
            raise OptInError("foreign_needs_permission", message)
        notes: list[str] = []

        def decide(registry: Registry) -> ListEdit:
            check_models(registry, terms.models or ())
            if not key.token and not registry.routing.trust_key_alias:
                message = (
                    f"an unpinned alias has no effect without routing.trust_key_alias: true, for anybody may take the "
                    f"alias {key.alias!r} in LiteLLM's database; give the key's token as sha256:<hex>"
                )
                raise OptInError("alias_not_trusted", message)
            entries = registry.routing.metered_opt_in
            edit = add(entries, key, terms, now)
            notes[:] = [] if not edit.empty else ["it is opted in like that already; nothing was written"]
            if any(ref_of(entries[index]).token != key.token for index in edit.replace):
                notes.append("the alias stood there without a token; it is pinned to this key now")
            if any("models" in _dump(entries[index]) and "models" not in new for index, new in edit.replace.items()):
                notes.append("it covers every metered model now; name models with --model to grant less")
            return edit

        edit_grants(self.registry_file, decide)
        return notes

    def _add_permission(self, key: KeyRef, terms: Terms, *, foreign: bool, now: datetime) -> list[str]:
        registry = load_registry(self.registry_file)
        check_models(registry, terms.models or (), foreign=foreign)
        with one_writer(self.registry_file):
            row = self._row(key.token)
            before = row.permissions.get(PERMISSION)
            edit = add(_as_entries(key, before), KeyRef(key.token), terms, now)
            entry = next(iter([*edit.replace.values(), *edit.append]), None)
            if entry is not None:
                limits = {name: entry[name] for name in ("models", "expires", "max_calls") if name in entry}
                self._write(row, {**row.permissions, PERMISSION: limits or True})
        self._lift(registry, key.token, terms.models, now)
        return [] if entry is not None else ["its permissions say so already"]

    def _lift(self, registry: Registry, token: str, models: Models, now: datetime) -> None:
        """Take revocations of a permission back, for these models only."""
        revoked = self.state.revocations().get(token, frozenset())
        self.state.lift_revocation(token, models)
        if models is not None and EVERY in revoked:
            others = [model.id for model in registry.models if model.metered and model.id not in models]
            if others:
                self.state.revoke_grant(token, others, now, self.who)

    def _clear_permission(self, key: KeyRef, models: Models, registry: Registry, *, seen: bool) -> list[str]:
        if self.api is None or not key.token:
            if seen or not key.token:
                return []
            return ["a permission that LiteLLM may hold for it is revoked; --proxy URL takes it out"]
        try:
            with one_writer(self.registry_file):
                row = self.api.with_token(key.token)
                if row is None or PERMISSION not in row.permissions:
                    return []
                rest: dict[str, Any] = {name: one for name, one in row.permissions.items() if name != PERMISSION}
                kept = _without(row.permissions[PERMISSION], models, registry)
                self._write(row, rest if kept is None else {**rest, PERMISSION: kept})
        except OptInError as error:
            if error.code != "no_key_database":
                raise
        return []

    def _row(self, token: str) -> ProxyKey:
        if self.api is None:
            message = "permissions are written through the proxy: name it with --proxy URL"
            raise OptInError("bad_request", message)
        row = self.api.with_token(token)
        if row is None:
            message = f"LiteLLM's database has no key with the token {TOKEN_PREFIX}{token}"
            raise OptInError("unknown_key", message)
        return row

    def _write(self, row: ProxyKey, permissions: Mapping[str, Any]) -> None:
        """Write permissions and read them again: LiteLLM must hold what was meant."""
        assert self.api is not None
        self.api.write_permissions(row.token, permissions)
        after = self.api.with_token(row.token)
        if after is None or dict(after.permissions) != dict(permissions):
            raise OptInError("proxy_failed", "LiteLLM does not hold the permissions that were written; try again")

    def _check_removed(
        self, registry: Registry, entries: list[str | OptIn], models: tuple[str, ...], *, foreign: bool
    ) -> None:
        listed = {one for entry in entries if isinstance(entry, OptIn) for one in entry.models or ()}
        for name in models:
            if name not in registry.by_id and name not in listed and not foreign:
                hint = did_you_mean(name, [model.id for model in registry.models if model.metered], what="models")
                message = f"the registry has no model {name!r}; {hint} (for a model of the proxy alone say `foreign`)"
                raise OptInError("unknown_model", message)

    def _record(self, kind: Kind, key: KeyRef, models: Models, now: datetime, note: str = "") -> None:
        for model in models or (EVERY,):
            entry = AuditRecord(now, kind, key.alias, short(key.token), model, who=self.who, note=note)
            self.state.append_audit(entry)


def _dump(entry: str | OptIn) -> dict[str, Any]:
    return {} if isinstance(entry, str) else entry.model_dump(exclude_none=True)


def _as_entries(key: KeyRef, permission: object) -> list[OptIn]:
    """Return a permission as the entry it would be in the registry's list."""
    grant = read_permission(permission)
    if grant is None:
        return []
    expires = permission.get("expires") if isinstance(permission, Mapping) else None
    return [OptIn(token=key.pinned, models=grant.models, expires=expires, max_calls=grant.max_calls)]


def _without(permission: object, models: Models, registry: Registry) -> Any:
    """Return a permission without some models; None where nothing is left of it."""
    grant = read_permission(permission)
    if grant is None or models is None:
        return None
    covered = grant.models if grant.models is not None else [one.id for one in registry.models if one.metered]
    left = [one for one in covered if one not in models]
    if not left:
        return None
    return {**(permission if isinstance(permission, Mapping) else {}), "models": left}
