"""`litellm-registry completion`: the shell's completion for both console scripts."""

from __future__ import annotations

import click

from litellm_registry_hook.cli.options import example

SHELLS = ("bash", "zsh", "fish")
SCRIPTS = ("litellm-registry", "generate-litellm-config")


@click.command("completion", epilog=example('eval "$(litellm-registry completion bash)"   # in ~/.bashrc'))
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> int:
    """Print the completion script of a shell, for litellm-registry and generate-litellm-config.

    It completes commands, options, and the ids, tiers and aliases of the registry that the command would read.
    """
    from click.shell_completion import get_completion_class  # noqa: PLC0415

    kind = get_completion_class(shell)
    assert kind is not None
    for script in SCRIPTS:
        variable = f"_{script.replace('-', '_').upper()}_COMPLETE"
        # Not .source(): that runs the shell to see how old it is.
        writer = kind(click.Command(script), {}, script, variable)
        click.echo(writer.source_template % writer.source_vars())
    return 0
