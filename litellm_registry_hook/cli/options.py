"""Options that work before and after the command."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from litellm_registry_hook.cli.names import files

if TYPE_CHECKING:
    from litellm_registry_hook.core.registry import Registry

F = TypeVar("F", bound=Callable[..., Any])


def example(*lines: str) -> str:
    """Return the end of a help text: command lines, shown as they are written."""
    return "\b\n" + "\n".join(["Example:" if len(lines) == 1 else "Examples:", *(f"  {line}" for line in lines)])


def _keep(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    # The one given nearest to the command wins; the group's is kept where the command has none.
    if value and parameter.name is not None:
        context.find_root().meta[parameter.name] = value
    return value


def _json(expose: bool) -> Callable[[F], F]:
    return click.option("--json", "json", is_flag=True, expose_value=expose, callback=_keep, help="Print JSON only.")


def _registry(expose: bool) -> Callable[[F], F]:
    text = "Default: $LITELLM_REGISTRY, else model-registry.yaml."
    return click.option(
        "--registry", metavar="FILE", expose_value=expose, callback=_keep, shell_complete=files, help=text
    )


def common_options(function: F) -> F:
    """Add --registry FILE and --json to a command; read them with registry_file() and wants_json()."""
    return _registry(False)(_json(False)(function))


def group_options(function: F) -> F:
    """Add the same options to the group; commands also find them as `ctx.find_root().params`."""
    return _registry(True)(_json(True)(function))


def wants_json() -> bool:
    """Say whether --json was given."""
    return bool(click.get_current_context().find_root().meta.get("json"))


def registry_file() -> str | None:
    """Return what --registry names, None where it was not given."""
    value = click.get_current_context().find_root().meta.get("registry")
    return None if value is None else str(value)


def read_registry() -> Registry:
    """Load the registry that the options name.

    Raises:
        RegistryError: it cannot be read or is not valid.

    """
    from litellm_registry_hook.wiring import load_registry  # noqa: PLC0415

    return load_registry(registry_file())
