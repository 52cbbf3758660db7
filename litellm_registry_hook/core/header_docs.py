"""Every header of ours in words; docs/requests.md is made of it."""

from __future__ import annotations

from typing import Final

REQUEST: Final = {
    "x-registry-allow-metered: true": "this request may cost money. `allow_metered: true` in the body or in its "
    "`metadata` says the same; any one suffices. Anything but true, false, 1 or 0 is a 400 `bad_consent`",
    "x-registry-wait: SECONDS": "wait for [GPU memory](gpu.md) instead of a 503 at once; at most `routing.max_wait_s`",
}
ANSWER: Final = {
    "x-registry-tier": "the tier asked for; absent for a named model and a list",
    "x-registry-model": "the registry id that answered; several for a list",
    "x-registry-skipped": "`id=code, …` in pool order: members before it that were refused or failed; on a refusal, "
    "all of them",
    "Retry-After": "on a refusal, where a time is known",
    "x-should-retry: false": "on a refusal: the OpenAI SDK would repeat a 429 or 503 by itself. Not after "
    "`x-registry-wait`",
}


def header_tables() -> str:
    """Write the headers as two Markdown tables."""
    tables = []
    for title, rows in (("request", REQUEST), ("answer", ANSWER)):
        tables.append(
            "\n".join([f"| {title} | meaning |", "|---|---|", *(f"| `{n}` | {t} |" for n, t in rows.items())])
        )
    return "\n\n".join(tables) + "\n"
