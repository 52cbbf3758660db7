"""A proposed registry: plain entries with the words that explain them, before it is a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class ProposedModel:
    """One entry of `models`.

    Attributes:
        entry: keys and values as the registry has them, in the order in which they are written.
        notes: comment lines above the entry, without `#`.
        marks: comments at the end of a key's line, without `#`, by dotted path in the entry (`gpu_residency.vram_mb`).

    """

    entry: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    marks: Mapping[str, str] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """The model's id."""
        return str(self.entry["id"])


@dataclass(frozen=True, slots=True)
class Left:
    """Something that was seen and is not in the proposal.

    Attributes:
        what: `fallbacks: gpt-4o -> claude`, `model_list[3] (openai/*)`, `http://127.0.0.1:8080`.
        why: the reason, a sentence without a stop.
        fix: what a person can do about it; empty where nothing needs doing.

    """

    what: str
    why: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A whole registry.

    Attributes:
        models: in file order.
        tiers: name to ordered ids. aliases: name to tier or id.
        routing: further keys of `routing` (`unlisted_models`, …).
        policy: `gpu_residency_policy`; empty = leave the section out.
        left: what is not carried over.
        notes: comment lines at the top of the file.
        tier_notes: comment above a tier, by its name.
        reserved: names that the config has elsewhere; `generate-litellm-config --adopt` would take entries called so.

    """

    models: tuple[ProposedModel, ...] = ()
    tiers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    routing: Mapping[str, Any] = field(default_factory=dict)
    policy: Mapping[str, Any] = field(default_factory=dict)
    left: tuple[Left, ...] = ()
    notes: tuple[str, ...] = ()
    tier_notes: Mapping[str, str] = field(default_factory=dict)
    reserved: frozenset[str] = frozenset()
