"""OpenAI's Responses API for the stand-in: LiteLLM sends /v1/responses to an `openai/` model in that form."""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator, Mapping
from typing import Any

from litellm_registry_hook.demo.speech import Piece, text_messages


def input_messages(body: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the chat messages that a Responses request amounts to."""
    given = body.get("input")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    messages = text_messages([item for item in items or () if isinstance(item, dict) and item.get("content")])
    if messages and isinstance(body.get("instructions"), str):
        messages.insert(0, {"role": "system", "content": body["instructions"]})
    return messages


def response(model: str, text: str, last: Piece) -> dict[str, Any]:
    """Return a whole answer."""
    part = {"type": "output_text", "text": text, "annotations": []}
    item = {"id": f"msg_{uuid.uuid4().hex}", "type": "message", "role": "assistant", "status": "completed"}
    return {
        "id": f"resp_{uuid.uuid4().hex}",
        "object": "response",
        "created_at": int(time.time()),
        "status": "completed",
        "model": model,
        "output": [{**item, "content": [part]}],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": last.prompt_tokens,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": last.completion_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": last.prompt_tokens + last.completion_tokens,
        },
    }


async def events(model: str, pieces: AsyncIterator[Piece]) -> AsyncIterator[dict[str, Any]]:
    """Write a streamed answer: the events that OpenAI sends for one text."""
    shell = response(model, "", Piece(""))
    item = shell["output"][0]
    place = {"item_id": item["id"], "output_index": 0, "content_index": 0}
    begun = {**shell, "status": "in_progress", "output": []}
    yield {"type": "response.created", "response": begun}
    added = {**item, "status": "in_progress", "content": []}
    yield {"type": "response.output_item.added", "output_index": 0, "item": added}
    part = {"type": "output_text", "text": "", "annotations": []}
    yield {"type": "response.content_part.added", **place, "part": part}
    text, last = "", Piece("")
    async for piece in pieces:
        last = piece
        text += piece.text
        if piece.text:
            yield {"type": "response.output_text.delta", **place, "delta": piece.text}
    part = {**part, "text": text}
    yield {"type": "response.output_text.done", **place, "text": text}
    yield {"type": "response.content_part.done", **place, "part": part}
    item = {**item, "content": [part]}
    yield {"type": "response.output_item.done", "output_index": 0, "item": item}
    whole = {**response(model, text, last), "id": shell["id"], "output": [item]}
    yield {"type": "response.completed", "response": whole}
