"""`litellm-registry completion`: the shell's completion for both console scripts."""

from __future__ import annotations

from typing import Final

import click

from litellm_registry_hook.cli.options import example

SHELLS: Final = ("bash", "zsh", "fish")
SCRIPTS: Final = ("litellm-registry", "generate-litellm-config")

# Not click's: bash breaks words at colons, and names have them (gemma3:4b, agent:torgash). The line itself is read
# instead, and of an answer bash gets what comes after the last colon that is typed.
BASH: Final = """\
%(complete_func)s() {
    local IFS=$' \\t\\n' line="${COMP_LINE:0:COMP_POINT}" count last typed answer
    local -a words
    read -r -a words <<< "$line"
    count=${#words[@]}
    last="${line##*[[:space:]]}"
    [[ -n $last ]] && count=$((count - 1))
    typed="$last"
    [[ $last == --*=* ]] && typed="${last#*=}"
    COMPREPLY=()
    while IFS= read -r answer; do
        case "${answer%%%%,*}" in
            plain)
                answer="${answer#*,}"
                [[ $typed == *:* ]] && answer="${answer#"${typed%%:*}":}"
                COMPREPLY+=("$answer") ;;
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
        esac
    done < <(env COMP_WORDS="$line" COMP_CWORD="$count" %(complete_var)s=bash_complete "$1" 2> /dev/null)
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""


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
        template = BASH if shell == "bash" else writer.source_template
        click.echo(template % writer.source_vars())
    return 0
