"""GET a probe's address: one call, no redirects, no credentials but a bearer token given, an end for time and size."""

from __future__ import annotations

import ssl
import time
from email.utils import parsedate_to_datetime
from typing import Final

import httpx

from litellm_registry_hook.core.availability.moments import span_of
from litellm_registry_hook.core.availability.probes import TIMEOUT_S, Answer

CONNECT_S: Final = 5.0
LARGEST: Final = 1024 * 1024
_OK: Final = 200
_HEADERS: Final = {"User-Agent": "litellm-registry-hook", "Accept": "application/json"}


def ask_url(url: str, now: float, *, bearer: str = "", timeout_s: float = TIMEOUT_S) -> Answer:
    """Return what an address answers with 200.

    Args:
        url: the address. now: seconds since the epoch, for a Retry-After that is a date.
        bearer: token to send; empty for none. timeout_s: seconds for the whole call.

    """
    end = time.monotonic() + timeout_s
    connect = min(CONNECT_S, timeout_s)
    timeout = httpx.Timeout(timeout_s, connect=connect)
    verify: ssl.SSLContext | bool = ssl.create_default_context() if url.startswith("https:") else False
    # The transport alone: a client writes a log line for every call.
    try:
        with httpx.HTTPTransport(verify=verify, trust_env=False) as transport:
            headers = _HEADERS | ({"Authorization": f"Bearer {bearer}"} if bearer else {})
            request = httpx.Request("GET", url, headers=headers, extensions={"timeout": timeout.as_dict()})
            response = transport.handle_request(request)
            try:
                return _read(response, now, end, timeout_s)
            finally:
                response.close()
    except httpx.ConnectTimeout:
        return Answer(error=f"no connection within {connect:g} s")
    except httpx.TimeoutException:
        return Answer(error=f"no answer within {timeout_s:g} s")
    except Exception as error:  # noqa: BLE001  a refused connection, an address that httpx cannot read, a broken answer
        return Answer(
            error=f"probe_url cannot be asked ({type(error).__name__})", detail=" ".join(str(error).split())[:160]
        )


def _read(response: httpx.Response, now: float, end: float, timeout_s: float) -> Answer:
    if response.status_code != _OK:
        return Answer(error=f"it answered {response.status_code}", retry_after_s=_retry_after(response.headers, now))
    data = bytearray()
    for part in response.iter_bytes():
        data += part
        if len(data) > LARGEST:
            return Answer(error=f"its answer is larger than {LARGEST // 2**20} MB")
        if time.monotonic() > end:
            return Answer(error=f"its answer had not ended after {timeout_s:g} s")
    return Answer(bytes(data).decode("utf-8", errors="replace"))


def _retry_after(headers: httpx.Headers, now: float) -> float | None:
    text = headers.get("retry-after", "")
    seconds = span_of(text)
    if seconds is None and text:
        try:
            seconds = max(0.0, parsedate_to_datetime(text).timestamp() - now)
        except (ValueError, TypeError, IndexError, OverflowError):
            return None
    return seconds
