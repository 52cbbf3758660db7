"""`litellm-registry serve`: the LiteLLM proxy on its fastest runner, after the registry and the config were checked."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from litellm_registry_hook.cli.names import files
from litellm_registry_hook.cli.options import common_options, example, read_registry, registry_file, wants_json
from litellm_registry_hook.cli.output import error, notice, print_json

if TYPE_CHECKING:
    from litellm_registry_hook.core.registry import Registry
    from litellm_registry_hook.demo.run import Ready

FAILED = 2
DEFAULT_CONFIG = "litellm-config.yaml"
ENV_PREFIX = "os.environ/"
MASTER_KEY = "LITELLM_MASTER_KEY"
NEW_KEY = "python3 -c 'import secrets; print(\"sk-\" + secrets.token_urlsafe(32))'"


@click.command(epilog=example("litellm-registry serve --port 4000 --workers 2"))
@click.option(
    "--demo", is_flag=True, help="A stand-in answers for whatever does not run here; needs no key and no config."
)
@click.option("--config", metavar="FILE", shell_complete=files, help=f"The LiteLLM config; default {DEFAULT_CONFIG}.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(1, 65535), default=4000, show_default=True, help="Port to listen on.")
@click.option("--workers", type=click.IntRange(1), help="Worker processes; LiteLLM's default is 1.")
@click.argument("litellm_args", nargs=-1, type=click.UNPROCESSED)
@common_options
def serve(
    *, demo: bool, config: str | None, host: str, port: int, workers: int | None, litellm_args: tuple[str, ...]
) -> int:
    """Start the LiteLLM proxy with the registry in force; arguments after -- go to litellm.

    The registry is checked first: with an invalid one the proxy does not start.
    """
    # Imported here: `--help` and the other commands must not wait for the demo's servers.
    from litellm_registry_hook.demo.proxy import missing_host, port_problem  # noqa: PLC0415

    if demo and config is not None:
        raise click.UsageError("--config has no effect with --demo, which writes a config of its own.")
    if wants_json() and not demo:
        raise click.UsageError("--json has no effect without --demo: the proxy's own output follows.")
    problem = missing_host()
    if problem:
        return _fail(problem)
    registry = read_registry()
    if demo:
        problem = port_problem(host, port)
        return _fail(problem) if problem else _demo(host, port, workers, litellm_args)
    file = Path(config or DEFAULT_CONFIG)
    return _proxy(registry, file, host=host, port=port, workers=workers, extra=litellm_args)


def _demo(host: str, port: int, workers: int | None, extra: Sequence[str]) -> int:
    from litellm_registry_hook.demo.run import Settings, run_demo  # noqa: PLC0415
    from litellm_registry_hook.edges.registry_file import load_registry, registry_path  # noqa: PLC0415

    settings = Settings(registry_path(registry_file()), host, port, workers, extra)
    return asyncio.run(run_demo(settings, load_registry, os.environ, Terminal(as_json=wants_json())))


def _proxy(
    registry: Registry, config_file: Path, *, host: str, port: int, workers: int | None, extra: Sequence[str]
) -> int:
    """Check the config, then become the proxy; return the exit code of a failed check."""
    from litellm_registry_hook.demo.proxy import command_line, port_problem  # noqa: PLC0415
    from litellm_registry_hook.edges.config_file import read_config, sync_config  # noqa: PLC0415
    from litellm_registry_hook.edges.registry_file import registry_path  # noqa: PLC0415

    file = read_config(config_file)
    if not file.exists:
        return _fail(f"there is no LiteLLM config {config_file}; write one with: generate-litellm-config")
    synced = sync_config(registry, file)
    problem = master_key_problem(_parsed(file.text), os.environ, config_file.name) or port_problem(host, port)
    if problem:
        return _fail(problem)
    if synced.changed:
        paths = [difference.path for difference in synced.plan.differences]
        more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""  # noqa: PLR2004
        what = f"{config_file} is not what the registry wants ({', '.join(paths[:3])}{more})"
        notice(f"warning: {what}; mend it with: generate-litellm-config")
    for warning in synced.warnings:
        notice(f"warning: {config_file}: {warning.code}: {warning.path}: {warning.message} ({warning.hint})")
    for warning_text in slow_parts():
        notice(f"warning: {warning_text}")
    command = command_line(config_file, host, port, workers, extra)
    environment = {**os.environ, "LITELLM_REGISTRY": str(registry_path(registry_file()).resolve())}
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
    if written is None:
        written = ENV_PREFIX + MASTER_KEY
    if isinstance(written, str) and written.startswith(ENV_PREFIX):
        where = written.removeprefix(ENV_PREFIX)
        written = environ.get(where)
    if not written:
        if settings.get("custom_auth") not in {None, CUSTOM_AUTH}:
            return ""
        return f"{where} is not set, and without an admin key everybody is admin; make one: {NEW_KEY}"
    weak = weakness(str(written))
    return f"{where} is too weak: {weak}; make one: {NEW_KEY}" if weak else ""


def slow_parts() -> list[str]:
    """Return what is missing that makes the proxy faster."""
    found = []
    if find_spec("granian") is None:
        found.append("granian is not installed; LiteLLM's default runner is slower (pip install granian)")
    if find_spec("opentelemetry") is None or find_spec("opentelemetry.sdk") is None:
        why = "LiteLLM retries its import on every request (pip install opentelemetry-sdk)"
        found.append(f"opentelemetry-sdk is not installed; {why}")
    return found


class Terminal:
    """Shows the demo: notices on stdout, or with --json on stderr, and then one JSON object when it is ready."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json

    def say(self, text: str) -> None:
        """Show a notice."""
        click.echo(text, err=self._as_json)

    def fail(self, text: str) -> None:
        """Show why the demo ends."""
        error(text)

    def ready(self, demo: Ready) -> None:
        """Show how the demo is used."""
        from litellm_registry_hook.demo.show import as_data, usage  # noqa: PLC0415

        if self._as_json:
            print_json(as_data(demo.registry, demo.found, demo.url, demo.key, demo.log))
        else:
            click.echo(usage(demo.registry, demo.found, demo.url, demo.key, demo.log))


def _parsed(text: str) -> Mapping[str, Any]:
    import yaml  # noqa: PLC0415

    content = yaml.safe_load(text)
    return content if isinstance(content, dict) else {}


def _fail(problem: str) -> int:
    error(problem)
    return FAILED
