"""What opens a side door past the gates, or makes one weaker: a table of small rules over one case."""

from __future__ import annotations

from collections.abc import Sequence

from litellm_registry_hook.core import (
    doctor_config,
    doctor_entries,
    doctor_gpu,
    doctor_grants,
    doctor_host,
    doctor_known,
)
from litellm_registry_hook.core.doctor_case import Case, Diagnosis, Rule, Severity

RULES: tuple[Rule, ...] = (
    *doctor_config.RULES,
    *doctor_entries.RULES,
    *doctor_grants.RULES,
    *doctor_host.RULES,
    *doctor_known.RULES,
    *doctor_gpu.RULES,
)
CODES: tuple[str, ...] = tuple(sorted({rule.code for rule in RULES}))
_ORDER: dict[Severity, int] = {"high": 0, "medium": 1, "low": 2, "info": 3}


def examine(case: Case, rules: Sequence[Rule] = RULES) -> tuple[Diagnosis, ...]:
    """Return every finding, the gravest first; without lines, which only the files' text gives."""
    found = [
        Diagnosis(rule.code, rule.severity, sign.file, sign.path, sign.message, sign.fix)
        for rule in rules
        for sign in rule.check(case)
    ]
    return tuple(sorted(found, key=lambda one: _ORDER[one.severity]))
