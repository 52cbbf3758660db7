"""Where the state is: LITELLM_REGISTRY_STATE, else the registry's `state:`, else the user's state folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from litellm_registry_hook.edges.store.port import State
from litellm_registry_hook.edges.store.sqlite_state import SqliteState
from litellm_registry_hook.errors import StateError

VARIABLE: Final = "LITELLM_REGISTRY_STATE"
SQLITE: Final = "sqlite:///"
REDIS: Final = ("redis://", "rediss://", "unix://")
FOLDER: Final = "litellm-registry-hook"


def open_state(env: Mapping[str, str], state: str | None, *, upgrade: bool = True) -> State:
    """Return the state that the environment or the registry names; nothing is read or made yet.

    Args:
        env: the environment: LITELLM_REGISTRY_STATE, XDG_STATE_HOME, HOME.
        state: the registry's `state:`.
        upgrade: bring an older version's state up to this one when it is used.

    Raises:
        StateError: the URL is of no use, or the redis package is missing.

    """
    url = env.get(VARIABLE) or state
    if not url:
        home = env.get("XDG_STATE_HOME") or str(Path(env.get("HOME") or "~").expanduser() / ".local" / "state")
        return SqliteState(Path(home) / FOLDER / "state.sqlite", upgrade=upgrade)
    if url.startswith(SQLITE):
        return SqliteState(Path(url.removeprefix(SQLITE)).expanduser(), upgrade=upgrade)
    if url.startswith(REDIS):
        from litellm_registry_hook.edges.store.redis_state import RedisState  # noqa: PLC0415

        return RedisState(url)
    # It may hold a password anywhere, so it is not repeated.
    where = VARIABLE if env.get(VARIABLE) else "the registry's state"
    raise StateError(f"{where} is no address of a store: write sqlite:////PATH, redis://, rediss:// or unix://")
