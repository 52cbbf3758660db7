"""Writes the parts of the docs that say what the code says: commands, metrics, headers, keys of the registry.

python scripts/reference.py            # write them
python scripts/reference.py --check    # exit 1 and name what is out of date
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import click

from litellm_registry_hook.cli.generate import generate
from litellm_registry_hook.cli.main import COMMANDS, cli
from litellm_registry_hook.core.header_docs import header_tables
from litellm_registry_hook.core.key_docs import key_tables
from litellm_registry_hook.core.metrics import metric_table
from litellm_registry_hook.core.schema import schema_text

ROOT = Path(__file__).resolve().parents[1]
OF_ALL = {"--help", "--registry", "--json", "--version"}
MADE = "<!-- Made by scripts/reference.py of the code; do not edit. -->\n"


def described(command: click.Command) -> list[str]:
    """Return what a command's help says, its examples as code."""
    told = "\n\n".join(filter(None, (command.help or command.short_help, command.epilog)))
    lines: list[str] = []
    for line in (line.strip() for line in told.replace("\f", "").replace("\b\n", "").splitlines()):
        if line.startswith(("litellm-registry ", "generate-litellm-config")):
            lines.append(f"- `{line}`")
        elif line or (lines and lines[-1]):
            lines.append(line)
    return lines


def section(command: click.Command, path: str, level: int = 2) -> list[str]:
    """Describe a command and those below it."""
    context = click.Context(command, info_name=path)
    lines = [f"{'#' * level} {path}", ""]
    lines += [*described(command), ""]
    if not isinstance(command, click.Group):
        usage = " ".join(filter(None, command.collect_usage_pieces(context)))
        lines += [f"`{path} {usage}`", ""]
    rows = []
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None and not OF_ALL & {word.strip(",") for word in record[0].split()}:
            if not record[0].strip():
                continue
            names, text = (cell.replace("|", "\\|").replace("\n", " ") for cell in record)
            rows.append(f"| `{names}` | {text} |")
    if rows and path != "litellm-registry":
        lines += ["| option | |", "|---|---|", *rows, ""]
    if isinstance(command, click.Group) and path != "litellm-registry":
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None and not below.hidden:
                lines += section(below, f"{path} {name}", level + 1)
    return lines


def commands() -> str:
    """Return docs/commands.md."""
    lines = [
        "# Commands",
        "",
        MADE,
        "Exit codes of all: 0 yes, 1 no (refused, drift, findings, not opted in), 2 error. `--registry FILE` and `--json`",
        "work before and after the command of `litellm-registry`; with `--json` stdout holds only JSON.",
        "",
        *section(generate, "generate-litellm-config"),
        *section(cli, "litellm-registry"),
    ]
    for name, (module, attribute, _) in COMMANDS.items():
        command = getattr(import_module(f"litellm_registry_hook.cli.{module}"), attribute)
        lines += section(command, f"litellm-registry {name}")
    return "\n".join(lines).rstrip() + "\n"


def metrics() -> str:
    """Return docs/metrics.md."""
    return "\n".join(
        [
            "# Metrics",
            "",
            MADE,
            "With `prometheus` in `litellm_settings.callbacks` (beside ours), LiteLLM's own `/metrics/` shows these beside its",
            "numbers. Counters are added up over the workers; of a gauge the largest counts, of `registry_gpu_state_ok` the",
            "smallest.",
            "",
            metric_table(),
        ]
    )


def requests() -> str:
    """Return docs/requests.md with its tables of headers made anew."""
    text = (ROOT / "docs/requests.md").read_text(encoding="utf-8")
    before, _, rest = text.partition("## Headers\n\n")
    after = rest[rest.index("\nNeither consent nor") :]
    return f"{before}## Headers\n\n{header_tables()}{after}"


def registry() -> str:
    """Return docs/registry.md with its tables of keys made anew."""
    text = (ROOT / "docs/registry.md").read_text(encoding="utf-8")
    return text[: text.index("### Top level")] + key_tables()


PAGES = {
    "docs/commands.md": commands,
    "docs/metrics.md": metrics,
    "docs/requests.md": requests,
    "docs/registry.md": registry,
    "litellm_registry_hook/model-registry.schema.json": schema_text,
}


def main(arguments: list[str]) -> int:
    """Write the pages, or say which are out of date."""
    stale = [name for name, made in PAGES.items() if not (ROOT / name).exists() or (ROOT / name).read_text() != made()]
    if "--check" in arguments:
        for name in stale:
            print(f"{name} is out of date: run python scripts/reference.py")
        return int(bool(stale))
    for name in stale:
        (ROOT / name).write_text(PAGES[name]())
        print(f"{name} written")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
