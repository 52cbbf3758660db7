"""Peeking at a stream until its first token."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from litellm_registry_hook.adapter.first_token import MAX_PRELUDE, DeadStreamError, event_of, first_token


class Stream:
    """A stream as LiteLLM hands it over: an object with attributes, closed when done with."""

    def __init__(self, *chunks):
        self.chunks = iter(chunks)
        self.read = 0
        self.closed = False
        self.model = "kimi"

    def __aiter__(self):
        return self

    async def __anext__(self):
        self.read += 1
        for chunk in self.chunks:
            if isinstance(chunk, BaseException):
                raise chunk
            return chunk
        raise StopAsyncIteration

    async def aclose(self):
        self.closed = True


class SlottedStream(Stream):
    """One whose class cannot be changed, its attributes being fixed."""

    __slots__ = ("_x",)

    def __setattr__(self, name, value):
        if name == "__class__":
            raise TypeError("fixed")
        super().__setattr__(name, value)


async def generator(*chunks):
    for chunk in chunks:
        if isinstance(chunk, BaseException):
            raise chunk
        yield chunk


START = b"event: message_start\ndata: {}\n\n"
TOKEN = b"event: content_block_delta\ndata: {}\n\n"
ERROR = b'event: error\ndata: {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}\n\n'


async def drain(stream):
    return [chunk async for chunk in stream]


@pytest.mark.parametrize("made", [Stream, SlottedStream, generator])
async def test_a_stream_is_handed_back_whole(made):
    """Nothing that was read ahead is lost, whatever kind of stream it is."""
    stream = await first_token(made(START, TOKEN, b"more"))

    assert await drain(stream) == [START, TOKEN, b"more"]


@pytest.mark.parametrize("made", [Stream, SlottedStream])
async def test_the_object_keeps_its_type_and_attributes(made):
    """LiteLLM asks a stream for its type and attributes after the walk: they are there."""
    stream = await first_token(made(START, TOKEN))

    assert (stream.model, made is SlottedStream or isinstance(stream, made)) == ("kimi", True)


async def test_reading_stops_at_the_first_token():
    """What comes after the first token is left for the client."""
    source = Stream(START, TOKEN, b"more", b"more")

    await first_token(source)

    assert source.read == 2


async def test_reading_stops_after_a_long_prelude():
    """A server that only pings does not hold the answer back for ever."""
    source = Stream(*[b"event: ping\n\n"] * (MAX_PRELUDE + 5))

    await first_token(source)

    assert source.read == MAX_PRELUDE


@pytest.mark.parametrize("made", [Stream, generator])
@pytest.mark.parametrize("chunks", [(ERROR,), (START, ERROR), (START + ERROR,)])
async def test_an_error_before_the_first_token_is_a_dead_stream(made, chunks):
    """An error event, also in one piece with its prelude, raises with the upstream's words and status."""
    with pytest.raises(DeadStreamError) as caught:
        await first_token(made(*chunks))

    assert (str(caught.value), caught.value.status_code) == ("Overloaded", 529)


@pytest.mark.parametrize(
    ("chunk", "status"),
    [
        (b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"busy"}}\n\n', 529),
        (b'event: error\ndata: {"type":"error","error":{"type":"rate_limit_error","message":"slow"}}\n\n', 429),
        (b'event: error\ndata: {"type":"error","error":{"type":"invalid_request_error","message":"no"}}\n\n', 400),
        (b'event: error\ndata: {"type":"error","error":{"type":"api_error","message":"oh"}}\n\n', 502),
        ({"type": "response.failed", "response": {"error": {"code": "insufficient_quota", "message": "m"}}}, 429),
        ({"type": "response.failed", "response": {"error": {"code": "invalid_prompt", "message": "m"}}}, 400),
        ({"type": "response.failed", "response": {"error": {"code": "server_error", "message": "m"}}}, 502),
        ({"type": "response.failed", "response": {"error": None}}, 502),
        ({"type": "response.failed", "response": {"error": {"code": "invalid_image_url", "message": "m"}}}, 400),
        (SimpleNamespace(type="response.failed", response=SimpleNamespace(error={"code": "rate_limit_exceeded"})), 429),
        (b'data: {"type":"error","error":{"type":"billing_error","message":"pay"}}\n\n', 402),
        ({"type": "error", "code": "rate_limit_exceeded", "message": "m"}, 429),
        (b"event: error\ndata: overloaded\n\n", 502),
    ],
)
async def test_an_error_in_a_stream_has_the_status_it_has_outside_of_one(chunk, status):
    """What OpenAI and Anthropic say inside a 200 counts as their 429, 400 or 529; anything else as a 502."""

    async def stream():
        yield chunk

    with pytest.raises(DeadStreamError) as caught:
        await first_token(stream())

    assert caught.value.status_code == status


