"""Rules across keys. Each module holds the rules of one subject; `check` runs them all."""

from __future__ import annotations

from litellm_registry_hook.core.checks import availability, identity, memory, money, pools, serving
from litellm_registry_hook.core.draft import Draft
from litellm_registry_hook.core.findings import Finding

RULES = (
    identity.rules,
    serving.rules,
    availability.rules,
    money.rules,
    memory.rules,
    pools.rules,
)


def check(draft: Draft) -> list[Finding]:
    """Return everything that the rules find in a draft."""
    return [finding for rules in RULES for finding in rules(draft)]
