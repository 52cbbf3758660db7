"""Which models stay on the GPU for good, and which can be loaded beside them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from litellm_registry_hook.core.gpu.predict import EVICTS_ABOVE
from litellm_registry_hook.core.start.choices import Choices
from litellm_registry_hook.core.start.draft import Draft
from litellm_registry_hook.core.start.machines import HERE, Machine
from litellm_registry_hook.core.start.own import machine_of
from litellm_registry_hook.core.start.proposal import Left
from litellm_registry_hook.core.start.sizes import Size, predicted


@dataclass(frozen=True, slots=True)
class House:
    """Drafts with their sizes and machines.

    Attributes:
        drafts: by id. sizes: by id, where there is one. machines: by host. reserve_mb: of each GPU.

    """

    drafts: Mapping[str, Draft]
    sizes: Mapping[str, Size]
    machines: Mapping[str, Machine]
    reserve_mb: int

    def hosts(self, model_id: str) -> tuple[str, ...]:
        """Return the machines of a model."""
        return tuple(dict.fromkeys(machine_of(base) for base in self.drafts[model_id].bases))

    def on_gpu(self, model_id: str) -> bool:
        """Say whether a model has a size, and each of its machines a GPU whose memory is counted."""
        draft = self.drafts[model_id]
        return draft.own and model_id in self.sizes and all(self.machines[one].counted for one in self.hosts(model_id))

    def too_large(self, ids: Iterable[str]) -> tuple[str, float, float] | None:
        """Return (host, MB needed, MB there) of the first machine that these models do not fit together."""
        need: dict[str, float] = {}
        for one in ids:
            for host in self.hosts(one):
                need[host] = need.get(host, float(self.reserve_mb)) + self.sizes[one].mb
        for host, mb in need.items():
            if mb > self.machines[host].total_mb:
                return host, mb, self.machines[host].total_mb
        return None

    def evicts(self, model_id: str, kept: Iterable[str]) -> bool:
        """Say whether a load must push out what stays: beside it, over 80 % of the free memory as Ollama predicts."""
        draft, size = self.drafts[model_id], self.sizes.get(model_id)
        if size is None or draft.ollama is None or not self.on_gpu(model_id):
            return False
        for host in self.hosts(model_id):
            held = [one for one in kept if host in self.hosts(one)]
            free = self.machines[host].total_mb - sum(self.sizes[one].mb for one in held)
            if size.mb + self.reserve_mb > free:
                return True
            if any(self.drafts[one].ollama is not None for one in held):
                need = predicted(draft, size.num_ctx, self.machines[host].total_mb)
                if need > EVICTS_ABOVE * free:
                    return True
        return False


def kept(house: House, wanted: Iterable[str]) -> tuple[tuple[str, ...], tuple[Left, ...]]:
    """Return which of the wanted ones stay on the GPU, in their order, and why the others do not."""
    chosen: list[str] = []
    left: list[Left] = []
    for one in wanted:
        if not house.on_gpu(one):
            left.append(Left(f"never-evict: {one}", *_no_numbers(house, one)))
        elif (over := house.too_large([*chosen, one])) is not None:
            host, need, there = over
            beside = f"with {', '.join(chosen)} " if chosen else ""
            why = f"{beside}it needs {need:.0f} MB"
            why += f" (reserve {house.reserve_mb} included), the GPU of {host} has {there:.0f} MB"
            left.append(Left(f"never-evict: {one}", why, "take a smaller model, or keep fewer"))
        else:
            chosen.append(one)
    return tuple(chosen), tuple(left)


def _no_numbers(house: House, model_id: str) -> tuple[str, str]:
    hosts = [one for one in house.hosts(model_id) if one in house.machines]
    if any(house.machines[one].how == "unknown" for one in hosts):
        host = next(one for one in hosts if house.machines[one].how == "unknown")
        return (
            f"nobody knows how much GPU memory {host} has",
            "--gpu-total MB" if host == HERE else f"--gpu-total {host}=MB",
        )
    if hosts and all(house.machines[one].how == "none" for one in hosts):
        return "it runs on no GPU", ""
    return "nobody knows how much memory it takes", f"--size {model_id}=MB"


def default_kept(house: House, embedder: str | None, choices: Choices) -> tuple[str, ...]:
    """Return what should stay: what was chosen, else the embedder and the rerankers."""
    if choices.never_evict is not None:
        return choices.never_evict
    first = [embedder] if embedder is not None and house.drafts[embedder].own else []
    return (*first, *(one.id for one in house.drafts.values() if one.kind == "rerank" and one.own))
