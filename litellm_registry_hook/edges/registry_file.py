"""Read the registry file."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from litellm_registry_hook.core.findings import Finding, format_path
from litellm_registry_hook.core.parse import parse
from litellm_registry_hook.core.problems import Problem
from litellm_registry_hook.core.registry import Registry
from litellm_registry_hook.edges.yaml_plain import PlainYaml, read_yaml
from litellm_registry_hook.errors import RegistryError

VARIABLE = "LITELLM_REGISTRY"
DEFAULT_NAME = "model-registry.yaml"
# A registry of 10,000 models has about 4 MB.
MAX_BYTES = 64 * 1024 * 1024


def registry_path(path: str | os.PathLike[str] | None = None) -> Path:
    """Return the registry's path: the given one, else $LITELLM_REGISTRY, else model-registry.yaml here."""
    return Path(path if path is not None else os.environ.get(VARIABLE) or DEFAULT_NAME)


def load_registry(path: str | os.PathLike[str] | None = None) -> Registry:
    """Read and check a registry.

    Args:
        path: the file; None means $LITELLM_REGISTRY, else model-registry.yaml in the working directory.

    Raises:
        RegistryError: the file cannot be read or is not valid; carries every problem.

    """
    where = registry_path(path)
    registry, problems = check_file(where)
    if registry is None:
        raise invalid(where, problems)
    return registry


def check_file(
    path: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
) -> tuple[Registry | None, tuple[Problem, ...]]:
    """Read a registry and return all problems instead of raising.

    Args:
        path: the file; None as in load_registry.
        env: environment in which `os.environ/NAME` must exist; None leaves that warning out.

    Returns:
        the registry, None if any problem is an error; and every problem, in file order.

    """
    where = registry_path(path)
    try:
        with where.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        message = f"the file cannot be read: {error.strerror or error}"
        hint = f"name the file with --registry or {VARIABLE}"
        return None, (Problem("file_unreadable", "", message, hint),)
    return check_bytes(content, env)


def digest_of(path: str | os.PathLike[str]) -> str:
    """Return what names a file's content, the first 12 hex digits of its sha256; empty where it cannot be read."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            return hashlib.sha256(file.read(MAX_BYTES + 1)).hexdigest()[:12]
    except OSError:
        return ""


def check_bytes(content: bytes, env: Mapping[str, str] | None = None) -> tuple[Registry | None, tuple[Problem, ...]]:
    """Check a registry's content; as check_file."""
    if len(content) > MAX_BYTES:
        message = f"the file is larger than {MAX_BYTES // 1024 // 1024} MB"
        return None, (Problem("file_unreadable", "", message, "name a registry file"),)
    try:
        # A byte order mark is no part of the text.
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        column = error.start - content.rfind(b"\n", 0, error.start)
        hint = "save the file as UTF-8"
        return None, (Problem("not_utf8", "", "the file is not UTF-8 text", hint, line, column),)
    tree = read_yaml(text)
    registry: Registry | None = None
    findings = list(tree.findings)
    if tree.value is not None or (tree.root is not None and not findings):
        registry, found = parse(tree.value, env=env, source=tree.source)
        # What the text itself got wrong is not reported again as a wrong value.
        told = {finding.path for finding in tree.findings}
        findings += [finding for finding in found if finding.path not in told or not finding.path]
    problems = tuple(sorted({_problem(finding, tree) for finding in findings}, key=_order))
    if any(problem.severity == "error" for problem in problems):
        return None, problems
    return registry, problems


def _problem(finding: Finding, tree: PlainYaml) -> Problem:
    line, column = finding.line, finding.column
    if not line:
        line, column = tree.place(finding.path, finding.at)
    path = format_path(finding.path)
    return Problem(finding.code, path, finding.message, finding.hint, line, column, finding.severity)


def _order(problem: Problem) -> tuple[int, int, str, str]:
    return problem.line, problem.column, problem.path, problem.code


def report_line(where: str | os.PathLike[str], problem: Problem) -> str:
    """Write a problem as `FILE:LINE:COLUMN: code: message (hint)`."""
    kind = "warning: " if problem.severity == "warning" else ""
    place = f"{problem.path}: " if problem.path else ""
    spot = f"{os.fspath(where)}:{problem.line}:{problem.column}"
    return f"{spot}: {kind}{problem.code}: {place}{problem.message} ({problem.hint})"


def invalid(where: str | os.PathLike[str], problems: tuple[Problem, ...]) -> RegistryError:
    """Make the error of a file that is not valid: every problem, one a line."""
    errors = [problem for problem in problems if problem.severity == "error"]
    count = "1 problem" if len(errors) == 1 else f"{len(errors)} problems"
    lines = "\n".join(report_line(where, problem) for problem in errors)
    return RegistryError(f"the registry {os.fspath(where)} is not valid, {count}:\n{lines}", errors)
