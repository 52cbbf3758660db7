"""Who is opted in."""

from __future__ import annotations

from datetime import timedelta

import pytest

from litellm_registry_hook.core.consent import Caller, caller_opted_in, entry_covers, names_opted_in
from litellm_registry_hook.core.registry import OptIn
from tests.strategies import NOW, TOKENS, model_entry, registry_of

T, OTHER = TOKENS[0], TOKENS[1]
BOTH = frozenset({f"sha256:{T}", "agent:one"})


def registry(*entries, **flags):
    return registry_of(model_entry("paid", metered=True), metered_opt_in=list(entries), **flags)


@pytest.mark.parametrize(
    ("entry", "covers"),
    [
        (f"sha256:{T}", True),
        ("agent:one", True),
        (f"sha256:{OTHER}", False),
        (T, False),
        (OptIn(key="agent:one"), True),
        (OptIn(token=f"sha256:{T}"), True),
        (OptIn(key="agent:one", token=f"sha256:{OTHER}"), False),
        (OptIn(key="agent:two", token=f"sha256:{T}"), True),
        (OptIn(key="agent:one", models=("paid",)), True),
        (OptIn(key="agent:one", models=("cheap",)), False),
        (OptIn(key="agent:one", models=()), False),
        (OptIn(key="agent:one", expires=(NOW + timedelta(seconds=1)).isoformat()), True),
        (OptIn(key="agent:one", expires=NOW.isoformat()), False),
        (OptIn(key="agent:one", expires="2026-03-01"), False),
        (OptIn(key="agent:one", expires="2026-03-02"), True),
    ],
)
def test_what_an_entry_covers(entry, covers):
    """A string names its key; a map entry by its pinned token, else its alias; models and expiry narrow it."""
    assert entry_covers(entry, BOTH, "paid", NOW) is covers


def test_the_shipped_empty_list_opts_nobody_in():
    """Without entries every metered model is out of reach."""
    assert not names_opted_in(registry(), BOTH, "paid", NOW)


def test_any_entry_suffices():
    """One of several entries is enough."""
    assert names_opted_in(registry("agent:two", f"sha256:{T}"), BOTH, "paid", NOW)


HASHED = f"sha256:{T}"
KEY = Caller("virtual_key", T, "agent:one")


@pytest.mark.parametrize(
    ("caller", "entries", "flags", "opted"),
    [
        (KEY, [HASHED], {}, True),
        (KEY, ["agent:one"], {}, False),
        (KEY, ["agent:one"], {"trust_key_alias": True}, True),
        (Caller("virtual_key", T, ""), [HASHED], {"trust_key_alias": True}, True),
        (Caller("virtual_key", OTHER, "agent:one"), [HASHED], {}, False),
        (Caller("virtual_key", "sk-not-a-hash", ""), ["sha256:sk-not-a-hash"], {}, False),
        (Caller("virtual_key", T.upper(), ""), [f"sha256:{T.upper()}"], {}, False),
        (Caller("custom_auth", T, ""), [HASHED], {}, False),
        (Caller("custom_auth", T, ""), [HASHED], {"trust_custom_auth": True}, True),
        (Caller("custom_auth", T, "agent:one"), ["agent:one"], {"trust_custom_auth": True}, False),
        (Caller("master_key", "", ""), [HASHED], {}, False),
        (Caller("master_key", "", ""), [], {"master_key_metered": True}, True),
        (Caller("anonymous", T, "agent:one"), [HASHED, "agent:one"], {"trust_key_alias": True}, False),
        (KEY, [], {"master_key_metered": True, "trust_custom_auth": True, "trust_key_alias": True}, False),
    ],
)
def test_who_counts_as_opted_in(caller, entries, flags, opted):
    """A virtual key counts by its hash; alias, custom_auth and master key each only where the registry trusts them."""
    assert caller_opted_in(registry(*entries, **flags), caller, "paid", NOW) is opted
