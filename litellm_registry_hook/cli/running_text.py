"""What a running proxy has otherwise than the files say, for people and for JSON; secrets masked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from litellm_registry_hook.core.running import RESTART, Comparison, Gap, Running
from litellm_registry_hook.core.sync_masking import shown, shown_text

SEEN_OTHERWISE = "LiteLLM shows no keys, so a changed one is not seen there"


def running_lines(running: Running, compared: Comparison, *, file_differs: bool) -> Iterator[str]:
    """Return a line for each gap and a last one with the verdict.

    Args:
        running: the proxy. compared: what it has otherwise.
        file_differs: whether the config file itself has still to be written.

    """
    from litellm_registry_hook.cli.audit_cmd import plain  # noqa: PLC0415

    # Names and addresses are what a proxy says, and may be anything.
    yield from map(plain, _lines(running, compared, file_differs=file_differs))


def _lines(running: Running, compared: Comparison, *, file_differs: bool) -> Iterator[str]:
    from litellm_registry_hook.cli.generate import difference_line  # noqa: PLC0415  it imports this module

    url = running.url
    for gap in compared.gaps:
        if gap.difference is not None:
            yield f"{url}: {gap.code}: {difference_line(gap.difference)}"
        else:
            fix = f" ({gap.fix})" if gap.fix != RESTART else ""
            yield f"{url}: {gap.code}: {gap.message}{fix}"
    yield f"{url}: {_verdict(running, compared, file_differs=file_differs)}"
    if compared.unseen:
        yield f"{url}: not compared: {', '.join(compared.unseen)} ({SEEN_OTHERWISE})"


def _verdict(running: Running, compared: Comparison, *, file_differs: bool) -> str:
    gaps = compared.gaps
    if not gaps:
        count = len(running.rows)
        return f"up to date: {count} deployment{'' if count == 1 else 's'}, registry {running.registries[0].digest}"
    what = f"{len(gaps)} thing{'' if len(gaps) == 1 else 's'} not as the registry says"
    if not any(gap.fix == RESTART for gap in gaps):
        return what
    first = "run generate-litellm-config, then " if file_differs else "the config is up to date: "
    return f"{what}; {first}{RESTART}"


def running_data(running: Running, compared: Comparison) -> dict[str, Any]:
    """Return the same for JSON."""
    return {
        "url": shown_text(running.url),
        "up_to_date": not compared.gaps,
        "litellm": running.litellm or None,
        "plugin": running.has_plugin,
        "registries": [
            {
                "worker": one.worker or None,
                "path": shown_text(one.path),
                "digest": one.digest,
                "loaded_at": one.loaded_at or None,
            }
            for one in running.registries
        ],
        "deployments": len(running.rows),
        "gaps": [_gap(gap) for gap in compared.gaps],
        "unseen": [shown_text(path) for path in compared.unseen],
    }


def _gap(gap: Gap) -> dict[str, Any]:
    data: dict[str, Any] = {"code": gap.code, "message": shown_text(gap.message), "fix": gap.fix}
    if gap.difference is not None:
        one = gap.difference
        data |= {
            "path": shown_text(one.path),
            "was": shown(one.was, one.keys),
            "wanted": shown(one.wanted, one.keys),
        }
    return data
