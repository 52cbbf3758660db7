"""What is still open: one question after another, each with the option that answers it."""

from __future__ import annotations

from litellm_registry_hook.core.start.choices import Choices, Question
from litellm_registry_hook.core.start.draft import drafts_of
from litellm_registry_hook.core.start.found import Found
from litellm_registry_hook.core.start.machines import HERE, machines_of
from litellm_registry_hook.core.start.own import is_billing, is_own, machine_of
from litellm_registry_hook.core.start.propose import plan
from litellm_registry_hook.core.start.residents import default_kept, kept


def next_question(found: Found, choices: Choices) -> Question | None:
    """Return the first thing that a person must decide; None where all is decided."""
    return (
        _free(found, choices)
        or _gpu(found, choices)
        or _dimensions(found, choices)
        or _embedder(found, choices)
        or _never_evict(found, choices)
    )


def _free(found: Found, choices: Choices) -> Question | None:
    for base in found.bases:
        # A provider's own address is never free by a slip of a key.
        if not is_own(base) and not is_billing(base) and base not in choices.free | choices.asked_free:
            text = f"Is {base} free, whoever calls it? Otherwise its models are metered: true"
            return Question("free", base, text, f"--free {base}", safe="no")
    return None


def _gpu(found: Found, choices: Choices) -> Question | None:
    drafts, _ = drafts_of(found, choices)
    machines = machines_of(found, drafts, choices)
    hosts = {machine_of(base) for one in drafts if one.own and one.ollama is not None for base in one.bases}
    for host, machine in machines.items():
        if machine.how == "unknown" and host in hosts and host not in choices.gpu_mb:
            name = "this machine's GPU" if host == HERE else f"the GPU of {host}"
            why = f" ({found.nvml.reason})" if host == HERE and found.nvml.reason else ""
            text = f"How many MB of memory has {name}? NVML does not tell{why}. 0 = no GPU, empty = not known"
            return Question("gpu_mb", host, text, "--gpu-total MB" if host == HERE else f"--gpu-total {host}=MB")
    return None


def _dimensions(found: Found, choices: Choices) -> Question | None:
    drafts, _ = drafts_of(found, choices)
    for one in drafts:
        if one.kind == "embed" and one.length is None and one.id not in choices.dimensions:
            text = f"How long are the vectors of {one.id} ({one.bases[0]})? It does not tell. Empty = leave it out"
            return Question("dimensions", one.id, text, f"--dimensions {one.id}=N")
    return None


def _embedder(found: Found, choices: Choices) -> Question | None:
    ground = plan(found, choices)
    free = tuple(one for one in ground.embedders if not ground.house.drafts[one].metered)
    if len(free) < 2 or choices.embedder in ground.embedders:  # noqa: PLR2004
        return None
    text = "Which embedding model is the one of the tier `embed`? Vectors of two models are not comparable"
    return Question("embedder", "", text, "--embedder ID", free, free[0])


def _never_evict(found: Found, choices: Choices) -> Question | None:
    if choices.never_evict is not None:
        return None
    ground = plan(found, choices)
    house = ground.house
    free = [one for one in ground.embedders if not house.drafts[one].metered]
    embedder = choices.embedder if choices.embedder in ground.embedders else (free[0] if free else None)
    stay, _ = kept(house, default_kept(house, embedder, choices))
    options = tuple(one for one in house.drafts if house.on_gpu(one))
    if not stay:
        return None
    sizes = ", ".join(f"{one} {house.sizes[one].mb} MB" for one in stay)
    text = f"Which models stay on the GPU for good (ids, commas between; `none` for none)? Proposed: {sizes}"
    return Question("never_evict", "", text, "--never-evict ID, or --no-never-evict", options, ",".join(stay))
