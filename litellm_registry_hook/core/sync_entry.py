"""What an entry of model_list holds: the registry's litellm_params, and what the gates rely on.

How the Ollama options reach the wire was read off a local server with LiteLLM 1.108.7: flat litellm_params of
`ollama_chat/` arrive as `options.num_ctx`, `options.num_batch`, … of /api/chat and `keep_alive` beside them; of
`ollama/` embeddings the same on /api/embed. (`ollama/` chat would put keep_alive into `options`, where Ollama does not
read it: one more reason for the rule that chat models are `ollama_chat/`.)
"""

from __future__ import annotations

import copy
from typing import Any
from urllib.parse import urlsplit

from litellm_registry_hook.core.deployments import MANAGED_BY, Deployment
from litellm_registry_hook.core.gpu.pinning import keep_alive_of, options_of
from litellm_registry_hook.core.registry import Model, Registry


def entry_of(registry: Registry, model: Model, deployment: Deployment) -> dict[str, Any]:
    """Return the model_list entry of one deployment, as plain data in the order it is written in."""
    params: dict[str, Any] = copy.deepcopy(dict(model.litellm))
    if deployment.api_base is not None:
        params["api_base"] = deployment.api_base
    if model.timeout_s is not None:
        params["timeout"] = int(model.timeout_s) if model.timeout_s.is_integer() else model.timeout_s
    params.update(_runner_params(model))
    info: dict[str, Any] = {"id": deployment.id, "managed_by": MANAGED_BY, "mode": model.effective_mode}
    info.update(copy.deepcopy(model.model_info or {}))
    if probe_is_harmful(registry, model, deployment.api_base):
        info["disable_background_health_check"] = True
    return {"model_name": model.id, "litellm_params": params, "model_info": info}


def _runner_params(model: Model) -> dict[str, Any]:
    """Return keep_alive and the runner options of a model on Ollama; a different value there would reload the model."""
    if not model.on_ollama or model.gpu_residency is None:
        return {}
    return {"keep_alive": keep_alive_of(model), **options_of(model)}


def probe_is_harmful(registry: Registry, model: Model, api_base: str | None) -> bool:
    """Say whether a health probe of LiteLLM, which is a real call, would cost money, use up quota or load the model."""
    return model.metered or model.lifecycle != "always-on" or model.on_ollama or _at_ollama(registry, api_base)


def _at_ollama(registry: Registry, api_base: str | None) -> bool:
    """Say whether an address is an Ollama server of the registry, whatever provider it is spoken to with."""
    if api_base is None:
        return False
    servers = {_server(place.api_base) for model in registry.models if model.on_ollama for place in model.places}
    return _server(api_base) in servers


def _server(api_base: str) -> str:
    try:
        return urlsplit(api_base).netloc.lower() or api_base
    except ValueError:
        return api_base
