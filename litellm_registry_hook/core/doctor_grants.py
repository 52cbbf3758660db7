"""Rules about the registry: who is let in, and how far its rules go."""

from __future__ import annotations

from collections.abc import Iterator

from litellm_registry_hook.core.doctor_case import Case, Rule, Sign
from litellm_registry_hook.core.virtual_key import TOKEN_PREFIX, read_token, short

PIN = "pin the key: write token: sha256:<hex> beside its alias"


def unlisted_allowed(case: Case) -> Iterator[Sign]:
    """Find that models the registry does not know are served to everybody."""
    if case.registry.routing.unlisted_models == "allow":
        yield case.routing(
            "unlisted_models",
            "models and pass-through routes that the registry does not know are served without any consent",
            "write metered (both consents are asked for) or deny",
        )


def observing(case: Case) -> Iterator[Sign]:
    """Find that the gates only log."""
    if case.registry.routing.mode == "observe":
        yield case.routing(
            "mode",
            "refusals are logged and not carried out; only metered models of the registry stay closed",
            "write enforce once the log says what you expect",
        )


def master_key_metered(case: Case) -> Iterator[Sign]:
    """Find that the admin key may spend money."""
    if case.registry.routing.master_key_metered:
        yield case.routing(
            "master_key_metered",
            "the admin key reaches every metered model, without a grant, a cap or an end",
            "write false and grant a virtual key",
        )


def foreign_auth_trusted(case: Case) -> Iterator[Sign]:
    """Find that somebody else's custom_auth says who is opted in."""
    if case.registry.routing.trust_custom_auth and case.custom_auth and not case.embedded_keys:
        yield case.routing(
            "trust_custom_auth",
            f"{case.custom_auth} says who calls: a slip in it opens metered models to others",
            "write false and use LiteLLM's virtual keys, or our custom_auth with `litellm-registry keys`",
        )


def alias_without_effect(case: Case) -> Iterator[Sign]:
    """Find an alias in metered_opt_in that opts nobody in."""
    if case.embedded_keys or case.registry.routing.trust_key_alias:
        return
    for index, alias in _aliases(case):
        yield case.routing(
            f"metered_opt_in[{index}]",
            f"the alias {alias!r} opts nobody in: in LiteLLM's database anybody may take one",
            PIN,
        )


def alias_for_the_taking(case: Case) -> Iterator[Sign]:
    """Find an alias in metered_opt_in that anybody may take."""
    if case.embedded_keys or not case.registry.routing.trust_key_alias:
        return
    for index, alias in _aliases(case):
        yield case.routing(
            f"metered_opt_in[{index}]",
            f"whoever names a key {alias!r} in LiteLLM is opted in: with trust_key_alias the alias is enough",
            f"{PIN}, and write trust_key_alias: false",
        )


def grant_expired(case: Case) -> Iterator[Sign]:
    """Find a grant that has ended."""
    for index, entry in enumerate(case.registry.routing.metered_opt_in):
        if not isinstance(entry, str) and entry.expires_at is not None and entry.expires_at <= case.now:
            yield case.routing(
                f"metered_opt_in[{index}]", f"this grant ended {entry.expires}", "remove it, or write a later `expires`"
            )


def grant_to_nobody(case: Case) -> Iterator[Sign]:
    """Find a grant for a key that the embedded store does not have, or no longer."""
    if not case.embedded_keys or case.facts.keys is None:
        return
    live = [key for key in case.facts.keys if key.live(case.now)]
    tokens, aliases = {key.token for key in live}, {key.alias for key in live}
    for index, entry in enumerate(case.registry.routing.metered_opt_in):
        token, alias = (entry, entry) if isinstance(entry, str) else (entry.token, entry.key)
        digits = read_token(token) if token is not None and token.startswith(TOKEN_PREFIX) else None
        if digits is not None and digits not in tokens:
            known = (
                "has ended or was revoked" if digits in {k.token for k in case.facts.keys} else "is not in the store"
            )
            who = f"the key {TOKEN_PREFIX}{short(digits)}… {known}"
        elif digits is None and alias is not None and alias not in aliases:
            who = f"no live key is called {alias!r}: the next one to get that alias is opted in"
        else:
            continue
        yield case.routing(f"metered_opt_in[{index}]", who, "remove the grant, or name the key that is meant")


def _aliases(case: Case) -> Iterator[tuple[int, str]]:
    """Return the entries that name a key by its alias alone."""
    for index, entry in enumerate(case.registry.routing.metered_opt_in):
        if isinstance(entry, str):
            if not entry.startswith(TOKEN_PREFIX):
                yield index, entry
        elif entry.token is None and entry.key is not None and not entry.key.startswith(TOKEN_PREFIX):
            yield index, entry.key


RULES = (
    Rule("unlisted_allowed", "high", unlisted_allowed),
    Rule("observe_mode", "high", observing),
    Rule("master_key_metered", "medium", master_key_metered),
    Rule("foreign_auth_trusted", "medium", foreign_auth_trusted),
    Rule("alias_without_effect", "low", alias_without_effect),
    Rule("alias_for_the_taking", "high", alias_for_the_taking),
    Rule("grant_expired", "low", grant_expired),
    Rule("grant_to_nobody", "low", grant_to_nobody),
)
