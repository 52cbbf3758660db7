"""The state as the command line sees it: where it is, and whether a proxy uses it."""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from litellm_registry_hook.cli.options import read_registry
from litellm_registry_hook.cli.output import notice

if TYPE_CHECKING:
    from litellm_registry_hook.core.registry import Registry
    from litellm_registry_hook.edges.store.port import State

HEARTBEAT_SECONDS = 10


def registry_if_readable() -> Registry | None:
    """Return the registry; None, with a notice, where it is broken and the environment says where the state is.

    A key can be revoked while somebody is mending the registry.

    Raises:
        RegistryError: it is broken and without it the state cannot be found.

    """
    from litellm_registry_hook.edges.store.place import VARIABLE  # noqa: PLC0415
    from litellm_registry_hook.errors import RegistryError  # noqa: PLC0415

    try:
        return read_registry()
    except RegistryError:
        if not os.environ.get(VARIABLE):
            raise
        notice("warning: the registry cannot be read (litellm-registry validate says why)")
        return None


def open_store(registry: Registry | None) -> State:
    """Return the state that the environment or the registry names; nothing is read yet.

    Raises:
        StateError: its URL is of no use.

    """
    from litellm_registry_hook.edges.store.place import open_state  # noqa: PLC0415

    return open_state(os.environ, registry.state if registry is not None else None)


def say_where(state: State, now: datetime) -> None:
    """Print the state's place after a write, and a warning where no running proxy uses it."""
    notice(f"state: {state.place}")
    if not state.workers_since(now - timedelta(seconds=HEARTBEAT_SECONDS)):
        example = "=sqlite:////PATH" if state.file is not None else ""
        notice(
            "warning: no running proxy uses this state; a proxy that runs as another user, or elsewhere, has one of "
            f"its own (set LITELLM_REGISTRY_STATE{example} alike for both)"
        )
