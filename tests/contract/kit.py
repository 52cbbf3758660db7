"""A real litellm.Router on a local upstream, with everything a test wants to see of a call."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import litellm
from litellm.integrations.custom_logger import CustomLogger
from litellm.types.router import CustomRoutingStrategyBase

MESSAGES = [{"role": "user", "content": "hi"}]


def deployment(id: str, base: str, *, group: str = "m", model: str = "openai/m-up", **params: Any) -> dict[str, Any]:
    return {
        "model_name": group,
        "litellm_params": {"model": model, "api_base": base, "api_key": "dummy", **params},
        "model_info": {"id": id},
    }


def router_on(*deployments: dict[str, Any], **settings: Any) -> litellm.Router:
    return litellm.Router(model_list=list(deployments), **settings)


def wav() -> io.BytesIO:
    sound = io.BytesIO(b"RIFF" + b"\0" * 40)
    sound.name = "a.wav"
    return sound


def png() -> io.BytesIO:
    picture = io.BytesIO(b"\x89PNG\r\n\x1a\n" + b"\0" * 40)
    picture.name = "a.png"
    return picture


async def drained(answer: Any) -> Any:
    if hasattr(answer, "__aiter__"):
        return [chunk async for chunk in answer]
    return answer


# One call of each family, as the proxy makes it. `rerank` and `gemini` name the group that can answer them.
FAMILIES: dict[str, Any] = {
    "acompletion": lambda r, m="m", **kw: r.acompletion(model=m, messages=MESSAGES, **kw),
    "acompletion, stream": lambda r, m="m", **kw: r.acompletion(model=m, messages=MESSAGES, stream=True, **kw),
    "atext_completion": lambda r, m="m", **kw: r.atext_completion(model=m, prompt="hi", **kw),
    "aembedding": lambda r, m="m", **kw: r.aembedding(model=m, input=["hi"], **kw),
    "aimage_generation": lambda r, m="m", **kw: r.aimage_generation(model=m, prompt="hi", **kw),
    "aimage_edit": lambda r, m="m", **kw: r.aimage_edit(model=m, prompt="hi", image=png(), **kw),
    "aspeech": lambda r, m="m", **kw: r.aspeech(model=m, input="hi", voice="alloy", **kw),
    "atranscription": lambda r, m="m", **kw: r.atranscription(model=m, file=wav(), **kw),
    "arerank": lambda r, m="rerank", **kw: r.arerank(model=m, query="q", documents=["a", "b"], **kw),
    "aresponses": lambda r, m="m", **kw: r.aresponses(model=m, input="hi", **kw),
    "anthropic_messages": lambda r, m="m", **kw: r.aanthropic_messages(model=m, messages=MESSAGES, max_tokens=9, **kw),
    "agenerate_content": lambda r, m="m", **kw: r.agenerate_content(
        model=m, contents=[{"role": "user", "parts": [{"text": "hi"}]}], **kw
    ),
}
GROUP = {"arerank": "rerank"}


def whole_router(base: str, **settings: Any) -> litellm.Router:
    """One deployment for most families and one for rerank."""
    return router_on(
        deployment("m@0", base),
        deployment("rerank@0", base, group="rerank", model="cohere/rerank-up"),
        **settings,
    )


async def call(router: litellm.Router, family: str, **kwargs: Any) -> Any:
    """Make one call and read its answer to the end."""
    return await drained(await FAMILIES[family](router, **kwargs))


class Funnel:
    """Stands in for async_function_with_fallbacks and counts, as the walk does."""

    def __init__(self, router: litellm.Router) -> None:
        self.original = type(router).async_function_with_fallbacks.__get__(router)
        self.models: list[Any] = []
        self.kwargs: list[dict[str, Any]] = []
        router.async_function_with_fallbacks = self

    async def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.models.append(kwargs.get("model"))
        self.kwargs.append(dict(kwargs))
        return await self.original(*args, **kwargs)


class Picks(CustomRoutingStrategyBase):
    """A routing strategy that hands over one deployment and notes what was asked for."""

    def __init__(self, router: litellm.Router, raises: Exception | None = None) -> None:
        self.router = router
        self.asked: list[str] = []
        self.raises = raises

    async def async_get_available_deployment(
        self, model, messages=None, input=None, specific_deployment=False, request_kwargs=None
    ):
        return self.get_available_deployment(model)

    def get_available_deployment(
        self, model, messages=None, input=None, specific_deployment=False, request_kwargs=None
    ):
        self.asked.append(model)
        if self.raises is not None:
            raise self.raises
        return next(
            one for one in self.router.model_list if one["model_name"] == model or one["model_info"]["id"] == model
        )


class Hooked(CustomLogger):
    """A callback that notes each call as it leaves for a deployment."""

    def __init__(self, look: Any = None, raises: Exception | None = None) -> None:
        super().__init__()
        self.seen: list[Any] = []
        self.look = look or seen_of
        self.raises = raises

    async def async_pre_call_deployment_hook(self, kwargs, call_type):
        self.seen.append(self.look(kwargs, call_type))
        if self.raises is not None:
            raise self.raises
        return kwargs


def seen_of(kwargs: dict[str, Any], call_type: Any) -> tuple[Any, Any, Any]:
    return kwargs.get("model"), kwargs.get("api_base"), (kwargs.get("model_info") or {}).get("id")


@contextmanager
def callback(one: CustomLogger) -> Iterator[CustomLogger]:
    litellm.callbacks.append(one)
    try:
        yield one
    finally:
        litellm.callbacks.remove(one)
