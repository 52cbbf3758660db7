"""GPU memory: the never-evict set, groups that must fit together, models that can never be loaded. All in MB."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from litellm_registry_hook.core.checks.common import id_list
from litellm_registry_hook.core.checks.serving import legal_gpu
from litellm_registry_hook.core.draft import Draft
from litellm_registry_hook.core.findings import Finding, Path, shown
from litellm_registry_hook.core.providers import at_home, gpu_host, readable
from litellm_registry_hook.core.registry import Endpoint, Model

_POLICY = "gpu_residency_policy"
_NAMED = 8
Gpu = tuple[str, str]  # machine, and `auto`, an index or a UUID


def rules(draft: Draft) -> Iterator[Finding]:
    """Find what cannot hold in the memory there is."""
    yield from _models(draft)
    yield from _never_evict_ids(draft)
    yield from _groups(draft)
    yield from _sizes(draft)
    yield from _never_evict_fits(draft)


def _models(draft: Draft) -> Iterator[Finding]:
    for at, model in draft.models():
        gpu = model.gpu_residency
        if gpu is None:
            continue
        if readable(model) and draft.intact(*at, "endpoints") and not at_home(model):
            message = f"the model runs at {model.provider}'s, on no GPU of this house"
            hint = "remove gpu_residency, or name the api_base of the server that runs it"
            yield Finding("gpu_residency_remote", (*at, "gpu_residency"), message, hint, "key")
        if gpu.never_evict and gpu.keep_alive is not None and not str(gpu.keep_alive).startswith("-"):
            message = f"a never-evict model stays loaded, keep_alive {shown(gpu.keep_alive)} would end that"
            yield Finding(
                "keep_alive_never_evict", (*at, "gpu_residency", "keep_alive"), message, "write -1, or remove the key"
            )


def _never_evict_ids(draft: Draft) -> Iterator[Finding]:
    policy = draft.registry.gpu_residency_policy
    path = (_POLICY, "never_evict_ids")
    yield from id_list(draft, policy.never_evict_ids, path)
    for index, model_id in enumerate(policy.never_evict_ids):
        model = draft.registry.by_id.get(model_id)
        if model is None or not draft.whole(model_id, "gpu_residency") or model_id in policy.never_evict_ids[:index]:
            continue
        if model.gpu_residency is None:
            message = f"`{model_id}` has no gpu_residency, so there is nothing to keep on a GPU"
            hint = "add gpu_residency with never_evict: true to the model, or remove the id"
            yield Finding("never_evict_without_residency", (*path, index), message, hint)
        elif not model.never_evict:
            message = f"`{model_id}` is listed here, but its gpu_residency does not say never_evict: true"
            yield Finding(
                "never_evict_disagrees", (*path, index), message, "add never_evict: true there, or remove the id here"
            )
    # Where the policy lists none, the models alone decide.
    if "never_evict_ids" in policy.model_fields_set and draft.intact(*path):
        for at, model in draft.models():
            if model.never_evict and model.id not in policy.never_evict_ids:
                message = f"`{model.id}` says never_evict: true, but {_POLICY}.never_evict_ids does not list it"
                hint = "add the id there, or remove never_evict here"
                yield Finding("never_evict_disagrees", (*at, "gpu_residency", "never_evict"), message, hint)


def _groups(draft: Draft) -> Iterator[Finding]:
    policy = draft.registry.gpu_residency_policy
    seen: set[str] = set()
    for index, group in enumerate(policy.co_residency_groups):
        path = (_POLICY, "co_residency_groups", index)
        if group.name in seen:
            message = f"the group `{group.name}` stands twice"
            yield Finding("duplicate_in_list", (*path, "name"), message, "give each group a name of its own")
        seen.add(group.name)
        yield from id_list(draft, group.ids, (*path, "ids"))
        yield from _need_residency(draft, group.ids, (*path, "ids"))
        yield from _group_fits(draft, path, f"the group `{group.name}`", group.ids)
    baseline = policy.baseline
    if baseline is not None:
        yield from id_list(draft, baseline.ids, (_POLICY, "baseline", "ids"))
        yield from _need_residency(draft, baseline.ids, (_POLICY, "baseline", "ids"))
        if baseline.measured_mb > baseline.total_mb:
            message = f"{baseline.measured_mb} MB were measured on a GPU of {baseline.total_mb} MB"
            yield Finding("bad_value", (_POLICY, "baseline", "measured_mb"), message, "mend one of the two numbers")


def _need_residency(draft: Draft, ids: Iterable[str], path: Path) -> Iterator[Finding]:
    for index, model_id in enumerate(ids):
        model = draft.registry.by_id.get(model_id)
        if model is not None and model.gpu_residency is None and draft.whole(model_id, "gpu_residency"):
            message = f"`{model_id}` has no gpu_residency, so it takes no room here"
            yield Finding(
                "group_without_residency", (*path, index), message, "add gpu_residency to the model, or remove the id"
            )


def _sizes(draft: Draft) -> Iterator[Finding]:
    seen: set[str] = set()
    for gpu in draft.registry.gpu_residency_policy.gpus:
        path = (_POLICY, "gpus", gpu)
        if gpu in {"auto", "none"} or not legal_gpu(gpu):
            message = f"{shown(gpu)} is not a GPU"
            yield Finding("bad_value", path, message, "write an index or a UUID as NVML prints it (GPU-…)", "key")
        if str(gpu) in seen:
            yield Finding("duplicate_key", path, f"the GPU {gpu} stands twice", "keep one of the two", "key")
        seen.add(str(gpu))


def _placed(model: Model) -> Iterator[Gpu]:
    """Return the GPUs of a model; one per server that holds a copy."""
    if not readable(model):
        return
    # Ollama without an address is the one on this machine.
    for place in model.places or (Endpoint(api_base="http://127.0.0.1:11434"),):
        if place.gpu != "none":
            yield gpu_host(place.api_base), str(place.gpu)


def _total(draft: Draft, gpu: str) -> int | None:
    """Return the declared size of a GPU; of the largest one where any may be meant; None where nothing is declared."""
    policy = draft.registry.gpu_residency_policy
    sizes = {str(key): size.total_mb for key, size in policy.gpus.items()}
    if gpu in sizes:
        return sizes[gpu]
    if gpu == "auto" and sizes:
        return max(sizes.values())
    return policy.baseline.total_mb if policy.baseline is not None else None


def _sum(draft: Draft, models: list[Model]) -> tuple[int, str]:
    reserve = draft.registry.gpu_residency_policy.reserve_mb
    sizes = [(model.id, model.gpu_residency.vram_mb) for model in models if model.gpu_residency is not None]
    text = " + ".join(f"{name} {size}" for name, size in sizes[:_NAMED])
    if len(sizes) > _NAMED:
        text += f" + {len(sizes) - _NAMED} more"
    return sum(size for _, size in sizes) + reserve, f"{text} + reserve {reserve}"


def _group_fits(draft: Draft, path: Path, name: str, ids: Iterable[str]) -> Iterator[Finding]:
    found = [draft.registry.by_id[one] for one in dict.fromkeys(ids) if one in draft.registry.by_id]
    members = [model for model in found if model.gpu_residency is not None and list(_placed(model))]
    if not members:
        return
    homes = [set(_placed(model)) for model in members]
    common = set.intersection(*homes)
    loose = any(gpu == "auto" for places in homes for _, gpu in places)
    if not common and not loose:
        message = f"{name} can never stand on one GPU: its members are pinned to different ones"
        yield Finding("group_split", path, message, "give them the same endpoints[].gpu, or split the group")
        return
    pinned = {gpu for _, gpu in common} or {gpu for places in homes for _, gpu in places if gpu != "auto"}
    totals = [total for total in (_total(draft, gpu) for gpu in pinned or {"auto"}) if total is not None]
    need, text = _sum(draft, members)
    if totals and need > max(totals):
        message = f"{name} needs {need} MB ({text}), the GPU has {max(totals)} MB"
        yield Finding(
            "gpu_overcommitted", (*path, "ids"), message, "take a smaller model, or remove one from the group"
        )


def _never_evict_fits(draft: Draft) -> Iterator[Finding]:
    on_gpu: dict[Gpu, list[Model]] = {}
    where: dict[str, Path] = {}
    for at, model in draft.models():
        where[model.id] = at
        if model.never_evict:
            for place in set(_placed(model)):
                on_gpu.setdefault(place, []).append(model)
    path: Path = (_POLICY, "never_evict_ids")
    for (_, gpu), models in sorted(on_gpu.items()):
        need, text = _sum(draft, models)
        total = _total(draft, gpu)
        if total is not None and need > total:
            listed = "never_evict_ids" in draft.registry.gpu_residency_policy.model_fields_set
            message = f"the never-evict models need {need} MB ({text}), the GPU has {total} MB"
            at = path if listed else (*where[models[-1].id], "gpu_residency", "never_evict")
            yield Finding("gpu_overcommitted", at, message, "keep fewer models never-evict")
    for at, model in draft.models():
        if model.gpu_residency is not None and not model.never_evict:
            yield from _loadable(draft, at, model, on_gpu)


def _loadable(draft: Draft, at: Path, model: Model, on_gpu: dict[Gpu, list[Model]]) -> Iterator[Finding]:
    for key in dict.fromkeys(_placed(model)):
        total = _total(draft, key[1])
        if total is None:
            continue
        need, text = _sum(draft, [model, *on_gpu.get(key, [])])
        if need > total:
            message = f"it can never be loaded: with the never-evict models {need} MB ({text}) of {total} MB"
            hint = "take a smaller model, or keep fewer models never-evict"
            yield Finding("can_never_load", (*at, "gpu_residency", "vram_mb"), message, hint, severity="warning")
