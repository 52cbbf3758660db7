"""Whose server an address is: the house's own, or somebody's who may send a bill."""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import ip_address, ip_network
from typing import Final
from urllib.parse import urlsplit

from litellm_registry_hook.core.gpu.place import server_key
from litellm_registry_hook.core.providers import BILLING_HOSTS, SUBSCRIPTION_HOSTS

# RFC 1918, 4193, 3927, and the carrier range that Tailscale uses (RFC 6598).
_PRIVATE: Final = tuple(
    ip_network(net)
    for net in (
        "127.0.0.0/8",
        "10.0.0.0/8",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "169.254.0.0/16",
        "100.64.0.0/10",
        "::1/128",
        "fc00::/7",
        "fe80::/10",
    )
)
# RFC 6762, 8375, 6761 and ICANN's private-use name; `.lan` is what home routers give, `.svc` what Kubernetes does.
_PRIVATE_NAMES: Final = (
    ".local", ".lan", ".internal", ".home.arpa", ".localhost", ".localdomain", ".home", ".svc", ".ts.net",
)  # fmt: skip
# A host whose last part is a number is an address (WHATWG URL, "ends in a number"): 134744072 is 8.8.8.8.
_NUMERIC: Final = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)")


def host_of(base: str) -> str:
    """Return the host of an address; empty where it has none."""
    try:
        return (urlsplit(base).hostname or "").lower()
    except ValueError:
        return ""


def is_billing(base: str) -> bool:
    """Say whether the address is that of a provider that bills, or of a subscription."""
    return is_under(host_of(base), (*BILLING_HOSTS, *SUBSCRIPTION_HOSTS))


def is_under(host: str, known: Iterable[str]) -> bool:
    """Say whether a host is one of these, or belongs to one; a stop at its end makes no other host."""
    name = host.rstrip(".")
    return any(name == one or name.endswith("." + one) for one in known)


def is_own(base: str) -> bool:
    """Say whether a server is the house's own: loopback, a private network, or a name that only this network knows.

    A name is not looked up: `gpu.example.com` is somebody's until a person says otherwise.
    """
    host = host_of(base)
    if not host or is_billing(base):
        return False
    try:
        address = ip_address(host)
    except ValueError:
        name = host.rstrip(".")
        return bool(name) and _NUMERIC.fullmatch(name) is None and ("." not in name or name.endswith(_PRIVATE_NAMES))
    return address.is_unspecified or any(address in net for net in _PRIVATE if net.version == address.version)


def machine_of(base: str) -> str:
    """Return the machine of an address; `localhost` for every loopback name."""
    return server_key(base)[0]


def same_server(one: str, other: str) -> bool:
    """Say whether two addresses are one server: loopback names alike, `/v1` and a trailing slash left out."""
    return server_key(one) == server_key(other)
