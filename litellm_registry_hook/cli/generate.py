"""`generate-litellm-config`: make the model_list of a LiteLLM config say what the registry says."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from litellm_registry_hook.cli.names import files
from litellm_registry_hook.cli.opt_in_options import ADMIN_KEY
from litellm_registry_hook.cli.options import example
from litellm_registry_hook.cli.running_text import running_data, running_lines
from litellm_registry_hook.core.problems import Problem
from litellm_registry_hook.core.registry import Registry
from litellm_registry_hook.core.running import Comparison, Running
from litellm_registry_hook.core.sync import Difference
from litellm_registry_hook.core.sync_masking import shown, shown_text
from litellm_registry_hook.core.sync_settings import SettingEdit
from litellm_registry_hook.edges.atomic import one_writer
from litellm_registry_hook.edges.config_file import Synced, read_config, sync_config, write_config
from litellm_registry_hook.edges.config_mask import masked_diff
from litellm_registry_hook.edges.registry_file import load_registry
from litellm_registry_hook.errors import RegistryHookError

NO, ERROR = 1, 2


@click.command(
    name="generate-litellm-config",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=example("generate-litellm-config --check --running http://127.0.0.1:4000"),
)
@click.option(
    "--registry", "registry_file", metavar="FILE", shell_complete=files, help="The registry [model-registry.yaml]."
)
@click.option(
    "--config",
    "config_file",
    metavar="FILE",
    default="litellm-config.yaml",
    show_default=True,
    shell_complete=files,
    help="The LiteLLM config.",
)
@click.option("--check", is_flag=True, help="Write nothing; print what differs.")
@click.option("--diff", is_flag=True, help="Write nothing; print a unified diff.")
@click.option("--adopt", is_flag=True, help="Replace entries of others that carry a name of the registry.")
@click.option("--running", "url", metavar="URL", help="With --check: compare with a running proxy too.")
@click.option(
    "--admin-key-env",
    metavar="NAME",
    default=ADMIN_KEY,
    show_default=True,
    help="The variable with that proxy's admin key.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
def generate(
    registry_file: str | None,
    config_file: str,
    *,
    check: bool,
    diff: bool,
    adopt: bool,
    url: str | None,
    admin_key_env: str,
    as_json: bool,
) -> None:
    """Make the entries of a LiteLLM config that belong to the registry match it.

    Every other byte stays as it is. Exit codes: 0 done or nothing to do, 1 --check or --diff found something, 2 error.
    """
    if url is not None and not check:
        raise click.UsageError("--running goes with --check: it compares, and writes nothing")
    source = click.get_current_context().get_parameter_source("admin_key_env")
    if url is None and source is ParameterSource.COMMANDLINE:
        raise click.UsageError("--admin-key-env goes with --running: nobody else is asked")
    path = Path(config_file)
    beside: _Beside | None = None
    try:
        registry = load_registry(registry_file)
        if check or diff:
            synced = sync_config(registry, read_config(path), adopt=adopt)
        else:
            synced = _write(registry, path, adopt=adopt)
        if url is not None:
            beside = _compare(registry, registry_file, synced, url, admin_key_env)
    except RegistryHookError as error:
        click.echo(f"error: {error}", err=True)
        raise SystemExit(ERROR) from None
    for warning in synced.warnings:
        click.echo(f"warning: {warning_line(path, warning)}", err=True)
    # A proxy can be looked at from where its config is not.
    elsewhere = beside is not None and not synced.file.exists
    if elsewhere:
        click.echo(f"note: {path} is not here: the proxy is compared with the registry alone", err=True)
    if as_json:
        data = _report(synced, written=not (check or diff), elsewhere=elsewhere)
        if beside is not None:
            data["running"] = running_data(beside.running, beside.compared)
        click.echo(json.dumps(data, indent=2, ensure_ascii=False, default=str))
    else:
        lines = [] if elsewhere else _lines(synced, check=check, diff=diff)
        if beside is not None:
            differs = synced.changed and not elsewhere
            lines.extend(running_lines(beside.running, beside.compared, file_differs=differs))
        for line in lines:
            click.echo(line)
    found = synced.changed and not elsewhere
    if (check or diff) and (found or (beside is not None and beside.compared.gaps)):
        raise SystemExit(NO)


@dataclass(frozen=True)
class _Beside:
    """A running proxy and what it has otherwise."""

    running: Running
    compared: Comparison


def _compare(registry: Registry, registry_file: str | None, synced: Synced, url: str, admin_key_env: str) -> _Beside:
    from litellm_registry_hook.core.running import compare  # noqa: PLC0415
    from litellm_registry_hook.edges.config_file import contents  # noqa: PLC0415
    from litellm_registry_hook.edges.registry_file import digest_of, registry_path  # noqa: PLC0415
    from litellm_registry_hook.edges.running import read_running  # noqa: PLC0415

    running = read_running(url, admin_key_env)
    configs = contents(synced.file) if synced.file.exists else None
    return _Beside(running, compare(registry, digest_of(registry_path(registry_file)), running, configs))


def _write(registry: Registry, path: Path, *, adopt: bool) -> Synced:
    with one_writer(path):
        synced = sync_config(registry, read_config(path), adopt=adopt)
        if synced.changed:
            write_config(synced)
    return synced


def _lines(synced: Synced, *, check: bool, diff: bool) -> list[str]:
    name = str(synced.file.path)
    lines: list[str] = []
    if check:
        lines.extend(difference_line(difference) for difference in synced.plan.differences)
        new = "" if synced.file.exists else "new file; "
        lines.append(f"{name}: {new}{_summary(synced)}" if synced.changed else f"{name}: up to date")
    if diff:
        text = masked_diff(synced.file.text if synced.file.exists else "", synced.text, name)
        lines.extend(text.splitlines())
    if not check and not diff:
        if not synced.changed:
            lines.append(f"{name}: up to date, nothing written")
        else:
            done = "written" if synced.file.exists else "created"
            lines.append(f"{name}: {done}: {_summary(synced)}; restart the proxy to load it")
    return lines


def _summary(synced: Synced) -> str:
    """Return what differs in one line: `added bge-m3@0; changed kimi@0; …`."""
    return "; ".join(f"{label} {', '.join(ids)}" for label, ids in _counts(synced).items() if ids)


def _counts(synced: Synced) -> dict[str, list[str]]:
    plan = synced.plan
    whole = [d for d in plan.differences if d.path.startswith("model_list[") and not d.keys]
    changed = [d.path for d in plan.differences if d.path.startswith("model_list[") and d.keys]
    return {
        "added": [_inside(d) for d in whole if d.kind == "missing"],
        "changed": list(dict.fromkeys(path[len("model_list[") : path.index("]")] for path in changed)),
        "removed": [_inside(d) for d in whole if d.kind == "extra"],
        "adopted": [d.path.partition("(")[2].rstrip(")") for d in whole if d.kind == "adopted"],
        "settings": [_setting(edit) for edit in plan.settings],
    }


def _setting(edit: SettingEdit) -> str:
    was = "" if edit.was is None else f" (was {_text(edit.was, (edit.section, edit.key))})"
    return f"{edit.path}{was}"


def _inside(difference: Difference) -> str:
    return difference.path[len("model_list[") : -1]


def difference_line(difference: Difference) -> str:
    """Return one difference as `path: was -> wanted`, secrets masked."""
    was = "(missing)" if difference.kind == "missing" else _text(difference.was, difference.keys)
    wanted = "(none)" if difference.kind in {"extra", "adopted"} else _text(difference.wanted, difference.keys)
    note = ""
    if was == wanted:
        note = " (the values differ; secrets are not shown)"
    return f"{shown_text(difference.path)}: {was} -> {wanted}{note}"


def warning_line(path: Path, warning: Problem) -> str:
    """Return one warning as `FILE: code: place: message (hint)`."""
    return f"{path}: {warning.code}: {warning.path}: {shown_text(warning.message)} ({warning.hint})"


def _text(value: Any, keys: tuple[str, ...]) -> str:
    return json.dumps(shown(value, keys), ensure_ascii=False, default=str)


def _report(synced: Synced, *, written: bool, elsewhere: bool = False) -> dict[str, Any]:
    return {
        "config": str(synced.file.path),
        "changed": synced.changed and not elsewhere,
        "written": written and synced.changed,
        "differences": [
            {
                "path": shown_text(d.path),
                "kind": d.kind,
                "was": shown(d.was, d.keys),
                "wanted": shown(d.wanted, d.keys),
            }
            for d in (() if elsewhere else synced.plan.differences)
        ],
        "warnings": [
            {"code": w.code, "path": w.path, "message": shown_text(w.message), "hint": w.hint} for w in synced.warnings
        ],
    }
