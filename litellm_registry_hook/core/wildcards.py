"""Which names a model_name of LiteLLM's model_list stands for."""

from __future__ import annotations

import re


def covers(listed: str, name: str) -> bool:
    """Say whether a model_name is a name, or a wildcard that stands for it (router_utils/pattern_match_deployments.py).

    >>> covers("openai/*", "openai/gpt-4o"), covers("openai/*", "gpt-4o"), covers("a.b", "a-b")
    (True, False, False)
    """
    if listed == name:
        return True
    return "*" in listed and re.fullmatch(".*".join(map(re.escape, listed.split("*"))), name) is not None
