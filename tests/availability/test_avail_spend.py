"""Budgets that LiteLLM's own records of spend are held against."""

from __future__ import annotations

import json
from datetime import datetime, timezone

import pytest
from availability.avail_kit import NOON, facts_of, one
from strategies import model_entry

from litellm_registry_hook.core.availability.facts import Reading
from litellm_registry_hook.core.availability.judge import judge
from litellm_registry_hook.core.availability.parse import readings_of, windows_of
from litellm_registry_hook.core.availability.period import Period, bounds
from litellm_registry_hook.core.availability.probes import Probe, probes_of
from litellm_registry_hook.core.probe_config import to_probe_config
from litellm_registry_hook.core.refusal import Skip


def spending(limit: float = 20, period: str = "month") -> dict[str, object]:
    """A cost-gated entry whose budget is LiteLLM's own spend."""
    quota = {"probe_spend": period, "limit": limit}
    return model_entry("paid", metered=True, lifecycle="cost-gated", quota=quota)


def at(text: str) -> float:
    """A moment in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=timezone.utc).timestamp()


@pytest.mark.parametrize(
    ("period", "now", "first", "after"),
    [
        ("day", "2026-03-01T12:00:00", "2026-03-01", "2026-03-02"),
        ("day", "2026-12-31T23:59:59", "2026-12-31", "2027-01-01"),
        ("week", "2026-03-01T12:00:00", "2026-02-23", "2026-03-02"),  # a Sunday
        ("week", "2026-03-02T00:00:00", "2026-03-02", "2026-03-09"),
        ("month", "2026-02-28T23:59:59", "2026-02-01", "2026-03-01"),
        ("month", "2026-01-31T00:00:00", "2026-01-01", "2026-02-01"),
        ("month", "2026-12-15T08:00:00", "2026-12-01", "2027-01-01"),
    ],
)
def test_a_period_is_a_day_a_week_or_a_month_in_utc(period: Period, now: str, first: str, after: str) -> None:
    """It starts at midnight, a week on Monday, and the next one starts where it ends."""
    assert bounds(period, at(now)) == (first, at(after))


def test_what_was_spent_is_a_budget_that_starts_anew() -> None:
    """Below the limit the model may be used; at the limit it is closed until the period ends, and says when that is."""
    registry, model = one(spending())
    assert windows_of(model) == ("budget",)
    assert probes_of(registry)["paid"] == Probe("paid", "paid", "spend", "month", "", (), 60, 10)
    assert to_probe_config(registry, "paid") == {"type": "budget", "spend": "month", "limit": 20}

    def read(spent: float) -> Reading:
        (found,) = readings_of(model, json.dumps({"spent": spent, "resets_at": NOON + 7200}), NOON, NOON)
        return found

    assert read(5) == Reading("paid", "budget", 25.0, NOON + 7200, NOON, NOON, "", "5 of 20 $")
    assert judge(registry, model, facts_of(read(19.99)), NOON) is None
    assert judge(registry, model, facts_of(read(20.5)), NOON + 60) == Skip(
        "paid",
        "quota_exhausted",
        "the budget is spent: 20.5 of 20 $ (read 1 min ago); it starts anew at 2026-03-01 14:00:00 UTC; "
        "raise quota.limit; wait, or ask for a tier with further members",
        7140,
    )
    assert judge(registry, model, facts_of(read(20.5)), NOON + 7200) is None
