"""Options of `opt-in`: the proxy whose keys are meant, and who is at the keyboard."""

from __future__ import annotations

import getpass
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from litellm_registry_hook.cli.options import registry_file

if TYPE_CHECKING:
    from litellm_registry_hook.edges.registry_edit_desk import Desk

F = TypeVar("F", bound=Callable[..., Any])
PROXY = "LITELLM_REGISTRY_PROXY"
ADMIN_KEY = "LITELLM_MASTER_KEY"


def proxy_options(function: F) -> F:
    """Add --proxy and --admin-key-env."""
    url = click.option("--proxy", metavar="URL", envvar=PROXY, help=f"One with a database; default ${PROXY}.")
    env = click.option(
        "--admin-key-env",
        metavar="NAME",
        default=ADMIN_KEY,
        show_default=True,
        help="The variable with its admin key.",
    )
    return url(env(function))


def desk_of(proxy: str | None, admin_key_env: str) -> Desk:
    """Return the desk for the registry that the options name.

    Raises:
        RegistryError: the registry is not valid and its state cannot be found. StateError: its state URL is of no use.
        OptInError: a proxy is named and its admin key is not set.

    """
    from litellm_registry_hook.cli.keys_store import open_store, registry_if_readable  # noqa: PLC0415
    from litellm_registry_hook.core.opt_in import OptInError  # noqa: PLC0415
    from litellm_registry_hook.edges.proxy_api import ProxyApi, http  # noqa: PLC0415
    from litellm_registry_hook.edges.registry_edit_desk import Desk  # noqa: PLC0415
    from litellm_registry_hook.edges.registry_file import registry_path  # noqa: PLC0415

    api = None
    if proxy:
        key = os.environ.get(admin_key_env)
        if not key:
            message = f"the proxy {proxy} needs an admin key: set {admin_key_env}, or name another with --admin-key-env"
            raise OptInError("bad_request", message)
        api = ProxyApi(http(proxy, key))
    return Desk(registry_path(registry_file()), open_store(registry_if_readable()), user_name(), api)


def user_name() -> str:
    """Return the system user, for the audit trail."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return f"uid {os.getuid()}"
