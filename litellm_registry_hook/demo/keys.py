"""The admin key of a proxy: strong enough, or a new one."""

from __future__ import annotations

import secrets

from litellm_registry_hook.core.admin_key import weakness

__all__ = ["new_key", "weakness"]


def new_key() -> str:
    """Return a new admin key."""
    return f"sk-{secrets.token_urlsafe(32)}"
