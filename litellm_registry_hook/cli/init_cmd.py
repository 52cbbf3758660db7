"""`litellm-registry init`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from litellm_registry_hook.cli.options import common_options, registry_file, wants_json
from litellm_registry_hook.cli.output import notice, print_json
from litellm_registry_hook.errors import RegistryError

if TYPE_CHECKING:
    from litellm_registry_hook.core.problems import Problem
    from litellm_registry_hook.core.start.found import Found
    from litellm_registry_hook.core.start.proposal import Proposal
    from litellm_registry_hook.edges.start.look import Target

EXIT_NO = 1


@click.command("init")
@click.option("--ollama", multiple=True, metavar="URL", help="An Ollama server.")
@click.option("--tei", multiple=True, metavar="URL", help="A text-embeddings-inference server.")
@click.option("--openai", multiple=True, metavar="URL", help="vLLM, llama.cpp, LM Studio, …")
@click.option("--key-env", multiple=True, metavar="URL=NAME", help="Variable with a server's key.")
@click.option("--from-config", metavar="FILE", help="A LiteLLM config to carry over.")
@click.option("--keep-foreign", multiple=True, metavar="NAME", help="Leave a model_name of it to LiteLLM.")
@click.option("--secrets-to-env", is_flag=True, help="Write os.environ/NAME for its keys.")
@click.option("-o", "--output", metavar="FILE", help="Default: as --registry.")
@click.option("--embedder", metavar="ID", help="The model of the tier embed.")
@click.option("--never-evict", multiple=True, metavar="ID", help="Stays on the GPU for good.")
@click.option("--no-never-evict", is_flag=True, help="Nothing stays for good.")
@click.option("--free", multiple=True, metavar="WHAT", help="Costs nothing; a URL, a host or an id.")
@click.option("--gpu-total", multiple=True, metavar="[HOST=]MB", help="Where NVML does not tell.")
@click.option("--size", multiple=True, metavar="ID=MB", help="What a model takes on a GPU.")
@click.option("--dimensions", multiple=True, metavar="ID=N", help="Length of its vectors.")
@click.option("--num-ctx", type=click.IntRange(min=1), metavar="N", help="Tokens of Ollama's chat models.")
@click.option("--reserve", type=click.IntRange(min=0), default=300, metavar="MB", help="Of each GPU, for others: 300.")
@click.option("--no-gpu", is_flag=True, help="Do not look at GPUs: nothing runs on one.")
@click.option("--timeout", type=click.FloatRange(min=0.1, max=60), default=3.0, metavar="S", help="Of one answer: 3.")
@click.option("--yes", is_flag=True, help="Take the safe answer to every question.")
@click.option("--force", is_flag=True, help="Replace the file that is there.")
@common_options
def init(**given: Any) -> int:
    """Look at the servers that run already, and write a registry of them.

    Looking loads no model and costs nothing. Without URLs the usual addresses of this machine are tried. What may cost
    money is metered.

    \b
    Examples:
      litellm-registry init
      litellm-registry init --ollama http://gpu-box:11434 --yes

    Exit codes: 0 written, 1 nothing found, 2 error.
    """  # noqa: D301  click takes the backspace for: keep these lines
    from litellm_registry_hook.cli.init_ask import decide  # noqa: PLC0415
    from litellm_registry_hook.cli.init_given import checked, choices_of, import_of, targets_of  # noqa: PLC0415
    from litellm_registry_hook.cli.init_text import as_json, nothing, show  # noqa: PLC0415
    from litellm_registry_hook.core.start.merge import merge  # noqa: PLC0415
    from litellm_registry_hook.core.start.propose import propose  # noqa: PLC0415
    from litellm_registry_hook.edges.registry_file import registry_path  # noqa: PLC0415

    path = registry_path(given["output"] or registry_file())
    if not _writable(path, force=given["force"], yes=given["yes"]):
        return EXIT_NO
    fresh = not os.path.lexists(path)
    choices = choices_of(given)
    imported, names = import_of(given) if given["from_config"] else (None, set())
    found = _look(targets_of(given, imported), given)
    choices = decide(found, checked(found, choices, names), yes=given["yes"])
    proposal = propose(found, choices)
    if imported is not None:
        proposal = merge(proposal, imported)
    if not proposal.models:
        nothing(found, proposal.left, json=wants_json())
        _hint(given)
        return EXIT_NO
    warnings = _write(path, proposal, fresh=fresh and not given["force"])
    if wants_json():
        print_json(as_json(path, proposal, found, warnings, given["from_config"]))
    else:
        show(path, proposal, found, warnings, given["from_config"])
        _hint(given)
    return 0


def _writable(path: Path, *, force: bool, yes: bool) -> bool:
    """Say whether the file may be written; asks where there is somebody to ask.

    Raises:
        RegistryError: it is there and nobody allowed to replace it, or there is no such folder.

    """
    from litellm_registry_hook.cli.init_ask import may_replace, on_terminal  # noqa: PLC0415

    if path.is_dir():
        raise RegistryError(f"{path} is a folder: name a file with --output")
    if not path.parent.is_dir():
        raise RegistryError(f"there is no folder {path.parent}: make it, or name another file with --output")
    if force or not os.path.lexists(path):
        return True
    if yes or not on_terminal():
        raise RegistryError(
            f"{path} is there already and was left as it is: --force replaces it, --output writes elsewhere"
        )
    return may_replace(str(path))


def _look(targets: list[Target], given: dict[str, Any]) -> Found:
    from litellm_registry_hook.cli.progress import Bar  # noqa: PLC0415
    from litellm_registry_hook.edges.start.look import look  # noqa: PLC0415

    with Bar(0 if wants_json() else len(targets)) as bar:
        return look(targets, bar, answer_s=given["timeout"], gpus=not given["no_gpu"])


def _write(path: Path, proposal: Proposal, *, fresh: bool) -> list[Problem]:
    """Write the file, and return the warnings that it gets; `fresh`: only where there still is none.

    Raises:
        RegistryError: it would not load (a bug of ours; nothing is written), or it cannot be written.

    """
    from litellm_registry_hook.edges.atomic import one_writer, replace_bytes  # noqa: PLC0415
    from litellm_registry_hook.edges.registry_file import check_bytes, report_line  # noqa: PLC0415
    from litellm_registry_hook.edges.start.render import render  # noqa: PLC0415

    content = render(proposal).encode()
    registry, problems = check_bytes(content, os.environ)
    if registry is None:
        lines = "\n".join(report_line(path, one) for one in problems if one.severity == "error")
        raise RegistryError(
            f"what was found makes a registry that is not valid, and nothing was written;"
            f" this is a bug of litellm-registry-hook:\n{lines}",
            problems,
        )
    try:
        with one_writer(path):
            if fresh and os.path.lexists(path):
                raise RegistryError(f"{path} has been written by somebody else meanwhile, and was left as it is")
            replace_bytes(path, content)
    except OSError as error:
        raise RegistryError(f"{path} cannot be written: {error.strerror or error}") from None
    return [one for one in problems if one.severity == "warning"]


def _hint(given: dict[str, Any]) -> None:
    from litellm_registry_hook.cli.init_text import CONFIG  # noqa: PLC0415

    if given["from_config"] is None and Path(CONFIG).is_file() and not wants_json():
        notice(f"a {CONFIG} lies here and was not read: --from-config {CONFIG} carries its models over")
