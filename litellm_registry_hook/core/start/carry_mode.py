"""What a model of a config does: its mode, from what the entry says, LiteLLM's price list, or its name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, get_args

from litellm_registry_hook.core.registry import Mode
from litellm_registry_hook.core.start.carry_choices import Choices
from litellm_registry_hook.core.start.carry_entries import Entry
from litellm_registry_hook.core.start.known_vectors import known_length, sounds_embedding

MODES: Final = frozenset(get_args(Mode))
ROLES: Final = {
    "embedding": "embedder",
    "rerank": "reranker",
    "chat": "chat",
    "responses": "chat",
    "completion": "completion",
    "image_generation": "image",
    "audio_transcription": "transcriber",
    "audio_speech": "speaker",
    "video_generation": "video",
}
_BY_NAME: Final = (
    ("audio_transcription", re.compile(r"whisper|transcribe|(?:^|[/-])nova-[23](?:$|-)|parakeet")),
    ("audio_speech", re.compile(r"(?:^|[/_-])tts(?:$|[/:_-])|kokoro|elevenlabs/eleven")),
    ("image_generation", re.compile(r"dall-e|gpt-image|imagen|stable-diffusion|(?:^|[/-])(?:flux|sdxl)")),
    ("moderation", re.compile(r"moderation")),
    ("realtime", re.compile(r"realtime")),
)


def catalogue_entry(model: str, choices: Choices) -> Mapping[str, Any]:
    """Return what LiteLLM's price list says of a model string, with or without its provider."""
    for name in _spellings(model):
        found = choices.catalogue.get(name)
        if isinstance(found, Mapping):
            return found
    return {}


def _spellings(model: str) -> Iterator[str]:
    yield model
    if "/" in model:
        yield model.partition("/")[2]


def mode_of(entry: Entry, choices: Choices) -> tuple[str, str]:
    """Return the mode and where it is known from: `said`, `known`, `name`, or `guess` where nothing says it."""
    said = entry.info.get("mode")
    if isinstance(said, str) and said:
        return said, "said"
    base = entry.info.get("base_model") or entry.params.get("base_model")
    for model in (base, entry.model):
        known = catalogue_entry(model, choices).get("mode") if isinstance(model, str) else None
        if isinstance(known, str):
            return known, "known"
    lowered = f"{base or ''} {entry.model}".lower()
    # bge-reranker is a reranker before it is a bge.
    if "rerank" in lowered:
        return "rerank", "name"
    if any(map(sounds_embedding, (str(base or ""), entry.model))):
        return "embedding", "name"
    for mode, pattern in _BY_NAME:
        if pattern.search(lowered):
            return mode, "name"
    return "chat", "guess"


def dimensions_of(entry: Entry, choices: Choices) -> int | None:
    """Return the length of an embedding model's vectors; None where nothing says it."""
    for value in (
        choices.dimensions.get(entry.name),
        entry.params.get("dimensions"),
        entry.info.get("output_vector_size"),
        entry.info.get("dimensions"),
        catalogue_entry(str(entry.info.get("base_model") or entry.model), choices).get("output_vector_size"),
    ):
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return known_length(str(entry.info.get("base_model") or entry.model))


def context_of(entry: Entry, choices: Choices) -> int | None:
    """Return how many tokens of input a model takes; None where nothing says it."""
    for value in (
        entry.info.get("max_input_tokens"),
        catalogue_entry(str(entry.info.get("base_model") or entry.model), choices).get("max_input_tokens"),
    ):
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None
