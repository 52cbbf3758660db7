"""`litellm-registry validate`."""

from __future__ import annotations

import os
from dataclasses import asdict

import click

from litellm_registry_hook.cli.names import files
from litellm_registry_hook.cli.options import common_options, example, registry_file, wants_json
from litellm_registry_hook.cli.output import notice, print_json


@click.command("validate", epilog=example("litellm-registry validate --strict model-registry.yaml"))
@click.argument("file", required=False, shell_complete=files)
@click.option("--strict", is_flag=True, help="Exit with 1 where there are warnings.")
@common_options
def validate(file: str | None, strict: bool) -> int:
    """Check a registry file: prints FILE:LINE:COLUMN: code: what is wrong (how to mend it).

    Exit codes: 0 valid, 1 warnings with --strict, 2 not valid.
    """
    from litellm_registry_hook.cli.run import EXIT_ERROR, EXIT_NO  # noqa: PLC0415
    from litellm_registry_hook.edges.registry_file import check_file, registry_path, report_line  # noqa: PLC0415

    where = registry_path(file if file is not None else registry_file())
    registry, problems = check_file(where, os.environ)
    errors = sum(problem.severity == "error" for problem in problems)
    warnings = len(problems) - errors
    if wants_json():
        print_json(
            {"file": str(where), "ok": registry is not None, "problems": [asdict(problem) for problem in problems]}
        )
    else:
        for problem in problems:
            click.echo(report_line(where, problem))
        verdict = "valid" if registry is not None else "not valid"
        notice(f"{where}: {verdict}, {_count(errors, 'error')}, {_count(warnings, 'warning')}")
    if registry is None:
        return EXIT_ERROR
    return EXIT_NO if strict and warnings else 0


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
