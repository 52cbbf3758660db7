"""The entries of model_list as they stand, and what is wrong with those that cannot be read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from litellm_registry_hook.core.start.proposal import Left


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry.

    Attributes:
        index: place in model_list. name: model_name. params: litellm_params. info: model_info.

    """

    index: int
    name: str
    params: Mapping[str, Any]
    info: Mapping[str, Any]

    @property
    def model(self) -> str:
        """The provider's model, litellm_params.model."""
        return str(self.params.get("model", ""))

    @property
    def what(self) -> str:
        """How the entry is called in reports."""
        return f"model_list[{self.index}] ({self.name})"

    @property
    def order(self) -> float:
        """LiteLLM's `order`: of litellm_params, else of model_info (utils.py:5587); last where there is none."""
        for home in (self.params, self.info):
            value = home.get("order")
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                return float(value)
        return float("inf")


def as_map(value: object) -> Mapping[str, Any]:
    """Return a mapping; an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def as_list(value: object) -> list[Any]:
    """Return a list; an empty one for anything else."""
    return value if isinstance(value, list) else []


def read_entries(config: Mapping[str, Any]) -> tuple[dict[str, list[Entry]], tuple[Left, ...]]:
    """Return the entries by model_name in file order, and those that LiteLLM could not serve either."""
    groups: dict[str, list[Entry]] = {}
    left: list[Left] = []
    for index, raw in enumerate(as_list(config.get("model_list"))):
        entry = as_map(raw)
        name, params = entry.get("model_name"), entry.get("litellm_params")
        if not isinstance(name, str) or not isinstance(params, Mapping) or not isinstance(params.get("model"), str):
            left.append(
                Left(
                    f"model_list[{index}]",
                    "it has no model_name or no litellm_params.model as text",
                    "mend it or take it out: LiteLLM does not serve it either",
                )
            )
            continue
        groups.setdefault(name, []).append(Entry(index, name, params, as_map(entry.get("model_info"))))
    return groups, tuple(left)


def read_aliases(config: Mapping[str, Any]) -> dict[str, tuple[str, bool]]:
    """Return router_settings.model_group_alias as alias -> (target, hidden).

    Both forms that LiteLLM takes (router_utils/common_utils.py:74); an alias of an alias leads nowhere there.
    """
    found: dict[str, tuple[str, bool]] = {}
    for alias, value in as_map(as_map(config.get("router_settings")).get("model_group_alias")).items():
        item = as_map(value)
        target = item.get("model") if item else value
        if isinstance(alias, str) and isinstance(target, str) and target and target != alias:
            found[alias] = (target, item.get("hidden") is True)
    return found


def credentials(config: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the values of credential_list by name."""
    return {
        str(item.get("credential_name")): as_map(item.get("credential_values"))
        for item in map(as_map, as_list(config.get("credential_list")))
    }


def texts(value: object, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield every text and number below a value, as text, with its path of keys."""
    if isinstance(value, (str, int, float)) and not isinstance(value, bool):
        yield path, str(value)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from texts(item, (*path, str(key)))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from texts(item, path)
