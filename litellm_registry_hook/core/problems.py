"""A problem of a file, as data: a stable code, where it is, what is wrong, how to mend it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Problem:
    """One finding.

    Attributes:
        code: stable word, documented in docs/errors.md (`unknown_id`, `duplicate_key`, …).
        path: where in the document, as `models[2].quota.windows[0].field`; empty for the whole file.
        message: what is wrong.
        hint: how to mend it.
        line: first line is 1; 0 where the file has no place for it.
        column: first column is 1; 0 where unknown.
        severity: an `error` stops the file from loading, a `warning` does not.

    """

    code: str
    path: str
    message: str
    hint: str
    line: int = 0
    column: int = 0
    severity: Severity = "error"
