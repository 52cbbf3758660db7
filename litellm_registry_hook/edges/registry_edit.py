"""Edit a registry file, its grants say: locked, checked before it is in force, atomic; all else stays to the byte."""

from __future__ import annotations

import codecs
import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from litellm_registry_hook.core.opt_in import ListEdit, OptInError
from litellm_registry_hook.core.registry import Registry
from litellm_registry_hook.edges.atomic import one_writer, replace_bytes
from litellm_registry_hook.edges.config_tree import read_document
from litellm_registry_hook.edges.registry_edit_text import KEY, SECTION, GrantText
from litellm_registry_hook.edges.registry_file import check_bytes, invalid
from litellm_registry_hook.errors import ConfigError

# A hundred commands at once on a small machine: each waits for those before it.
LOCK_TRIES: Final = 12
EDIT_TRIES: Final = 5


@dataclass(frozen=True, slots=True)
class Edited:
    """What an edit did.

    Attributes:
        registry: as it is in force now. changed: whether the file was written.

    """

    registry: Registry
    changed: bool


def edit_file(path: Path, write: Callable[[Registry, bytes], bytes | None]) -> Edited:
    """Change a registry file.

    Args:
        path: the file.
        write: returns the new content, or None for none, given the registry and the content as they are; called with
            the lock held, again where the file was changed by somebody else meanwhile.

    Raises:
        RegistryError: the file is not a valid registry as it stands.
        ConfigError: it would not be one afterwards, or cannot be written; nothing was written. What `write` raises.
        OptInError: others keep the file busy.

    """
    with _locked(path):
        for _ in range(EDIT_TRIES):
            raw = _read(path)
            registry = _checked(path, raw)
            new = write(registry, raw)
            if new is None:
                return Edited(registry, changed=False)
            after, problems = check_bytes(new)
            if after is None:
                why = str(invalid(path, problems))
                raise ConfigError(f"{path}: nothing was written, for afterwards {why}")
            if _read(path) != raw:
                continue
            try:
                replace_bytes(path, new)
            except OSError as error:
                raise ConfigError(f"{path}: cannot be written: {error.strerror}") from None
            return Edited(after, changed=True)
    raise OptInError("registry_locked", f"{path} is being changed by somebody else all the time: try again")


def edit_grants(path: Path, decide: Callable[[Registry], ListEdit]) -> Edited:
    """Change `routing.metered_opt_in` of a registry file.

    Args:
        path: the file.
        decide: says what to change, given the registry as it is; called with the lock held, again where the file was
            changed by somebody else meanwhile.

    Raises:
        RegistryError: the file is not a valid registry as it stands.
        ConfigError: it cannot be edited without touching bytes of others, or cannot be written; nothing was written.
        OptInError: what `decide` raises; or others keep the file busy.

    """

    def write(registry: Registry, raw: bytes) -> bytes | None:
        edit = decide(registry)
        return None if edit.empty else edited(raw, edit, str(path))

    return edit_file(path, write)


def edited(raw: bytes, edit: ListEdit, name: str) -> bytes:
    """Return a registry's content with its grants changed.

    Raises:
        ConfigError: it is built in a way that cannot be edited without touching bytes of others.

    """
    bom = codecs.BOM_UTF8 if raw.startswith(codecs.BOM_UTF8) else b""
    splicer = GrantText(raw[len(bom) :].decode("utf-8"), name)
    before = splicer.document.data
    wanted = edit.applied(splicer.entries)
    splicer.carry_out(edit)
    try:
        after = read_document(splicer.text, name).data
    except ConfigError as error:
        raise ConfigError(f"{name}: cannot be edited safely, nothing was written: afterwards, {error}") from None
    if after != _with_grants(before, wanted):
        message = f"write {SECTION}.{KEY} as a plain list, one entry a line"
        raise ConfigError(f"{name}: cannot be edited safely, nothing was written: {message}")
    return bom + splicer.text.encode("utf-8")


def _with_grants(data: Any, grants: list[Any]) -> Any:
    return {**data, SECTION: {**data[SECTION], KEY: [_plain(one) for one in grants]}}


def _plain(entry: Any) -> Any:
    return entry if isinstance(entry, str) else dict(entry)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}; name the registry with --registry") from None


def _checked(path: Path, raw: bytes) -> Registry:
    registry, problems = check_bytes(raw)
    if registry is None:
        raise invalid(path, problems)
    return registry


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for _ in range(LOCK_TRIES):
            busy = _enter(stack, path)
            if busy is None:
                break
        else:
            raise OptInError("registry_locked", str(busy))
        yield


def _enter(stack: contextlib.ExitStack, path: Path) -> ConfigError | None:
    """Take the lock; return why not where another run kept it for too long."""
    try:
        stack.enter_context(one_writer(path))
    except ConfigError as error:
        return error
    return None
