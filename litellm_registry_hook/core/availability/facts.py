"""What is known of the models' availability at one moment; moments are seconds since the epoch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

HealthWord = Literal["up", "gone", "unknown"]
BUDGET = "budget"
"""The window name of a cost-gated model's one reading."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How much of a window is used up, as last read.

    Attributes:
        model: registry id. window: name of the window; `budget` for a budget.
        used_pct: percent used, 0 to 100; of a budget percent of its limit. None: never read.
        resets_at: when the window starts anew, where the probe says so.
        read_at: when `used_pct` was read: for a file, when it was written.
        tried_at: when it was last tried. error: why that failed; empty where it did not. It is shown to clients.
        note: what was odd about the value, for people.
        detail: more about the error, for operators only: paths, what a program printed.

    """

    model: str
    window: str
    used_pct: float | None = None
    resets_at: float | None = None
    read_at: float = 0.0
    tried_at: float = 0.0
    error: str = ""
    note: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Health:
    """Whether a server is up, as last read.

    Attributes:
        model: registry id. api_base: the endpoint, as the registry writes it.
        state: gone: nobody listens there; unknown: it did not say.
        read_at: when. error: what was wrong.

    """

    model: str
    api_base: str
    state: HealthWord
    read_at: float
    error: str = ""


@dataclass(frozen=True, slots=True)
class Closure:
    """A model that is closed because a real call was answered with a used-up quota or a rate limit.

    Attributes:
        key: registry id; of a model with several endpoints the deployment's id, for each has a limit of its own.
        since: when the answer came.
        until: when the limit ends, as stated; else when it is worth a try.
        why: the answer, in words.
        stated: whether the answer said `until`.
        try_at: when one request may pass to find out: `until`, and an hour from the answer at the latest.
        full_after: whether a probe has seen a full window since.
        trial_at: when a request was last let through.

    """

    key: str
    since: float
    until: float
    why: str
    stated: bool = False
    try_at: float = 0.0
    full_after: bool = False
    trial_at: float | None = None


@dataclass(frozen=True, slots=True)
class Circuit:
    """The network failures of one deployment, in a row.

    Attributes:
        deployment: its id. failures: how many, in a row. last_at: when the last one was. why: its words.
        opened_at: when the circuit was opened; None while it is closed.
        until: when one request may pass to find out. times: how often it was opened in a row.
        trial_at: when a request was last let through.

    """

    deployment: str
    failures: int
    last_at: float
    why: str
    opened_at: float | None = None
    until: float = 0.0
    times: int = 0
    trial_at: float | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything known at one moment; replaced as a whole.

    Attributes:
        readings: by model and window. health: by model and api_base.
        closures: by registry id or deployment id. circuits: open ones, by deployment id.
        permits: keys of closures and circuits whose one trial is this worker's to make; None: no worker shares them.

    """

    readings: Mapping[str, Mapping[str, Reading]] = field(default_factory=dict)
    health: Mapping[str, Mapping[str, Health]] = field(default_factory=dict)
    closures: Mapping[str, Closure] = field(default_factory=dict)
    circuits: Mapping[str, Circuit] = field(default_factory=dict)
    permits: frozenset[str] | None = None
