"""How a model is served: LiteLLM's parameters, endpoints, modes, what only Ollama understands."""

from __future__ import annotations

from collections.abc import Generator, Iterator

from litellm_registry_hook.core.checks.common import no_effect
from litellm_registry_hook.core.deployments import RESERVED_INFO
from litellm_registry_hook.core.draft import Draft
from litellm_registry_hook.core.findings import Finding, Path, shown
from litellm_registry_hook.core.providers import legal_address, readable
from litellm_registry_hook.core.registry import Endpoint, Model
from litellm_registry_hook.core.suggest import nearest

_ROLE_MODES = {"embedder": "embedding", "reranker": "rerank", "chat": "chat", "main-reasoning": "chat"}
_GPU_WORDS = ("auto", "none")
# Runner options and sampling options of Ollama's API (docs/modelfile of ollama); others are passed on unless they look
# like a slip of one of these.
_OPTIONS = """
draft_num_predict f16_kv frequency_penalty low_vram main_gpu min_p mirostat mirostat_eta mirostat_tau num_batch
num_ctx num_gpu num_keep num_predict num_thread numa penalize_newline presence_penalty repeat_last_n repeat_penalty
seed stop temperature tfs_z top_k top_p typical_p use_mlock use_mmap vocab_only
"""
_OLLAMA_OPTIONS = frozenset(_OPTIONS.split())
_REGISTRY_SAYS = ("num_ctx", "keep_alive", "num_batch", "num_gpu", "options")


def rules(draft: Draft) -> Iterator[Finding]:
    """Find models that could not be served as written."""
    for at, model in draft.models():
        sound = yield from _litellm(at, model)
        yield from _model_info(at, model)
        yield from _endpoints(at, model)
        if sound:
            yield from _mode(at, model)
            yield from _residency(at, model)


def _model_info(at: Path, model: Model) -> Iterator[Finding]:
    """Find what would take an entry away from the gates, or is the generator's to write."""
    info = model.model_info or {}
    for key in info.keys() & RESERVED_INFO:
        yield no_effect((*at, "model_info", key), RESERVED_INFO[key], "remove it")
    groups = info.get("access_groups")
    if groups is not None and not (isinstance(groups, list) and all(isinstance(one, str) and one for one in groups)):
        message = f"`access_groups` is {shown(groups)}, not a list of names"
        yield Finding("bad_value", (*at, "model_info", "access_groups"), message, "write [name, …]")


def _litellm(at: Path, model: Model) -> Generator[Finding, None, bool]:
    """Judge the parameters; the answer says whether provider and mode can be read from them."""
    params = model.litellm
    path = (*at, "litellm")
    name = params.get("model")
    provider = params.get("custom_llm_provider")
    sound = isinstance(name, str) and (("/" in name.strip("/")) or isinstance(provider, str))
    if name is None:
        yield Finding(
            "litellm_model",
            (*path, "model"),
            "`litellm.model` is missing",
            "write provider/name, as in ollama_chat/gemma3:4b",
        )
    elif isinstance(name, str) and name.startswith("os.environ/"):
        sound = False
        message = "`litellm.model` must be readable here, not in the environment"
        yield Finding("litellm_model", (*path, "model"), message, "write provider/name")
    elif not sound:
        yield Finding(
            "litellm_model",
            (*path, "model"),
            f"{shown(name)} is not provider/name",
            "write it as in ollama_chat/gemma3:4b",
        )
    base = params.get("api_base")
    if base is not None and not legal_address(base):
        message = "`litellm.api_base` is not an http address"
        yield Finding("bad_value", (*path, "api_base"), message, "start it with http:// or https:// or os.environ/NAME")
    elif (
        base is not None
        and model.endpoints
        and _bare(str(base)) not in {_bare(end.api_base) for end in model.endpoints}
    ):
        message = "`litellm.api_base` is none of the endpoints"
        yield Finding("api_base_conflict", (*path, "api_base"), message, "remove it, or list it under endpoints")
    if model.timeout_s is not None and "timeout" in params:
        message = "`litellm.timeout` says what `timeout_s` says"
        yield Finding("said_twice", (*path, "timeout"), message, "keep timeout_s", "key")
    if sound and model.on_ollama and model.gpu_residency is not None:
        for key in _REGISTRY_SAYS:
            if key in params:
                where = "options" if key.startswith(("num_b", "num_g")) else ""
                home = ".".join(filter(None, ("gpu_residency", where, key if key != "options" else "options")))
                message = f"`litellm.{key}` would be overruled by gpu_residency"
                yield Finding("said_twice", (*path, key), message, f"write it as {home}", "key")
    return sound


def _bare(api_base: str) -> str:
    return api_base.rstrip("/")


