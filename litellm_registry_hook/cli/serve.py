"""`litellm-registry serve`: the LiteLLM proxy on its fastest runner, after the registry and the config were checked."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from litellm_registry_hook.core.registry import Registry
from litellm_registry_hook.errors import RegistryHookError

FAILED = 2
DEFAULT_CONFIG = "litellm-config.yaml"
DEFAULT_REGISTRY = "model-registry.yaml"
ENV_PREFIX = "os.environ/"
MASTER_KEY_ENV = "LITELLM_MASTER_KEY"


@click.command(context_settings={"ignore_unknown_options": False})
@click.option(
    "--demo", is_flag=True, help="Serve the registry with a stand-in for everything that is not running here."
)
@click.option("--registry", "registry_file", type=click.Path(), help="The registry file (also LITELLM_REGISTRY).")
@click.option("--config", type=click.Path(), help=f"The LiteLLM config; {DEFAULT_CONFIG} if not given.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(1, 65535), default=4000, show_default=True, help="Port to listen on.")
@click.option("--workers", type=click.IntRange(1), help="Worker processes; one if not given.")
@click.argument("litellm_args", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def serve(
    ctx: click.Context,
    demo: bool,
    registry_file: str | None,
    config: str | None,
    host: str,
    port: int,
    workers: int | None,
    litellm_args: tuple[str, ...],
) -> None:
    """Run the LiteLLM proxy with this registry; arguments after -- go to litellm.

    The registry is checked first: with an invalid one the proxy does not start.
    """
    path = registry_path(ctx, registry_file, os.environ)
    if demo:
        if config is not None:
            raise click.UsageError("--config has no effect with --demo, which writes a config of its own.")
        ctx.exit(run_demo(path, host, port, workers, litellm_args))
    ctx.exit(run_proxy(path, Path(config or DEFAULT_CONFIG), host, port, workers, litellm_args))


def registry_path(ctx: click.Context, given: str | None, environ: Mapping[str, str]) -> Path:
    """Return the registry file: this command's option, the global one, LITELLM_REGISTRY, or the one in this folder."""
    overall = ctx.find_root().params.get("registry") if ctx.parent is not None else None
    return Path(given or overall or environ.get("LITELLM_REGISTRY") or DEFAULT_REGISTRY)


def run_demo(path: Path, host: str, port: int, workers: int | None, extra: Sequence[str]) -> int:
    """Run the demo until it is stopped; return the exit code."""
    # Imported here: the demo's servers cost a command line that does not need them 0.2 s.
    from litellm_registry_hook.demo.proxy import missing_host, port_problem  # noqa: PLC0415

    problem = missing_host() or port_problem(host, port)
    if problem:
        return _fail(problem)
    if _loaded(path) is None:
        return FAILED
    from litellm_registry_hook.demo.run import Settings, run_demo  # noqa: PLC0415

    settings = Settings(path, host, port, workers, extra)
    try:
        return asyncio.run(run_demo(settings, _load, os.environ, click.echo, _complain))
    except RegistryHookError as error:
        return _fail(str(error))


def run_proxy(  # noqa: RET503
    path: Path, config_file: Path, host: str, port: int, workers: int | None, extra: Sequence[str]
) -> int:
    """Check everything, then become the proxy; return the exit code of a failed check."""
    from litellm_registry_hook.demo.proxy import command_line, missing_host, port_problem  # noqa: PLC0415

    if problem := missing_host():
        return _fail(problem)
    registry = _loaded(path)
    if registry is None:
        return FAILED
    config = _config(config_file)
    if isinstance(config, str):
        return _fail(config)
    if problem := master_key_problem(config, os.environ, config_file.name) or port_problem(host, port):
        return _fail(problem)
    _warn_of_drift(registry, config, config_file)
    _warn_of_slowness()
    environment = {**os.environ, "LITELLM_REGISTRY": str(path.resolve())}
    command = command_line(config_file, host, port, workers, extra)
    # Becoming the proxy hands it the terminal, the signals and the exit code, with nothing in between.
    os.execve(command[0], command, environment)  # noqa: S606


def master_key_problem(config: Mapping[str, Any], environ: Mapping[str, str], name: str) -> str:
    """Return why the proxy's admin key will not do, with the fix; empty where it will.

    Without one LiteLLM serves everybody as admin. A custom_auth of one's own does without it; ours does not.
    """
    from litellm_registry_hook.core.sync_settings import CUSTOM_AUTH  # noqa: PLC0415
    from litellm_registry_hook.demo.keys import weakness  # noqa: PLC0415

    settings = config.get("general_settings") or {}
    written = settings.get("master_key")
    where = f"general_settings.master_key in {name}"
    if isinstance(written, str) and written.startswith(ENV_PREFIX):
        where = written.removeprefix(ENV_PREFIX)
        written = environ.get(where)
    elif written is None:
        where, written = MASTER_KEY_ENV, environ.get(MASTER_KEY_ENV)
    fix = "python3 -c 'import secrets; print(\"sk-\" + secrets.token_urlsafe(32))'"
    if not written:
        if settings.get("custom_auth") not in (None, CUSTOM_AUTH):
            return ""
        return f"{where} is not set, and without an admin key everybody is admin; make one: {fix}"
    weak = weakness(str(written))
    return f"{where} is too weak: {weak}; make one: {fix}" if weak else ""


def _loaded(path: Path) -> Registry | None:
    try:
        return _load(path)
    except RegistryHookError as error:  # its text lists every problem
        _complain(str(error))
        return None


def _load(path: Path) -> Registry:
    from litellm_registry_hook.edges.registry_file import load_registry  # noqa: PLC0415

    return load_registry(path)


def _config(path: Path) -> dict[str, Any] | str:
    """Return the parsed LiteLLM config, or why there is none."""
    import yaml  # noqa: PLC0415

    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        return f"the LiteLLM config {path} cannot be read ({error.strerror}); write one with: generate-litellm-config"
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        return f"the LiteLLM config {path} is not YAML: {' '.join(str(error).split())}"
    if not isinstance(content, dict):
        return f"the LiteLLM config {path} holds no settings; write one with: generate-litellm-config"
    return content


def _warn_of_drift(registry: Registry, config: Mapping[str, Any], path: Path) -> None:
    from litellm_registry_hook.core.sync import plan_sync  # noqa: PLC0415

    differences = plan_sync(registry, config).differences
    if differences:
        listed = ", ".join(difference.path for difference in differences[:3])
        more = f" and {len(differences) - 3} more" if len(differences) > 3 else ""  # noqa: PLR2004
        message = f"{path} is not what the registry wants ({listed}{more}); mend it with: generate-litellm-config"
        click.echo(f"warning: {message}", err=True)


def _warn_of_slowness() -> None:
    from importlib.util import find_spec  # noqa: PLC0415

    if find_spec("granian") is None:
        click.echo(
            "warning: granian is not installed; LiteLLM's default runner is slower (pip install granian)", err=True
        )
    try:
        here = find_spec("opentelemetry.sdk") is not None
    except ModuleNotFoundError:
        here = False
    if not here:
        why = "LiteLLM retries its import on every request (pip install opentelemetry-sdk)"
        click.echo(f"warning: opentelemetry-sdk is not installed; {why}", err=True)


def _fail(problem: str) -> int:
    _complain(problem)
    return FAILED


def _complain(problem: str) -> None:
    click.echo(f"error: {problem}", err=True)
