"""A request that waits for a model, as the desk sees it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal

from litellm_registry_hook.core.gpu.facts import Slot
from litellm_registry_hook.core.gpu.verdict import No, Want

_numbers = itertools.count(1)
# How long a request that does not wait for room waits for its turn at the machine.
TURN_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Granted:
    """Go: the runner is loaded and counted as in use.

    Attributes:
        number: which of the wants. slot: its runner.

    """

    number: int
    slot: Slot


Answer = Granted | tuple[No, ...]


@dataclass(slots=True, eq=False)
class Ticket:
    """One request at the desk.

    Attributes:
        wants: what would do, best first.
        answer: called once, on the desk's thread: a grant, or a No for each want.
        deadline: the moment it gives up on a load that it has joined.
        wait_until: the moment up to which it waits for room; None: it does not wait.
        came: the moment it came.
        purpose: `request`; `keep`: the never-evict set is being restored.
        joined: the load it waits for. queued: whether it stands in the queue of its machine.
        cancelled: its request has gone.
        patience_s: seconds from its coming that it waits for its turn where it does not wait for room.

    """

    wants: tuple[Want, ...]
    answer: Callable[[Answer], None]
    came: float
    deadline: float
    wait_until: float | None = None
    purpose: Literal["request", "keep"] = "request"
    joined: Slot | None = None
    queued: bool = False
    cancelled: bool = False
    patience_s: float = TURN_S
    tried_at: float = -1.0
    nos: tuple[No, ...] = ()
    number: int = field(default_factory=lambda: next(_numbers))