def _endpoints(at: Path, model: Model) -> Iterator[Finding]:
    seen: set[str] = set()
    for index, end in enumerate(model.endpoints):
        path = (*at, "endpoints", index)
        if _bare(end.api_base) in seen:
            message = "this endpoint stands twice"
            yield Finding("duplicate_endpoint", (*path, "api_base"), message, "keep one entry per address")
        seen.add(_bare(end.api_base))
        if not legal_gpu(end.gpu):
            message = f"{shown(end.gpu)} is not a GPU"
            yield Finding(
                "bad_value", (*path, "gpu"), message, "write auto, none, an index or a UUID as NVML prints it (GPU-…)"
            )
        elif "gpu" in end.model_fields_set and not _may_use_gpu(model):
            yield no_effect((*path, "gpu"), "the model has no gpu_residency", "add gpu_residency, or remove the key")
        if _ollama_path(model, end):
            message = f"Ollama's own address ends before `{_bare(end.api_base)[-4:].lstrip('0123456789')}`"
            yield Finding("ollama_api_base", (*path, "api_base"), message, "write http://host:11434")


def _ollama_path(model: Model, end: Endpoint) -> bool:
    return readable(model) and model.on_ollama and _bare(end.api_base).endswith(("/v1", "/api"))


def _may_use_gpu(model: Model) -> bool:
    return model.gpu_residency is not None or (readable(model) and model.on_ollama)


def legal_gpu(gpu: str | int) -> bool:
    """Say whether a value names a GPU: `auto`, `none`, an index, or a UUID as NVML prints it."""
    if isinstance(gpu, int):
        return gpu >= 0
    return gpu in _GPU_WORDS or gpu.isdecimal() or gpu.startswith(("GPU-", "MIG-"))


def _mode(at: Path, model: Model) -> Iterator[Finding]:
    wanted = {_ROLE_MODES[role] for role in model.role if role in _ROLE_MODES}
    repeated = [role for number, role in enumerate(model.role) if role in model.role[:number]]
    if repeated:
        yield Finding("duplicate_in_list", (*at, "role"), f"the role `{repeated[0]}` stands twice", "keep the first")
    if len(wanted) > 1:
        message = f"the roles ask for {' and '.join(sorted(wanted))}, and a model is served in one mode"
        yield Finding("mode_conflict", (*at, "role"), message, "write one entry per mode")
        return
    if model.mode is not None and wanted & {"embedding", "rerank"} and model.mode not in wanted:
        message = f"the role asks for {', '.join(wanted)}, the mode says {model.mode}"
        yield Finding("mode_conflict", (*at, "mode"), message, "remove mode, it is read from the role")
        return
    mode = model.effective_mode
    if model.provider == "ollama" and mode == "chat":
        name = model.litellm_model.partition("/")[2] or model.litellm_model
        message = "`ollama/` sends chats to Ollama's /api/generate, where tools are dropped"
        yield Finding("ollama_prefix", (*at, "litellm", "model"), message, f"write ollama_chat/{name}")
    if model.provider == "ollama_chat" and mode == "embedding":
        name = model.litellm_model.partition("/")[2] or model.litellm_model
        message = "`ollama_chat/` cannot embed"
        yield Finding("ollama_prefix", (*at, "litellm", "model"), message, f"write ollama/{name}")
    if mode == "embedding" and model.dimensions is None:
        message = "an embedding model must say how long its vectors are"
        yield Finding("dimensions_missing", (*at, "dimensions"), message, "add `dimensions`, as in `dimensions: 1024`")
    if mode != "embedding" and model.dimensions is not None:
        yield no_effect((*at, "dimensions"), f"the mode is {mode}, not embedding", "remove it, or set role: embedder")


def _residency(at: Path, model: Model) -> Iterator[Finding]:
    gpu = model.gpu_residency
    if gpu is None:
        return
    path = (*at, "gpu_residency")
    if not model.on_ollama:
        for key in ("predict_mb", "num_ctx", "keep_alive", "options"):
            if key in gpu.model_fields_set:
                yield no_effect(
                    (*path, key), f"only Ollama is told it, and the provider is {model.provider}", "remove it"
                )
        return
    if "num_ctx" in gpu.options:
        yield Finding(
            "said_twice",
            (*path, "options", "num_ctx"),
            "num_ctx has a key of its own",
            "write gpu_residency.num_ctx",
            "key",
        )
    if "keep_alive" in gpu.options:
        message = "keep_alive is not one of Ollama's options"
        yield Finding("unknown_key", (*path, "options", "keep_alive"), message, "write gpu_residency.keep_alive", "key")
    for key in gpu.options:
        close = nearest(str(key), _OLLAMA_OPTIONS) if key not in _OLLAMA_OPTIONS and key != "keep_alive" else None
        if close is not None:
            message = f"`{key}` is not one of Ollama's options"
            yield Finding("unknown_key", (*path, "options", key), message, f"did you mean `{close}`?", "key")
    batch = gpu.options.get("num_batch", 1)
    if type(batch) is not int or batch < 1:
        yield Finding(
            "bad_value",
            (*path, "options", "num_batch"),
            f"`num_batch` cannot be {shown(batch)}",
            "it must be a whole number, at least 1",
        )
