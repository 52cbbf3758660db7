"""From what a person calls a key to the key: the embedded store, LiteLLM's database, or the hash itself."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from litellm_registry_hook.core.opt_in import KeyRef, OptInError
from litellm_registry_hook.core.virtual_key import TOKEN_PREFIX, VirtualKey, read_token
from litellm_registry_hook.edges.proxy_api import ProxyApi, ProxyKey
from litellm_registry_hook.edges.store.port import State

_HEX: Final = re.compile(r"^[0-9A-Fa-f]{64}$")


@dataclass(frozen=True, slots=True)
class KeyStores:
    """Where keys are looked up.

    Attributes:
        state: the state, with the embedded keys. api: LiteLLM's keys; None where no proxy was named.
        on_proxy: nobody can name another proxy.

    """

    state: State
    api: ProxyApi | None = None
    on_proxy: bool = False

    def embedded(self) -> list[VirtualKey]:
        """Return the embedded keys; reading makes no state file."""
        return self.state.virtual_keys() if self.state.exists() else []

    def of_litellm(self) -> list[ProxyKey] | None:
        """Return LiteLLM's keys; None where no proxy was named or it has no database."""
        try:
            return self.api.every() if self.api is not None else None
        except OptInError as error:
            if error.code == "no_key_database":
                return None
            raise

    def find(self, text: str, now: datetime) -> list[KeyRef]:
        """Return the keys that a text may mean: one for a hash or a key, any number for an alias.

        Args:
            text: an alias, `sha256:<hex>` (accepted unseen), or the key itself (`sk-…`, hashed at once).
            now: an aware moment; embedded keys must live then.

        Raises:
            OptInError: bad_key; or the proxy does not answer.

        """
        text = text.strip()
        if text.startswith((TOKEN_PREFIX, "sk-")):
            token = read_token(text)
            if token is None:
                raise OptInError("bad_key", "that token is no sha256: write sha256: and 64 lower-case hex digits")
            return [KeyRef(token, self._alias_of(token))]
        if not text or _HEX.match(text):
            what = "the key is empty" if not text else "a bare hash would be taken for an alias"
            raise OptInError("bad_key", f"{what}: write an alias, sha256:<hex> or sk-…")
        own = [KeyRef(key.token, key.alias) for key in self.embedded() if key.alias == text and key.live(now)]
        theirs = [KeyRef(key.token, key.alias) for key in self._named(text) if key.token]
        return list(dict.fromkeys([*own, *theirs]))

    def one(self, text: str, now: datetime) -> KeyRef | None:
        """Return the key that a text means; None for an alias that nobody knows.

        Raises:
            OptInError: ambiguous_key where several keys have the alias; and as find().

        """
        found = self.find(text, now)
        if len(found) > 1:
            listed = ", ".join(key.pinned for key in found)
            message = f"{len(found)} keys have the alias {text!r}; name the one you mean by its token: {listed}"
            raise OptInError("ambiguous_key", message)
        return found[0] if found else None

    def unknown(self, alias: str) -> OptInError:
        """Make the error of an alias that nobody knows."""
        places = ["the embedded store", *(["the proxy's database"] if self.api is not None else [])]
        other = (
            ""
            if self.api is not None or self.on_proxy
            else " For a key in LiteLLM's database name the proxy with --proxy URL."
        )
        message = (
            f"no live key has the alias {alias!r} in {' or '.join(places)}. Make it with "
            f"`litellm-registry keys create --alias {alias}`, or give its token as sha256:<hex>.{other}"
        )
        return OptInError("unknown_key", message)

    def _alias_of(self, token: str) -> str:
        for key in self.embedded():
            if key.token == token:
                return key.alias
        try:
            found = self.api.with_token(token) if self.api is not None else None
        except OptInError:  # a token is accepted unseen; its alias is for people
            return ""
        return found.alias if found is not None else ""

    def _named(self, alias: str) -> list[ProxyKey]:
        try:
            return self.api.named(alias) if self.api is not None else []
        except OptInError as error:
            if error.code == "no_key_database":
                return []
            raise
