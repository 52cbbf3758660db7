"""Whether calls of an entry cost money, as far as its provider and its address tell."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from litellm_registry_hook.core.providers import BILLING, BILLING_HOSTS, HOME, SUBSCRIPTION_HOSTS
from litellm_registry_hook.core.start.carry_secrets import ENVIRON

# Clouds: a private address is a private line into them, no server of one's own.
_CLOUD = frozenset(
    {
        "azure",
        "azure_ai",
        "azure_text",
        "bedrock",
        "bedrock_mantle",
        "sagemaker",
        "sagemaker_chat",
        "vertex_ai",
        "vertex_ai_beta",
    }
)
_PRIVATE_SUFFIXES = (
    ".home", ".home.arpa", ".internal", ".lan", ".local", ".localdomain", ".localhost", ".svc", ".ts.net",
)  # fmt: skip
_SHARED = ipaddress.ip_network("100.64.0.0/10")


def is_private(api_base: str) -> bool:
    """Say whether an address is inside the house: loopback, a private network, a name that no public DNS has."""
    try:
        host = (urlsplit(api_base).hostname or "").lower()
    except ValueError:
        return False
    if not host:
        return False
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "." not in host or host.endswith(_PRIVATE_SUFFIXES) or ".svc.cluster." in host
    shared = isinstance(address, ipaddress.IPv4Address) and address in _SHARED
    return address.is_private or address.is_loopback or address.is_link_local or address.is_unspecified or shared


def metered_because(provider: str, bases: tuple[str, ...]) -> tuple[bool, str]:
    """Say whether an entry is metered, and why in a few words.

    Args:
        provider: LiteLLM's name of it.
        bases: its addresses as written; empty where the provider's own is used.

    """
    if provider in _CLOUD:
        return True, f"{provider} bills each call"
    if not bases:
        if provider in HOME:
            return False, "a server of this machine"
        return (
            True,
            f"{provider} bills each call" if provider in BILLING else f"nothing is known of {provider}'s prices",
        )
    for base in bases:
        if base.startswith(ENVIRON):
            if provider not in HOME:
                return True, "the address stands in the environment, so nothing is known of its price"
            continue
        host = _host(base)
        if _under(host, SUBSCRIPTION_HOSTS):
            return True, f"{host} may be a subscription: see quota-gated in the registry's documentation"
        if _under(host, BILLING_HOSTS):
            return True, f"{host} bills each call"
        if provider == "litellm_proxy":
            return True, "nothing is known of what that proxy calls"
        if not is_private(base):
            return True, f"{host} is a public address of which nothing is known"
    return False, "a server of this house"


def _host(api_base: str) -> str:
    try:
        return (urlsplit(api_base).hostname or "").lower()
    except ValueError:
        return ""


def _under(host: str, known: tuple[str, ...]) -> bool:
    return any(host == name or host.endswith("." + name) for name in known)
