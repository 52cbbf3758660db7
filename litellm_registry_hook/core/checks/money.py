"""Money and secrets: what is metered, who is opted in, what must not stand in a file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from litellm_registry_hook.core.checks.common import id_list, no_effect
from litellm_registry_hook.core.draft import Draft
from litellm_registry_hook.core.findings import Finding, Path, redact, shown
from litellm_registry_hook.core.providers import bills_by_default, readable
from litellm_registry_hook.core.registry import Model, OptIn, parse_moment

_TOKEN = re.compile(r"^sha256:[0-9a-f]{64}$")
_HEX = re.compile(r"^[0-9A-Fa-f]{64}$")
# One form on every Python: fromisoformat of 3.10 takes less than that of 3.11.
_MOMENT = re.compile(r"^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{3}|\.\d{6})?)?(Z|[+-]\d\d:\d\d)?)?$")
_ENVIRON = "os.environ/"
_SECRET_KEYS = frozenset(
    {"api_key", "aws_secret_access_key", "aws_access_key_id", "azure_ad_token", "vertex_credentials"}
)
_SECRET_LENGTH = 20


def rules(draft: Draft) -> Iterator[Finding]:
    """Find open doors, secrets and grants that mean nothing."""
    for at, model in draft.models():
        yield from _metered(at, model)
        yield from _secrets(draft, at, model)
    yield from _grants(draft)


def _metered(at: Path, model: Model) -> Iterator[Finding]:
    if model.metered and model.opt_in_required is False:
        message = "a metered model is never open to every key"
        yield Finding(
            "opt_in_not_required", (*at, "opt_in_required"), message, "write `opt_in_required: true`, or remove the key"
        )
    if not model.metered and model.opt_in_required is not None:
        yield no_effect((*at, "opt_in_required"), "the model is not metered", "remove it, or write `metered: true`")
    if not model.metered and readable(model) and bills_by_default(model):
        message = f"`metered: false`, but the provider {redact(model.provider)} bills each call by default"
        hint = "write `metered: true`, or name the api_base of the server that is free"
        yield Finding("priced_not_metered", (*at, "metered"), message, hint, severity="warning")


def _secrets(draft: Draft, at: Path, model: Model) -> Iterator[Finding]:
    for path, text in _texts(model.litellm, (*at, "litellm")):
        if text.startswith(_ENVIRON):
            yield from _environ(draft, path, text[len(_ENVIRON) :])
        elif path[-1] in _SECRET_KEYS and text.startswith("sk-") and len(text) >= _SECRET_LENGTH:
            message = f"`{path[-1]}` holds a secret, and this file is under version control"
            yield Finding("secret_in_file", path, message, "write os.environ/NAME", severity="warning")
    if model.quota is not None and model.quota.probe_bearer is not None:
        name = model.quota.probe_bearer.removeprefix(_ENVIRON)
        yield from _environ(draft, (*at, "quota", "probe_bearer"), name)
    for index, end in enumerate(model.endpoints):
        if end.api_base.startswith(_ENVIRON):
            yield from _environ(draft, (*at, "endpoints", index, "api_base"), end.api_base[len(_ENVIRON) :])
    if draft.env is not None and model.quota is not None:
        for index, name in enumerate(model.quota.env):
            yield from _environ(draft, (*at, "quota", "env", index), name)


def _texts(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _texts(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(item, (*path, index))


def _environ(draft: Draft, path: Path, name: str) -> Iterator[Finding]:
    if draft.env is not None and name not in draft.env:
        message = f"the environment variable {redact(name)} is not set"
        yield Finding("env_missing", path, message, "set it where the proxy runs", severity="warning")


def _grants(draft: Draft) -> Iterator[Finding]:
    seen: set[str] = set()
    for index, entry in enumerate(draft.registry.routing.metered_opt_in):
        path = ("routing", "metered_opt_in", index)
        if isinstance(entry, str):
            if entry in seen:
                yield Finding(
                    "duplicate_in_list", path, f"`{redact(entry)}` stands twice in this list", "keep the first"
                )
            seen.add(entry)
            yield from _caller(path, entry)
        else:
            yield from _grant(draft, path, entry)


def _caller(path: Path, name: str) -> Iterator[Finding]:
    if name.startswith("sk-"):
        message = "a raw API key stands in the file"
        yield Finding("raw_secret", path, message, "revoke it; write `sha256:<hex of the key>` or an alias")
    elif name.startswith("sha256:") and not _TOKEN.match(name):
        yield Finding("bad_token", path, "the token is not a sha256", "write sha256: and 64 lower-case hex digits")
    elif _HEX.match(name):
        yield Finding("bad_token", path, "a bare hash is taken for an alias", "write sha256: before it")
    elif not name.strip():
        yield Finding("bad_value", path, "the entry is empty", "write an alias or a token, or remove the entry")


def _grant(draft: Draft, path: Path, entry: OptIn) -> Iterator[Finding]:
    if entry.key is None and entry.token is None and draft.intact(*path):
        yield Finding(
            "grant_without_key", path, "the entry names no key", "add `key` (an alias) or `token` (sha256:<hex>)"
        )
    if entry.key is not None:
        yield from _caller((*path, "key"), entry.key)
    if entry.models is not None:
        if not entry.models and draft.intact(*path, "models"):
            message = "`models` is empty, so the entry grants nothing"
            yield Finding("bad_value", (*path, "models"), message, "list model ids, or remove `models` for all of them")
        yield from id_list(draft, entry.models, (*path, "models"))
        for index, model_id in enumerate(entry.models):
            model = draft.registry.by_id.get(model_id)
            if model is not None and not model.metered:
                message = f"`{model_id}` is not metered and needs no grant"
                hint = "remove it, or write `metered: true` at the model"
                yield Finding("grant_not_needed", (*path, "models", index), message, hint, severity="warning")
    if entry.expires is not None and not _is_moment(entry.expires):
        message = f"{shown(entry.expires)} is not a date"
        yield Finding("bad_expires", (*path, "expires"), message, 'write "2026-12-31" or "2026-12-31T18:00:00+01:00"')


def _is_moment(text: str) -> bool:
    if not _MOMENT.match(text):
        return False
    try:
        parse_moment(text)
    except ValueError:
        return False
    return True