@pytest.mark.parametrize(
    "chunk",
    [
        {
            "type": "response.failed",
            "response": {"instructions": "code='rate_limit_exceeded'", "error": {"code": "server_error"}},
        },
        b'event: error\ndata: {"type":"error","error":{"message":"no: type=\'rate_limit_error\'","type":"api_error"}}\n\n',
        SimpleNamespace(type="error", message="type='insufficient_quota'", code="server_error"),
    ],
)
async def test_what_a_client_has_sent_is_no_status(chunk):
    """An error may quote the request: only its own code and type count, so that no client closes a model."""
    with pytest.raises(DeadStreamError) as caught:
        await first_token(Stream(chunk))

    assert caught.value.status_code == 502


async def test_an_error_after_the_first_token_is_the_clients():
    """A stream that fails after it began is not tried elsewhere: the client gets it as it is."""
    stream = await first_token(Stream(START, TOKEN, ERROR))

    assert await drain(stream) == [START, TOKEN, ERROR]


async def test_a_dead_stream_is_closed():
    """The connection behind a dead stream is given up."""
    source = Stream(ERROR)

    with pytest.raises(DeadStreamError):
        await first_token(source)

    assert source.closed


async def test_what_the_stream_raises_comes_through_and_closes_it():
    """An exception before the first token is the attempt's own."""
    source = Stream(START, ConnectionResetError("gone"))

    with pytest.raises(ConnectionResetError, match="gone"):
        await first_token(source)

    assert source.closed


async def test_an_empty_stream_is_dead():
    """A stream that ends before a token has answered nothing, and the next member may."""
    with pytest.raises(DeadStreamError, match="ended without an answer"):
        await first_token(Stream())


async def test_an_answer_that_is_no_stream_is_handed_back():
    """A plain answer is not touched."""
    answer = {"choices": []}

    assert await first_token(answer) is answer


def chat(**delta):
    return SimpleNamespace(choices=[SimpleNamespace(delta=SimpleNamespace(**delta), finish_reason=None)])


@pytest.mark.parametrize(
    ("chunk", "word"),
    [
        (START, "message_start"),
        (START.decode(), "message_start"),
        (START + b"event: ping\n\n", "message_start"),
        (START + TOKEN, "content_block_delta"),
        (b'data: {"type": "message_start", "message": {"type": "message"}}\n\n', "message_start"),
        (b'data: {"type":"response.failed"}\n\n', "response.failed"),
        (b"data: hello\n\n", ""),
        ({"type": "error"}, "error"),
        ({"id": "x"}, ""),
        (SimpleNamespace(type="response.created"), "response.created"),
        (SimpleNamespace(type=SimpleNamespace(value="response.failed")), "response.failed"),
        (chat(role="assistant", content=""), "response.created"),
        (chat(content="hi"), ""),
        (chat(content=None, tool_calls=[{}]), ""),
        (chat(reasoning_content="hm"), ""),
        (
            SimpleNamespace(choices=[SimpleNamespace(delta=SimpleNamespace(content=""), finish_reason="stop")]),
            "",
        ),
        (SimpleNamespace(choices=[]), ""),
        (SimpleNamespace(choices=[SimpleNamespace(text="hi")]), ""),
    ],
)
def test_chunks_are_named(chunk, word):
    """A chunk's event names it; a chat chunk with only a role counts as a prelude, one with content as a token."""
    assert event_of(chunk) == word
