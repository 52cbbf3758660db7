"""Names out of the registry for the shell's completion: read fast, and silent whatever the file is like.

The file is not validated: that takes several times as long, and a file in the middle of an edit has names too.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import click
    from click.shell_completion import CompletionItem

    Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]

# A registry of 1,000 models has about 400 kB. More would be felt at the key stroke.
MAX_BYTES: Final = 2 * 1024 * 1024


def _models(data: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    listed = data.get("models")
    return (one for one in listed if isinstance(one, Mapping)) if isinstance(listed, list) else iter(())


def _routing(data: Mapping[str, Any], key: str, kind: type) -> Any:
    routing = data.get("routing")
    found = routing.get(key) if isinstance(routing, Mapping) else None
    return found if isinstance(found, kind) else kind()


def _ids(data: Mapping[str, Any]) -> Iterator[tuple[Any, str]]:
    return ((one.get("id"), str(one.get("lifecycle") or "")) for one in _models(data))


def _metered(data: Mapping[str, Any]) -> Iterator[tuple[Any, str]]:
    return ((one.get("id"), "metered") for one in _models(data) if one.get("metered") is True)


def _tiers(data: Mapping[str, Any]) -> Iterator[tuple[Any, str]]:
    for tier, ids in _routing(data, "tiers", dict).items():
        yield tier, ", ".join(map(str, ids)) if isinstance(ids, list) else ""
    yield from ((alias, f"alias of {target}") for alias, target in _routing(data, "aliases", dict).items())


def _every(data: Mapping[str, Any]) -> Iterator[tuple[Any, str]]:
    yield from _tiers(data)
    yield from _ids(data)


def _grants(data: Mapping[str, Any]) -> Iterator[tuple[Any, str]]:
    for entry in _routing(data, "metered_opt_in", list):
        yield (entry.get("key") or entry.get("token") if isinstance(entry, Mapping) else entry), "opted in"


def _completing(names: Callable[[Mapping[str, Any]], Iterable[tuple[Any, str]]]) -> Complete:
    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem  # noqa: PLC0415

        _ = param
        found: dict[str, str] = {}
        with contextlib.suppress(Exception):
            for name, about in names(_read(ctx)):
                if isinstance(name, str) and name.isprintable() and name.startswith(incomplete):
                    found.setdefault(name, about)
        return [CompletionItem(name, help=about or None) for name, about in found.items()]

    return complete


def _read(ctx: click.Context) -> Mapping[str, Any]:
    import yaml  # noqa: PLC0415

    root = ctx.find_root()
    named = root.meta.get("registry") or root.params.get("registry_file")
    # As edges/registry_file.py finds it, which imports the whole shape of a registry.
    with Path(named or os.environ.get("LITELLM_REGISTRY") or "model-registry.yaml").open("rb") as file:
        raw = file.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        return {}
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    data = yaml.load(raw, loader)  # noqa: S506  a safe loader
    return data if isinstance(data, Mapping) else {}


def files(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Let the shell complete a path."""
    from click.shell_completion import CompletionItem  # noqa: PLC0415

    _ = ctx, param
    return [CompletionItem(incomplete, type="file")]


model_ids: Final = _completing(_ids)
metered_ids: Final = _completing(_metered)
tier_names: Final = _completing(_tiers)
every_name: Final = _completing(_every)
opted_in: Final = _completing(_grants)
