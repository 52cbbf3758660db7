"""What is to be read of which model, and how often."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from litellm_registry_hook.core.availability.parse import windows_of
from litellm_registry_hook.core.registry import Model, Registry

FLOOR_S: Final = 1.0
URL_FLOOR_S: Final = 30.0
"""Usage endpoints have limits of their own, some of a few calls an hour; no setting asks them more often than this."""
SPEND_FLOOR_S: Final = 10.0
"""LiteLLM itself writes its spend down every ten seconds or more."""
HEALTH_EVERY_S: Final = 5.0
TIMEOUT_S: Final = 20.0
LONGEST_PAUSE_S: Final = 900.0
"""Where doubling the interval of a failing probe ends."""
LONGEST_RETRY_AFTER_S: Final = 3600.0
JITTER: Final = 0.1

Kind = Literal["command", "file", "url", "spend", "health"]


@dataclass(frozen=True, slots=True)
class Probe:
    """One thing to read.

    Attributes:
        key: what it is called in the state: the registry id; of a server's health `id|api_base`.
        model: registry id. kind: how it is read. what: the command, the path, the address, or the period of a spend.
        api_base: the endpoint, of a server's health.
        env: names of environment variables for the command; of an address that of its bearer token.
        interval_s: seconds between readings. floor_s: seconds that no jitter goes below.

    """

    key: str
    model: str
    kind: Kind
    what: str
    api_base: str = ""
    env: tuple[str, ...] = ()
    interval_s: float = 60.0
    floor_s: float = FLOOR_S


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a probe.

    Attributes:
        text: JSON; of a server's health up, gone or unknown. error: why there is none, a clause; empty where there is.
        detail: more about the error, for operators only.
        read_at: the moment the text speaks of, where that is not the moment of asking.
        retry_after_s: seconds for which the address asks not to be asked.

    """

    text: str = ""
    error: str = ""
    detail: str = ""
    read_at: float | None = None
    retry_after_s: float | None = None


def probes_of(registry: Registry) -> dict[str, Probe]:
    """Return everything that is to be read, by key: quotas and budgets, and the health of on-demand servers."""
    return {probe.key: probe for model in registry.models for probe in _of(model)}


def _of(model: Model) -> Iterator[Probe]:
    quota = model.quota
    if quota is not None and windows_of(model):
        if quota.probe_command is not None:
            yield Probe(model.id, model.id, "command", quota.probe_command, "", quota.env, quota.interval_s)
        elif quota.probe_file is not None:
            yield Probe(model.id, model.id, "file", quota.probe_file, "", (), quota.interval_s)
        elif quota.probe_url is not None:
            every = max(URL_FLOOR_S, quota.interval_s)
            bearer = (quota.probe_bearer.removeprefix("os.environ/"),) if quota.probe_bearer is not None else ()
            yield Probe(model.id, model.id, "url", quota.probe_url, "", bearer, every, URL_FLOOR_S)
        elif quota.probe_spend is not None:
            every = max(SPEND_FLOOR_S, quota.interval_s)
            yield Probe(model.id, model.id, "spend", quota.probe_spend, "", (), every, SPEND_FLOOR_S)
    if model.lifecycle == "on-demand":
        for place in model.places:
            if place.health_url is not None:
                key = f"{model.id}|{place.api_base}"
                yield Probe(key, model.id, "health", place.health_url, place.api_base, (), HEALTH_EVERY_S)


def pause_after(probe: Probe, fails: int, retry_after_s: float | None, chance: float) -> float:
    """Return the seconds until a probe is asked again.

    Args:
        probe: the probe.
        fails: how often it has failed in a row: each doubles the pause, up to 15 minutes.
        retry_after_s: what its address asks for; honoured up to an hour.
        chance: 0 to 1, for ten percent of jitter either way, so that many do not ask at once.

    """
    pause = probe.interval_s
    if fails and probe.kind != "health":
        pause = max(pause, min(LONGEST_PAUSE_S, pause * 2.0 ** min(fails, 20)))
    pause *= 1 - JITTER + 2 * JITTER * chance
    asked = min(LONGEST_RETRY_AFTER_S, retry_after_s or 0.0)
    return max(probe.floor_s, pause, asked)
