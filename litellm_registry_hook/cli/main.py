"""The console scripts. Commands are imported when they are called: a command line must start fast."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

import click

from litellm_registry_hook._version import __version__
from litellm_registry_hook.cli.options import example, group_options
from litellm_registry_hook.cli.run import run

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# name: module, attribute, one line of help
COMMANDS = {
    "init": ("init_cmd", "init", "Look at the servers that run already, and write a registry of them."),
    "list": ("list_cmd", "list_models", "List the models."),
    "resolve": ("resolve_cmd", "resolve", "Print the first usable model of a tier."),
    "probe-config": (
        "probe_config_cmd",
        "probe_config",
        "Print what must be asked to know whether a model can be used.",
    ),
    "preload-check": ("preload_cmd", "preload_check", "Say whether a model may be loaded."),
    "warm": ("warm_cmd", "warm", "Load the never-evict models now."),
    "calibrate": ("calibrate_cmd", "calibrate", "Measure what models take on the GPU, and mend the registry."),
    "validate": ("validate_cmd", "validate", "Check a registry file."),
    "keys": ("keys_cmd", "keys", "Make, list, end and renew a proxy's own virtual keys."),
    "opt-in": ("opt_in_cmd", "opt_in", "Opt virtual keys in to metered models, and out again."),
    "audit": ("audit_cmd", "audit", "Print grants, refusals, metered calls and their cost."),
    "decisions": ("decisions_cmd", "decisions", "Print what was decided on requests, and why."),
    "explain": ("explain_cmd", "explain", "Say who would serve a tier or a model now, and why."),
    "status": ("status_cmd", "status", "Show tiers, GPU memory, quotas, loads and workers."),
    "doctor": ("doctor_cmd", "doctor", "Find side doors past the gates, and how to close them."),
    "serve": ("serve", "serve", "Start the LiteLLM proxy with the registry in force."),
    "completion": ("completion_cmd", "completion", "Print the completion script of bash, zsh or fish."),
}


# Not listed in the help.
HIDDEN = {"schema": ("schema_cmd", "schema", "")}


class LazyGroup(click.Group):
    """A group whose commands are modules, imported on use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands there are, in the order of the table."""
        _ = ctx
        return [name for name, (module, _, _) in COMMANDS.items() if find_spec(f"litellm_registry_hook.cli.{module}")]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in self.list_commands(ctx) and cmd_name not in HIDDEN:
            return None
        module, attribute, _ = (COMMANDS | HIDDEN)[cmd_name]
        command = getattr(import_module(f"litellm_registry_hook.cli.{module}"), attribute)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; a mistyped one is told the nearest name."""
        name = args[0]
        if self.get_command(ctx, name) is None and not ctx.resilient_parsing and not name.startswith("-"):
            from litellm_registry_hook.core.suggest import nearest  # noqa: PLC0415

            close = nearest(name, self.list_commands(ctx))
            ctx.fail(f"No such command {name!r}." + (f" Did you mean {close!r}?" if close is not None else ""))
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the commands without importing them."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415

        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        found = [CompletionItem(name, help=COMMANDS[name][2]) for name in names]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands into the help, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][2]) for name in self.list_commands(ctx)])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=example("litellm-registry explain --tier large"),
)
@click.version_option(__version__, prog_name="litellm-registry")
@group_options
def cli(registry: str | None, json: bool) -> None:
    """Ask and check the model registry.

    Exit codes: 0 yes, 1 no, 2 error.
    """
    _ = registry, json  # the commands read them, see cli/options.py


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `litellm-registry`; return its exit code."""
    return run(cli, "litellm-registry", arguments)


def generate_main(arguments: Sequence[str] | None = None) -> int:
    """Run `generate-litellm-config`; return its exit code."""
    command = import_module("litellm_registry_hook.cli.generate").generate
    assert isinstance(command, click.Command)
    return run(command, "generate-litellm-config", arguments)
