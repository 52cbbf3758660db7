"""A file's plain content to a registry, or to everything that is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from litellm_registry_hook.core.checks import check
from litellm_registry_hook.core.draft import Draft
from litellm_registry_hook.core.findings import Finding, Path, shown
from litellm_registry_hook.core.keys import container_at
from litellm_registry_hook.core.registry import Registry
from litellm_registry_hook.core.salvage import Salvage, salvage
from litellm_registry_hook.core.shape import Source, empty_value, shape_errors, shape_findings


def _no_source(_path: Path, _at: str) -> str | None:
    return None


def parse(
    tree: Any,
    *,
    env: Mapping[str, str] | None = None,
    source: Source = _no_source,
) -> tuple[Registry | None, list[Finding]]:
    """Turn plain content into a registry.

    Args:
        tree: mappings, lists, text, numbers, booleans and None.
        env: environment in which `os.environ/NAME` must exist; None leaves that out.
        source: text as written at a path, for messages.

    Returns:
        the registry, None if there is an error; and every error and warning.

    """
    if not isinstance(tree, dict):
        hint = "write `version: 1`, `models` and `routing`"
        return None, [Finding("not_a_mapping", (), f"the file holds {shown(tree)}, not a mapping", hint)]
    registry, errors = shape_errors(tree)
    findings = list(_empty_values(tree))
    version = tree.get("version")
    # pydantic takes true for the literal 1
    if type(version) is not int and version == 1:
        findings.append(
            Finding("bad_value", ("version",), f"version {shown(version)} is not known", "write `version: 1`")
        )
    if registry is not None:
        for model, entry in zip(registry.models, tree["models"], strict=True):
            model._entry = entry  # noqa: SLF001 - the value and its file belong together
        findings += check(Draft(registry, frozenset(registry.by_id), Salvage(tree), env))
    else:
        rest, mended, inner = salvage(tree, errors, source)
        # A key that is misspelled is not missing too.
        findings += [found for found in shape_findings(errors, tree, source) if found.path not in mended.renamed]
        findings += inner
        draft = Draft(rest, frozenset(rest.by_id) | _ids(tree, source) | _ids(mended.tree, source), mended, env)
        findings += [
            replace(found, path=mended.original(found.path)) for found in check(draft) if not mended.spoiled(found.path)
        ]
    # One slip, one finding: an empty value has said all there is to say about its place.
    empty = {finding.path for finding in findings if finding.code == "empty_value"}
    findings = [finding for finding in findings if finding.path not in empty or finding.code == "empty_value"]
    findings = list(dict.fromkeys(findings))
    if any(finding.severity == "error" for finding in findings):
        return None, findings
    return registry, findings


def _ids(tree: dict[Any, Any], source: Source) -> frozenset[str]:
    """Return the ids of all models, also of broken ones, and of those whose id is read as a number."""
    models = tree.get("models")
    if not isinstance(models, list):
        return frozenset()
    ids = [
        model["id"] if isinstance(model["id"], str) else source(("models", index, "id"), "value")
        for index, model in enumerate(models)
        if isinstance(model, dict) and model.get("id") is not None
    ]
    return frozenset(model_id for model_id in ids if model_id)


def _empty_values(value: Any, path: Path = ()) -> Iterator[Finding]:
    """Find keys of the registry that have no value; pydantic takes them for absent ones."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            if isinstance(item, (dict, list)):
                yield from _empty_values(item, (*path, index))
        return
    if container_at(path) is not None and None in value.values():
        for key, item in value.items():
            if item is None:
                yield empty_value((*path, key))
    for key, item in value.items():
        # What stands under `litellm` and `options` is passed on as it is.
        if isinstance(item, (dict, list)) and key not in {"litellm", "options"}:
            yield from _empty_values(item, (*path, key))
