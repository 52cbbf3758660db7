"""What the demo prints: who answers for which model, and commands to copy."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from litellm_registry_hook.core.registry import Registry
from litellm_registry_hook.demo.plan import Found

HEAD = ("model", "tier", "address", "answered by")


def table(registry: Registry, found: Sequence[Found]) -> str:
    """Return one line a place: model, its tiers, the address, who answers there."""
    rows = [HEAD]
    for answer in found:
        model_id = answer.place.model.id
        tiers = [tier for tier, ids in registry.routing.tiers.items() if model_id in ids]
        rows.append((model_id, ", ".join(tiers) or "-", answer.api_base, answer.answers))
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def overview(registry: Registry, found: Sequence[Found]) -> str:
    """Return the table, and under it why each stand-in stands in."""
    why = [f"  {answer.place.model.id}: {answer.why}" for answer in found if answer.why]
    return "\n".join([table(registry, found), *(["", "Why there is a stand-in:", *why] if why else [])])


def tier_of_mode(registry: Registry, mode: str) -> str | None:
    """Return a tier to try a mode with: its first model has the mode and is free; local tiers first."""
    found = []
    for tier, ids in registry.routing.tiers.items():
        first = registry.by_id[ids[0]] if ids else None
        if first is not None and first.effective_mode == mode and not first.metered:
            found.append((first.lifecycle == "quota-gated", tier))
    return min(found, key=lambda pair: pair[0])[1] if found else None


def curl(url: str, key: str, path: str, body: Mapping[str, Any], *, headers: bool = False) -> str:
    """Return a curl command to copy into a POSIX shell."""
    return (
        f"curl -sS{'i' if headers else ''} {url}{path} -H {shlex.quote(f'Authorization: Bearer {key}')} "
        f"-H 'Content-Type: application/json' -d {shlex.quote(json.dumps(body, ensure_ascii=False))}"
    )


def commands(registry: Registry, found: Sequence[Found], url: str, key: str) -> list[tuple[str, str]]:
    """Return (what it shows, the command), as many of them as the registry has tiers for."""
    shown: list[tuple[str, str]] = []
    if tier := tier_of_mode(registry, "chat"):
        # A question that the small model of the demo answers well.
        question = "What is the capital of France? Answer in one sentence."
        body: dict[str, Any] = {"model": tier, "messages": [{"role": "user", "content": question}]}
        path = "/v1/chat/completions"
        shown.append((f"a chat answer from tier {tier}", curl(url, key, path, {**body, "max_tokens": 60})))
    if tier := tier_of_mode(registry, "embedding"):
        body = {"model": tier, "input": "a blue cat"}
        shown.append((f"a vector from tier {tier}", curl(url, key, "/v1/embeddings", body)))
    if tier := tier_of_mode(registry, "rerank"):
        body = {"model": tier, "query": "blue cat", "documents": ["a red dog", "a blue cat on a mat"]}
        shown.append((f"an order from tier {tier}", curl(url, key, "/v1/rerank", body)))
    paid = next((answer for answer in found if answer.place.model.metered and not answer.real), None)
    if paid is not None:
        model_id = paid.place.model.id
        body = {"model": model_id, "messages": [{"role": "user", "content": "Hello?"}]}
        what = f"{model_id} costs money, so it is refused without this request's consent"
        shown.append((what, curl(url, key, "/v1/chat/completions", body, headers=True)))
        if paid.place.form == "openai":
            counter = f"{paid.api_base.removesuffix('/v1')}/calls"
            shown.append((f"and {model_id} was never called", f"curl -sS {counter}"))
    return shown


def usage(registry: Registry, found: Sequence[Found], url: str, key: str, log: Path) -> str:
    """Return what a ready demo prints."""
    blocks = [f"# {what}\n{line}" for what, line in commands(registry, found, url, key)]
    end = f"Add -i to a command to see which model answered. The proxy's log: {log}\nCtrl-C stops everything."
    return "\n\n".join(["ready", *blocks, end])


def as_data(registry: Registry, found: Sequence[Found], url: str, key: str, log: Path) -> dict[str, Any]:
    """Return the same for scripts."""
    return {
        "url": url,
        "key": key,
        "log": str(log),
        "models": [
            {
                "id": answer.place.model.id,
                "tiers": [tier for tier, ids in registry.routing.tiers.items() if answer.place.model.id in ids],
                "api_base": answer.api_base,
                "real": answer.real,
                "answered_by": answer.answers,
                "why": answer.why,
            }
            for answer in found
        ],
        "commands": [{"what": what, "command": line} for what, line in commands(registry, found, url, key)],
    }
