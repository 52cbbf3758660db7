"""Wait for a stream's first token before it counts as served.

LiteLLM does so for chat (router.py:774); for messages, responses, text completions and generateContent it hands over
the stream at once, and a dead one would reach the client as a 200 with an error event although the next pool member
was free. Preludes that LiteLLM makes up itself (message_start, response.created, a role) are no token.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

MAX_PRELUDE: Final = 16
_EVENT: Final = re.compile(rb"^event: *([\w.]+)", re.MULTILINE)
# Of a data line only the first type: those after it are of the blocks and messages inside.
_TYPE: Final = re.compile(rb'^(?:data: *)?\{.*?"type": *"([\w.]+)"', re.MULTILINE)
_PRELUDE: Final = frozenset(
    {
        "message_start",
        "content_block_start",
        "ping",
        "response.created",
        "response.queued",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    }
)
_FAILED: Final = frozenset({"error", "response.failed"})
# What OpenAI and Anthropic call their errors inside a stream, and the status they have outside of one.
_STATUS: Final = {
    "rate_limit_exceeded": 429,
    "rate_limit_error": 429,
    "insufficient_quota": 429,
    "billing_error": 402,
    "overloaded_error": 529,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "invalid_request_error": 400,
    "invalid_prompt": 400,
    "request_too_large": 413,
    "BadRequestError": 400,
}
# `invalid_image_url`, `image_too_large`, …: a client's own images.
_IMAGE: Final = re.compile(r"(?:^|_)image(?:_|$)")
_DATA: Final = re.compile(r"^(?:data: *)?(\{.*\})\s*$", re.MULTILINE)
_CAUSES: Final = 8
BAD_REQUEST, BAD_GATEWAY, TOP = 400, 502, 600


class DeadStreamError(Exception):
    """A stream that said it failed before its first token; an upstream 502 where it did not say why.

    Attributes:
        status_code: as LiteLLM's own exceptions have it.

    """

    def __init__(self, words: str, status_code: int = BAD_GATEWAY) -> None:
        super().__init__(words)
        self.status_code = status_code


async def first_token(stream: Any) -> Any:
    """Read a stream up to its first token and hand it back whole.

    Raises:
        DeadStreamError: it said that it failed. Whatever the stream raises while it is read.

    """
    kind: Any = type(stream)
    if not _is_stream(kind):
        return stream
    source = stream.__aiter__()
    head: list[Any] = []
    try:
        async for chunk in source:
            head.append(chunk)
            word = event_of(chunk)
            if word in _FAILED:
                raise DeadStreamError(*_told(chunk))  # noqa: TRY301  the stream is closed below, as for its own errors
            if word not in _PRELUDE or len(head) >= MAX_PRELUDE:
                break
        else:
            raise DeadStreamError("the stream ended without an answer")  # noqa: TRY301
    except BaseException:
        await _close(stream)
        raise
    return replayed(stream, source, head)


@lru_cache(maxsize=64)
def _is_stream(kind: type) -> bool:
    """Say whether answers of a type are streams; pydantic's types raise and catch an AttributeError to say no."""
    return hasattr(kind, "__aiter__")


def event_of(chunk: Any) -> str:
    """Name a chunk: its event type, `response.created` for a chat chunk that carries only a role, else empty.

    Bytes may hold several events: the first that is no prelude names them.
    """
    if isinstance(chunk, (bytes, str)):
        raw = chunk if isinstance(chunk, bytes) else chunk.encode()
        words = [word.decode() for word in _EVENT.findall(raw) or _TYPE.findall(raw)]
        return next((word for word in words if word not in _PRELUDE), words[0] if words else "")
    kind = chunk.get("type") if isinstance(chunk, dict) else getattr(chunk, "type", None)
    if kind is not None:
        return str(getattr(kind, "value", kind))
    choices: Any = getattr(chunk, "choices", None) or [None]
    delta = getattr(choices[0], "delta", None)
    if delta is None or getattr(choices[0], "finish_reason", None):
        return ""
    said = any(getattr(delta, key, None) for key in ("content", "tool_calls", "reasoning_content", "audio", "images"))
    return "" if said else "response.created"


def replayed(stream: Any, source: Any, head: list[Any]) -> Any:
    """Return the same object, which gives `head` first: LiteLLM asks for its type and attributes later."""
    cls = type(stream)
    waiting = iter(head)

    async def step(_: Any) -> Any:
        for chunk in waiting:
            return chunk
        return await source.__anext__() if source is not stream else await cls.__anext__(stream)

    try:
        made = type(cls.__name__, (cls,), {"__aiter__": lambda self: self, "__anext__": step})
        stream.__class__ = made
    except TypeError:
        return _Chain(stream, source, head)
    return stream


class _Chain:
    """A stream whose class cannot be changed (a bare generator), with its head put back."""

    def __init__(self, stream: Any, source: Any, head: list[Any]) -> None:
        self._stream, self._source, self._head = stream, source, iter(head)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __aiter__(self) -> _Chain:
        return self

    async def __anext__(self) -> Any:
        for chunk in self._head:
            return chunk
        return await self._source.__anext__()

    async def aclose(self) -> None:
        await _close(self._stream)


async def _close(stream: Any) -> None:
    close = getattr(stream, "aclose", None)
    if close is not None:
        await close()


def named_status(error: BaseException) -> int | None:
    """Return the status that an error event of a stream named, which LiteLLM makes a 500 of; None where it did not.

    openai-python raises an error event of a 200 as an APIError without a status, its `body` the event's error object.
    """
    causes: list[BaseException] = [error]
    for cause in causes:  # grows on the way; LiteLLM's exceptions name each other in a ring
        body = getattr(cause, "body", None)
        if isinstance(body, Mapping) and getattr(cause, "status_code", None) is None:
            return _status_in(body)
        for more in (getattr(cause, "original_exception", None), cause.__cause__, cause.__context__):
            if isinstance(more, BaseException) and len(causes) < _CAUSES and all(more is not one for one in causes):
                causes.append(more)
    return None


def _told(chunk: Any) -> tuple[str, int]:
    """Read the error of a failed chunk: from its own place only, for other parts may quote what a client has sent."""
    for event in _events(chunk):
        error = _part(event, "error") or _part(_part(event, "response"), "error")
        if error is None and str(_part(event, "type")) == "error":
            error = event
        if error is not None:
            words = error if isinstance(error, str) else _part(error, "message")
            return str(words or "it did not say why")[:300], _status_in(error) or BAD_GATEWAY
    said = chunk.decode(errors="replace") if isinstance(chunk, bytes) else chunk if isinstance(chunk, str) else ""
    return said.strip()[:200] or "it did not say why", BAD_GATEWAY


def _events(chunk: Any) -> Iterator[Any]:
    if not isinstance(chunk, (bytes, str)):
        yield chunk
        return
    for line in _DATA.findall(chunk.decode(errors="replace") if isinstance(chunk, bytes) else chunk):
        with contextlib.suppress(ValueError, RecursionError):
            yield json.loads(line)


def _part(whole: Any, name: str) -> Any:
    return whole.get(name) if isinstance(whole, Mapping) else getattr(whole, name, None)


def _status_in(error: Any) -> int | None:
    for kind in (_part(error, "code"), _part(error, "type")):
        word = str(getattr(kind, "value", kind))
        if word in _STATUS:
            return _STATUS[word]
        if word.isascii() and word.isdecimal() and BAD_REQUEST <= int(word) < TOP:
            return int(word)
        if _IMAGE.search(word):
            return BAD_REQUEST
    return None
