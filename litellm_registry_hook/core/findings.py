"""A finding is a problem before its line is known: it carries the path as keys and indices."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

from litellm_registry_hook.core.problems import Severity

Path = tuple[str | int, ...]
_SECRET = re.compile(r"(?<![A-Za-z0-9])sk-[^\s\"']+")
_PLAIN_KEY = re.compile(r"^[A-Za-z_][A-Za-z0-9_-]*$")


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding in a document.

    Attributes:
        code: stable word, documented in docs/errors.md.
        path: keys and indices from the top of the document.
        message: what is wrong.
        hint: how to mend it.
        at: whether the place meant is the key or its value.
        severity: an `error` stops the file from loading, a `warning` does not.
        line: first line is 1; 0 = look it up by `path`.
        column: first column is 1.

    """

    code: str
    path: Path
    message: str
    hint: str
    at: Literal["key", "value"] = "value"
    severity: Severity = "error"
    line: int = 0
    column: int = 0


def format_path(path: Path) -> str:
    """Write a path as `models[2].quota.windows[0].field`."""
    out = ""
    for step in path:
        if isinstance(step, int):
            out += f"[{step}]"
        elif _PLAIN_KEY.match(step):
            out += f".{step}" if out else step
        else:
            out += f'["{redact(step)}"]'
    return out


def redact(text: str) -> str:
    """Shorten text for a message; what looks like an API key is never shown."""
    text = _SECRET.sub("sk-…", text)
    return text if len(text) <= 80 else text[:77] + "…"  # noqa: PLR2004


def shown(value: Any) -> str:
    """Write a scalar value for a message, as YAML would."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"`{redact(value)}`"
    if isinstance(value, (int, float)):
        return str(value) if len(str(value)) <= 40 else "a very long number"  # noqa: PLR2004
    return "a mapping" if isinstance(value, dict) else "a list"
