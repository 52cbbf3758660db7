"""What model_info says of a deployment: carried over as it stands, where it says nothing that others decide."""

from __future__ import annotations

import copy
import math
from collections.abc import Collection, Mapping
from typing import Any

from litellm_registry_hook.core.deployments import RESERVED_INFO
from litellm_registry_hook.core.start.carry_entries import Entry
from litellm_registry_hook.core.start.carry_secrets import literal_secrets

ACCESS_GROUPS = "access_groups"


def carried_info(entry: Entry, said_elsewhere: Collection[str]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return what the registry entry takes of an entry's model_info, and the keys that are lost.

    Args:
        entry: of model_list.
        said_elsewhere: keys that other parts of the registry entry say.

    """
    kept: dict[str, Any] = {}
    lost: list[str] = []
    for key, value in entry.info.items():
        if key in said_elsewhere or value is None:
            continue
        if _may_stand(key, value):
            kept[key] = copy.deepcopy(value)
        else:
            lost.append(str(key))
    return kept, tuple(lost)


def _may_stand(key: Any, value: Any) -> bool:
    if not isinstance(key, str) or key in RESERVED_INFO or any(literal_secrets({key: value})):
        return False
    if key == ACCESS_GROUPS:
        return isinstance(value, list) and all(isinstance(one, str) and one for one in value)
    return _plain(value)


def _plain(value: Any) -> bool:
    """Say whether a value is JSON: dates and the like would be read back as something else."""
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _plain(item) for key, item in value.items())
    if isinstance(value, list):
        return all(map(_plain, value))
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, (str, int))
