"""LiteLLM's own key administration over HTTP: /key/list, /key/info, /key/update. Imports no litellm.

The admin key goes to the named proxy only: redirects are not followed.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from litellm_registry_hook.core.opt_in import OptInError

TIMEOUT_SECONDS: Final = 10.0
PAGE: Final = 100
LARGEST: Final = 64 * 2**20
OK: Final = 200
MISSING: Final = 404
DENIED: Final = frozenset({401, 403})
# What LiteLLM answers where it has no database (key_management_endpoints.py:6909, :4567; auth).
_NO_DATABASE: Final = ("database not connected", "no connected db", "no db connected")
Send = Callable[[str, str, "Mapping[str, Any] | None"], "tuple[int, Any]"]
"""Sends one request: method, path with query, JSON body; gives status and the JSON answer."""


@dataclass(frozen=True, slots=True)
class ProxyKey:
    """One virtual key in LiteLLM's database.

    Attributes:
        token: sha256 of the key, 64 hex digits.
        alias: empty where it has none; anybody may take a free one.
        permissions: only a proxy admin can write them.
        owner: user or team, for people; empty where it has none.

    """

    token: str
    alias: str = ""
    permissions: Mapping[str, Any] = field(default_factory=dict)
    owner: str = ""


class ProxyApi:
    """The keys of one proxy.

    Every method raises OptInError: proxy_failed where the proxy cannot be reached, refuses the admin key or answers
    nonsense; no_key_database where it has no database.
    """

    def __init__(self, send: Send) -> None:
        self._send = send

    def named(self, alias: str) -> list[ProxyKey]:
        """Return the keys with this alias."""
        return list(self._list({"key_alias": alias}))

    def every(self) -> list[ProxyKey]:
        """Return all keys."""
        return list(self._list({}))

    def with_token(self, token: str) -> ProxyKey | None:
        """Return the key with this token."""
        status, answer = self._send("GET", f"/key/info?{urlencode({'key': token})}", None)
        if status == MISSING:
            return None
        info = self._checked(status, answer, "/key/info").get("info")
        if not isinstance(info, Mapping):
            raise OptInError("proxy_failed", "the proxy's answer to /key/info has no `info`")
        return _key({**info, "token": token})

    def write_permissions(self, token: str, permissions: Mapping[str, Any]) -> None:
        """Replace a key's permissions, all of them: LiteLLM does not merge."""
        status, answer = self._send("POST", "/key/update", {"key": token, "permissions": dict(permissions)})
        self._checked(status, answer, "/key/update")

    def _list(self, query: Mapping[str, str]) -> Iterator[ProxyKey]:
        page = 1
        while True:
            asked = urlencode({**query, "size": PAGE, "page": page, "return_full_object": "true"})
            status, answer = self._send("GET", f"/key/list?{asked}", None)
            found = self._checked(status, answer, "/key/list")
            rows = found.get("keys")
            if not isinstance(rows, list):
                raise OptInError("proxy_failed", "the proxy's answer to /key/list has no `keys`")
            yield from (_key(row) for row in rows if isinstance(row, Mapping))
            pages = found.get("total_pages")
            if not rows or not isinstance(pages, int) or page >= pages:
                return
            page += 1

    @staticmethod
    def _checked(status: int, answer: Any, path: str) -> Mapping[str, Any]:
        if status == OK and isinstance(answer, Mapping):
            return answer
        said = _message(answer)
        if any(words in said.lower() for words in _NO_DATABASE):
            raise OptInError("no_key_database", "the proxy has no database, so LiteLLM keeps no virtual keys there")
        if status in DENIED:
            message = f"the proxy refuses {path} to this admin key ({status}): a proxy admin's key is needed"
            raise OptInError("proxy_failed", message)
        raise OptInError("proxy_failed", f"the proxy answered {path} with {status}: {said[:200]}")


def http(url: str, key: str, timeout_s: float = TIMEOUT_SECONDS) -> Send:
    """Return a way to send to a proxy.

    Args:
        url: its base URL.
        key: the admin key.
        timeout_s: seconds for one answer.

    Raises:
        OptInError: not an http(s) URL.

    """
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username is not None:
        raise OptInError("bad_request", f"the proxy URL {url!r} is not of the form http://HOST:PORT")
    if not key.isprintable() or not key.isascii():
        raise OptInError("bad_request", "the admin key holds a line break or another character that no header takes")
    handlers: list[urllib.request.BaseHandler] = [_NoRedirect()]
    if parts.hostname in {"127.0.0.1", "localhost", "::1"}:
        handlers.append(urllib.request.ProxyHandler({}))
    opener = urllib.request.build_opener(*handlers)

    def send(method: str, path: str, body: Mapping[str, Any] | None) -> tuple[int, Any]:
        request = urllib.request.Request(  # noqa: S310  the scheme was checked
            url.rstrip("/") + path,
            data=json.dumps(body).encode() if body is not None else None,
            headers={"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
            method=method,
        )
        try:
            with opener.open(request, timeout=timeout_s) as answer:
                return answer.status, _parsed(_whole(answer))
        except urllib.error.HTTPError as error:
            with error:
                return error.code, _parsed(error.read(LARGEST))
        except (OSError, ValueError) as error:
            why = getattr(error, "reason", None) or error
            raise OptInError("proxy_failed", f"the proxy at {url} does not answer: {why}") from None

    return send


def _whole(answer: Any) -> bytes:
    data: bytes = answer.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise ValueError(f"its answer is larger than {LARGEST // 2**20} MB")
    return data


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_args: Any, **_more: Any) -> None:
        return None


def _parsed(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except ValueError:
        return raw.decode(errors="replace")


def _message(answer: Any) -> str:
    """Find the sentence in LiteLLM's error shapes: {"error": {"message"}}, {"detail": …}."""
    for step in ("error", "detail", "message", "error"):
        if isinstance(answer, Mapping) and step in answer:
            answer = answer[step]
    return str(answer)


def _key(row: Mapping[str, Any]) -> ProxyKey:
    permissions = row.get("permissions")
    owners = [f"{kind} {row[name]}" for kind, name in (("user", "user_id"), ("team", "team_id")) if row.get(name)]
    return ProxyKey(
        token=str(row.get("token") or ""),
        alias=str(row.get("key_alias") or ""),
        permissions=permissions if isinstance(permissions, Mapping) else {},
        owner=", ".join(owners),
    )
