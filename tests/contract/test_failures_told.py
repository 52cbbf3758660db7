"""What a failed attempt says of its upstream, and what it must not be taken for."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import litellm
import pytest
from litellm.exceptions import RateLimitError

from litellm_registry_hook.adapter import host
from litellm_registry_hook.adapter.first_token import DeadStreamError, first_token, named_status
from litellm_registry_hook.adapter.scope import Scope
from litellm_registry_hook.adapter.walk import NEXT, Tour, Walk
from litellm_registry_hook.core.availability.learn import is_network_failure
from litellm_registry_hook.core.failure import Failure
from litellm_registry_hook.core.gpu.facts import Slot
from litellm_registry_hook.core.gpu.verdict import Want
from litellm_registry_hook.core.plan import Plan, Running
from litellm_registry_hook.core.routes import Route
from litellm_registry_hook.residency.engine import Lease
from litellm_registry_hook.residency.view import View
from tests.strategies import model_entry, registry_of
from tests.upstreams import Upstream


async def raised(up: Upstream, **call: Any) -> Exception:
    """Return what LiteLLM raises for a chat at an upstream."""
    with pytest.raises(Exception) as caught:
        await litellm.acompletion(
            model="openai/m", api_base=up.openai_base, api_key="sk-x", max_retries=0,
            messages=[{"role": "user", "content": "hi"}], **call,
        )  # fmt: skip
    return caught.value


@pytest.mark.filterwarnings("ignore")  # LiteLLM imports lazily, and pydantic warns of what it imports
async def test_a_400_that_quotes_a_rate_limit_is_a_400() -> None:
    """LiteLLM raises RateLimitError for any body with those words; the upstream's own status counts."""
    with Upstream() as up:
        up.fail(400, {"error": {"message": "Invalid value: 'what is a rate limit'", "type": "invalid_request_error"}})
        false = await raised(up)
        up.fail(429, {"error": {"message": "Rate limit reached", "type": "rate_limit"}}, headers={"Retry-After": "7"})
        true = await raised(up)
    assert isinstance(false, RateLimitError)
    assert host.failure_of(false).status == 400
    assert (host.failure_of(true).status, host.failure_of(true).retry_after_s) == (429, 7.0)


def test_headers_that_are_no_mapping_are_no_headers() -> None:
    """An exception with a list of pairs for headers is still a failure of its status."""
    error = RuntimeError("down")
    error.status_code = 503  # type: ignore[attr-defined]
    error.headers = [("retry-after", "3")]  # type: ignore[attr-defined]
    found = host.failure_of(error)
    assert (found.status, found.retry_after_s, found.headers) == (503, None, {})


def test_a_lease_that_comes_after_the_end_is_not_kept() -> None:
    """A call that outlives its request, in the background, holds its runner for itself alone."""
    from litellm_registry_hook.adapter.gpu import GpuGate

    view, scope = View(lambda: 100.0), Scope(Route("model"), {}, ends=True)
    want = Want(None, Slot("http://127.0.0.1:11434", "m"))
    view.read_at, view.resident = 100.0, {want.use: 1000.0}
    for _ in range(2):
        assert view.enter(want.use)
        GpuGate.keep(scope, Lease(0, want.use, view, 0.0))
        scope.end()
    assert view.busy() == {}


async def dead_stream(event: dict[str, Any]) -> Exception:
    """Return what LiteLLM's router raises for a streamed chat whose 200 has only this error event."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(65536)
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
        writer.write(head + f"data: {json.dumps(event)}\n\n".encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    base = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    params = {"model": "openai/m", "api_base": base, "api_key": "sk-x", "max_retries": 0}
    router = litellm.Router([{"model_name": "m", "litellm_params": params}], num_retries=0, disable_cooldowns=True)
    async with server:
        with pytest.raises(Exception) as caught:
            await first_token(await router.acompletion("m", [{"role": "user", "content": "hi"}], stream=True))
    return caught.value


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("error", "status"),
    [
        ({"message": "no such field", "type": "invalid_request_error", "code": "unknown_parameter"}, 400),
        ({"message": "bad", "object": "error", "type": "BadRequestError", "code": 400}, 400),
        ({"message": "Slow", "code": 429}, 429),
        ({"message": "oh", "type": "server_error", "code": None}, None),
    ],
)
async def test_an_error_event_of_a_chat_has_the_status_it_names(error: dict[str, Any], status: int | None) -> None:
    """LiteLLM makes a 500 of it; what the event named is the client's own fault, or a quota."""
    caught = await dead_stream({"error": error})

    assert (host.failure_of(caught).status, named_status(caught)) == (500, status)


def test_the_name_of_an_exception_is_no_refused_connection() -> None:
    """Text completions show LiteLLM's `APIConnectionError` for whatever it does not know: three open no circuit."""
    text = "litellm.MidStreamFallbackError: litellm.APIConnectionError: APIConnectionError: OpenAIException - bad input"

    assert not is_network_failure(Failure(500, text))
    assert is_network_failure(Failure(500, text + " Connection error."))


class Told:
    """A watch, and the gates around it, that only write down what a walk tells them."""

    def __init__(self) -> None:
        self.said: list[Any] = []
        self.watch = self

    def secrets(self, target: Any) -> tuple[str, ...]:
        """See Gates."""
        return ()

    def failed(self, deployment: str, model: Any, failure: Failure, headers: Any, began: float) -> None:
        """See Watch."""
        self.said.append((deployment, failure.status))

    def undecided(self, deployment: str, model: Any, began: float) -> None:
        """See Watch."""
        self.said.append((deployment, "undecided"))


async def walked(attempt: Any) -> tuple[list[Any], Any]:
    """Return what the watch is told of one attempt, and what comes of that: an answer, or what it raises."""
    told, model = Told(), registry_of(model_entry("m")).by_id["m"]
    target = Running("m@0", model, "")
    plan = Plan("m", None, (target,), (), ("m",))
    walk = Walk(told, None, None, attempt)  # type: ignore[arg-type]
    try:
        return told.said, await walk._attempt(Scope(Route("model"), {}), Tour(plan, (), {}, (target,)), target, None)
    except Exception as error:  # noqa: BLE001  it is what the test asks for
        return told.said, error


@pytest.mark.filterwarnings("ignore")
async def test_nonsense_of_a_client_opens_no_circuit() -> None:
    """`messages: null` makes LiteLLM stumble at every member; three such requests must not close a tier for all."""
    params = {"model": "openai/m", "api_base": "http://127.0.0.1:9", "api_key": "sk-x"}
    router = litellm.Router([{"model_name": "m", "litellm_params": params}], num_retries=0, disable_cooldowns=True)

    async def attempt(**kwargs: Any) -> Any:
        return await router.aanthropic_messages(model="m", messages=None, max_tokens=5, num_retries=0)

    assert await walked(attempt) == ([("m@0", "undecided")], NEXT)


@pytest.mark.filterwarnings("ignore")
async def test_a_400_inside_a_stream_is_the_clients() -> None:
    """The walk ends there, with the status and the words of the event; the watch learns that the server is there."""
    caught = await dead_stream({"error": {"message": "no such field", "type": "invalid_request_error"}})

    async def attempt(**kwargs: Any) -> Any:
        raise caught

    said, error = await walked(attempt)
    assert said == [("m@0", 400)]
    assert isinstance(error, DeadStreamError)
    assert (error.status_code, str(error).partition("\n")[0]) == (400, "no such field")
