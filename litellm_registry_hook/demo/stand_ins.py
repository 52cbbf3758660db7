"""Start a stand-in for every place that has no real server."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from litellm_registry_hook.demo.engine import LABEL as ENGINE_LABEL
from litellm_registry_hook.demo.engine import Engine, NoEngine
from litellm_registry_hook.demo.hosting import Served, serve
from litellm_registry_hook.demo.ollama import OllamaStandIn
from litellm_registry_hook.demo.ollama_names import key
from litellm_registry_hook.demo.openai_api import OpenAIStandIn
from litellm_registry_hook.demo.plan import Found, Place
from litellm_registry_hook.demo.runners import OllamaModel, Runners
from litellm_registry_hook.demo.speech import Canned, FromEngine, Prefixed, Speaker
from litellm_registry_hook.demo.tei import LABEL as RERANK_LABEL
from litellm_registry_hook.demo.tei import RerankStandIn

MIB = 1024 * 1024
DEFAULT_VRAM_MB = 2000
FILE_SHARE = 0.8  # of what a model takes on the GPU; the rest is context and buffers
VECTORS_LABEL = "stand-in vectors"
TEXT_MODES = frozenset({"chat", "completion", "responses"})


@dataclass
class StandIns:
    """The running stand-ins, and what answers for each place, in the order of the places."""

    served: list[Served] = field(default_factory=list)
    found: list[Found] = field(default_factory=list)

    async def stop(self) -> None:
        """Stop them all."""
        for server in self.served:
            await server.stop()


def speaker_of(engine: Engine | NoEngine) -> Speaker:
    """Return who writes the text of chat answers."""
    return FromEngine(engine.url, ENGINE_LABEL) if isinstance(engine, Engine) else Canned(engine.reason)


async def start_stand_ins(places: Sequence[Place], why_not: Sequence[str], speaker: Speaker) -> StandIns:
    """Start what is needed.

    Args:
        places: every place. why_not: for each, why its real server is not used; empty uses it.
        speaker: writes the text of chat answers.

    """
    running = StandIns()
    ollamas: dict[str, Served] = {}
    for place, why in zip(places, why_not, strict=True):
        if not why:
            running.found.append(Found(place, True, place.api_base, place.health_url, "real"))
            continue
        if place.form == "ollama":
            if place.api_base not in ollamas:
                missing = [other for other, reason in zip(places, why_not, strict=True) if reason]
                here = [other for other in missing if other.form == "ollama" and other.api_base == place.api_base]
                server = OllamaStandIn(ollama_models(here), Runners(time.time), speaker)
                ollamas[place.api_base] = await serve(server.app())
                running.served.append(ollamas[place.api_base])
            url = ollamas[place.api_base].url
            embeds = place.model.effective_mode == "embedding"
            answers = f"stand-in Ollama, {VECTORS_LABEL if embeds else speaker.label}"
            running.found.append(Found(place, False, url, f"{url}/api/version", answers, why))
        elif place.form == "rerank":
            url = await _start(running, RerankStandIn(place.model.litellm_model.partition("/")[2]))
            running.found.append(Found(place, False, url, f"{url}/health", f"stand-in TEI, {RERANK_LABEL}", why))
        else:
            url = await _start(running, _openai(place, speaker))
            answers = f"stand-in {_kind(place)}, {_writer(place, speaker)}"
            running.found.append(Found(place, False, f"{url}/v1", f"{url}/health", answers, why))
    return running


def ollama_models(places: Sequence[Place]) -> list[OllamaModel]:
    """Return the models of one Ollama, each name once."""
    found: dict[str, OllamaModel] = {}
    for place in places:
        model = place.model
        name = model.litellm_model.partition("/")[2]
        residency = model.gpu_residency
        vram = (residency.vram_mb if residency is not None else DEFAULT_VRAM_MB) * MIB
        num_ctx = residency.num_ctx if residency is not None and residency.num_ctx is not None else 4096
        kind = "embedding" if model.effective_mode == "embedding" else "chat"
        found.setdefault(
            key(name),
            OllamaModel(name, kind, int(vram * FILE_SHARE), vram, model.dimensions or 0, num_ctx),  # type: ignore[arg-type]
        )
    return list(found.values())


async def _start(running: StandIns, stand_in: RerankStandIn | OpenAIStandIn) -> str:
    server = await serve(stand_in.app())
    running.served.append(server)
    return server.url


def _openai(place: Place, speaker: Speaker) -> OpenAIStandIn:
    model = place.model
    if model.metered:
        speaker = Prefixed(f"[the paid stand-in for {model.id} answers; nothing was charged] ", speaker)
    return OpenAIStandIn(model.litellm_model.partition("/")[2] or model.litellm_model, speaker, model.dimensions)


def _kind(place: Place) -> str:
    if place.model.metered:
        return "paid API"
    return "subscription" if place.model.lifecycle == "quota-gated" else "OpenAI API"


def _writer(place: Place, speaker: Speaker) -> str:
    mode = place.model.effective_mode
    if mode == "embedding":
        return VECTORS_LABEL
    return speaker.label if mode in TEXT_MODES else f"which does no {mode} (501)"
