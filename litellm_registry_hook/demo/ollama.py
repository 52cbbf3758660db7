"""A stand-in for an Ollama server: its HTTP API, its names, its streaming, what is loaded and for how long.

Forms follow ollama's docs/api.md and server/routes.go. Chat answers come from the speaker, vectors are stand-ins too.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from aiohttp import web

from litellm_registry_hook.demo.hosting import body_of, stream_of
from litellm_registry_hook.demo.keep_alive import keep_alive_seconds, rfc3339
from litellm_registry_hook.demo.ollama_names import key, shortest
from litellm_registry_hook.demo.runners import OllamaModel, Scheduler
from litellm_registry_hook.demo.speech import DEFAULT_TOKENS, Ask, Piece, Speaker, text_messages
from litellm_registry_hook.demo.vectors import vector, words

VERSION = "0.12.6"
NDJSON = "application/x-ndjson"
CARRIED_OPTIONS = ("temperature", "top_p", "top_k", "seed", "stop")


class OllamaStandIn:
    """The handlers of one server.

    Attributes:
        models: what it has on disk.
        scheduler: what is in memory.
        speaker: writes the chat answers.
        now: seconds since 1970.

    """

    def __init__(
        self,
        models: Sequence[OllamaModel],
        scheduler: Scheduler,
        speaker: Speaker,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._models = {key(model.name): model for model in models}
        self._scheduler = scheduler
        self._speaker = speaker
        self._now = now

    def app(self) -> web.Application:
        """Return the application to serve."""
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_get("/", self._root)
        app.router.add_get("/api/version", self._version)
        app.router.add_get("/api/tags", self._tags)
        app.router.add_get("/api/ps", self._ps)
        app.router.add_post("/api/show", self._show)
        app.router.add_post("/api/chat", self._chat)
        app.router.add_post("/api/generate", self._generate)
        app.router.add_post("/api/embed", self._embed)
        app.router.add_post("/api/embeddings", self._embeddings)
        return app

    # -- harmless reads -----------------------------------------------------------------------------------------------

    async def _root(self, _request: web.Request) -> web.Response:
        return web.Response(text="Ollama is running")

    async def _version(self, _request: web.Request) -> web.Response:
        return web.json_response({"version": VERSION})

    async def _tags(self, _request: web.Request) -> web.Response:
        entries = [
            {
                "name": shortest(model.name),
                "model": shortest(model.name),
                "modified_at": rfc3339(0),
                "size": model.file_bytes,
                "digest": digest(model),
                "details": details(model),
            }
            for model in self._models.values()
        ]
        return web.json_response({"models": entries})

    async def _ps(self, _request: web.Request) -> web.Response:
        now = self._now()
        entries = [
            {
                "name": shortest(runner.model.name),
                "model": shortest(runner.model.name),
                "size": runner.model.vram_bytes,
                "digest": digest(runner.model),
                "details": details(runner.model),
                "expires_at": rfc3339(runner.expires_at(now)),
                "size_vram": runner.model.vram_bytes,
                "context_length": runner.num_ctx,
            }
            for runner in self._scheduler.loaded()
        ]
        return web.json_response({"models": entries})

    async def _show(self, request: web.Request) -> web.Response:
        body = await body_of(request) or {}
        model = self._find(body)
        if isinstance(model, web.Response):
            return model
        return web.json_response(show(model))

    # -- calls that load ----------------------------------------------------------------------------------------------

    async def _generate(self, request: web.Request) -> web.StreamResponse:
        body = await body_of(request)
        messages = []
        if body is not None and body.get("prompt"):
            messages = [{"role": "user", "content": str(body["prompt"])}]
            if body.get("system"):
                messages.insert(0, {"role": "system", "content": str(body["system"])})
        return await self._write(request, body, messages, "generate", _as_response)

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body = await body_of(request)
        return await self._write(request, body, text_messages((body or {}).get("messages")), "chat", _as_message)

    async def _write(
        self,
        request: web.Request,
        body: dict[str, Any] | None,
        messages: list[dict[str, str]],
        capability: str,
        said: Callable[[str], dict[str, Any]],
    ) -> web.StreamResponse:
        model = self._find(body)
        if isinstance(model, web.Response):
            return model
        assert body is not None
        keep_s = _keep(body)
        if isinstance(keep_s, web.Response):
            return keep_s
        head = {"model": body.get("model"), "created_at": rfc3339(self._now())}
        if not messages and keep_s == 0:
            # Checked before what the model can do: an embedding model is unloaded this way too.
            self._scheduler.expire(model)
            return web.json_response({**head, **said(""), "done": True, "done_reason": "unload"})
        if model.kind == "embedding":
            return _error(400, f'"{body.get("model")}" does not support {capability}')
        options = body.get("options") if isinstance(body.get("options"), dict) else {}
        assert isinstance(options, dict)
        began = time.perf_counter_ns()
        async with self._scheduler.use(model, keep_s, options):
            if not messages:
                return web.json_response({**head, **said(""), "done": True, "done_reason": "load"})
            loaded = time.perf_counter_ns()
            pieces = self._speaker.speak(_ask(messages, options))
            if body.get("stream") is False:
                text = [piece async for piece in pieces]
                whole = "".join(piece.text for piece in text)
                return web.json_response({**head, **said(whole), **_end(text[-1], began, loaded)})
            return await _ndjson(request, self._lines(head, pieces, said, began, loaded))

    async def _lines(
        self,
        head: dict[str, Any],
        pieces: AsyncIterator[Piece],
        said: Callable[[str], dict[str, Any]],
        began: int,
        loaded: int,
    ) -> AsyncIterator[dict[str, Any]]:
        async for piece in pieces:
            line = {**head, "created_at": rfc3339(self._now())}
            if piece.reason:
                yield {**line, **said(piece.text), **_end(piece, began, loaded)}
            else:
                yield {**line, **said(piece.text), "done": False}

    async def _embed(self, request: web.Request) -> web.Response:
        body = await body_of(request)
        given = (body or {}).get("input", [])
        texts = [given] if isinstance(given, str) else given
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            return _error(400, "invalid input type")
        found = await self._vectors(body, [text for text in texts if text or len(texts) > 1])
        if isinstance(found, web.Response):
            return found
        assert body is not None
        count = sum(len(words(text)) for text in texts)
        answer = {"model": body.get("model"), "embeddings": found, "total_duration": 1, "load_duration": 1}
        return web.json_response({**answer, "prompt_eval_count": count})

    async def _embeddings(self, request: web.Request) -> web.Response:
        body = await body_of(request)
        text = str((body or {}).get("prompt") or "")
        found = await self._vectors(body, [text] if text else [])
        if isinstance(found, web.Response):
            return found
        return web.json_response({"embedding": found[0] if found else []})

    async def _vectors(self, body: dict[str, Any] | None, texts: list[str]) -> list[list[float]] | web.Response:
        model = self._find(body)
        if isinstance(model, web.Response):
            return model
        assert body is not None
        keep_s = _keep(body)
        if isinstance(keep_s, web.Response):
            return keep_s
        if model.kind != "embedding":
            return _error(501, "this model does not support embeddings")
        options = body.get("options")
        async with self._scheduler.use(model, keep_s, options if isinstance(options, dict) else {}):
            dimensions = model.dimensions
            asked = body.get("dimensions")
            if isinstance(asked, int) and 0 < asked < dimensions:
                dimensions = asked
            # A long batch is arithmetic in Python: off the loop, so that other stand-ins go on.
            return await asyncio.to_thread(lambda: [vector(text, dimensions) for text in texts])

    def _find(self, body: dict[str, Any] | None) -> OllamaModel | web.Response:
        if body is None:
            return _error(400, "invalid JSON in request body")
        name = body.get("model") or body.get("name") or ""
        if not name:
            return _error(400, "model is required")
        model = self._models.get(key(str(name)))
        return model if model is not None else _error(404, f"model '{name}' not found")


def digest(model: OllamaModel) -> str:
    """Return the digest the stand-in gives a model."""
    return hashlib.sha256(key(model.name).encode()).hexdigest()


def details(model: OllamaModel) -> dict[str, Any]:
    """Return the `details` of a model."""
    family = "bert" if model.kind == "embedding" else "llama"
    return {
        "parent_model": "",
        "format": "gguf",
        "family": family,
        "families": [family],
        "parameter_size": f"{model.file_bytes / 7e8:.1f}B",
        "quantization_level": "Q4_K_M",
    }


def show(model: OllamaModel) -> dict[str, Any]:
    """Return the answer of /api/show. The shape is a small one, so that a predicted size stays near vram_bytes."""
    arch = str(details(model)["family"])
    shape = {
        "block_count": 16,
        "embedding_length": model.dimensions or 1024,
        "attention.head_count": 8,
        "attention.head_count_kv": 2,
        "context_length": 32768,
    }
    info: dict[str, Any] = {f"{arch}.{name}": value for name, value in shape.items()}
    return {
        "license": "",
        "modelfile": f"# stand-in of litellm-registry serve --demo\nFROM {model.name}\n",
        "parameters": "",
        "template": "{{ .Prompt }}",
        "details": details(model),
        "model_info": {"general.architecture": arch, **info},
        "capabilities": ["embedding"] if model.kind == "embedding" else ["completion"],
        "modified_at": rfc3339(0),
    }


def _as_response(text: str) -> dict[str, Any]:
    return {"response": text}


def _as_message(text: str) -> dict[str, Any]:
    return {"message": {"role": "assistant", "content": text}}


def _ask(messages: list[dict[str, str]], options: Mapping[str, Any]) -> Ask:
    limit = options.get("num_predict")
    limit = limit if isinstance(limit, int) and limit > 0 else DEFAULT_TOKENS
    return Ask(messages, limit, {name: options[name] for name in CARRIED_OPTIONS if name in options})


def _end(piece: Piece, began: int, loaded: int) -> dict[str, Any]:
    now = time.perf_counter_ns()
    return {
        "done": True,
        "done_reason": piece.reason or "stop",
        "total_duration": now - began,
        "load_duration": loaded - began,
        "prompt_eval_count": piece.prompt_tokens,
        "prompt_eval_duration": 1,
        "eval_count": piece.completion_tokens,
        "eval_duration": max(1, now - loaded),
    }


async def _ndjson(request: web.Request, lines: AsyncIterator[dict[str, Any]]) -> web.StreamResponse:
    response = await stream_of(request, NDJSON)
    async for line in lines:
        await response.write(json.dumps(line).encode() + b"\n")
    await response.write_eof()
    return response


def _keep(body: Mapping[str, Any]) -> float | web.Response | None:
    try:
        return keep_alive_seconds(body.get("keep_alive"))
    except ValueError as error:
        return _error(400, str(error))


def _error(status: int, message: str) -> web.Response:
    return web.json_response({"error": message}, status=status)
