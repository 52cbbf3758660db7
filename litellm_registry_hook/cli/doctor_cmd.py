"""`litellm-registry doctor`: what opens a side door past the gates, and how to close it."""

from __future__ import annotations

import os
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import click

from litellm_registry_hook.cli.names import files
from litellm_registry_hook.cli.options import common_options, example, registry_file, wants_json
from litellm_registry_hook.cli.output import notice, print_json

if TYPE_CHECKING:
    from litellm_registry_hook.core.doctor_case import Diagnosis

DEFAULT_CONFIG = "litellm-config.yaml"
CONFIG_HELP = "The LiteLLM config."


@click.command("doctor", epilog=example("litellm-registry doctor --config litellm-config.yaml"))
@click.option(
    "--config", metavar="FILE", default=DEFAULT_CONFIG, show_default=True, shell_complete=files, help=CONFIG_HELP
)
@common_options
def doctor(config: str) -> int:
    """Find what opens a side door past the registry's gates, or makes one weaker, and how to close it.

    Run it as the proxy's user, in the proxy's environment. Nothing is changed and no model is called.
    It also looks at the GPUs and the Ollama servers as they are now, without loading a model.

    Exit codes: 0 nothing found but infos, 1 findings, 2 error.
    """
    from litellm_registry_hook.cli.run import EXIT_NO  # noqa: PLC0415
    from litellm_registry_hook.edges.doctor_case import diagnose  # noqa: PLC0415
    from litellm_registry_hook.edges.doctor_live import look_live  # noqa: PLC0415
    from litellm_registry_hook.edges.registry_file import registry_path  # noqa: PLC0415

    where = registry_path(registry_file())
    findings = diagnose(where, Path(config), os.environ, datetime.now(timezone.utc), look_live)
    ill = any(finding.severity != "info" for finding in findings)
    if wants_json():
        print_json(
            {
                "registry": str(where),
                "config": config,
                "ok": not ill,
                "findings": [asdict(finding) for finding in findings],
            }
        )
    else:
        for finding in findings:
            click.echo(finding_text(finding))
        notice(f"{where}, {config}: {summary(findings)}")
    return EXIT_NO if ill else 0


def finding_text(finding: Diagnosis) -> str:
    """Write a finding as `FILE:LINE: severity: code: place: what is so`, and how to close it on a line of its own."""
    spot = f"{finding.file}:{finding.line}" if finding.line else finding.file
    place = f"{finding.path}: " if finding.path else ""
    return f"{spot}: {finding.severity}: {finding.code}: {place}{finding.message}\n    {finding.fix}"


def summary(findings: tuple[Diagnosis, ...]) -> str:
    """Return `3 findings (1 high, 2 low)`."""
    if not findings:
        return "nothing found"
    counts = [
        f"{number} {severity}"
        for severity in ("high", "medium", "low", "info")
        if (number := sum(one.severity == severity for one in findings))
    ]
    return f"{len(findings)} finding{'' if len(findings) == 1 else 's'} ({', '.join(counts)})"
