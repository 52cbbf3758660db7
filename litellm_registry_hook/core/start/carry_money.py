"""Whether calls of an entry cost money, as far as its provider and its address tell."""

from __future__ import annotations

import re

from litellm_registry_hook.core.providers import BILLING, BILLING_HOSTS, HOME, SUBSCRIPTION_HOSTS
from litellm_registry_hook.core.start.carry_secrets import ENVIRON
from litellm_registry_hook.core.start.own import host_of, is_own, is_under

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
# Ollama marks what it calls in its cloud by the tag: `kimi-k2:1t-cloud`, `glm-4.6:cloud`.
_OLLAMA_CLOUD = re.compile(r":(?:[^/:]*-)?cloud$")


def metered_because(provider: str, model: str, bases: tuple[str, ...]) -> tuple[bool, str]:
    """Say whether an entry is metered, and why in a few words.

    Args:
        provider: LiteLLM's name of it. model: as LiteLLM is told.
        bases: its addresses as written; empty where the provider's own is used.

    """
    if provider in _CLOUD:
        return True, f"{provider} bills each call"
    if _OLLAMA_CLOUD.search(model):
        return True, "a cloud model of Ollama: it runs elsewhere and costs money"
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
        host = host_of(base)
        if is_under(host, SUBSCRIPTION_HOSTS):
            return True, f"{host} may be a subscription: see quota-gated in the registry's documentation"
        if is_under(host, BILLING_HOSTS):
            return True, f"{host} bills each call"
        if provider == "litellm_proxy":
            return True, "nothing is known of what that proxy calls"
        if not is_own(base):
            return True, f"{host} is a public address of which nothing is known"
    return False, "a server of this house"
