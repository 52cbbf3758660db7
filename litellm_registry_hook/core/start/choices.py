"""What only a person can decide, and what was decided."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

RESERVE_MB = 300


@dataclass(frozen=True, slots=True)
class Choices:
    """The answers so far.

    Attributes:
        embedder: id of the one that serves the tier `embed`; None: not decided.
        never_evict: ids that stay on the GPU; None: not decided.
        free: servers (addresses) and ids that cost nothing. asked_free: servers whose cost was asked for.
        gpu_mb: memory of the GPU of a machine, by host, `localhost` for this one; 0: it has none; None: nobody knows.
        dimensions: length of vectors by id; 0: nobody knows. sizes: MB by id.
        num_ctx: tokens for chat models on Ollama; None: as loaded now, as in the Modelfile, else 4096.
        reserve_mb: MB of each GPU that nothing of ours takes.

    """

    embedder: str | None = None
    never_evict: tuple[str, ...] | None = None
    free: frozenset[str] = frozenset()
    asked_free: frozenset[str] = frozenset()
    gpu_mb: Mapping[str, int | None] = field(default_factory=dict)
    dimensions: Mapping[str, int] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    num_ctx: int | None = None
    reserve_mb: int = RESERVE_MB


QuestionKind = Literal["free", "gpu_mb", "dimensions", "embedder", "never_evict"]


@dataclass(frozen=True, slots=True)
class Question:
    """One thing to decide.

    Attributes:
        kind: what it is about. about: server, host or id; empty where there is one such question.
        text: for people. flag: the option that answers it.
        options: what can be chosen, best first. safe: the answer of --yes, as text; empty: nothing.

    """

    kind: QuestionKind
    about: str
    text: str
    flag: str
    options: tuple[str, ...] = ()
    safe: str = ""


def answered(choices: Choices, question: Question, answer: str) -> Choices:
    """Return the choices with one more answer.

    Args:
        choices: so far.
        question: what was asked.
        answer: as text: `yes` for a server that is free; a number for sizes and dimensions, empty for not known; ids,
            commas between.

    Raises:
        ValueError: not an answer to this; the text says what would be.

    """
    text = answer.strip()
    if question.kind == "free":
        free = choices.free | {question.about} if text.lower() in {"y", "yes"} else choices.free
        return replace(choices, free=free, asked_free=choices.asked_free | {question.about})
    if question.kind == "gpu_mb":
        return replace(choices, gpu_mb={**choices.gpu_mb, question.about: _number(text, None)})
    if question.kind == "dimensions":
        return replace(choices, dimensions={**choices.dimensions, question.about: _number(text, 0) or 0})
    picked = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if strange := [one for one in picked if one not in question.options]:
        raise ValueError(f"{strange[0]} is none of {', '.join(question.options)}")
    if question.kind == "never_evict":
        return replace(choices, never_evict=picked)
    if len(picked) != 1:
        raise ValueError(f"name one of {', '.join(question.options)}")
    return replace(choices, embedder=picked[0])


def _number(text: str, empty: int | None) -> int | None:
    if not text:
        return empty
    if not (text.isascii() and text.isdecimal() and len(text) < 10):  # noqa: PLR2004  a terabyte has 7 digits
        raise ValueError(f"{text!r} is not a whole number")
    return int(text)
