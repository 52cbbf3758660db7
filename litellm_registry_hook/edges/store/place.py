"""Where the state is: LITELLM_REGISTRY_STATE, else the registry's `state:`, else the user's state folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from litellm_registry_hook.errors import StateError

VARIABLE: Final = "LITELLM_REGISTRY_STATE"
SQLITE: Final = "sqlite:///"
FOLDER: Final = "litellm-registry-hook"


def state_path(env: Mapping[str, str], state: str | None) -> Path:
    """Return the path of the state file.

    Args:
        env: the environment: LITELLM_REGISTRY_STATE, XDG_STATE_HOME, HOME.
        state: the registry's `state:`.

    Raises:
        StateError: not a sqlite:/// URL.

    """
    url = env.get(VARIABLE) or state
    if not url:
        home = env.get("XDG_STATE_HOME") or str(Path(env.get("HOME") or "~").expanduser() / ".local" / "state")
        return Path(home) / FOLDER / "state.sqlite"
    if not url.startswith(SQLITE):
        raise StateError(f"state {url.partition('@')[2] or url!r}: this version keeps state in sqlite:///PATH only")
    return Path(url.removeprefix(SQLITE)).expanduser()
