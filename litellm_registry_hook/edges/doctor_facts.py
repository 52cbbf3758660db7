"""What the doctor's rules need to know about this machine; secrets are weighed here and left here."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from litellm_registry_hook.core.admin_key import weakness
from litellm_registry_hook.core.doctor_case import ENVIRONMENT, AdminKey, Case, Facts, FileState, as_map
from litellm_registry_hook.core.doctor_config import DB_MODELS_SWITCH, WEAK_KEY_SWITCH
from litellm_registry_hook.core.match import ENV_PREFIX
from litellm_registry_hook.core.virtual_key import VirtualKey
from litellm_registry_hook.edges.store.place import open_state
from litellm_registry_hook.edges.store.port import State
from litellm_registry_hook.errors import StateError

MASTER_KEY = "LITELLM_MASTER_KEY"


def gather(case: Case, environ: Mapping[str, str], files: Mapping[str, Path]) -> Facts:
    """Look around.

    Args:
        case: the case as far as registry and config tell it.
        environ: the environment; only names, switches and the strength of the admin key are taken from it.
        files: the files that the gates obey, by the name that findings call them.

    """
    state, problem, keys = _state(case, environ)
    return Facts(
        names=frozenset(environ),
        switched_on=frozenset(
            name for name in (DB_MODELS_SWITCH, WEAK_KEY_SWITCH) if environ.get(name, "").strip().lower() == "true"
        ),
        admin_key=_admin_key(case, environ),
        files=tuple(found for name, path in files.items() if (found := file_state(name, path)) is not None),
        state=state,
        state_problem=problem,
        keys=keys,
        litellm=_litellm(),
    )


def file_state(name: str, path: Path) -> FileState | None:
    """Return how a file lies on disk; None where there is none or it cannot be looked at."""
    try:
        found, folder = path.stat(), path.resolve().parent.stat()
    except OSError:
        return None
    open_folder = bool(folder.st_mode & stat.S_IWOTH) and not folder.st_mode & stat.S_ISVTX
    return FileState(name, stat.S_IMODE(found.st_mode), found.st_uid == os.geteuid(), open_folder)


def _admin_key(case: Case, environ: Mapping[str, str]) -> AdminKey:
    """Weigh the admin key as LiteLLM finds it: the setting, else LITELLM_MASTER_KEY (proxy_server.py:6834)."""
    written = as_map(case.section("environment_variables"))
    settings = case.section("general_settings")
    value: Any = settings.get("master_key")
    file, path = case.file_of("general_settings"), "general_settings.master_key"
    if value is None:
        value = ENV_PREFIX + MASTER_KEY
    if isinstance(value, str) and value.startswith(ENV_PREFIX):
        name = value.removeprefix(ENV_PREFIX)
        if name in written:
            file, path, value = case.file_of("environment_variables"), f"environment_variables.{name}", written[name]
        else:
            file, path, value = ENVIRONMENT, name, environ.get(name)
    if value is None or value == "":
        return AdminKey(file, path, missing=True)
    return AdminKey(file, path, weak=weakness(str(value)))


def _state(case: Case, environ: Mapping[str, str]) -> tuple[FileState | None, str, tuple[VirtualKey, ...] | None]:
    """Look at the state without making one: how it lies on disk, why it cannot be used, its keys."""
    try:
        state = open_state(environ, case.registry.state, upgrade=False)
    except StateError as error:
        return None, str(error), None
    path = state.file
    if path is None:
        return (None, *_keys(state))
    found = file_state(str(path), path)
    if found is None:
        return None, "", ()
    if not found.own:
        # Opening it could leave files of ours beside it that the proxy's user cannot write.
        return found, "", None
    mode = path.stat().st_mode
    try:
        return (found, *_keys(state))
    finally:
        if path.stat().st_mode != mode:
            path.chmod(stat.S_IMODE(mode))  # the doctor looks, it mends nothing


def _keys(state: State) -> tuple[str, tuple[VirtualKey, ...] | None]:
    try:
        return "", tuple(state.virtual_keys())
    except StateError as error:
        return str(error), None
    finally:
        state.close()


def _litellm() -> str:
    try:
        return version("litellm")
    except PackageNotFoundError:
        return ""
