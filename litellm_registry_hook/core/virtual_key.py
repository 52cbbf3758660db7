"""Virtual keys of the embedded store, for proxies without a database."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final

TOKEN_PREFIX: Final = "sha256:"  # noqa: S105
_HEX: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class VirtualKey:
    """One key; the key itself is shown once and never stored.

    Attributes:
        token: sha256 of the key, 64 hex digits.
        alias: unique among live keys.
        models: names that the key may use; None for all.
        created, expires, revoked: aware moments; None where there is none.
        note: why it exists.

    """

    token: str
    alias: str
    models: tuple[str, ...] | None
    created: datetime
    expires: datetime | None = None
    revoked: datetime | None = None
    note: str | None = None

    def live(self, now: datetime) -> bool:
        """Say whether the key may be used at a moment."""
        return self.revoked is None and (self.expires is None or now < self.expires)


def token_of(key: str) -> str:
    """Return the token of a key: LiteLLM's own hash, sha256 over the UTF-8 key (proxy/utils.py:8026)."""
    return hashlib.sha256(key.encode()).hexdigest()


def read_token(text: str) -> str | None:
    """Read `sha256:<hex>` or `sk-…` into a token; None for an alias."""
    if text.startswith(TOKEN_PREFIX):
        digits = text.removeprefix(TOKEN_PREFIX)
        return digits if _HEX.fullmatch(digits) else None
    return token_of(text) if text.startswith("sk-") else None


def short(token: str) -> str:
    """Return the first eight digits of a token, for people and the audit trail."""
    return token[:8]
