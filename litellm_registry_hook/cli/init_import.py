"""The part of `litellm-registry init` that reads a LiteLLM config."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from litellm_registry_hook.core.start.carry import Choices, carry
from litellm_registry_hook.edges.config_file import read_config
from litellm_registry_hook.edges.config_tree import Document, line_of, read_document
from litellm_registry_hook.errors import ConfigError

if TYPE_CHECKING:
    from litellm_registry_hook.core.start.proposal import Left, Proposal

_ENTRY = re.compile(r"^model_list\[(\d+)\]")
PRICE_LIST = "model_prices_and_context_window_backup.json"


def read_import(
    file: str,
    keep_foreign: Iterable[str] = (),
    free: Iterable[str] = (),
    dimensions: Iterable[str] = (),
    *,
    secrets_to_env: bool = False,
    catalogue: Mapping[str, Mapping[str, Any]] | None = None,
) -> Proposal:
    """Read a LiteLLM config and propose the registry that serves what it serves.

    Args:
        file: the config.
        keep_foreign, free: model_names, see Choices.
        dimensions: `NAME=N`.
        secrets_to_env: write os.environ/NAME for keys that stand in the config.
        catalogue: LiteLLM's price list; None: that of the LiteLLM that is installed here, where one is.

    Raises:
        ConfigError: the file is missing or no LiteLLM config.
        click.UsageError: a name that the config does not have, or NAME=N that is none.

    """
    path = Path(file)
    config, document = _read(path)
    choices = Choices(
        keep_foreign=frozenset(keep_foreign),
        free=frozenset(free),
        dimensions=dict(_length(text) for text in dimensions),
        secrets_to_env=secrets_to_env,
        catalogue=price_list() if catalogue is None else catalogue,
        elsewhere=_elsewhere(path, config),
    )
    known = {entry.get("model_name") for entry in _entries(config)}
    for option, names in (
        ("--keep-foreign", choices.keep_foreign),
        ("--free", choices.free),
        ("--dimensions", frozenset(choices.dimensions)),
    ):
        for name in sorted(names - known):
            raise click.UsageError(f"{option} {name}: {file} has no model_name {name!r}")
    try:
        proposal = carry(config, choices)
    except RecursionError:
        raise ConfigError(f"{path}: an anchor in it contains itself, or it is nested too deeply") from None
    return replace(proposal, left=tuple(_placed(one, document) for one in proposal.left))


def price_list() -> Mapping[str, Mapping[str, Any]]:
    """Return the price list of the installed LiteLLM, without importing it; empty where there is none."""
    spec = find_spec("litellm")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        try:
            found = json.loads((Path(folder) / PRICE_LIST).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(found, dict):
            return found
    return {}


def _read(path: Path) -> tuple[Mapping[str, Any], Document]:
    read = read_config(path)
    if not read.exists:
        raise ConfigError(f"{path}: there is no such file")
    document = read_document(read.text, str(path))
    config = document.data if document.data is not None else {}
    if not isinstance(config, Mapping):
        raise ConfigError(f"{path}:1: the file must be a mapping (model_list:, litellm_settings:, …)")
    if not isinstance(config.get("model_list"), (list, type(None))):
        raise ConfigError(f"{path}: model_list must be a list of entries (- model_name: …)")
    return config, document


def _length(text: str) -> tuple[str, int]:
    name, equals, number = text.rpartition("=")
    if not equals or not name or not number.isdecimal() or int(number) < 1:
        raise click.UsageError(f"--dimensions {text}: write NAME=N, as in --dimensions embed=1024")
    return name, int(number)


def _entries(config: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [entry for entry in config.get("model_list") or [] if isinstance(entry, Mapping)]


def _elsewhere(path: Path, config: Mapping[str, Any]) -> frozenset[str]:
    """Return the model_names of included files; what cannot be read has none."""
    names: set[str] = set()
    seen = {path.absolute()}
    waiting = [(path, config)]
    while waiting:
        home, content = waiting.pop()
        listed = content.get("include")
        for name in listed if isinstance(listed, list) else []:
            file = (home.parent / str(name)).absolute()
            if file in seen or not file.is_file():
                continue
            seen.add(file)
            try:
                more, _ = _read(file)
            except ConfigError:
                continue
            names.update(str(entry.get("model_name")) for entry in _entries(more))
            waiting.append((file, more))
    return frozenset(names)


def _placed(left: Left, document: Document) -> Left:
    """Add the line of the entry that is spoken of."""
    found = _ENTRY.match(left.what)
    listed = document.root.get("model_list") if found is not None and document.root is not None else None
    if found is None or listed is None or int(found[1]) >= len(listed.items):
        return left
    line = line_of(document.text, listed.items[int(found[1])].start)
    return replace(left, what=f"line {line}: {left.what}")
