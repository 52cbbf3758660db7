"""The models seen, one draft each: what is the same model on two servers is one draft with two places."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal

from litellm_registry_hook.core.gpu.facts import Loaded
from litellm_registry_hook.core.gpu.names import full_name
from litellm_registry_hook.core.providers import BILLING
from litellm_registry_hook.core.start.choices import Choices
from litellm_registry_hook.core.start.found import Found, OllamaModel, OllamaSeen, OpenAiModel, OpenAiSeen, TeiSeen
from litellm_registry_hook.core.start.known_vectors import known_length, sounds_embedding
from litellm_registry_hook.core.start.name import TIERS, legal, params_in, unused
from litellm_registry_hook.core.start.own import host_of, is_own
from litellm_registry_hook.core.start.proposal import Left

Kind = Literal["chat", "embed", "rerank"]
# LiteLLM's OpenAI client wants a key; a server of the house does not look at it.
NO_KEY: Final = "unused"
_OTHER: Final = ("whisper", "tts", "dall-e", "image", "moderation", "realtime", "transcribe", "sora", "audio")


@dataclass(frozen=True, slots=True)
class Draft:
    """One model to propose.

    Attributes:
        id: legal and unique. name: as its servers call it. kind: what it does.
        litellm: LiteLLM's model string. key: its `api_key`; empty for none.
        bases: addresses of its servers, as LiteLLM is given them. health: whether GET <base>/health tells of it.
        own: whether the house runs it. cloud: an Ollama model that runs elsewhere. metered: a call may cost money.
        length: of its vectors; None where it is not an embedder, or where nobody knows.
        context: tokens it takes; None where not told. params: number of parameters, 0 where not known.
        ollama: what its Ollama says; None elsewhere. version: of that Ollama. loaded: its entries of /api/ps.
        aliases: further names of the same model on the same servers.

    """

    id: str
    name: str
    kind: Kind
    litellm: str
    bases: tuple[str, ...]
    own: bool
    metered: bool
    key: str = ""
    health: bool = False
    cloud: bool = False
    length: int | None = None
    context: int | None = None
    params: float = 0.0
    ollama: OllamaModel | None = None
    version: tuple[int, ...] = ()
    loaded: tuple[Loaded, ...] = ()
    aliases: tuple[str, ...] = ()

    @property
    def resident(self) -> Loaded | None:
        """The largest copy that is loaded now."""
        return max(self.loaded, key=lambda one: (one.vram_mb, one.size_mb), default=None)


def drafts_of(found: Found, choices: Choices) -> tuple[tuple[Draft, ...], tuple[Left, ...]]:
    """Return the drafts in the order seen, and what cannot be one.

    A model is metered where its server is not the house's own and nobody said that it is free, and where it is a cloud
    model of Ollama.
    """
    seen = [_callable(one) for one in _raw(found, choices)]
    merged: dict[tuple[object, ...], Draft] = {}
    left = [one for one in seen if isinstance(one, Left)]
    for draft in (one for one in seen if isinstance(one, Draft)):
        key = _sameness(draft)
        old = merged.get(key)
        if old is None:
            merged[key] = draft
        elif draft.bases[0] not in old.bases:
            merged[key] = replace(old, bases=(*old.bases, *draft.bases), loaded=(*old.loaded, *draft.loaded))
    named = _named(_without_copies(list(merged.values())))
    final = []
    for draft in named:
        one = replace(draft, metered=False) if draft.metered and draft.id in choices.free else draft
        if one.kind == "embed":
            one = replace(one, length=choices.dimensions.get(one.id) or one.length)
        final.append(one)
    return tuple(final), tuple(left)


def _callable(one: Draft | Left) -> Draft | Left:
    """Return a draft whose name can stand in a request; no server that works has another."""
    if isinstance(one, Left) or (one.name.isprintable() and one.name == one.name.strip() and one.name.strip("/ ")):
        return one
    return Left(f"{one.name!r} at {one.bases[0]}", "its name cannot be written in a request", "rename it there")


def _sameness(draft: Draft) -> tuple[object, ...]:
    if draft.ollama is not None:
        return "ollama", full_name(draft.name), draft.ollama.file.digest, draft.metered, draft.kind
    return draft.litellm, draft.key, draft.metered, draft.kind


def _without_copies(drafts: list[Draft]) -> list[Draft]:
    """Make what `ollama cp` made an alias: the same file under two names is one runner."""
    first: dict[str, int] = {}
    found: list[Draft] = []
    for draft in drafts:
        digest = draft.ollama.file.digest if draft.ollama is not None and not draft.cloud else ""
        at = first.get(digest) if digest else None
        if at is not None and set(draft.bases) <= set(found[at].bases):
            # /api/ps shows the name under which it was loaded, which may be the copy's.
            old = found[at]
            found[at] = replace(old, aliases=(*old.aliases, draft.name), loaded=(*old.loaded, *draft.loaded))
            continue
        if digest:
            first.setdefault(digest, len(found))
        found.append(draft)
    return found


def _named(drafts: list[Draft]) -> Iterator[Draft]:
    taken = set(TIERS)
    ids = []
    for draft in drafts:
        # `large:latest` is an id where `large` is a tier.
        full = legal(draft.name)
        one = _plain(draft) if legal(_plain(draft)) not in taken or full in taken else full
        one = unused(one, taken, [host_of(draft.bases[0])])
        taken.add(one)
        ids.append(one)
    for draft, one in zip(drafts, ids, strict=True):
        names = []
        for name in draft.aliases:
            short = name.removesuffix(":latest")
            alias = unused(name if legal(short) in taken else short, taken)
            taken.add(alias)
            names.append(alias)
        yield replace(draft, id=one, aliases=tuple(names))


def _plain(draft: Draft) -> str:
    return draft.name.removesuffix(":latest") if draft.ollama is not None else draft.name


def _raw(found: Found, choices: Choices) -> Iterator[Draft | Left]:
    for ollama in found.ollamas:
        own = is_own(ollama.base) or ollama.base in choices.free
        for model in ollama.models:
            yield _of_ollama(ollama, model, own=own)
    for tei in found.teis:
        yield _of_tei(tei, own=is_own(tei.base) or tei.base in choices.free)
    for openai in found.openais:
        said_free = openai.base in choices.free
        for entry in openai.models:
            yield _of_openai(openai, entry, own=said_free or is_own(openai.base), said_free=said_free)


def _of_ollama(server: OllamaSeen, model: OllamaModel, *, own: bool) -> Draft | Left:
    name = model.name.removesuffix(":latest")
    if not model.embedding and model.abilities and "completion" not in model.abilities:
        can = ", ".join(model.abilities)
        return Left(f"{model.name} at {server.base}", f"it can {can}, and neither chats nor embeds", "")
    cloud = model.file.remote
    shape = model.file.shape
    full = full_name(model.name)
    return Draft(
        id=name,
        name=model.name,
        kind="embed" if model.embedding else "chat",
        litellm=f"ollama/{name}" if model.embedding else f"ollama_chat/{name}",
        bases=(server.base,),
        own=own and not cloud,
        metered=cloud or not own,
        cloud=cloud,
        length=(model.width or known_length(name)) if model.embedding else None,
        context=shape.train_context if shape is not None else None,
        params=model.params or params_in(name),
        ollama=model,
        version=server.version,
        loaded=() if cloud else tuple(one for one in server.loaded if one.name == full),
    )


def _of_tei(server: TeiSeen, *, own: bool) -> Draft | Left:
    if server.kind in {"classifier", "unknown"}:
        what = "a classifier" if server.kind == "classifier" else "neither an embedder nor a reranker"
        return Left(f"{server.model} at {server.base}", f"it is {what}, and LiteLLM has no route for that", "")
    rerank = server.kind == "reranker"
    return Draft(
        id=server.model,
        name=server.model,
        kind="rerank" if rerank else "embed",
        # LiteLLM's huggingface/ looks an embedding model up on the internet; TEI also speaks OpenAI's form.
        litellm=f"huggingface/{server.model}" if rerank else f"openai/{server.model}",
        bases=(server.base if rerank else f"{server.base}/v1",),
        own=own,
        metered=not own,
        key="" if rerank else NO_KEY,
        health=True,
        length=None if rerank else known_length(server.model),
        context=server.max_input,
        params=params_in(server.model),
    )


def _of_openai(server: OpenAiSeen, model: OpenAiModel, *, own: bool, said_free: bool) -> Draft | Left:
    """Return the draft of one model.

    A gateway of the house, LiteLLM itself say, lists what it calls elsewhere as `owned_by` a provider that bills.
    """
    low = model.name.lower()
    if any(word in low for word in _OTHER):
        why = "by its name it neither chats nor embeds"
        return Left(f"{model.name} at {server.base}", why, "add it by hand, with a `mode`")
    kind: Kind = "rerank" if "rerank" in low else "embed" if sounds_embedding(low) else "chat"
    return Draft(
        id=model.name,
        name=model.name,
        kind=kind,
        litellm=f"hosted_vllm/{model.name}" if kind == "rerank" else f"openai/{model.name}",
        bases=(server.base,),
        own=own,
        metered=not own or (model.owner.lower() in BILLING and not said_free),
        key=f"os.environ/{server.key_env}" if server.key_env else NO_KEY,
        length=(model.width or known_length(low)) if kind == "embed" else None,
        context=model.context,
        params=model.params or params_in(model.name),
    )
