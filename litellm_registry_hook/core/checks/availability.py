"""Lifecycles: what tells whether a model may be used now."""

from __future__ import annotations

import re
from collections.abc import Iterator

from litellm_registry_hook.core.checks.common import no_effect
from litellm_registry_hook.core.draft import Draft
from litellm_registry_hook.core.findings import Finding, Path, redact
from litellm_registry_hook.core.providers import gpu_host
from litellm_registry_hook.core.registry import Model, Quota

_PROBES = ("probe_command", "probe_file", "probe_url", "probe_spend")
_ENV_NAME = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")


def rules(draft: Draft) -> Iterator[Finding]:
    """Find lifecycles whose data is missing or has no effect."""
    for at, model in draft.models():
        if model.lifecycle in {"always-on", "on-demand"}:
            if model.quota is not None:
                why = f"the lifecycle is {model.lifecycle}"
                yield no_effect((*at, "quota"), why, "set lifecycle: quota-gated or cost-gated, or remove it")
        elif model.quota is not None:
            yield from _quota(draft, (*at, "quota"), model, model.quota)
        elif model.lifecycle == "quota-gated":
            message = "a quota-gated model must say how its quota is read"
            yield Finding("quota_missing", (*at, "quota"), message, "add quota with a probe and windows")


def _quota(draft: Draft, path: Path, model: Model, quota: Quota) -> Iterator[Finding]:
    given = quota.model_fields_set
    probes = [key for key in _PROBES if key in given]
    if not probes and all(draft.intact(*path, key) for key in _PROBES):
        yield Finding(
            "quota_probe_missing",
            path,
            "nothing says how the quota is read",
            "add probe_command, probe_file, probe_url or, for a budget, probe_spend",
        )
    for key in probes[1:]:
        message = f"`{key}` stands beside `{probes[0]}`"
        yield Finding("several_probes", (*path, key), message, "keep one probe", "key")
    if "env" in given and "probe_command" not in given:
        yield no_effect((*path, "env"), "it is handed to probe_command only", "remove it, or use probe_command")
    if quota.probe_bearer is not None:
        yield from _bearer(path, quota)
    for index, name in enumerate(quota.env):
        if not _ENV_NAME.match(name):
            message = f"`{redact(name)}` is not the name of an environment variable"
            yield Finding("bad_value", (*path, "env", index), message, "write the name only, without $ or a value")
    if quota.max_age_s < quota.interval_s:
        message = f"readings are too old after {quota.max_age_s:g} s and renewed every {quota.interval_s:g} s"
        key = "max_age_s" if "max_age_s" in given else "interval_s"
        yield Finding(
            "stale_readings", (*path, key), message, "let max_age_s be at least interval_s", severity="warning"
        )
    if model.lifecycle == "quota-gated":
        yield from _windows(draft, path, quota)
    else:
        yield from _budget(path, quota)


def _bearer(path: Path, quota: Quota) -> Iterator[Finding]:
    at = (*path, "probe_bearer")
    if quota.probe_url is None:
        yield no_effect(at, "it is sent to probe_url only", "remove it, or use probe_url")
    elif not quota.probe_url.startswith("https://") and gpu_host(quota.probe_url) != "localhost":
        message = "a token would go to probe_url unencrypted"
        yield Finding("bad_value", at, message, "let probe_url be https://, or a loopback address")


def _windows(draft: Draft, path: Path, quota: Quota) -> Iterator[Finding]:
    if quota.probe_spend is not None:
        why = "it is the budget of a cost-gated model"
        yield no_effect((*path, "probe_spend"), why, "set lifecycle: cost-gated, or use another probe")
    for key in ("field", "limit"):
        if key in quota.model_fields_set:
            yield no_effect((*path, key), "it is the budget of a cost-gated model", "write a window instead")
    if not quota.windows and draft.intact(*path, "windows"):
        message = "a quota-gated model must name its windows"
        yield Finding("quota_windows_missing", (*path, "windows"), message, "add `windows: [{name: 5h, field: …}]`")
    seen: set[str] = set()
    for index, window in enumerate(quota.windows):
        if window.name in seen:
            message = f"the window `{redact(window.name)}` stands twice"
            yield Finding(
                "duplicate_in_list", (*path, "windows", index, "name"), message, "give each window a name of its own"
            )
        seen.add(window.name)


def _budget(path: Path, quota: Quota) -> Iterator[Finding]:
    for key in ("windows", "threshold_pct"):
        if key in quota.model_fields_set:
            yield no_effect((*path, key), "a cost-gated model has a budget, not windows", "write field and limit")
    spend = quota.probe_spend is not None
    if spend and "field" in quota.model_fields_set:
        yield no_effect((*path, "field"), "probe_spend reads LiteLLM's own records", "remove it")
    missing = [key for key in (("limit",) if spend else ("field", "limit")) if key not in quota.model_fields_set]
    for key in missing:
        hints = {"field": "add the dotted path to what was spent", "limit": "add what may be spent"}
        yield Finding("budget_incomplete", (*path, key), f"the budget has no `{key}`", hints[key])
