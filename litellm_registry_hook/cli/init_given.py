"""What the options of `litellm-registry init` say: where to look, what is decided, which config to carry over."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from litellm_registry_hook.core.start.choices import Choices
    from litellm_registry_hook.core.start.found import Found
    from litellm_registry_hook.core.start.proposal import Proposal
    from litellm_registry_hook.edges.start.look import Target


def _pairs(option: str, texts: Iterable[str], what: str) -> dict[str, str]:
    found = {}
    for text in texts:
        name, sign, value = text.rpartition("=")
        if not sign or not name or not value:
            raise click.UsageError(f"--{option} {text}: write {what}")
        found[name] = value
    return found


def _numbers(option: str, texts: Iterable[str], what: str, least: int = 1) -> dict[str, int]:
    found = {}
    for name, value in _pairs(option, texts, what).items():
        if not (value.isascii() and value.isdecimal() and least <= int(value) < 10**9):
            raise click.UsageError(f"--{option} {name}={value}: {value} is not a whole number from {least} on")
        found[name] = int(value)
    return found


def choices_of(given: dict[str, Any]) -> Choices:
    """Return what the options decide."""
    from litellm_registry_hook.core.start.choices import Choices  # noqa: PLC0415

    if given["never_evict"] and given["no_never_evict"]:
        raise click.UsageError("--never-evict and --no-never-evict contradict each other")
    for option in ("keep_foreign", "secrets_to_env"):
        if given[option] and not given["from_config"]:
            raise click.UsageError(f"--{option.replace('_', '-')} goes with --from-config FILE")
    totals = [text if "=" in text else f"localhost={text}" for text in given["gpu_total"]]
    stay = tuple(dict.fromkeys(given["never_evict"])) if given["never_evict"] else None
    return Choices(
        embedder=given["embedder"],
        never_evict=() if given["no_never_evict"] else stay,
        free=frozenset(_server_or_id(one) for one in given["free"]),
        gpu_mb=_numbers("gpu-total", totals, "MB or HOST=MB", 0),
        dimensions=_numbers("dimensions", given["dimensions"], "ID=N"),
        sizes=_numbers("size", given["size"], "ID=MB"),
        num_ctx=given["num_ctx"],
        reserve_mb=given["reserve"],
    )


def _server_or_id(text: str) -> str:
    return text.rstrip("/") if "://" in text else text


def _address(option: str, text: str, port: int | None = None) -> str:
    from litellm_registry_hook.edges.start.look import address  # noqa: PLC0415

    try:
        return address(text, port=port)
    except ValueError as error:
        raise click.UsageError(f"--{option}: {error}") from None


def targets_of(given: dict[str, Any], imported: Proposal | None) -> list[Target]:
    """Return where to look: what was named, else the usual addresses; and the Ollamas of an imported config."""
    from litellm_registry_hook.core.start.own import is_own  # noqa: PLC0415
    from litellm_registry_hook.edges.start.look import OLLAMA_PORT, Target, usual  # noqa: PLC0415

    keys = {_address("key-env", url): name for url, name in _pairs("key-env", given["key_env"], "URL=NAME").items()}
    for name in keys.values():
        if name not in os.environ:
            raise click.UsageError(f"--key-env: the environment variable {name} is not set")
    targets = [Target("ollama", _address("ollama", one, OLLAMA_PORT)) for one in given["ollama"]]
    targets += [Target("tei", _address("tei", one)) for one in given["tei"]]
    for one in given["openai"]:
        base = _address("openai", one)
        targets.append(Target("openai", base, key_env=keys.pop(base, "")))
    if keys:
        raise click.UsageError(f"--key-env {next(iter(keys))}: no --openai names that server")
    if not targets:
        targets += usual(os.environ.get("OLLAMA_HOST"))
    return [*targets, *(Target("ollama", base, named=False) for base in _ollamas(imported) if is_own(base))]


def _ollamas(imported: Proposal | None) -> list[str]:
    """Return the addresses of Ollama servers in an imported config."""
    from litellm_registry_hook.edges.start.look import address  # noqa: PLC0415

    found: list[str] = []
    for model in imported.models if imported is not None else ():
        params = model.entry.get("litellm") or {}
        if str(params.get("model", "")).startswith(("ollama/", "ollama_chat/")):
            places = [*(place.get("api_base") for place in model.entry.get("endpoints") or ()), params.get("api_base")]
            for one in places:
                # What is no address to look at is carried over all the same.
                with contextlib.suppress(ValueError):
                    found += [address(one)] if isinstance(one, str) and one.startswith(("http://", "https://")) else []
    return found


def checked(found: Found, choices: Choices, elsewhere: set[str]) -> Choices:
    """Return the choices once more: ids that options name must be there, or in the imported config.

    Raises:
        click.UsageError: one is not; names those that are.

    """
    from dataclasses import replace  # noqa: PLC0415

    from litellm_registry_hook.core.start.draft import drafts_of  # noqa: PLC0415
    from litellm_registry_hook.core.start.own import host_of, same_server  # noqa: PLC0415

    free = set()
    for one in choices.free:
        servers = {base for base in found.bases if same_server(base, one) or host_of(base) == one.lower()}
        free |= servers or {one}
    choices = replace(choices, free=frozenset(free))
    drafts, _ = drafts_of(found, choices)
    ids = {draft.id: draft for draft in drafts}
    named = {
        "embedder": {choices.embedder} if choices.embedder is not None else set(),
        "never-evict": set(choices.never_evict or ()),
        "size": set(choices.sizes),
        "dimensions": set(choices.dimensions),
        "free": set(choices.free) - set(found.bases),
    }
    for option, wanted in named.items():
        for one in sorted(wanted - set(ids) - (elsewhere if option in {"dimensions", "free"} else set())):
            there = ", ".join(list(ids)[:20]) or "none"
            raise click.UsageError(f"--{option}: {one} was not found; found were: {there}")
    if choices.embedder is not None and ids[choices.embedder].kind != "embed":
        raise click.UsageError(f"--embedder: {choices.embedder} is not an embedding model")
    return choices


def import_of(given: dict[str, Any]) -> tuple[Proposal, set[str]]:
    """Return the proposal of a LiteLLM config, and its model_names: --free and --dimensions may name them.

    Raises:
        ConfigError: it cannot be read.

    """
    from litellm_registry_hook.cli.init_import import read_import  # noqa: PLC0415

    file = given["from_config"]
    names = _model_names(file)
    proposal = read_import(
        file,
        given["keep_foreign"],
        [one for one in given["free"] if one in names],
        [one for one in given["dimensions"] if one.rpartition("=")[0] in names],
        secrets_to_env=given["secrets_to_env"],
    )
    return proposal, names


def _model_names(file: str) -> set[str]:
    from litellm_registry_hook.edges.config_file import read_config  # noqa: PLC0415
    from litellm_registry_hook.edges.config_tree import read_document  # noqa: PLC0415

    data = read_document(read_config(Path(file)).text, file).data
    listed = data.get("model_list") if isinstance(data, dict) else None
    entries = listed if isinstance(listed, list) else []
    return {str(entry.get("model_name")) for entry in entries if isinstance(entry, dict)}
