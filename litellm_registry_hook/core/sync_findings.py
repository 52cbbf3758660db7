"""Warnings about a LiteLLM config: entries that shadow the registry, and cheap side doors.

The generator prints them and changes nothing about them (adoption apart); they never change its exit code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from litellm_registry_hook.core.deployments import split_deployment_id
from litellm_registry_hook.core.problems import Problem
from litellm_registry_hook.core.registry import Model, Registry
from litellm_registry_hook.core.sync_settings import setting_edits

CODES = (
    "assistant_settings",
    "included_settings",
    "included_unreadable",
    "metered_fallback",
    "model_group_alias",
    "models_in_db",
    "pass_through_endpoints",
    "shadowed_entry",
    "usage_based_routing",
    "vectors_not_comparable",
    "wildcard_entry",
)
_FALLBACK_KEYS = ("fallbacks", "default_fallbacks", "context_window_fallbacks", "content_policy_fallbacks")


@dataclass(frozen=True, slots=True)
class Shadow:
    """A foreign entry that carries a name of the registry.

    Attributes:
        index: place in model_list. name: the name in question. kind: what the registry calls it.
        model_id: the model whose entries take its place; None for a tier or an alias.
        upstream: its litellm_params.model.

    """

    index: int
    name: str
    kind: Literal["model id", "tier", "alias"]
    model_id: str | None
    upstream: str

    def problem(self, where: str = "") -> Problem:
        """Return the warning; `where` names another file than the config itself."""
        hint = "run generate-litellm-config --adopt to replace it, or rename it"
        return Problem(
            code="shadowed_entry",
            path=f"{where}model_list[{self.index}]",
            message=f"this entry is not ours and carries {self.name!r}, a name of the registry ({self.kind})",
            hint="rename it in that file" if where else hint,
            severity="warning",
        )


def shadows(registry: Registry, foreign: Iterable[tuple[int, Any]]) -> tuple[Shadow, ...]:
    """Return the foreign entries, given as (index, entry), that carry an id, tier or alias of the registry."""
    found: list[Shadow] = []
    for index, entry in foreign:
        if not isinstance(entry, Mapping):
            continue
        info, params = entry.get("model_info"), entry.get("litellm_params")
        names = [entry.get("model_name"), info.get("id") if isinstance(info, Mapping) else None]
        upstream = str(params.get("model", "")) if isinstance(params, Mapping) else ""
        for name in names:
            shadow = _shadow(registry, index, name, upstream) if isinstance(name, str) else None
            if shadow is not None:
                found.append(shadow)
                break
    return tuple(found)


def _shadow(registry: Registry, index: int, name: str, upstream: str) -> Shadow | None:
    split = split_deployment_id(name)
    if name in registry.by_id:
        return Shadow(index, name, "model id", name, upstream)
    if name in registry.routing.tiers:
        return Shadow(index, name, "tier", None, upstream)
    if name in registry.routing.aliases:
        return Shadow(index, name, "alias", None, upstream)
    if split is not None and split[0] in registry.by_id:
        return Shadow(index, name, "model id", split[0], upstream)
    return None


def vector_warnings(registry: Registry, adopted: Sequence[Shadow]) -> tuple[Problem, ...]:
    """Warn where a name that stood for one embedding model now stands for another."""
    found: list[Problem] = []
    for shadow in adopted:
        new = [model for model in _models_behind(registry, shadow) if model.effective_mode == "embedding"]
        if not shadow.upstream or not new or any(_same_weights(shadow.upstream, m.litellm_model) for m in new):
            continue
        ids = ", ".join(model.id for model in new)
        found.append(
            Problem(
                code="vectors_not_comparable",
                path=f"model_list[{shadow.index}]",
                message=f"{shadow.name!r} was {shadow.upstream} and now reaches {ids}: vectors of the two models are "
                "not comparable",
                hint="compute every stored vector again before searching with the new model",
                severity="warning",
            )
        )
    return tuple(found)


def findings(
    registry: Registry, config: Mapping[str, Any], included: Sequence[tuple[str, Mapping[str, Any]]] = ()
) -> tuple[Problem, ...]:
    """Return the side doors of a config and of the files that it includes."""
    found = [*_side_doors(registry, config, "")]
    for name, content in included:
        where = f"{name}: "
        found.extend(_side_doors(registry, content, where))
        entries = content.get("model_list")
        listed = enumerate(entries) if isinstance(entries, list) else ()
        found.extend(shadow.problem(where) for shadow in shadows(registry, listed))
        found.extend(_lost_settings(content, where))
    return tuple(found)


def _side_doors(registry: Registry, config: Mapping[str, Any], where: str) -> Iterator[Problem]:
    def warn(code: str, path: str, message: str, hint: str) -> Problem:
        return Problem(code=code, path=where + path, message=message, hint=hint, severity="warning")

    entries = config.get("model_list")
    for index, entry in enumerate(entries if isinstance(entries, list) else []):
        name = entry.get("model_name") if isinstance(entry, Mapping) else None
        if isinstance(name, str) and "*" in name:
            yield warn(
                "wildcard_entry",
                f"model_list[{index}]",
                f"{name!r} lets a caller name any model of a provider",
                "list the models that are meant, or give them a place in the registry",
            )
    general, router = _map(config, "general_settings"), _map(config, "router_settings")
    names = {*registry.by_id, *registry.routing.tiers, *registry.routing.aliases}
    for alias, target in _map(router, "model_group_alias").items():
        target_name = target.get("model") if isinstance(target, Mapping) else target
        touched = [name for name in (alias, target_name) if isinstance(name, str) and name in names]
        if touched:
            yield warn(
                "model_group_alias",
                f"router_settings.model_group_alias.{alias}",
                f"this alias names {touched[0]!r}, which the registry decides about",
                "remove it and write the alias into routing.aliases of the registry",
            )
    if general.get("store_model_in_db") is True:
        yield warn(
            "models_in_db",
            "general_settings.store_model_in_db",
            "models can be added in LiteLLM's database, where this file does not see them",
            "set it to false, or compare /model/info with the registry from time to time",
        )
    if general.get("pass_through_endpoints"):
        yield warn(
            "pass_through_endpoints",
            "general_settings.pass_through_endpoints",
            "pass-through routes reach a provider without naming a deployment",
            "remove them, or expect them to be treated as metered",
        )
    if config.get("assistant_settings"):
        yield warn(
            "assistant_settings",
            "assistant_settings",
            "assistants call a provider outside the router",
            "remove this section: the gates refuse those routes",
        )
    yield from _metered_fallbacks(registry, config, where)
    strategy = router.get("routing_strategy")
    if isinstance(strategy, str) and strategy.startswith("usage-based-routing"):
        yield warn(
            "usage_based_routing",
            "router_settings.routing_strategy",
            f"{strategy} picks a deployment on a path of its own",
            "leave routing_strategy out: the order of the tier decides",
        )


def _metered_fallbacks(registry: Registry, config: Mapping[str, Any], where: str) -> Iterator[Problem]:
    metered = {model.id for model in registry.models if model.metered}
    for section in ("router_settings", "litellm_settings"):
        for key in _FALLBACK_KEYS:
            for name in sorted(metered.intersection(_strings(_map(config, section).get(key)))):
                yield Problem(
                    code="metered_fallback",
                    path=f"{where}{section}.{key}",
                    message=f"falls back to {name!r}, which costs money",
                    hint="remove it: put the model into a tier, where consent is asked for",
                    severity="warning",
                )


def _lost_settings(content: Mapping[str, Any], where: str) -> Iterator[Problem]:
    """Warn about an included file whose sections take the place of the main file's (LiteLLM joins lists only)."""
    for edit in setting_edits(content):
        if edit.section in content:
            yield Problem(
                code="included_settings",
                path=f"{where}{edit.section}",
                message=f"LiteLLM puts this section in the place of the main file's, and it lacks {edit.path}",
                hint=f"add {edit.key}: {edit.value if edit.action == 'append' else 'true'} there, or move the section",
                severity="warning",
            )


def _models_behind(registry: Registry, shadow: Shadow) -> list[Model]:
    name = shadow.model_id or registry.routing.aliases.get(shadow.name, shadow.name)
    ids = registry.routing.tiers.get(name, (name,))
    return [registry.by_id[model_id] for model_id in ids if model_id in registry.by_id]


def _same_weights(left: str, right: str) -> bool:
    """Say whether two model strings name one model, whatever provider prefix or `:latest` they carry."""
    return _weights(left) == _weights(right)


def _weights(model: str) -> str:
    name = model.rsplit("/", 1)[-1].lower()
    return name.removesuffix(":latest")


def _map(parent: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = parent.get(key)
    return value if isinstance(value, Mapping) else {}


def _strings(value: Any) -> Iterator[str]:
    """Yield every string that a fallback list sends to: list items, and the values of its maps."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _strings(item)
