"""The registry and config that the proxy tests share, on the tests' own upstreams."""

from __future__ import annotations

import copy
import hashlib
from typing import Any

import yaml

from litellm_registry_hook.core.registry import Registry
from tests.host.proxy import CALLBACK, OPTED, ROOT


def token(key: str) -> str:
    return "sha256:" + hashlib.sha256(key.encode()).hexdigest()


def chat_model(
    id: str, base: str, *, metered: bool = False, lifecycle: str = "always-on", **more: Any
) -> dict[str, Any]:
    return {
        "id": id, "role": "chat", "lifecycle": lifecycle, "metered": metered,
        "litellm": {"model": f"openai/{id}-up", "api_base": base, "api_key": "dummy"}, **more,
    }  # fmt: skip


def registry_for(up: dict[str, Any]) -> dict[str, Any]:
    """The shipped registry's shape with a third member in the large pool and the tests' addresses."""
    kimi = chat_model("kimi", up["kimi"].openai_base)
    mid = chat_model("mid", up["mid"].openai_base)
    paid = chat_model("paid-fallback", up["paid"].openai_base, metered=True, lifecycle="cost-gated")
    return {
        "version": 1,
        "models": [
            kimi,
            mid,
            {
                "id": "local-small", "role": "chat", "lifecycle": "always-on", "metered": False,
                "litellm": {"model": "ollama_chat/gemma3:4b"}, "endpoints": [{"api_base": up["ollama"].url}],
                "gpu_residency": {"vram_mb": 3300, "num_ctx": 4096},
            },
            {
                "id": "bge-m3", "role": ["embedder", "routing-classifier"], "lifecycle": "always-on", "metered": False,
                "dimensions": 1024, "litellm": {"model": "ollama/bge-m3"}, "endpoints": [{"api_base": up["ollama"].url}],
                "gpu_residency": {"vram_mb": 1200, "never_evict": True},
            },
            {
                "id": "tei-reranker", "role": "reranker", "lifecycle": "on-demand", "metered": False,
                "litellm": {"model": "huggingface/BAAI/bge-reranker-v2-m3"},
                "endpoints": [{"api_base": up["tei"].url, "health_url": up["tei"].url + "/health"}],
                "gpu_residency": {"vram_mb": 1700, "never_evict": True},
            },
            paid,
        ],
        "routing": {
            "tiers": {
                "large": ["kimi", "mid", "paid-fallback"], "small": ["local-small"], "embed": ["bge-m3"],
                "rerank": ["tei-reranker"], "only-paid": ["paid-fallback"],
            },
            "aliases": {"embedder": "embed", "big": "large"},
            "metered_opt_in": [token(OPTED)],
            "trust_custom_auth": True,
        },
        "gpu_residency_policy": {
            "never_evict_ids": ["bge-m3", "tei-reranker"],
            "baseline": {"measured_mb": 6200, "total_mb": 65536},
        },
    }  # fmt: skip


def config_for(
    registry: dict[str, Any],
    *,
    foreign: list[dict[str, Any]] | None = None,
    general: dict[str, Any] | None = None,
    router: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """What the generator would write, in short form."""
    parsed = Registry.model_validate(copy.deepcopy(registry))
    entries: list[dict[str, Any]] = []
    for model in parsed.models:
        for n, place in enumerate(model.places or (None,)):  # type: ignore[arg-type]
            params = dict(model.litellm)
            if place is not None:
                params["api_base"] = place.api_base
            if model.timeout_s is not None:
                params["timeout"] = model.timeout_s
            entries.append(
                {
                    "model_name": model.id,
                    "litellm_params": params,
                    "model_info": {
                        "id": f"{model.id}@{n}", "managed_by": "litellm-registry-hook", "mode": model.effective_mode,
                        "disable_background_health_check": True,
                    },
                }
            )  # fmt: skip
    config: dict[str, Any] = {
        "model_list": [*entries, *(foreign or [])],
        "litellm_settings": {"callbacks": [CALLBACK]},
        "general_settings": {
            "master_key": "os.environ/LITELLM_MASTER_KEY", "custom_auth": "test_keys.auth",
            "health_check_skip_disabled_background_models": True, **(general or {}),
        },
    }  # fmt: skip
    if router:
        config["router_settings"] = router
    return config


def shipped() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "model-registry.yaml").read_text())
