"""What the generator and `validate` find anyway, as findings of the doctor."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from litellm_registry_hook.core.doctor_case import Case, Rule, Severity, Sign
from litellm_registry_hook.core.problems import Problem
from litellm_registry_hook.core.sync_masking import shown_text

# The generator's warnings (core/sync_findings.py), all but the one that only an adoption gives.
GENERATOR: dict[str, Severity] = {
    "assistant_settings": "medium",
    "included_settings": "high",
    "included_unreadable": "medium",
    "metered_fallback": "medium",
    "model_group_alias": "medium",
    "models_in_db": "medium",
    "pass_through_endpoints": "medium",
    "shadowed_entry": "medium",
    "usage_based_routing": "medium",
    "wildcard_entry": "medium",
}
# The warnings of `validate` that touch money or secrets.
REGISTRY: dict[str, Severity] = {
    "priced_not_metered": "high",
    "grant_not_needed": "low",
    "secret_in_file": "medium",
}


def drift(case: Case) -> Iterator[Sign]:
    """Find entries of the registry that are not what it wants, one finding an entry."""
    found: dict[str, list[str]] = {}
    for difference in case.differences:
        if difference.path.startswith("model_list["):
            inside, _, below = difference.path.removeprefix("model_list[").partition("]")
            found.setdefault(inside, []).append(below.removeprefix(".") if difference.keys else difference.kind)
    for entry_id, what in found.items():
        yield Sign(
            case.config_file,
            _entry_path(case, entry_id),
            _words(entry_id, what),
            "run generate-litellm-config and restart the proxy (--check shows what differs)",
        )


def _words(entry_id: str, what: list[str]) -> str:
    if what == ["missing"]:
        return f"the entry {entry_id} is missing, so this model is not served"
    if what == ["extra"]:
        return f"the entry {entry_id} is marked as the registry's and is none of its models"
    return f"the entry {entry_id} differs from the registry: {', '.join(what)}"


def _entry_path(case: Case, entry_id: str) -> str:
    for entry in case.entries:
        if entry.file == case.config_file and str(entry.info.get("id")) == entry_id:
            return entry.path
    return "model_list"


def _generator(code: str, case: Case) -> Iterator[Sign]:
    names = [part.name for part in case.parts[1:]]
    for warning in case.warnings:
        if warning.code == code:
            inside = next((name for name in names if warning.path.startswith(f"{name}: ")), None)
            path = warning.path.removeprefix(f"{inside}: ") if inside is not None else warning.path
            yield _sign(inside or case.config_file, path, warning)


def _registry(code: str, case: Case) -> Iterator[Sign]:
    for warning in case.registry_warnings:
        if warning.code == code:
            yield _sign(case.registry_file, warning.path, warning)


def _sign(file: str, path: str, warning: Problem) -> Sign:
    return Sign(file, path, shown_text(warning.message), warning.hint)


RULES = (
    Rule("drift", "medium", drift),
    *(Rule(code, severity, partial(_generator, code)) for code, severity in GENERATOR.items()),
    *(Rule(code, severity, partial(_registry, code)) for code, severity in REGISTRY.items()),
)
