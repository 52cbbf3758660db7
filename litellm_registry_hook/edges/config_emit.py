"""Write plain data as YAML text in the style of the place it goes to."""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from collections.abc import Mapping
from typing import Any

import yaml

_PLAIN_RE = re.compile(r"^[A-Za-z_/][A-Za-z0-9_./@+-]*(?::[A-Za-z0-9_./@+-]+)*$")
_UNPRINTABLE_RE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]")
_RESOLVER: Any = yaml.SafeLoader("")
_STR_TAG = "tag:yaml.org,2002:str"


def scalar(value: Any, *, as_json: bool = False) -> str:
    """Return one scalar. Text is plain where nothing can misread it, else in double quotes."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, (dt.date, dt.datetime)):
        return quoted(value.isoformat()) if as_json else value.isoformat()
    text = str(value)
    return quoted(text) if as_json or not _is_plain(text) else text


def quoted(text: str) -> str:
    """Return text in double quotes, as both JSON and YAML read it."""
    written = json.dumps(text, ensure_ascii=False)
    return _UNPRINTABLE_RE.sub(lambda match: f"\\u{ord(match[0]):04x}", written)


def flow(value: Any, *, as_json: bool = False) -> str:
    """Return a value on one line."""
    if isinstance(value, Mapping):
        inside = (
            f"{scalar(str(k) if as_json else k, as_json=as_json)}: {flow(v, as_json=as_json)}" for k, v in value.items()
        )
        return "{" + ", ".join(inside) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(flow(item, as_json=as_json) for item in value) + "]"
    return scalar(value, as_json=as_json)


def flow_entry(entry: Mapping[str, Any], indent: str, newline: str, *, as_json: bool) -> str:
    """Return a mapping in braces with one key a line; `indent` is that of its closing brace."""
    inside = f",{newline}".join(
        f"{indent}  {scalar(key, as_json=as_json)}: {flow(value, as_json=as_json)}" for key, value in entry.items()
    )
    return f"{{{newline}{inside}{newline}{indent}}}"


def block_item(entry: Mapping[str, Any], indent: str, newline: str) -> str:
    """Return a mapping as an item of a block sequence, its `-` at `indent`; the last line has no line end."""
    lines: list[str] = []
    for key, value in entry.items():
        lead = f"{indent}- " if not lines else f"{indent}  "
        if isinstance(value, Mapping) and value:
            lines.append(f"{lead}{scalar(key)}:")
            lines.extend(f"{indent}    {scalar(below)}: {flow(item)}" for below, item in value.items())
        else:
            lines.append(f"{lead}{scalar(key)}: {flow(value)}")
    return newline.join(lines)


def _float(value: float) -> str:
    if math.isnan(value):
        return ".nan"
    if math.isinf(value):
        return ".inf" if value > 0 else "-.inf"
    text = repr(value)
    # YAML 1.1 reads 1e-05 as text: a float has a dot there.
    return text.replace("e", ".0e") if "e" in text and "." not in text else text


def _is_plain(text: str) -> bool:
    return (
        _PLAIN_RE.match(text) is not None
        and "://" not in text
        and bool(_RESOLVER.resolve(yaml.ScalarNode, text, (True, False)) == _STR_TAG)
    )
