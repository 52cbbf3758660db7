"""Pydantic's errors as findings: one per place, in words of the file's reader."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pydantic import ValidationError

from litellm_registry_hook.core.findings import Finding, Path, redact, shown
from litellm_registry_hook.core.keys import container_at, homes_of
from litellm_registry_hook.core.registry import NAME_PATTERN, Registry
from litellm_registry_hook.core.suggest import nearest

Source = Callable[[Path, str], str | None]

_WANTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "tuple_type": "a list",
}
_URL_KEYS = frozenset({"api_base", "health_url", "probe_url"})
_NAME_HINT = "a name starts with a letter or digit, then letters, digits and . _ : / @ -, 128 characters at most"


def shape_errors(tree: Any) -> tuple[Registry | None, list[dict[str, Any]]]:
    """Validate the shape of a tree: the registry, or pydantic's errors."""
    try:
        return Registry.model_validate(tree), []
    except ValidationError as error:
        return None, [dict(entry) for entry in error.errors(include_url=False, include_context=True)]


def trim(loc: Iterable[int | str], kind: str, tree: Any) -> tuple[Path, bool, bool]:
    """Cut a pydantic location down to a path of the tree.

    Returns:
        the path, whether its last key is meant, and whether a branch of a union was passed.

    """
    path: list[int | str] = []
    here = tree
    branch = False
    steps = list(loc)
    for number, step in enumerate(steps):
        if step == "[key]":
            return tuple(path), True, branch
        in_list = isinstance(here, list) and isinstance(step, int) and step < len(here)
        if in_list or (isinstance(here, dict) and step in here):
            path.append(step)
            here = here[step]
        elif kind == "missing" and number == len(steps) - 1:
            path.append(step)
        else:
            branch = True
    return tuple(path), kind == "extra_forbidden", branch


def value_at(tree: Any, path: Path) -> Any:
    """Return the value at a path of the tree; None where it is absent."""
    for step in path:
        if isinstance(tree, dict):
            tree = tree.get(step)
        elif isinstance(tree, list) and isinstance(step, int) and step < len(tree):
            tree = tree[step]
        else:
            return None
    return tree


def shape_findings(errors: list[dict[str, Any]], tree: Any, source: Source) -> Iterator[Finding]:
    """Turn pydantic's errors about a tree into findings, one per place."""
    by_place: dict[tuple[Path, bool], list[dict[str, Any]]] = {}
    branched: set[Path] = set()
    for error in errors:
        path, is_key, branch = trim(error["loc"], error["type"], tree)
        by_place.setdefault((path, is_key), []).append(error)
        if branch:
            branched.add(path)
    paths = {path for path, _ in by_place}
    for (path, is_key), found in by_place.items():
        # A mapping where text or a mapping may stand: what is wrong inside says more than "must be text".
        if path in branched and any(len(other) > len(path) and other[: len(path)] == path for other in paths):
            continue
        yield _finding(path, is_key, found, tree, source)


def _finding(path: Path, is_key: bool, found: list[dict[str, Any]], tree: Any, source: Source) -> Finding:
    kinds = [error["type"] for error in found]
    key = path[-1] if path else ""
    value = value_at(tree, path)
    if "missing" in kinds:
        return _missing(path)
    if "extra_forbidden" in kinds:
        return _unknown(path, tree)
    if is_key and not isinstance(key, str):
        text = source(path, "key") or str(key)
        return Finding(
            "yaml_surprise", path, f"the key {redact(text)} is read as a number", f'quote it: "{redact(text)}"', "key"
        )
    if is_key:
        return Finding("bad_name", path, f"`{redact(str(key))}` is not a legal name", _NAME_HINT, "key")
    if value is None:
        return empty_value(path)
    patterns = [error["ctx"].get("pattern") for error in found if error["type"] == "string_pattern_mismatch"]
    if patterns:
        return _pattern(path, value, patterns[0])
    wanted = list(dict.fromkeys(_WANTED[kind] for kind in kinds if kind in _WANTED))
    if wanted:
        return _wrong_type(path, value, wanted, source)
    return _bad_value(path, value, found[0])


def empty_value(path: Path) -> Finding:
    """Say that nothing stands where a value is wanted."""
    key = path[-1]
    if isinstance(key, int):
        return Finding("empty_value", path, "the entry is empty", "write a value, or remove the dash")
    return Finding("empty_value", path, f"`{redact(key)}` has no value", "write a value, or remove the key")


