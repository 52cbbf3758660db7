"""Where a model sits: which server, which machine, which GPU, and how the memory of that GPU is known.

Which GPU an Ollama server uses is what the registry says (`endpoints[].gpu`), never guessed from a reading.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, TypeVar
from urllib.parse import urlsplit

from litellm_registry_hook.core.gpu.facts import Gpu, Nvml, Slot, Snapshot
from litellm_registry_hook.core.gpu.names import DEFAULT_BASE, slot_of
from litellm_registry_hook.core.providers import gpu_host
from litellm_registry_hook.core.registry import GpuResidencyPolicy, Model, Registry

AUTO: Final = "auto"
NONE: Final = "none"
_LOOPBACK: Final = "localhost"
_ENV: Final = "os.environ/"

ServerKey = tuple[str, int, str]
Mode = Literal["nvml", "declared", "none", "unknown"]
M = TypeVar("M", Registry, Model)


@lru_cache(maxsize=4096)
def server_key(api_base: str) -> ServerKey:
    """Return what makes a server the same one: host (all loopback names alike), port, path without `/v1`.

    >>> server_key("http://127.0.0.1:11434/") == server_key("http://localhost:11434/v1")
    True
    """
    try:
        parts = urlsplit(api_base)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return api_base, 0, ""
    path = parts.path.rstrip("/").removesuffix("/v1").rstrip("/")
    return gpu_host(api_base), port, path


def is_loopback(api_base: str) -> bool:
    """Say whether an address is this machine's own; only there do NVML's numbers count."""
    return server_key(api_base)[0] == _LOOPBACK


def machine_of(api_base: str, here: str) -> str:
    """Return the machine of an address: this machine's name for loopback, else the host."""
    host = server_key(api_base)[0]
    return here if host == _LOOPBACK else host


@dataclass(frozen=True, slots=True)
class Home:
    """One place of one model of the registry.

    Attributes:
        model: the entry. api_base: as in the registry, `os.environ/` resolved.
        gpu: `auto`, `none`, an index or a UUID, as text.
        slot: its runner; None where the server is not Ollama.

    """

    model: Model
    api_base: str
    gpu: str
    slot: Slot | None


def homes_of(registry: Registry) -> tuple[Home, ...]:
    """Return the places of every model that is on Ollama or has gpu_residency.

    A model of another provider at the address of a registry Ollama server runs there as well.
    """
    ollama = {server_key(base) for model in registry.models if model.on_ollama for base, _ in _places(model)}
    found = []
    for model in registry.models:
        if not model.on_ollama and model.gpu_residency is None and not ollama:
            continue
        for base, gpu in _places(model):
            there = model.on_ollama or server_key(base) in ollama
            if there or model.gpu_residency is not None:
                found.append(Home(model, base, gpu, slot_of(model, base) if there else None))
    return tuple(found)


def _places(model: Model) -> Iterator[tuple[str, str]]:
    for place in model.places:
        yield place.api_base, str(place.gpu)
    if model.on_ollama and not model.places:
        # Ollama without an address is the one on this machine.
        yield DEFAULT_BASE, AUTO


def resolve_addresses(registry: Registry, environ: Mapping[str, str]) -> Registry:
    """Return the registry with every `os.environ/NAME` address of an endpoint resolved; the decision needs real ones.

    An unset name stays as it is: such a server is never read, so nothing is ever loaded there.
    """
    models = tuple(_resolved(model, environ) for model in registry.models)
    if all(new is old for new, old in zip(models, registry.models, strict=True)):
        return registry
    return fresh_copy(registry, {"models": models})


def _resolved(model: Model, environ: Mapping[str, str]) -> Model:
    bases = [_address(place.api_base, environ) for place in model.places]
    if bases == [place.api_base for place in model.places]:
        return model
    pairs = zip(model.places, bases, strict=True)
    return fresh_copy(model, {"endpoints": tuple(place.model_copy(update={"api_base": base}) for place, base in pairs)})


def _address(api_base: str, environ: Mapping[str, str]) -> str:
    name = api_base.removeprefix(_ENV)
    return api_base if name == api_base else environ.get(name) or api_base


def fresh_copy(value: M, update: dict[str, object]) -> M:
    """Copy a registry value; what it has worked out from its fields is worked out anew."""
    copied = value.model_copy(update=update)
    for name in set(copied.__dict__) - set(type(value).model_fields):
        del copied.__dict__[name]
    return copied


def gpu_key(gpu: str, nvml: Nvml, *, local: bool) -> str:
    """Return one name for a GPU however it is written: its UUID where NVML knows it; `auto` for an empty one."""
    if gpu in {"", AUTO}:
        return AUTO
    if local:
        known = _find(gpu, nvml.gpus)
        if known is not None:
            return known.uuid
    return gpu


def overlap(one: str, other: str) -> bool:
    """Say whether two GPU keys of one machine can be the same GPU.

    `auto` can be any. An index and a UUID that NVML cannot match up may be the same: not known counts as yes.
    """
    if AUTO in {one, other} or one.isdigit() != other.isdigit():
        return True
    return one.lower() == other.lower()


