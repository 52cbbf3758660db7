"""`litellm-registry decisions`: what was decided on requests, and why."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import click

from litellm_registry_hook.cli.audit_cmd import plain
from litellm_registry_hook.cli.names import tier_names
from litellm_registry_hook.cli.options import common_options, example, wants_json
from litellm_registry_hook.cli.output import notice, print_json, print_table

if TYPE_CHECKING:
    from litellm_registry_hook.core.decision import Decision
    from litellm_registry_hook.core.registry import Registry

HEAD = ("WHEN", "REQUEST", "ASKED", "TIER", "KEY", "SERVED BY", "STATUS", "MS", "PASSED OVER")
LIMIT = 50


@click.command("decisions", epilog=example("litellm-registry decisions --tier large --since 12h"))
@click.option("--request-id", metavar="ID", help="Of one request: its x-litellm-call-id.")
@click.option("--tier", metavar="T", shell_complete=tier_names, help="Of one tier.")
@click.option("--since", metavar="WHEN", help="From this moment on: 30m, 12h, 7d, 2026-11-30, 2026-11-30T18:00, 18:00.")
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=LIMIT, show_default=True, help="So many at most, the newest."
)
@common_options
def decisions(request_id: str | None, tier: str | None, since: str | None, limit: int) -> int:
    """Print what was decided on requests: who was asked for, who served, who was passed over and why; the newest last.

    Kept are the newest 10,000 of seven days. One request is printed with its reasons.

    Exit codes: 0 printed, also where there is nothing; 2 error.
    """
    from litellm_registry_hook.cli.keys_store import open_store, registry_if_readable  # noqa: PLC0415
    from litellm_registry_hook.core.decision import as_data, chosen  # noqa: PLC0415
    from litellm_registry_hook.core.since import read_since  # noqa: PLC0415

    try:
        start = read_since(since, datetime.now().astimezone()) if since is not None else None
    except ValueError as problem:
        raise click.UsageError(f"{problem}.") from None
    registry = registry_if_readable()
    state = open_store(registry)
    found: list[Decision] = []
    if state.exists():
        found = state.decisions(request_id, start, limit if tier is None else None)
        state.close()
    found = chosen(found, tier, limit)[::-1]
    if wants_json():
        print_json([as_data(one) for one in found])
    elif request_id is not None:
        for one in found:
            for line in report(one):
                click.echo(line)
    elif found:
        print_table(HEAD, [row(one) for one in found])
    if not found:
        notice(f"no decisions in {state.place}{_guess(registry, tier)}")
    return 0


def _guess(registry: Registry | None, tier: str | None) -> str:
    """Guess at a mistyped tier; one that the registry has no more may still have decisions."""
    from litellm_registry_hook.core.suggest import nearest  # noqa: PLC0415

    if registry is None or tier is None or tier in registry.routing.tiers:
        return ""
    close = nearest(tier, registry.routing.tiers)
    return f"; did you mean the tier `{close}`?" if close is not None else f"; the registry has no tier {plain(tier)!r}"


def row(one: Decision) -> tuple[str, ...]:
    """Return a decision as cells; the time is this machine's, with its offset."""
    cells = (
        one.at.astimezone().strftime("%Y-%m-%d %H:%M:%S%z"),
        one.request_id,
        one.name,
        one.tier,
        who(one),
        ", ".join(one.deployments or one.models),
        status(one),
        f"{one.duration_ms:.0f}",
        ", ".join(f"{skip.model}={skip.code}" for skip in one.skipped),
    )
    return tuple(plain(cell) or "-" for cell in cells)


def status(one: Decision) -> str:
    """Return the status and the refusal's code."""
    return " ".join(part for part in (str(one.status) if one.status else "no answer", one.code) if part)


def who(one: Decision) -> str:
    """Return whose request it was."""
    return " ".join(name for name in (one.alias, f"sha256:{one.key}…" if one.key else "") if name)


def report(one: Decision) -> list[str]:
    """Return all that is known of one request, a line a fact."""
    lines = [
        f"{one.at.astimezone():%Y-%m-%d %H:%M:%S%z}  {one.route}",
        f"  request      {one.request_id}",
        f"  asked for    {one.name or '-'}" + (f" (tier {one.tier})" if one.tier and one.tier != one.name else ""),
        f"  by           {who(one) or '-'}",
        f"  served by    {', '.join(one.deployments or one.models) or '-'}",
        f"  answer       {status(one)}, {one.duration_ms:.0f} ms",
    ]
    if one.wait_s:
        lines.append(f"  would wait   {one.wait_s:g} s for memory")
    if one.reason:
        lines.append(f"  reason       {one.reason}")
    lines += [f"  passed over  {skip.model}: {skip.code}: {skip.reason}" for skip in one.skipped]
    return [plain(line) for line in lines]
