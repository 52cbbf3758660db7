"""The questions of `litellm-registry init`, on a terminal; without one --yes or an option answers."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from litellm_registry_hook.cli.output import notice
from litellm_registry_hook.errors import RegistryError

if TYPE_CHECKING:
    from litellm_registry_hook.core.start.choices import Choices, Question
    from litellm_registry_hook.core.start.found import Found


def decide(found: Found, choices: Choices, *, yes: bool) -> Choices:
    """Return the choices with every question answered: by --yes, else by a person.

    Raises:
        RegistryError: there are questions, and neither --yes nor a terminal; names the options that answer them.

    """
    from litellm_registry_hook.core.start.choices import answered  # noqa: PLC0415
    from litellm_registry_hook.core.start.questions import next_question  # noqa: PLC0415

    asks = not yes and on_terminal()
    open_ones: list[Question] = []
    while (question := next_question(found, choices)) is not None:
        if asks:
            choices = _asked(choices, question)
            continue
        open_ones.append(question)
        choices = answered(choices, question, question.safe)
    if open_ones and not yes:
        lines = "\n".join(f"  {one.flag}: {one.text}" for one in open_ones)
        raise RegistryError(f"a person must decide; --yes takes the safe answers, these options give others:\n{lines}")
    return choices


def on_terminal() -> bool:
    """Say whether there is a person to ask."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def may_replace(path: str) -> bool:
    """Ask whether a registry that is there may be overwritten."""
    return click.confirm(f"{path} is there already. Replace it?", default=False, err=True)


def _asked(choices: Choices, question: Question) -> Choices:
    from litellm_registry_hook.core.start.choices import answered  # noqa: PLC0415

    while True:
        if question.kind == "free":
            said = "yes" if click.confirm(question.text, default=False, err=True) else "no"
        else:
            if question.kind == "embedder":
                notice("\n".join(f"  {one}" for one in question.options))
            said = click.prompt(question.text, default=question.safe, show_default=bool(question.safe), err=True)
            said = "" if question.kind == "never_evict" and said.strip().lower() == "none" else said
        try:
            return answered(choices, question, said)
        except ValueError as error:
            notice(str(error))
