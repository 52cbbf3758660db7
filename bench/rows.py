"""Figures, what was measured of them, and the table."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Figure:
    """One promised figure.

    Attributes:
        name: what is measured.
        unit: of the value.
        at_most, at_least: the target, inclusive; neither where the figure only informs.

    """

    name: str
    unit: str
    at_most: float | None = None
    at_least: float | None = None

    @property
    def target(self) -> str:
        if self.at_most is not None:
            return f"<= {self.at_most:g}"
        return f">= {self.at_least:g}" if self.at_least is not None else ""

    def met(self, value: float | None) -> bool | None:
        """Say whether a value reaches the target; None where there is no value or no target."""
        if value is None or not self.target:
            return None
        return value <= self.at_most if self.at_most is not None else value >= self.at_least


Put = Callable[..., None]


@dataclass(frozen=True)
class Section:
    """A group of figures that are measured together.

    Attributes:
        key: its letter on the command line.
        title: its heading.
        figures: everything it promises, in the order of the table.
        run: measures; calls put(name, value, note) for each figure.

    """

    key: str
    title: str
    figures: tuple[Figure, ...]
    run: Callable[[Any, Put], None]


@dataclass
class Result:
    """What a section found.

    Attributes:
        section: which.
        values: figure name to (value, note).
        seconds: wall time that it took.
        failed: why it, or the rest of it, was not measured; empty where all was.

    """

    section: Section
    values: dict[str, tuple[float | None, str]] = field(default_factory=dict)
    seconds: float = 0.0
    failed: str = ""

    def put(self, name: str, value: float | None, note: str = "") -> None:
        if name not in {figure.name for figure in self.section.figures}:
            raise ValueError(f"no figure is called {name!r} in section {self.section.key}")
        self.values[name] = (value, note)

    def rows(self) -> list[dict[str, Any]]:
        """Return one row a promised figure, also for those that were not measured."""
        rows = []
        for figure in self.section.figures:
            value, note = self.values.get(figure.name, (None, self.failed or "not measured"))
            rows.append(
                {
                    "section": self.section.key, "figure": figure.name, "value": value, "unit": figure.unit,
                    "target": figure.target, "met": figure.met(value), "note": note,
                }
            )  # fmt: skip
        return rows


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which `share` (0 to 1) of the values lie, by nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, round(share * len(ordered) + 0.5) - 1))]


def spread(values: Sequence[float], form: str = ".3f") -> str:
    """Say where the middle 80 % of the values lie, and how many there are."""
    return f"p10-p90 {percentile(values, 0.1):{form}}-{percentile(values, 0.9):{form}}, n={len(values)}"


def sureness(values: Sequence[float]) -> float:
    """Return the standard error of the median, from the interquartile range (normal approximation)."""
    if len(values) < 4:
        return float("nan")
    low, _, high = statistics.quantiles(values, n=4)
    return 1.2533 * (high - low) / 1.349 / len(values) ** 0.5


def number(value: float | None) -> str:
    if value is None:
        return "-"
    if value == 0:
        return "0"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def table(results: Sequence[Result]) -> str:
    """Write the table."""
    head = ("figure", "value", "unit", "target", "met", "note")
    body: list[tuple[str, ...] | str] = []
    for result in results:
        body.append(
            f"{result.section.key}. {result.section.title}" + (f"  [{result.seconds:.1f} s]" if result.seconds else "")
        )
        for row in result.rows():
            met = {True: "yes", False: "NO", None: ""}[row["met"]]
            body.append((row["figure"], number(row["value"]), row["unit"], row["target"], met, row["note"]))
    cells = [head, *(line for line in body if isinstance(line, tuple))]
    widths = [max(len(line[n]) for line in cells) for n in range(len(head) - 1)]

    def line(one: tuple[str, ...]) -> str:
        padded = [
            f"{cell:>{width}}" if n == 1 else f"{cell:<{width}}"
            for n, (cell, width) in enumerate(zip(one, widths, strict=False))
        ]
        return ("  " + "  ".join([*padded, one[-1]])).rstrip()

    rule = "  " + "-" * (sum(widths) + 2 * len(widths) + 4)
    out = [line(head), rule]
    for one in body:
        out += ["", one] if isinstance(one, str) else [line(one)]
    return "\n".join(out)
