"""Keys that stand in a config: never copied into the registry, which is under version control."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from litellm_registry_hook.core.start.carry_entries import Entry, texts
from litellm_registry_hook.core.start.proposal import Left
from litellm_registry_hook.core.sync_masking import is_secret_path, shown_text

ENVIRON = "os.environ/"
# What people write where a server asks for no key.
_WORDS = """
- anything dummy empty fake fake-key key lm-studio n/a na no-key no_key none not-needed not-used null ollama placeholder
sk-no-key-required token unused vllm x xx xxx
"""
_PLACEHOLDERS = frozenset(_WORDS.split())
# Names with "key", "token", … in them that hold no secret.
_HARMLESS = re.compile(
    r"^(?:litellm_credential_name|max_tokens|max_completion_tokens|tokenizer|.*_tokens|.*_file|.*_path)$|cost_per"
)
_HEADERS = frozenset({"extra_headers", "headers", "default_headers"})
# Outside headers a number is a secret only where its name says so: `max_tokens_to_sample` has "token" in it too.
_NUMBER = re.compile(r"^-?[0-9.]+(?:e[-+]?[0-9]+)?$")
_NAMES_ONE = re.compile(r"(?:key|token|secret|passw\w*)$", re.IGNORECASE)
# Headers that carry who is calling, beyond those that `is_secret_path` knows.
_HEADER = re.compile(r"auth(?!or)|session|jwt|bearer|signature|pwd", re.IGNORECASE)
_FILE = re.compile(r"^[~./\w-][\w./~ -]*\.(?:json|pem|key)$")
_WORD = re.compile(r"[^A-Z0-9]+")


def literal_secrets(params: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield path and text of every secret that stands in the parameters itself."""
    for path, text in texts(params):
        if text.startswith(ENVIRON) or text.strip().lower() in _PLACEHOLDERS or not text.strip():
            continue
        if _HARMLESS.search(path[-1]):
            continue
        if _NUMBER.match(text) and path[0] not in _HEADERS and not _NAMES_ONE.search(path[-1]):
            continue
        if (_is_secret(path) and not _FILE.match(text)) or shown_text(text) != text:
            yield path, text


def _is_secret(path: tuple[str, ...]) -> bool:
    """Say whether what stands at a path is a secret; of a header its own name tells (`X-Title` holds none)."""
    if path[0] not in _HEADERS:
        return is_secret_path(path)
    return len(path) == 1 or is_secret_path(path[1:]) or _HEADER.search(path[-1]) is not None


class Names:
    """Names of environment variables for keys: one for each different value."""

    def __init__(self) -> None:
        self._by_value: dict[str, str] = {}
        self._where: dict[tuple[int, str], str] = {}

    def name_for(self, entry: Entry, path: tuple[str, ...], value: str) -> str:
        """Return the name that holds a value, a new one where the value is new."""
        if value not in self._by_value:
            wanted = self.suggestion(entry, path)
            taken = set(self._by_value.values())
            name, number = wanted, 2
            while name in taken:
                name = f"{wanted}_{number}"
                number += 1
            self._by_value[value] = name
        name = self._by_value[value]
        self._where[entry.index, ".".join(path)] = name
        return name

    @staticmethod
    def suggestion(entry: Entry, path: tuple[str, ...]) -> str:
        """Return a name for a secret of an entry."""
        wanted = _WORD.sub("_", f"{entry.name}_{path[-1] if path else 'value'}".upper()).strip("_")
        return f"KEY_{wanted}" if wanted[:1].isdigit() else wanted

    def left(self, carried: Collection[int]) -> Iterator[Left]:
        """Yield which name takes the place of which value in these entries; the value itself is never told."""
        for (index, path), name in sorted(self._where.items()):
            if index in carried:
                yield Left(
                    f"model_list[{index}].litellm_params.{path}",
                    f"its value is left out, os.environ/{name} stands for it",
                    f"export {name} with that value where the proxy runs, before --adopt takes it out of the config",
                )


def replaced(params: Mapping[str, Any], entry: Entry, names: Names) -> dict[str, Any]:
    """Return the parameters with os.environ/NAME in the place of each secret."""
    found = set(literal_secrets(params))

    def walk(value: Any, path: tuple[str, ...]) -> Any:
        if (path, str(value)) in found:
            return f"{ENVIRON}{names.name_for(entry, path, str(value))}"
        if isinstance(value, Mapping):
            return {key: walk(item, (*path, str(key))) for key, item in value.items()}
        return [walk(item, path) for item in value] if isinstance(value, list) else value

    return {str(key): walk(value, (str(key),)) for key, value in params.items()}


def replaceable(params: Mapping[str, Any]) -> bool:
    """Say whether LiteLLM would read every secret from the environment.

    It resolves `os.environ/` in the values of litellm_params themselves, not in what is nested in them
    (proxy_server.py:7081); a key inside an address cannot be taken out of it.
    """
    return all(len(path) == 1 and is_secret_path(path) for path, _ in literal_secrets(params))
