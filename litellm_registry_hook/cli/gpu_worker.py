"""The command line as a worker of the residency gate: the registry and the state; what the desk logs is not shown."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from litellm_registry_hook.cli.keys_store import open_store

if TYPE_CHECKING:
    from litellm_registry_hook.core.registry import Registry
    from litellm_registry_hook.residency.aside import Aside


@contextlib.contextmanager
def aside_of(registry: Registry) -> Iterator[Aside]:
    """Take part beside the proxies that share the state.

    Raises:
        StateError: the state cannot be used: without it nobody may load.

    """
    from litellm_registry_hook.residency.aside import Aside  # noqa: PLC0415

    # What the desk logs for a proxy's operator is said by the command itself.
    log = logging.getLogger("litellm_registry_hook")
    log.addHandler(logging.NullHandler())
    log.propagate = False
    state = open_store(registry)
    try:
        with Aside(registry, os.environ, state.ledger) as aside:
            yield aside
    finally:
        state.close()