def _missing(path: Path) -> Finding:
    key = str(path[-1])
    hints = {
        "version": "write `version: 1`",
        "id": "give every model an id",
        "role": "write what it does: chat, embedder, reranker, …",
        "lifecycle": "write always-on, on-demand, quota-gated or cost-gated",
        "metered": "write `metered: true` if each call costs money, else `metered: false`",
        "litellm": "write LiteLLM's parameters: `litellm: {model: provider/name}`",
        "vram_mb": "write how many MB the model takes on its GPU",
        "tiers": "write `tiers: {}` at least",
    }
    return Finding("missing_key", path, f"`{key}` is missing", hints.get(key, f"add `{key}`"))


def _unknown(path: Path, tree: Any) -> Finding:
    key = str(path[-1])
    where = container_at(path[:-1])
    close = None if where is None else nearest(key, set(where.model_fields) - {key})
    homes = homes_of(key)
    if close is not None:
        hint = f"did you mean `{close}`?"
        if close in value_at(tree, path[:-1]):
            hint = f"did you mean `{close}`? It stands here already"
    elif homes:
        hint = f"it belongs under {' or '.join(f'`{home}`' for home in homes)}"
    else:
        hint = "keys here: " + ", ".join(where.model_fields if where is not None else ())
    return Finding("unknown_key", path, f"`{redact(key)}` is not a key of the registry here", hint, "key")


def _pattern(path: Path, value: Any, pattern: Any) -> Finding:
    key = path[-1]
    if isinstance(value, str) and value.startswith("sk-"):
        return Finding(
            "raw_secret",
            path,
            "a raw API key stands in the file",
            "revoke it; write `sha256:<hex of the key>` or an alias",
        )
    if pattern == NAME_PATTERN:
        return Finding("bad_name", path, f"{shown(value)} is not a legal name", _NAME_HINT)
    if key in _URL_KEYS:
        extra = " or os.environ/NAME" if key == "api_base" else ""
        return Finding(
            "bad_value", path, f"`{key}` is not an http address", f"start it with http:// or https://{extra}"
        )
    if key == "probe_bearer":
        # Not shown: it may be the token itself.
        message = "`probe_bearer` does not name an environment variable"
        return Finding("bad_value", path, message, "write os.environ/NAME, the token being in NAME")
    if key == "token":
        return Finding("bad_token", path, "the token is not a sha256", "write sha256: and 64 lower-case hex digits")
    return Finding("bad_value", path, f"{shown(value)} is not a duration", "write 5m, 90s, 0 or -1 (forever)")


def _wrong_type(path: Path, value: Any, wanted: list[str], source: Source) -> Finding:
    names = " or ".join(wanted)
    scalar = not isinstance(value, (dict, list))
    if "text" in wanted and scalar and not isinstance(value, str):
        text = redact(source(path, "value") or shown(value))
        kind = "true or false" if isinstance(value, bool) else "a number"
        return Finding("yaml_surprise", path, f"{text} is read as {kind}, but {names} is wanted", f'quote it: "{text}"')
    what = f"{shown(value)} stands where {names} is wanted"
    hint = f"write {names}"
    if isinstance(value, str) and {"a whole number", "a number"} & set(wanted):
        hint = "write a plain number, without quotes or unit"
    elif isinstance(value, str) and value.lower() in {"true", "false"} and "true or false" in wanted:
        hint = "write it without quotes"
    elif "a list" in wanted and scalar:
        hint = f"write [{redact(str(value))}]"
    elif wanted == ["a whole number"] and isinstance(value, float):
        hint = f"write {round(value)}" if abs(value) < 1e15 else hint  # noqa: PLR2004
    return Finding("wrong_type", path, what, hint)


def _bad_value(path: Path, value: Any, error: dict[str, Any]) -> Finding:
    kind, context = error["type"], error.get("ctx", {})
    key = path[-1] if path else ""
    if kind == "literal_error":
        expected = str(context["expected"]).replace("'", "")
        if path == ("version",):
            return Finding("bad_value", path, f"version {shown(value)} is not known", "write `version: 1`")
        legal = expected.replace(" or ", ", ").split(", ")
        close = nearest(value, legal) if isinstance(value, str) else None
        hint = f"did you mean `{close}`?" if close else f"write {expected}"
        return Finding("bad_value", path, f"`{key}` cannot be {shown(value)}", hint)
    limits = {
        "greater_than": ("gt", "more than"),
        "greater_than_equal": ("ge", "at least"),
        "less_than_equal": ("le", "at most"),
    }
    if kind in limits:
        name, words = limits[kind]
        return Finding("bad_value", path, f"`{key}` cannot be {shown(value)}", f"it must be {words} {context[name]:g}")
    if kind in {"too_short", "string_too_short"}:
        return Finding("bad_value", path, f"`{key}` is empty", "write at least one, or remove the key")
    return Finding("bad_value", path, f"`{key}`: {error['msg']}", "see docs/registry.md")
