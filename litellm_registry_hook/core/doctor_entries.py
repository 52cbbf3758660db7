"""Rules about the entries of model_list."""

from __future__ import annotations

from collections.abc import Iterator

from litellm_registry_hook.core.doctor_case import Case, Entry, Rule, Sign


def client_address(case: Case) -> Iterator[Sign]:
    """Find a deployment whose address or key a caller may choose."""
    for entry in case.entries:
        if entry.params.get("configurable_clientside_auth_params"):
            yield Sign(
                entry.file,
                f"{entry.path}.litellm_params.configurable_clientside_auth_params",
                f"a caller chooses where calls of {entry.name!r} go, with the proxy's key where it brings none",
                "remove it",
            )


def pass_through_credentials(case: Case) -> Iterator[Sign]:
    """Find a deployment whose key the pass-through routes use."""
    if case.registry.routing.unlisted_models == "deny":
        return
    for entry in case.entries:
        if entry.params.get("use_in_pass_through") is True:
            yield Sign(
                entry.file,
                f"{entry.path}.litellm_params.use_in_pass_through",
                "LiteLLM's pass-through routes call this provider with this key, and no model of the registry is "
                "behind them",
                "remove it, or set routing.unlisted_models: deny",
            )


def silent_model(case: Case) -> Iterator[Sign]:
    """Find a deployment that sends a copy of each request elsewhere."""
    for entry in case.entries:
        if entry.params.get("silent_model"):
            yield Sign(
                entry.file,
                f"{entry.path}.litellm_params.silent_model",
                f"each request to {entry.name!r} is sent a second time, to a model that nobody asked for",
                "remove it",
            )


def duplicate_id(case: Case) -> Iterator[Sign]:
    """Find two deployments with one id: which of them answers to it is left to chance."""
    first: dict[str, Entry] = {}
    for entry in case.entries:
        found = entry.info.get("id")
        if not isinstance(found, (str, int)):
            continue
        before = first.setdefault(str(found), entry)
        if before is not entry:
            where = before.path if before.file == entry.file else f"{before.path} of {before.file}"
            yield Sign(
                entry.file,
                f"{entry.path}.model_info.id",
                f"{where} has the id {found!r} too, so LiteLLM knows only one of the two by it",
                "give each its own id",
            )


RULES = (
    Rule("client_address", "medium", client_address),
    Rule("pass_through_credentials", "medium", pass_through_credentials),
    Rule("silent_model", "medium", silent_model),
    Rule("duplicate_deployment_id", "medium", duplicate_id),
)
