"""What an Ollama server answers, read strictly: one wrong field and the whole answer counts for nothing.

The forms are those of Ollama 0.1.38 to 0.33 (api/types.go).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import MAXYEAR, date
from typing import Any, Final

from litellm_registry_hook.core.gpu.facts import Loaded, ModelFile, Shape
from litellm_registry_hook.core.gpu.names import full_name

MIB: Final = 1024 * 1024
PINNED_S: Final = 365 * 86400
MARKER_MB: Final = 1.0
_MOMENT = re.compile(
    r"(\d{4,6})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:[.,](\d+))?(?:([Zz])|([+-])(\d\d):?(\d\d)(?::?(\d\d))?)"
)
_BLOB = re.compile(r"""^FROM\s+["']?[^\n]*?blobs[/\\](sha256[-:][0-9a-f]{64})["']?\s*$""", re.IGNORECASE | re.MULTILINE)
_UNIX_EPOCH_DAY = date(1970, 1, 1).toordinal()


class NotOllamaError(ValueError):
    """The answer is not what an Ollama server says; the text says where it differs."""


def loaded_of(answer: Any, now: float) -> tuple[Loaded, ...]:
    """Read /api/ps.

    Args:
        answer: the parsed body. now: seconds since the epoch; what leaves more than a year later is pinned.

    Raises:
        NotOllamaError: a field is missing or of another type.

    """
    return tuple(_loaded(entry, now) for entry in _models(answer))


def files_of(answer: Any) -> dict[str, ModelFile]:
    """Read /api/tags, by full name; shape and blob are in /api/show.

    Raises:
        NotOllamaError: a field is missing or of another type.

    """
    files = {}
    for entry in _models(answer):
        name, size = _name(entry), _megabytes(entry, "size")
        remote = bool(entry.get("remote_host") or entry.get("remote_model"))
        # Older servers mark a cloud model by its tag alone; its file is then a stub of some hundred bytes.
        tag = name.rpartition(":")[2]
        remote = remote or (size < MARKER_MB and (tag == "cloud" or tag.endswith("-cloud")))
        files[name] = ModelFile(name, _digest(entry), size, remote=remote)
    return files


def spellings_of(answer: Any) -> dict[str, str]:
    """Return each name of /api/tags as the server writes it, by full name: older servers mind upper case.

    Raises:
        NotOllamaError: an entry has no name.

    """
    return {_name(entry): entry.get("name") or entry["model"] for entry in _models(answer)}


def version_of(answer: Any) -> tuple[int, ...]:
    """Read /api/version: `0.30.1-rc2` is (0, 30, 1); empty where there are no numbers.

    >>> version_of({"version": "0.30.1-rc2"}), version_of({"version": "dev"})
    ((0, 30, 1), ())
    """
    text = answer.get("version") if isinstance(answer, Mapping) else None
    found = re.match(r"v?(\d{1,6}(?:\.\d{1,6}){0,3})", text) if isinstance(text, str) else None
    return tuple(int(part) for part in found.group(1).split(".")) if found else ()


def shape_of(answer: Any) -> Shape | None:
    """Read /api/show as Ollama's own prediction reads the file: most heads, fewest heads for KV, 1 where not said.

    None where a figure is missing. A list that the server leaves out counts as the number of heads, the most it can be.
    """
    info = answer.get("model_info") if isinstance(answer, Mapping) else None
    kind = info.get("general.architecture") if isinstance(info, Mapping) else None
    if not isinstance(info, Mapping) or not isinstance(kind, str):
        return None
    layers, width = _whole(info.get(f"{kind}.block_count")), _whole(info.get(f"{kind}.embedding_length"))
    heads_key = f"{kind}.attention.head_count"
    heads = _heads(info, heads_key) if heads_key in info else [1]
    if layers is None or width is None or not heads:
        return None
    kv_key = f"{kind}.attention.head_count_kv"
    kv_heads = _heads(info, kv_key) if kv_key in info else [1]
    abilities = answer.get("capabilities")
    embedding = (
        "embedding" in abilities if isinstance(abilities, list) and abilities else f"{kind}.pooling_type" in info
    )
    return Shape(
        layers=layers,
        heads=max(heads),
        kv_heads=min(kv_heads) if kv_heads else max(heads),
        width=width,
        embedding=embedding,
        train_context=_whole(info.get(f"{kind}.context_length")),
    )


def blob_of(answer: Any) -> str:
    """Return the weights' blob, `sha256-<hex>`, from the first FROM line of /api/show's modelfile; empty: not said."""
    text = answer.get("modelfile") if isinstance(answer, Mapping) else None
    found = _BLOB.search(text) if isinstance(text, str) else None
    return found.group(1).lower().replace(":", "-") if found else ""


def moment_of(text: str) -> float:
    """Read an RFC 3339 moment as Go prints it, to 9 fraction digits; seconds since the epoch. Years end at 9999.

    >>> moment_of("1970-01-02T01:00:00.5+01:00")
    86400.5

    Raises:
        NotOllamaError: not such a moment.

    """
    found = _MOMENT.fullmatch(text)
    if found is None:
        raise NotOllamaError(f"{text[:40]!r} is no moment")
    year, month, day, hour, minute, second = (int(part) for part in found.groups()[:6])
    fraction, _, sign, off_hours, off_minutes, off_seconds = found.groups()[6:]
    try:
        days = date(min(year, MAXYEAR), month, day).toordinal() - _UNIX_EPOCH_DAY
    except ValueError as error:
        raise NotOllamaError(f"{text[:40]!r} is no moment") from error
    offset = int(off_hours or 0) * 3600 + int(off_minutes or 0) * 60 + int(off_seconds or 0)
    seconds = days * 86400 + hour * 3600 + minute * 60 + second - (-offset if sign == "-" else offset)
    return seconds + float(f"0.{fraction or 0}")


def _loaded(entry: Mapping[str, Any], now: float) -> Loaded:
    expires = entry.get("expires_at")
    if not isinstance(expires, str):
        raise NotOllamaError("an entry has no expires_at")
    moment = moment_of(expires)
    context = entry.get("context_length") or None  # runners that have no context say 0
    if context is not None and (context := _whole(context)) is None:
        raise NotOllamaError("context_length is no positive whole number")
    return Loaded(
        name=_name(entry),
        digest=_digest(entry),
        size_mb=_megabytes(entry, "size"),
        vram_mb=_megabytes(entry, "size_vram"),
        expires_at=None if moment > now + PINNED_S else moment,
        context=context,
    )


def _models(answer: Any) -> list[Mapping[str, Any]]:
    if not isinstance(answer, Mapping) or "models" not in answer:
        raise NotOllamaError("it has no list `models`")
    models = answer["models"]
    if models is None:  # an empty slice of Go
        return []
    if not isinstance(models, list) or not all(isinstance(entry, Mapping) for entry in models):
        raise NotOllamaError("`models` is no list of entries")
    return models


def _name(entry: Mapping[str, Any]) -> str:
    name = entry.get("name") or entry.get("model")
    if not isinstance(name, str) or not name.strip():
        raise NotOllamaError("an entry has no name")
    return full_name(name.strip())


def _digest(entry: Mapping[str, Any]) -> str:
    digest = entry.get("digest", "")
    if not isinstance(digest, str):
        raise NotOllamaError("a digest is no text")
    return digest.removeprefix("sha256:").lower()


def _megabytes(entry: Mapping[str, Any], key: str) -> float:
    value = entry.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 2**63:
        raise NotOllamaError(f"{key} is no size in bytes")
    return value / MIB


def _whole(value: Any) -> int | None:
    """Return a positive whole number; None for anything else. Numbers may come as 32.0."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if isinstance(value, float) and not (math.isfinite(value) and value.is_integer()):
        return None
    return int(value) if 0 < value < 2**40 else None


def _heads(info: Mapping[str, Any], key: str) -> list[int]:
    """Return one number of heads for all layers, or one for each; empty where it is not told.

    A layer may have none, which Ollama counts as one.
    """
    value = info.get(key)
    given = value if isinstance(value, list) else [value]
    return [number for one in given if (number := 1 if one == 0 else _whole(one)) is not None]
