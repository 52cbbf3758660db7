"""Fallbacks of a LiteLLM config as the order in which LiteLLM 1.108.7 would try model groups.

Read in the installed package and seen on a running Router:

- A chain is looked up for the name that failed, then for the name that was asked for, then under `*`
  (router_utils/fallback_event_handlers.py:529-615); `openai/gpt-4o` finds that of `gpt-4o`, and the other way round
  (:257, :282). A hop that fails goes down its own chain: chains nest
  (run_async_fallback calls async_function_with_fallbacks, :838), no name twice in a request (:812), at most
  max_fallbacks deep (:777; 5, constants.py:41).
- Each item has one key, else the proxy does not start (router.py:2597); the first item of a name counts (:597).
- An alias has the chain under its own name, not that of its target.
- router_settings win over litellm_settings (router.py:1439, 1449, 1459).
- default_fallbacks are the chain under `*` (router.py:1448-1457), so they help only names without a chain of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from litellm_registry_hook.core.providers import BILLING, HOME
from litellm_registry_hook.core.start.carry_entries import as_list, as_map
from litellm_registry_hook.core.start.carry_model import bare_provider
from litellm_registry_hook.core.start.proposal import Left
from litellm_registry_hook.core.sync_masking import shown

ANY: Final = "*"
MAX_DEPTH: Final = 5


@dataclass(frozen=True, slots=True)
class Chains:
    """Where a failed request goes.

    Attributes:
        by_name: name -> names, `*` for all that have none of their own.
        overflow: the same for inputs that are too long (context_window_fallbacks).
        depth: how many hops deep at most.

    """

    by_name: Mapping[str, tuple[str, ...]]
    overflow: Mapping[str, tuple[str, ...]]
    depth: int = MAX_DEPTH


def read_chains(config: Mapping[str, Any]) -> tuple[Chains, tuple[Left, ...]]:
    """Return the fallbacks of a config, and those that say more than a name."""
    left: list[Left] = []
    section, value = _setting(config, "fallbacks")
    by_name = _chains(value, f"{section}.fallbacks", left)
    section, value = _setting(config, "default_fallbacks")
    targets = _targets(value, f"{section}.default_fallbacks", left)
    if targets:
        by_name.setdefault(ANY, targets)
    section, value = _setting(config, "context_window_fallbacks")
    overflow = _chains(value, f"{section}.context_window_fallbacks", left)
    depth = as_map(config.get("router_settings")).get("max_fallbacks")
    return Chains(by_name, overflow, depth if isinstance(depth, int) else MAX_DEPTH), tuple(left)


def hops(chains: Chains, asked: str) -> tuple[str, ...]:
    """Return the names that LiteLLM tries after the one asked for, in order."""
    found: list[str] = []
    attempted: set[str] = set()

    def walk(failed: str, depth: int) -> None:
        if depth >= chains.depth:
            return
        attempted.add(failed)
        for name in _chain_for(chains, failed, asked):
            if name in attempted:
                continue
            attempted.add(name)
            found.append(name)
            depth += 1
            walk(name, depth)

    walk(asked, 0)
    return tuple(found)


def overflow_of(chains: Chains, name: str) -> tuple[str, ...]:
    """Return the names that LiteLLM tries where an input is too long for this one, in order."""
    key = key_for(chains.overflow, name)
    return chains.overflow[key] if key is not None else ()


def _chain_for(chains: Chains, failed: str, asked: str) -> tuple[str, ...]:
    for name in (failed, asked):
        key = key_for(chains.by_name, name)
        if key is not None:
            return chains.by_name[key]
    return chains.by_name.get(ANY, ())


def key_for(known: Mapping[str, object], name: str) -> str | None:
    """Return the name under which a chain of this name stands; None where it has none of its own."""
    if name in known:
        return name
    provider, slash, bare = name.partition("/")
    if slash and provider not in BILLING | HOME:
        return None
    alike = bare if slash else f"{bare_provider(name)}/{name}"
    return alike if alike in known else None


def _setting(config: Mapping[str, Any], key: str) -> tuple[str, Any]:
    for section in ("router_settings", "litellm_settings"):
        value = as_map(config.get(section)).get(key)
        if value:
            return section, value
    return "router_settings", None


def _chains(value: Any, where: str, left: list[Left]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for item in as_list(value):
        pairs = list(as_map(item).items())
        if len(pairs) != 1 or not isinstance(pairs[0][1], list):
            left.append(
                Left(
                    f"{where}: {shown(item)!r}",
                    "an item is one name with a list of names",
                    "mend it: LiteLLM does not start with it",
                )
            )
            continue
        name, targets = str(pairs[0][0]), pairs[0][1]
        if name not in found:
            found[name] = _targets(targets, f"{where}: {name}", left)
    return found


def _targets(value: Any, where: str, left: list[Left]) -> tuple[str, ...]:
    names: list[str] = []
    for target in as_list(value):
        model = target if isinstance(target, str) else as_map(target).get("model")
        if not isinstance(model, str):
            left.append(Left(where, "one of its targets names no model", "mend it"))
            continue
        extra = [str(key) for key in as_map(target) if key != "model"]
        if extra:
            left.append(
                Left(
                    f"{where} -> {model}",
                    f"this fallback also changes {', '.join(extra)} of the request, and a pool changes nothing in it",
                    "write such parameters into `litellm` of a model of its own and list that in the tier",
                )
            )
            continue
        names.append(model)
    return tuple(dict.fromkeys(names))
