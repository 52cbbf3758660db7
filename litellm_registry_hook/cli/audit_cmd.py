"""`litellm-registry audit`: who was let in, who was refused, which metered calls were made and what they cost."""

from __future__ import annotations

import os
from dataclasses import asdict
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, get_args

import click

from litellm_registry_hook.cli.names import opted_in
from litellm_registry_hook.cli.options import common_options, example, read_registry, wants_json
from litellm_registry_hook.cli.output import notice, print_json, print_table
from litellm_registry_hook.core.audit import Kind
from litellm_registry_hook.core.sync_masking import shown_text

if TYPE_CHECKING:
    from litellm_registry_hook.core.audit import AuditRecord

HEAD = ("WHEN", "KIND", "KEY", "MODEL", "TIER", "REQUEST", "WHO", "CODE", "COST", "NOTE")


@click.command("audit", epilog=example("litellm-registry audit --since 7d --kind cost"))
@click.option("--since", metavar="WHEN", help="From this moment on: 7d, 12h, 2026-11-30, 2026-11-30T18:00, 18:00.")
@click.option("--key", metavar="KEY", shell_complete=opted_in, help="Of one key: an alias, sha256:<hex> or sk-….")
@click.option("--kind", type=click.Choice(get_args(Kind)), help="Of one kind.")
@common_options
def audit(since: str | None, key: str | None, kind: Kind | None) -> int:
    """Print the audit trail: grants, removals, refusals, metered calls and what they cost, oldest first.

    Exit codes: 0 printed, also where there is nothing; 2 error.
    """
    from litellm_registry_hook.core.audit_view import choose, read_key, with_costs, without_joined  # noqa: PLC0415
    from litellm_registry_hook.core.since import read_since  # noqa: PLC0415
    from litellm_registry_hook.edges.store.place import open_state  # noqa: PLC0415

    try:
        start = read_since(since, datetime.now().astimezone()) if since is not None else None
        whose = read_key(key) if key is not None else None
    except ValueError as problem:
        raise click.UsageError(f"{problem}.") from None
    state = open_state(os.environ, read_registry().state)
    records: list[AuditRecord] = []
    if state.exists():
        records = state.audit(start)
        state.close()
    chosen = choose(with_costs(records), whose, kind)
    if wants_json():
        print_json([as_data(record) for record in chosen])
    elif chosen:
        print_table(HEAD, [row(record) for record in (chosen if kind == "cost" else without_joined(chosen))])
    if not chosen:
        notice(f"no records in {state.place}")
    return 0


def row(record: AuditRecord) -> tuple[str, ...]:
    """Return a record as cells; the time is this machine's, with its offset."""
    names = (record.alias, f"sha256:{record.key}…" if record.key else "")
    cells = (
        record.at.astimezone().strftime("%Y-%m-%d %H:%M:%S%z"),
        record.kind,
        " ".join(name for name in names if name),
        record.model,
        record.tier,
        record.request_id,
        record.who,
        record.code,
        f"{record.cost:.6f}".rstrip("0").rstrip(".") if record.cost is not None else "",
        record.note,
    )
    return tuple(plain(cell) or "-" for cell in cells)


def plain(text: str) -> str:
    """Return text that a terminal shows as it is: a refused model's name is whatever a client sent."""
    return "".join(one if one.isprintable() else "?" for one in shown_text(text))


def as_data(record: AuditRecord) -> dict[str, Any]:
    """Return a record for JSON; the time is ISO, UTC."""
    texts = {key: shown_text(value) if isinstance(value, str) else value for key, value in asdict(record).items()}
    return {**texts, "at": record.at.astimezone(timezone.utc).isoformat()}
