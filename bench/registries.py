"""Registries of any size, made of the shipped one: its five models over and over, each time with a number."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
SHIPPED = ROOT / "model-registry.yaml"
PER_COPY = 5
KEY = "sk-bench-key-of-an-agent-000001"
HEADERS = {"x-registry-allow-metered": "true"}


def text(models: int) -> str:
    """Return a registry of `models` models (a multiple of five) in the style of the shipped file."""
    shipped = SHIPPED.read_text(encoding="utf-8")
    block = shipped[shipped.index("  # The subscription") : shipped.index("routing:")]
    tiers = yaml.safe_load(shipped)["routing"]["tiers"]
    copies, pools = [], []
    for n in range(models // PER_COPY):
        copies.append(re.sub(r"(\bid: |\btier: )([\w-]+)", rf"\g<1>\g<2>-{n}", block))
        pools += [f"    {tier}-{n}: [{', '.join(f'{one}-{n}' for one in ids)}]" for tier, ids in tiers.items()]
    return "\n".join(["version: 1", "models:", *copies, "routing:", "  tiers:", *pools, "  metered_opt_in: []", ""])


def served(port: int, usage_file: Path, opted_in: str, ollama: str | None = None) -> dict[str, Any]:
    """Return the registry of the proxies under test: the shipped pools, every model on the fake upstream.

    Args:
        port: the upstream's.
        usage_file: where the quota probe of the subscription reads.
        opted_in: `sha256:<hex>` of the virtual key that may use the metered model.
        ollama: address of the Ollama; a path of the same upstream where none is given, so that it is a server of its own.

    """
    url = f"http://127.0.0.1:{port}"
    ollama = ollama or f"{url}/ollama"
    key = "sk-upstream-000000000001"
    small = {"vram_mb": 3300, "num_ctx": 4096}
    return {
        "version": 1,
        "models": [
            {
                "id": "kimi", "role": "chat", "lifecycle": "quota-gated", "metered": False,
                "litellm": {"model": "openai/bench-up", "api_base": f"{url}/v1", "api_key": key},
                "quota": {"probe_file": str(usage_file), "windows": [{"name": "5h", "field": "used_pct"}]},
            },
            {
                "id": "local-small", "role": "chat", "lifecycle": "always-on", "metered": False,
                "litellm": {"model": "ollama_chat/gemma3:4b"}, "endpoints": [{"api_base": ollama}], "gpu_residency": small,
            },
            {
                "id": "bge-m3", "role": "embedder", "lifecycle": "always-on", "metered": False, "dimensions": 1024,
                "litellm": {"model": "ollama/bge-m3"}, "endpoints": [{"api_base": ollama}],
                "gpu_residency": {"vram_mb": 1200, "never_evict": True},
            },
            {
                "id": "paid-fallback", "role": "fallback", "lifecycle": "cost-gated", "metered": True,
                "litellm": {"model": "openai/bench-paid", "api_base": f"{url}/v1", "api_key": key},
            },
        ],
        "routing": {
            "tiers": {"large": ["kimi", "paid-fallback"], "small": ["local-small"], "embed": ["bge-m3"], "paid": ["paid-fallback"]},
            "metered_opt_in": [opted_in], "trust_custom_auth": True,
        },
        "gpu_residency_policy": {
            "never_evict_ids": ["bge-m3"],
            "baseline": {"measured_mb": 4500, "total_mb": 8192, "ids": ["local-small", "bge-m3"]},
        },
    }  # fmt: skip
