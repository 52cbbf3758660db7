"""Who writes the text of a stand-in's answer: the real engine, or a canned sentence that says what it is."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import aiohttp

DEFAULT_TOKENS = 256
MAX_PROMPT_CHARS = 1800  # the engine has 1024 tokens a request; a real server would truncate too


@dataclass(frozen=True, slots=True)
class Ask:
    """What is asked.

    Attributes:
        messages: OpenAI's form, text content only.
        max_tokens: upper bound of the answer.
        options: temperature, top_p, seed, stop where the caller set them.

    """

    messages: Sequence[Mapping[str, str]]
    max_tokens: int = DEFAULT_TOKENS
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of an answer; the last one has a reason (`stop`, `length`) and the counts."""

    text: str
    reason: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0


class Speaker(Protocol):
    """Writes answers.

    Attributes:
        label: what it is, for the start table.

    """

    label: str

    def speak(self, ask: Ask) -> AsyncIterator[Piece]:
        """Write one answer, piece by piece."""


def text_messages(messages: Any) -> list[dict[str, str]]:
    """Reduce chat messages to role and text; parts that are not text are left out."""
    plain = []
    for message in messages if isinstance(messages, list) else []:
        if not isinstance(message, dict):
            continue
        content = message.get("content")
        if isinstance(content, list):
            parts = [part.get("text", "") for part in content if isinstance(part, dict)]
            content = "\n".join(str(part) for part in parts if part)
        role = str(message.get("role", "user"))
        plain.append({"role": role if role in ("system", "assistant") else "user", "content": str(content or "")})
    return plain


def fitted(messages: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """Keep the newest messages that fit the engine, oldest first; the newest is cut rather than dropped."""
    kept: list[dict[str, str]] = []
    left = MAX_PROMPT_CHARS
    for message in reversed(messages):
        if kept and len(message["content"]) > left:
            break
        kept.append({"role": message["role"], "content": message["content"][-left:]})
        left -= len(message["content"])
    return kept[::-1]


class Canned:
    """Answers one sentence that says that it is canned, and why."""

    label = "canned text"

    def __init__(self, why: str) -> None:
        self._why = why

    async def speak(self, ask: Ask) -> AsyncIterator[Piece]:
        """Say the sentence, cut at max_tokens words."""
        asked = ask.messages[-1]["content"] if ask.messages else ""
        quoted = asked if len(asked) <= 60 else f"{asked[:57]}..."  # noqa: PLR2004
        sentence = f'This is a canned answer of the demo to "{quoted}". No language model wrote it: {self._why}.'
        said = sentence.split(" ")
        cut = said[: ask.max_tokens]
        prompt = sum(len(message["content"].split()) for message in ask.messages)
        for index, word in enumerate(cut):
            yield Piece(word if index == 0 else f" {word}")
        yield Piece("", "stop" if len(cut) == len(said) else "length", prompt, len(cut))


class FromEngine:
    """Streams the engine's answers; when the engine has gone, the answer is canned and says so."""

    def __init__(self, url: str, label: str) -> None:
        self._url = f"{url}/v1/chat/completions"
        self.label = label

    async def speak(self, ask: Ask) -> AsyncIterator[Piece]:
        """Write one answer, piece by piece."""
        body = {
            # So small a model keeps to the question only when little is left to chance.
            "temperature": 0.2,
            **ask.options,
            "messages": fitted(ask.messages),
            "max_tokens": max(1, min(ask.max_tokens, DEFAULT_TOKENS)),
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        began, reason = False, ""
        usage: Mapping[str, Any] = {}
        try:
            async with aiohttp.ClientSession() as session, session.post(self._url, json=body) as answer:
                answer.raise_for_status()
                async for line in answer.content:
                    if not line.startswith(b"data: {"):
                        continue
                    event = json.loads(line[6:])
                    usage = event.get("usage") or usage
                    for choice in event.get("choices") or ():
                        reason = choice.get("finish_reason") or reason
                        if text := (choice.get("delta") or {}).get("content"):
                            began = True
                            yield Piece(text)
        except (aiohttp.ClientError, asyncio.TimeoutError, ValueError) as error:
            if not began:
                async for piece in Canned(f"the engine failed ({type(error).__name__})").speak(ask):
                    yield piece
                return
            reason = "stop"
        yield Piece("", reason or "stop", int(usage.get("prompt_tokens", 0)), int(usage.get("completion_tokens", 0)))


class Prefixed:
    """Another speaker with a sentence in front, said once an answer."""

    def __init__(self, prefix: str, speaker: Speaker) -> None:
        self._prefix, self._speaker = prefix, speaker
        self.label = speaker.label

    async def speak(self, ask: Ask) -> AsyncIterator[Piece]:
        """Write one answer, piece by piece."""
        yield Piece(self._prefix)
        async for piece in self._speaker.speak(ask):
            yield piece