@dataclass(frozen=True, slots=True)
class Card:
    """One GPU with its numbers.

    Attributes:
        key: UUID, index, or `auto` where the registry names no GPU.
        total_mb: memory of the device.
        free_mb: what NVML says; None where it has to be worked out from what is loaded (declared mode).

    """

    key: str
    total_mb: float
    free_mb: float | None


@dataclass(frozen=True, slots=True)
class Room:
    """The memory that a model draws on at one endpoint.

    Attributes:
        mode: nvml; declared: sizes from the registry; none: not on a GPU; unknown: there are no numbers to trust.
        machine: its name.
        key: the GPU as the endpoint names it: `auto`, UUID or index.
        cards: the GPUs it may be put on. others: further GPUs of that machine.
        fallback: the declared card of an unknown room, where one is declared: for `on_unknown.vram: allow`.
        reason: why it is unknown.

    """

    mode: Mode
    machine: str
    key: str = AUTO
    cards: tuple[Card, ...] = ()
    others: tuple[Card, ...] = ()
    fallback: Card | None = None
    reason: str = ""


def room_of(policy: GpuResidencyPolicy, snapshot: Snapshot, api_base: str, gpu: str) -> Room:
    """Return the memory of one endpoint.

    Several GPUs and `auto`: every readable one is a choice; Ollama puts a model on one of them, so memory is never
    added up over GPUs.

    Args:
        policy: declared sizes.
        snapshot: what was read.
        api_base: of the endpoint, resolved.
        gpu: of the endpoint: `auto`, `none`, an index or a UUID.

    """
    local = is_loopback(api_base)
    machine = machine_of(api_base, snapshot.machine)
    nvml = snapshot.nvml
    if gpu == NONE:
        return Room(NONE, machine, NONE)
    if not local or nvml.state == "never":
        return _declared(policy, machine, gpu, (gpu,), _not_read(machine, nvml, local=local))
    key = gpu_key(gpu, nvml, local=True)
    fallback = _card(policy, key, (key, gpu))
    if nvml.state == "failed":
        return Room("unknown", machine, key, fallback=fallback, reason=f"NVML worked and now fails: {nvml.reason}")
    if key == AUTO:
        choices = nvml.gpus
    else:
        found = _find(key, nvml.gpus)
        choices = (found,) if found is not None else ()
    if not choices:
        what = "NVML finds no GPU on this machine" if key == AUTO else f"NVML has no GPU {gpu}"
        return Room("unknown", machine, key, fallback=fallback, reason=f"{what}; mend endpoints[].gpu in the registry")
    cards = tuple(Card(one.uuid, one.total_mb, one.free_mb) for one in choices if one.state == "ok")
    if cards:
        ok = tuple(Card(one.uuid, one.total_mb, one.free_mb) for one in nvml.gpus if one.state == "ok")
        return Room("nvml", machine, key, cards, tuple(card for card in ok if card not in cards))
    first = choices[0]
    if all(one.state == "unsupported" for one in choices):
        reason = f"NVML cannot count the memory of GPU {first.index} ({first.reason or first.code})"
        return _declared(policy, machine, key, (first.uuid, str(first.index), gpu), reason)
    broken = next(one for one in choices if one.state == "unknown")
    reason = f"reading GPU {broken.index} failed: {broken.reason or broken.code}"
    return Room("unknown", machine, key, fallback=fallback, reason=reason)


def _not_read(machine: str, nvml: Nvml, *, local: bool) -> str:
    return (
        f"NVML does not work here ({nvml.reason})" if local else f"{machine} is another machine, which NVML cannot see"
    )


def _declared(policy: GpuResidencyPolicy, machine: str, gpu: str, names: tuple[str, ...], reason: str) -> Room:
    card = _card(policy, gpu, names)
    if card is None:
        fix = "declare gpu_residency_policy.gpus or baseline.total_mb"
        return Room("unknown", machine, gpu, reason=f"{reason} and no size is declared; {fix}")
    return Room("declared", machine, gpu, (card,), reason=reason)


def _card(policy: GpuResidencyPolicy, key: str, names: tuple[str, ...]) -> Card | None:
    total = declared_total(policy, names)
    return Card(key, total, None) if total is not None else None


def declared_total(policy: GpuResidencyPolicy, names: tuple[str, ...]) -> float | None:
    """Return the declared MB of a GPU that has any of these names; None where nothing is declared.

    For `auto`: index 0, else the only one declared, else the smallest, as a size that is not known is never plenty.
    Where `gpus` does not have it: `baseline.total_mb`.
    """
    sizes = {str(gpu).lower(): size.total_mb for gpu, size in policy.gpus.items()}
    for name in names:
        if name.lower() in sizes:
            return sizes[name.lower()]
    if AUTO in names and sizes:
        return sizes.get("0") or min(sizes.values())
    return policy.baseline.total_mb if policy.baseline is not None else None


def _find(gpu: str, gpus: tuple[Gpu, ...]) -> Gpu | None:
    for one in gpus:
        if one.uuid.lower() == gpu.lower() or str(one.index) == gpu:
            return one
    return None
