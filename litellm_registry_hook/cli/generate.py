"""`generate-litellm-config`: make the model_list of a LiteLLM config say what the registry says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from litellm_registry_hook.core.problems import Problem
from litellm_registry_hook.core.registry import Registry
from litellm_registry_hook.core.sync import Difference
from litellm_registry_hook.core.sync_masking import shown, shown_text
from litellm_registry_hook.core.sync_settings import SettingEdit
from litellm_registry_hook.edges.atomic import one_writer
from litellm_registry_hook.edges.config_file import Synced, read_config, sync_config, write_config
from litellm_registry_hook.edges.config_mask import masked_diff
from litellm_registry_hook.edges.registry_file import load_registry
from litellm_registry_hook.errors import RegistryHookError

NO, ERROR = 1, 2


@click.command(name="generate-litellm-config", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--registry", "registry_file", metavar="FILE", help="The registry [model-registry.yaml].")
@click.option(
    "--config",
    "config_file",
    metavar="FILE",
    default="litellm-config.yaml",
    show_default=True,
    help="The LiteLLM config.",
)
@click.option("--check", is_flag=True, help="Write nothing; print what differs and exit 1 if anything does.")
@click.option("--diff", is_flag=True, help="Write nothing; print a unified diff and exit 1 if it is not empty.")
@click.option("--adopt", is_flag=True, help="Replace entries of others that carry a name of the registry.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
def generate(
    registry_file: str | None, config_file: str, *, check: bool, diff: bool, adopt: bool, as_json: bool
) -> None:
    """Make the entries of a LiteLLM config that belong to the registry match it.

    Every other byte stays as it is. Exit codes: 0 done or nothing to do, 1 --check or --diff found something, 2 error.
    """
    path = Path(config_file)
    try:
        registry = load_registry(registry_file)
        if check or diff:
            synced = sync_config(registry, read_config(path), adopt=adopt)
        else:
            synced = _write(registry, path, adopt=adopt)
    except RegistryHookError as error:
        click.echo(f"error: {error}", err=True)
        raise SystemExit(ERROR) from None
    for warning in synced.warnings:
        click.echo(f"warning: {warning_line(path, warning)}", err=True)
    if as_json:
        click.echo(json.dumps(_report(synced, written=not (check or diff)), indent=2, ensure_ascii=False, default=str))
    else:
        for line in _lines(synced, check=check, diff=diff):
            click.echo(line)
    if (check or diff) and synced.changed:
        raise SystemExit(NO)


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


def _report(synced: Synced, *, written: bool) -> dict[str, Any]:
    return {
        "config": str(synced.file.path),
        "changed": synced.changed,
        "written": written and synced.changed,
        "differences": [
            {
                "path": shown_text(d.path),
                "kind": d.kind,
                "was": shown(d.was, d.keys),
                "wanted": shown(d.wanted, d.keys),
            }
            for d in synced.plan.differences
        ],
        "warnings": [
            {"code": w.code, "path": w.path, "message": shown_text(w.message), "hint": w.hint} for w in synced.warnings
        ],
    }
