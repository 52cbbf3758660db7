"""Which entries stay as they are, and why: a wildcard, a key in the open, somebody's choice."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from litellm_registry_hook.core.deployments import split_deployment_id
from litellm_registry_hook.core.registry import NAME_RE
from litellm_registry_hook.core.start.carry_choices import Choices
from litellm_registry_hook.core.start.carry_entries import Entry
from litellm_registry_hook.core.start.carry_mode import dimensions_of, mode_of
from litellm_registry_hook.core.start.carry_model import Draft, mode_trouble, trouble
from litellm_registry_hook.core.start.carry_secrets import ENVIRON, Names, literal_secrets, replaceable
from litellm_registry_hook.core.start.proposal import Left

UNLISTED: Final = (
    "it stays as it is, and under routing.unlisted_models: metered a request for it needs the consent header and an "
    "opted-in key"
)
ALLOW: Final = "or set routing.unlisted_models: allow"
_ROUTERS: Final = ("auto_router/",)
Why = tuple[str, str]


def foreign_because(entry: Entry, choices: Choices, names: Names) -> Why | None:
    """Return why an entry cannot be carried over, and what to do about it; None where it can."""
    if entry.name in choices.keep_foreign:
        return f"--keep-foreign said so; {UNLISTED}", ""
    if "*" in entry.name or "*" in entry.model:
        return (
            f"a wildcard names no model; {UNLISTED}",
            f"write the models that are meant into the registry, {ALLOW}",
        )
    return _name(entry, choices) or _kind(entry) or _secrets(entry, choices, names) or _embedding(entry, choices)


def _name(entry: Entry, choices: Choices) -> Why | None:
    if entry.name in choices.elsewhere:
        return (
            f"an included file has entries of this name too, which the generator cannot replace; {UNLISTED}",
            "move them into this file and import again",
        )
    if not NAME_RE.match(entry.name):
        return (
            f"a registry name starts with a letter or digit, then letters, digits and . _ : / @ -; {UNLISTED}",
            f"give clients another name, {ALLOW}",
        )
    if split_deployment_id(entry.name) is not None:
        return f"a name that ends in @ and a number is that of a deployment; {UNLISTED}", f"rename it, {ALLOW}"
    return None


def _kind(entry: Entry) -> Why | None:
    if entry.info.get("team_id"):
        return f"it belongs to a team of LiteLLM's database; {UNLISTED}", ALLOW.removeprefix("or ")
    if entry.model.startswith(_ROUTERS) or "complexity_router_config" in entry.params:
        return f"it is a router of LiteLLM's, not a model; {UNLISTED}", f"list its models in a tier, {ALLOW}"
    if entry.model.startswith(ENVIRON):
        return (
            f"its model stands in the environment, and the registry must be able to read it; {UNLISTED}",
            "write litellm_params.model as provider/name and import again",
        )
    return None


def _secrets(entry: Entry, choices: Choices, names: Names) -> Why | None:
    found = list(literal_secrets(entry.params))
    if not found or (choices.secrets_to_env and replaceable(entry.params)):
        return None
    paths = ", ".join(f"litellm_params.{'.'.join(path)}" for path, _ in found)
    name = names.suggestion(entry, found[0][0])
    fix = f"put it into the environment as {name} and write os.environ/{name}, or import with --secrets-to-env"
    if not replaceable(entry.params):
        fix = "move it into a litellm_params key of its own, where LiteLLM reads os.environ/NAME"
    return f"{paths} holds a secret, and the registry is under version control; {UNLISTED}", fix


def _embedding(entry: Entry, choices: Choices) -> Why | None:
    if mode_of(entry, choices)[0] == "embedding" and dimensions_of(entry, choices) is None:
        return (
            f"an embedding model must say how long its vectors are, and nothing does; {UNLISTED}",
            f"import with --dimensions {entry.name}=N",
        )
    return None


def draft_because(draft: Draft) -> Why | None:
    """Return what the registry's rules have against a model; None where they take it."""
    told = mode_trouble(draft)
    if told:
        return f"{told}; {UNLISTED}", f"keep it, {ALLOW}"
    entry = draft.entries[0]
    if "/" not in draft.upstream and not isinstance(entry.params.get("custom_llm_provider"), str):
        return (
            f"which provider {entry.model!r} belongs to is LiteLLM's guess; {UNLISTED}",
            "write litellm_params.model as provider/name and import again",
        )
    if any(literal_secrets({**draft.body["litellm"], "endpoints": draft.body.get("endpoints")})):
        name = draft.entries[0].params.get("litellm_credential_name")
        return (
            f"the address of credential_list ({name}) holds a secret, and the registry is under version control; "
            + UNLISTED,
            "put the secret into a value of its own there, or the server behind an address without one",
        )
    odd = next(_not_plain(draft.body["litellm"], "litellm_params"), None)
    if odd is not None:
        return f"{odd}; {UNLISTED}", "put it in quotes and import again"
    told = trouble(draft)
    return (f"the registry would not take it: {told}; {UNLISTED}", "mend that and import again") if told else None


def _not_plain(value: object, path: str) -> Iterator[str]:
    """Yield what is said of values that JSON does not have: an unquoted `2024-02-01` is a date."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _not_plain(item, f"{path}.{key}")
    elif isinstance(value, list):
        for item in value:
            yield from _not_plain(item, path)
    elif isinstance(value, float) and not math.isfinite(value):
        yield f"{path} is no finite number"
    elif value is not None and not isinstance(value, (str, int, float)):
        yield f"{path} is a {type(value).__name__}, and the registry takes text, numbers, lists and mappings"


def left_of(name: str, entries: Sequence[Entry], reasons: Mapping[int, Why]) -> list[Left]:
    """Return what is said of a name that stays foreign: one line for each entry."""
    culprit = min(reasons)
    found: list[Left] = []
    for entry in entries:
        why, fix = reasons.get(
            entry.index, (f"model_list[{culprit}] has the same name {name!r} and stays foreign; {UNLISTED}", "")
        )
        found.append(Left(entry.what, why, fix))
    return found
