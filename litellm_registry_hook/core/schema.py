"""The JSON Schema of the registry file, for editors; made from the values and the key table."""

from __future__ import annotations

import json
from typing import Any

from litellm_registry_hook.core.key_docs import KEY_DOCS, key_tables
from litellm_registry_hook.core.keys import CONTAINERS, write_pattern
from litellm_registry_hook.core.registry import Registry


def registry_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of model-registry.yaml.

    It knows shapes only; rules across keys are `litellm-registry validate`'s.
    """
    schema = Registry.model_json_schema()
    definitions = schema["$defs"]
    for pattern, value in CONTAINERS.items():
        mapping = definitions.get(value.__name__, schema)
        mapping.pop("description", None)
        for key, entry in mapping["properties"].items():
            mapping["properties"][key] = _tidy(entry) | {"description": _describe(write_pattern((*pattern, key)))}
    role = definitions["Model"]["properties"]["role"]
    one = role["items"]
    definitions["Model"]["properties"]["role"] = {"anyOf": [one, _without(role)], "description": role["description"]}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "model-registry.yaml"}


def schema_text() -> str:
    """Return the schema as the file in the package holds it."""
    return json.dumps(registry_schema(), indent=2, ensure_ascii=False) + "\n"


def _describe(key: str) -> str:
    doc = KEY_DOCS[key]
    default = "" if doc.default in {"required", "-"} else f" Default: {doc.default}."
    return f"{doc.effect} ({doc.kind}){default}"


def _without(role: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in role.items() if key != "description"}


def _tidy(entry: dict[str, Any]) -> dict[str, Any]:
    """Leave out what pydantic adds for Python: titles, and null, which the file does not allow."""
    kept = {key: value for key, value in entry.items() if key != "title" and (key, value) != ("default", None)}
    choices = kept.get("anyOf")
    if choices is not None:
        left = [choice for choice in choices if choice != {"type": "null"}]
        kept.pop("anyOf")
        kept = {**kept, **left[0]} if len(left) == 1 else {**kept, "anyOf": left}
    # pydantic writes the length of a list that it reads through a validator as one of text
    if kept.get("type") == "array" and "minLength" in kept:
        kept["minItems"] = kept.pop("minLength")
    return kept


__all__ = ["key_tables", "registry_schema", "schema_text"]
