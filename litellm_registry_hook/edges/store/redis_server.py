"""Talks to the Redis server that keeps the state: timeouts, errors, and the check of the schema."""

from __future__ import annotations

import importlib
import re
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeVar
from urllib.parse import SplitResult, unquote, urlsplit

from litellm_registry_hook.errors import StateError

PREFIX: Final = "litellm-registry-hook:"
SCHEMA_VERSION: Final = 1
CONNECT_SECONDS: Final = 1.0
ANSWER_SECONDS: Final = 2.0
# After a timeout nobody else waits for one, for so long; a refused connection costs nothing and is tried each time.
REST_SECONDS: Final = 0.5
INSTALL: Final = "pip install 'litellm-registry-hook[redis]'"

T = TypeVar("T")
_NUMBER: Final = re.compile(r"(/[0-9]+)?")

# KEYS: the schema's marker, the version, then the script's own. Every script is one step for all hosts.
_CHECK: Final = f"""
local found = redis.call('GET', KEYS[1])
if found and found ~= '{SCHEMA_VERSION}' then
  return redis.error_reply('ERR this state was written by another version of litellm-registry-hook (schema ' .. found ..
    ', this one knows {SCHEMA_VERSION}); use that one, or another server or database number')
end
"""
_MARK: Final = f"if not found then redis.call('SET', KEYS[1], '{SCHEMA_VERSION}') end\n"
# The version is the server's time in microseconds, and rises: after FLUSHALL it is no number seen before.
_TOUCH: Final = """
local function touch()
  local time = redis.call('TIME')
  local moment = time[1] * 1000000 + time[2]
  local before = tonumber(redis.call('GET', KEYS[2]) or '0')
  if moment <= before then moment = before + 1 end
  redis.call('SET', KEYS[2], string.format('%.0f', moment))
end
"""


class RedisServer:
    """One server and one database number on it. Safe to share between threads and across a fork.

    Attributes:
        place: its URL without user, password and options.

    """

    def __init__(self, url: str) -> None:
        """Name a server; nothing is sent yet.

        Raises:
            StateError: no URL of a Redis server, or the redis package is missing.

        """
        parts, self.place = _read(url)
        try:
            self._redis: Any = importlib.import_module("redis")
            retry: Any = importlib.import_module("redis.retry")
            backoff: Any = importlib.import_module("redis.backoff")
        except ImportError as error:
            raise StateError(f"state {self.place}: the redis package is missing: {INSTALL}") from error
        self._secrets = [one for one in {parts.password or "", unquote(parts.password or "")} if one]
        try:
            self._client: Any = self._redis.Redis.from_url(
                url,
                socket_connect_timeout=CONNECT_SECONDS,
                socket_timeout=ANSWER_SECONDS,
                decode_responses=True,
                encoding_errors="replace",
                # A script that was sent may have run: sent again it would count twice.
                retry=retry.Retry(backoff.NoBackoff(), 0),
                retry_on_timeout=False,
                client_name="litellm-registry-hook",
            )
        except (ValueError, TypeError, self._redis.RedisError) as error:
            raise StateError(f"state {self.place}: {self._clean(error)}") from None
        self._lock = threading.Lock()
        self._rest_until = 0.0
        self._rest_why = ""

    def write(self, script: str, keys: Sequence[str], *arguments: str | float) -> Any:
        """Run a script that writes; it may call touch() to say that keys or revocations have changed.

        Args:
            script: Lua; its keys begin at KEYS[3].
            keys: names without the prefix.
            arguments: ARGV.

        Raises:
            StateError: the server cannot be used.

        """
        return self._eval(_CHECK + _MARK + _TOUCH + script, keys, arguments)

    def read(self, script: str, keys: Sequence[str], *arguments: str | float) -> Any:
        """Run a script that reads; as write()."""
        return self._eval(_CHECK + script, keys, arguments)

    def pages(self, stream: str, first: str, count: int = 1000) -> list[str]:
        """Return the records of a stream from an id on; a long one is read in pages, so that nobody else waits."""
        self.read("return 1", [])
        found: list[str] = []
        while True:
            page = self._do(partial(self._client.xrange, PREFIX + stream, first, "+", count))
            found += [fields["record"] for _, fields in page]
            if len(page) < count:
                return found
            first = "(" + page[-1][0]

    def time(self) -> float:
        """Return the server's clock, seconds since the epoch."""
        seconds, micros = self._do(self._client.time)
        return int(seconds) + int(micros) / 1e6

    def close(self) -> None:
        """Close the connections that nobody uses now."""
        self._client.close()

    def _eval(self, script: str, keys: Sequence[str], arguments: Sequence[str | float]) -> Any:
        names = [PREFIX + key for key in ("schema", "version", *keys)]
        return self._do(lambda: self._client.eval(script, len(names), *names, *arguments))

    def _do(self, call: Callable[[], T]) -> T:
        with self._lock:
            if time.monotonic() < self._rest_until:
                raise StateError(self._rest_why)
        try:
            return call()
        except (self._redis.RedisError, OSError, ValueError) as error:
            text = f"state {self.place}: {self._clean(error)}"
            if isinstance(error, (self._redis.TimeoutError, TimeoutError)):
                with self._lock:
                    self._rest_until, self._rest_why = time.monotonic() + REST_SECONDS, text
            raise StateError(text) from None

    def _clean(self, error: Exception) -> str:
        text = str(error) or type(error).__name__
        if isinstance(error, self._redis.InvalidResponse):
            text = f"what listens there does not speak Redis ({text})"
        for secret in self._secrets:
            text = text.replace(secret, "…")
        return text


def _read(url: str) -> tuple[SplitResult, str]:
    """Return a URL's parts and what may be shown of it."""
    scheme = url.partition("://")[0]
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, urlsplit("")
    path = parts.path.rstrip("/")
    # redis-py takes a database number that it cannot read for 0.
    if parts.fragment or (not path if scheme == "unix" else not host or not _NUMBER.fullmatch(path)):
        form = "unix:///PATH" if scheme == "unix" else f"{scheme}://HOST:6379/0"
        message = f"is no URL of a server: write {form}, a password's special characters as %40 %23 %2F"
        raise StateError(f"state {scheme}://… {message}")
    if scheme == "unix":
        return parts, f"unix://{path}"
    shown = f"[{host}]" if ":" in (host or "") else host
    return parts, f"{scheme}://{shown}{f':{port}' if port is not None else ''}{path}"
