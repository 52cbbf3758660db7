"""`litellm-registry init`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from litellm_registry_hook.cli.options import common_options, registry_file, wants_json
from litellm_registry_hook.cli.output import notice, print_json
from litellm_registry_hook.errors import RegistryError

if TYPE_CHECKING:
    from litellm_registry_hook.core.problems import Problem
    from litellm_registry_hook.core.start.choices import Choices
    from litellm_registry_hook.core.start.found import Found
    from litellm_registry_hook.core.start.proposal import Proposal
    from litellm_registry_hook.edges.start.look import Target

EXIT_NO = 1
CONFIG = "litellm-config.yaml"


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
@click.option("--free", multiple=True, metavar="URL|ID", help="Costs nothing, though not ours.")
@click.option("--gpu-total", multiple=True, metavar="[HOST=]MB", help="Where NVML does not tell.")
@click.option("--size", multiple=True, metavar="ID=MB", help="What a model takes on a GPU.")
@click.option("--dimensions", multiple=True, metavar="ID=N", help="Length of its vectors.")
@click.option("--num-ctx", type=click.IntRange(min=1), metavar="N", help="Tokens of Ollama's chat models.")
@click.option("--reserve", type=click.IntRange(min=0), default=300, show_default=True, metavar="MB")
@click.option("--no-gpu", is_flag=True, help="Do not look at GPUs: nothing runs on one.")
@click.option("--timeout", type=click.FloatRange(min=0.1, max=60), default=3.0, show_default=True, metavar="S")
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
    from litellm_registry_hook.cli.init_text import as_json, nothing, show  # noqa: PLC0415
    from litellm_registry_hook.core.start.merge import merge  # noqa: PLC0415
    from litellm_registry_hook.core.start.propose import propose  # noqa: PLC0415
    from litellm_registry_hook.edges.registry_file import registry_path  # noqa: PLC0415

    path = registry_path(given["output"] or registry_file())
    if not _writable(path, force=given["force"], yes=given["yes"]):
        return EXIT_NO
    choices = _choices(given)
    imported, names = _import(given) if given["from_config"] else (None, set())
    found = _look(_targets(given, imported), given)
    choices = decide(found, _checked(found, choices, names), yes=given["yes"])
    proposal = propose(found, choices)
    if imported is not None:
        proposal = merge(proposal, imported)
    if not proposal.models:
        nothing(found, json=wants_json())
        _hint(given)
        return EXIT_NO
    warnings = _write(path, proposal)
    if wants_json():
        print_json(as_json(path, proposal, found, warnings))
    else:
        show(path, proposal, found, warnings)
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


def _pairs(option: str, texts: Iterable[str], what: str) -> dict[str, str]:
    found = {}
    for text in texts:
        name, sign, value = text.rpartition("=")
        if not sign or not name or not value:
            raise click.UsageError(f"--{option} {text}: write {what}")
        found[name] = value
    return found


def _numbers(option: str, texts: Iterable[str], what: str, least: int = 1) -> dict[str, int]:
    found = {}
    for name, value in _pairs(option, texts, what).items():
        if not (value.isascii() and value.isdecimal() and least <= int(value) < 10**9):
            raise click.UsageError(f"--{option} {name}={value}: {value} is not a whole number from {least} on")
        found[name] = int(value)
    return found


def _choices(given: dict[str, Any]) -> Choices:
    """Return what the options decide."""
    from litellm_registry_hook.core.start.choices import Choices  # noqa: PLC0415

    if given["never_evict"] and given["no_never_evict"]:
        raise click.UsageError("--never-evict and --no-never-evict contradict each other")
    for option in ("keep_foreign", "secrets_to_env"):
        if given[option] and not given["from_config"]:
            raise click.UsageError(f"--{option.replace('_', '-')} goes with --from-config FILE")
    totals = [text if "=" in text else f"localhost={text}" for text in given["gpu_total"]]
    stay = tuple(dict.fromkeys(given["never_evict"])) if given["never_evict"] else None
    return Choices(
        embedder=given["embedder"],
        never_evict=() if given["no_never_evict"] else stay,
        free=frozenset(_server_or_id(one) for one in given["free"]),
        gpu_mb=_numbers("gpu-total", totals, "MB or HOST=MB", 0),
        dimensions=_numbers("dimensions", given["dimensions"], "ID=N"),
        sizes=_numbers("size", given["size"], "ID=MB"),
        num_ctx=given["num_ctx"],
        reserve_mb=given["reserve"],
    )


def _server_or_id(text: str) -> str:
    return text.rstrip("/") if "://" in text else text


def _address(option: str, text: str, port: int | None = None) -> str:
    from litellm_registry_hook.edges.start.look import address  # noqa: PLC0415

    try:
        return address(text, port=port)
    except ValueError as error:
        raise click.UsageError(f"--{option}: {error}") from None


def _targets(given: dict[str, Any], imported: Proposal | None) -> list[Target]:
    """Return where to look: what was named, else the usual addresses; and the Ollamas of an imported config."""
    from litellm_registry_hook.core.start.own import is_own  # noqa: PLC0415
    from litellm_registry_hook.edges.start.look import OLLAMA_PORT, Target, usual  # noqa: PLC0415

    keys = {_address("key-env", url): name for url, name in _pairs("key-env", given["key_env"], "URL=NAME").items()}
    for name in keys.values():
        if name not in os.environ:
            raise click.UsageError(f"--key-env: the environment variable {name} is not set")
    targets = [Target("ollama", _address("ollama", one, OLLAMA_PORT)) for one in given["ollama"]]
    targets += [Target("tei", _address("tei", one)) for one in given["tei"]]
    for one in given["openai"]:
        base = _address("openai", one)
        targets.append(Target("openai", base, key_env=keys.pop(base, "")))
    if keys:
        raise click.UsageError(f"--key-env {next(iter(keys))}: no --openai names that server")
    if not targets:
        targets += usual(os.environ.get("OLLAMA_HOST"))
    return [*targets, *(Target("ollama", base, named=False) for base in _ollamas(imported) if is_own(base))]


def _ollamas(imported: Proposal | None) -> list[str]:
    """Return the addresses of Ollama servers in an imported config."""
    found: list[str] = []
    for model in imported.models if imported is not None else ():
        params = model.entry.get("litellm") or {}
        if str(params.get("model", "")).startswith(("ollama/", "ollama_chat/")):
            places = [*(place.get("api_base") for place in model.entry.get("endpoints") or ()), params.get("api_base")]
            found += [one for one in places if isinstance(one, str) and one.startswith(("http://", "https://"))]
    return [_address("from-config", one) for one in found]


def _look(targets: list[Target], given: dict[str, Any]) -> Found:
    from litellm_registry_hook.cli.progress import Bar  # noqa: PLC0415
    from litellm_registry_hook.edges.start.look import look  # noqa: PLC0415

    with Bar(0 if wants_json() else len(targets)) as bar:
        return look(targets, bar, answer_s=given["timeout"], gpus=not given["no_gpu"])


def _checked(found: Found, choices: Choices, elsewhere: set[str]) -> Choices:
    """Return the choices once more: ids that options name must be there, or in the imported config.

    Raises:
        click.UsageError: one is not; names those that are.

    """
    from dataclasses import replace  # noqa: PLC0415

    from litellm_registry_hook.core.start.draft import drafts_of  # noqa: PLC0415
    from litellm_registry_hook.core.start.own import same_server  # noqa: PLC0415

    free = set()
    for one in choices.free:
        if "://" in one:
            free |= {base for base in found.bases if same_server(base, one)} or {one}
        else:
            free.add(one)
    choices = replace(choices, free=frozenset(free))
    drafts, _ = drafts_of(found, choices)
    ids = {draft.id: draft for draft in drafts}
    named = {
        "embedder": {choices.embedder} if choices.embedder is not None else set(),
        "never-evict": set(choices.never_evict or ()),
        "size": set(choices.sizes),
        "dimensions": set(choices.dimensions),
        "free": {one for one in choices.free if "://" not in one},
    }
    for option, wanted in named.items():
        for one in sorted(wanted - set(ids) - (elsewhere if option in {"dimensions", "free"} else set())):
            there = ", ".join(list(ids)[:20]) or "none"
            raise click.UsageError(f"--{option}: {one} was not found; found were: {there}")
    if choices.embedder is not None and ids[choices.embedder].kind != "embed":
        raise click.UsageError(f"--embedder: {choices.embedder} is not an embedding model")
    return choices


def _import(given: dict[str, Any]) -> tuple[Proposal, set[str]]:
    """Return the proposal of a LiteLLM config, and its model_names: --free and --dimensions may name them.

    Raises:
        ConfigError: it cannot be read.

    """
    from litellm_registry_hook.cli.init_import import read_import  # noqa: PLC0415

    file = given["from_config"]
    names = _model_names(file)
    proposal = read_import(
        file,
        given["keep_foreign"],
        [one for one in given["free"] if one in names],
        [one for one in given["dimensions"] if one.rpartition("=")[0] in names],
        secrets_to_env=given["secrets_to_env"],
    )
    return proposal, names


def _model_names(file: str) -> set[str]:
    from litellm_registry_hook.edges.config_file import read_config  # noqa: PLC0415
    from litellm_registry_hook.edges.config_tree import read_document  # noqa: PLC0415

    data = read_document(read_config(Path(file)).text, file).data
    listed = data.get("model_list") if isinstance(data, dict) else None
    entries = listed if isinstance(listed, list) else []
    return {str(entry.get("model_name")) for entry in entries if isinstance(entry, dict)}


def _write(path: Path, proposal: Proposal) -> list[Problem]:
    """Write the file, and return the warnings that it gets.

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
            replace_bytes(path, content)
    except OSError as error:
        raise RegistryError(f"{path} cannot be written: {error.strerror or error}") from None
    return [one for one in problems if one.severity == "warning"]


def _hint(given: dict[str, Any]) -> None:
    if given["from_config"] is None and Path(CONFIG).is_file() and not wants_json():
        notice(f"a {CONFIG} lies here and was not read: --from-config {CONFIG} carries its models over")
