"""A stand-in for a reranker: text-embeddings-inference's /rerank (`texts`), and Jina's and Cohere's form (`documents`).

Scores are word overlap: a real order, the same every time, and no understanding.
"""

from __future__ import annotations

from typing import Any

from aiohttp import web

from litellm_registry_hook.demo.hosting import body_of
from litellm_registry_hook.demo.vectors import overlap, words

LABEL = "word overlap"


class RerankStandIn:
    """The handlers of one server."""

    def __init__(self, model: str) -> None:
        self._model = model

    def app(self) -> web.Application:
        """Return the application to serve."""
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_get("/health", self._health)
        app.router.add_get("/info", self._info)
        for path in ("/rerank", "/v1/rerank", "/v2/rerank"):
            app.router.add_post(path, self._rerank)
        return app

    async def _health(self, _request: web.Request) -> web.Response:
        return web.Response()

    async def _info(self, _request: web.Request) -> web.Response:
        return web.json_response(
            {
                "model_id": self._model,
                "model_type": {"reranker": {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}},
                "max_input_length": 8192,
                "max_client_batch_size": 256,
                "version": "stand-in",
            }
        )

    async def _rerank(self, request: web.Request) -> web.Response:
        body = await body_of(request)
        if body is None or not isinstance(body.get("query"), str):
            return _error(422, "`query` must be a string", "Validation")
        field = "texts" if "texts" in body else "documents"
        given = body.get(field)
        if not isinstance(given, list) or not given:
            return _error(400, f"`{field}` cannot be empty", "Empty")
        ranked = rank(body["query"], [text_of(item) for item in given])
        if field == "texts":
            answer = [{"index": index, "score": score} for index, score in ranked]
            if body.get("return_text"):
                answer = [{**item, "text": given[int(item["index"])]} for item in answer]
            return web.json_response(answer)
        top = body.get("top_n")
        results: list[dict[str, Any]] = [{"index": index, "relevance_score": score} for index, score in ranked]
        if body.get("return_documents"):
            results = [{**item, "document": {"text": text_of(given[item["index"]])}} for item in results]
        tokens = sum(len(words(text_of(item))) for item in given)
        return web.json_response(
            {
                "id": "stand-in",
                "model": body.get("model", self._model),
                "results": results[:top] if isinstance(top, int) else results,
                "usage": {"total_tokens": tokens, "prompt_tokens": tokens},
            }
        )


def rank(query: str, texts: list[str]) -> list[tuple[int, float]]:
    """Return (index, score) of each text, best first, equal scores in the order given.

    >>> rank("blue cat", ["a dog", "the blue cat sat"])
    [(1, 0.9), (0, 0.0)]
    """
    scored = [(index, round(overlap(query, text), 6)) for index, text in enumerate(texts)]
    return sorted(scored, key=lambda pair: (-pair[1], pair[0]))


def text_of(document: Any) -> str:
    """Return the text of a document: a string, or a map with `text`."""
    return str(document.get("text", "")) if isinstance(document, dict) else str(document)


def _error(status: int, message: str, kind: str) -> web.Response:
    return web.json_response({"error": message, "error_type": kind}, status=status)
