"""Short HTTP calls with an end: every wait and every size is bounded, and nothing is raised."""

from __future__ import annotations

import base64
import json
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import httpx

CONNECT_S: Final = 1.0
LARGEST: Final = 16 * 1024 * 1024
SAID: Final = 300


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server answered, whatever its status.

    Attributes:
        status: HTTP status. body: at most 16 MB.

    """

    status: int
    body: bytes

    def json(self) -> Any:
        """Return the parsed body.

        Raises:
            ValueError: it is not JSON.

        """
        try:
            return json.loads(self.body)
        except RecursionError as error:
            raise ValueError("nested too deeply") from error

    def said(self) -> str:
        """Return the error text of the answer, Ollama's `{"error": …}` or the plain body, on one line and cut."""
        text = self.body.decode(errors="replace")
        try:
            found = self.json()
        except ValueError:
            found = None
        error = found.get("error") if isinstance(found, dict) else None
        if isinstance(error, dict):
            error = error.get("message")
        return cut(error if isinstance(error, str) else text)


@dataclass(frozen=True, slots=True)
class Failure:
    """Why there is no answer.

    Attributes:
        kind: refused: nobody listens there, or no such host; late: no answer in time; broken: it came apart.
        reason: a clause for people, `connection refused` say.

    """

    kind: Literal["refused", "late", "broken"]
    reason: str


def cut(text: str, length: int = SAID) -> str:
    """Return a text on one line, with at most `length` characters."""
    line = " ".join(text.split())
    return line if len(line) <= length else line[: length - 1] + "…"


class Web:
    """One server.

    No proxy of the environment is used: a model server is asked directly. Thread-safe.
    """

    def __init__(self, base: str, headers: Mapping[str, str] | None = None) -> None:
        """Keep the address; nothing is opened before the first call.

        Args:
            base: without a trailing slash. headers: sent with every call.

        """
        self.base = base
        # The system's certificates: httpx would take certifi's, which lack those of the house.
        verify: ssl.SSLContext | bool = ssl.create_default_context() if base.startswith("https:") else False
        # The transport alone: a client writes a log line for every call, and ours come every few seconds.
        self._transport = httpx.HTTPTransport(verify=verify, trust_env=False)
        always = {"User-Agent": "litellm-registry-hook", "Accept": "application/json", **_login(base)}
        self._headers = {**always, **(headers or {})}

    def ask(
        self, path: str, *, body: Any = None, read_s: float = 2.0, connect_s: float = CONNECT_S, again: bool = True
    ) -> Answer | Failure:
        """GET a path or a whole URL, or POST `body` as JSON to it.

        Args:
            path: begins with a slash and is put behind the base; or a URL.
            body: None for GET.
            read_s: seconds for the whole answer. connect_s: seconds until the connection stands.
            again: ask a second time when the connection came apart.

        """
        url = path if "://" in path else self.base + path
        found = self._once(url, body, read_s, connect_s)
        if again and isinstance(found, Failure) and found.kind == "broken":
            # A kept connection whose server was restarted: a fresh one tells whether it is there.
            found = self._once(url, body, read_s, connect_s)
        return found

    def close(self) -> None:
        """Close the kept connections."""
        self._transport.close()

    def _once(self, url: str, body: Any, read_s: float, connect_s: float) -> Answer | Failure:
        timeout = httpx.Timeout(read_s, connect=connect_s)
        end = time.monotonic() + connect_s + read_s
        extensions = {"timeout": timeout.as_dict()}
        try:
            request = httpx.Request(
                "GET" if body is None else "POST", url, headers=self._headers, json=body, extensions=extensions
            )
            response = self._transport.handle_request(request)
            response.request = request
            try:
                return _whole(response, read_s, end)
            finally:
                response.close()
        except httpx.ConnectTimeout:
            return Failure("late", f"no connection within {connect_s:g} s")
        except httpx.TimeoutException:
            return Failure("late", f"no answer within {read_s:g} s")
        except httpx.ConnectError as error:
            return _no_connection(error)
        except Exception as error:  # noqa: BLE001  an address that httpx cannot read, a protocol error, a bug
            return Failure("broken", cut(f"{type(error).__name__}: {error}", 160))


def _login(base: str) -> dict[str, str]:
    """Return the header of a `user:password@` in the address."""
    try:
        url = httpx.URL(base)
    except httpx.InvalidURL:
        return {}  # asking it says so
    if not (url.username or url.password):
        return {}
    return {"Authorization": "Basic " + base64.b64encode(f"{url.username}:{url.password}".encode()).decode()}


def _whole(response: httpx.Response, read_s: float, end: float) -> Answer | Failure:
    """Read an answer to its end, to the size limit or until `end` on the monotonic clock."""
    parts: list[bytes] = []
    size = 0
    for part in response.iter_bytes():
        size += len(part)
        if size > LARGEST:
            return Failure("broken", f"its answer is larger than {LARGEST // 2**20} MB")
        if time.monotonic() > end:
            return Failure("late", f"its answer had not ended after {read_s:g} s")
        parts.append(part)
    return Answer(response.status_code, b"".join(parts))


def _no_connection(error: httpx.ConnectError) -> Failure:
    """Tell a server that is not there from one that is there and cannot be spoken to."""
    text = str(error)
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return Failure("broken", cut(f"TLS fails: {text}", 160))
        cause = cause.__cause__ or cause.__context__
    if "refused" in text.lower():
        return Failure("refused", "connection refused")
    return Failure("refused", cut(f"no connection: {text}", 160))
