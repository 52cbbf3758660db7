"""What a monitor must ask, and what the arithmetic of loading says."""

from pathlib import Path

import pytest

from litellm_registry_hook import RegistryError, load_registry, preload_check, to_probe_config, to_probe_configs

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "model-registry.yaml"
GOOD = ROOT / "tests/registries/good"


def test_probes_of_the_shipped_models() -> None:
    """Every lifecycle has its probe; a quota has one per window, and the GPU's comes last."""
    registry = load_registry(SHIPPED)

    assert {model.id: to_probe_configs(registry, model.id) for model in registry.models} == {
        "kimi": [
            {"type": "quota", "command": "kimi-usage --json", "field": "five_hour.used_pct", "threshold_pct": 95},
            {"type": "quota", "command": "kimi-usage --json", "field": "weekly.used_pct", "threshold_pct": 95},
        ],
        "local-small": [
            {"type": "always_on"},
            {"type": "gpu_residency", "vram_mb": 3300, "never_evict_reserved_mb": 2900},
        ],
        "bge-m3": [
            {"type": "always_on"},
            {"type": "gpu_residency", "vram_mb": 1200, "never_evict_reserved_mb": 1700},
        ],
        "tei-reranker": [
            {"type": "on_demand", "url": "http://127.0.0.1:8080/health"},
            {"type": "gpu_residency", "vram_mb": 1700, "never_evict_reserved_mb": 1200},
        ],
        "paid-fallback": [
            {"type": "budget", "command": "openai-spend --json", "field": "month.spend_usd", "limit": 20}
        ],
    }


def test_one_probe_is_the_first_of_all() -> None:
    """to_probe_config is the first entry of to_probe_configs."""
    registry = load_registry(SHIPPED)

    assert [to_probe_config(registry, model.id) for model in registry.models] == [
        to_probe_configs(registry, model.id)[0] for model in registry.models
    ]


def test_a_file_or_an_address_stands_in_the_place_of_the_command() -> None:
    """probe_file gives `file`, probe_url gives `url`; other thresholds and limits are kept."""
    registry = load_registry(GOOD / "quota-probes.yaml")

    assert [to_probe_config(registry, model.id) for model in registry.models] == [
        {"type": "quota", "command": "usage --json", "field": "five_hour.used_pct", "threshold_pct": 90.5},
        {"type": "quota", "file": "/run/usage.json", "field": "used", "threshold_pct": 95},
        {"type": "quota", "url": "http://127.0.0.1:9/usage", "field": "used", "threshold_pct": 95},
        {"type": "budget", "url": "http://127.0.0.1:9/spend", "field": "usd", "limit": 0.5},
    ]


@pytest.mark.parametrize(
    ("file", "model_id", "message"),
    [
        (
            "cost-gated-without-quota.yaml",
            "a",
            "`a` is cost-gated and cannot be probed: models[0].quota is missing in the registry",
        ),
        (
            "every-lifecycle-metered-or-not.yaml",
            "on-demand-free",
            "`on-demand-free` is on-demand and cannot be probed: models[3].endpoints[0].health_url is missing in the registry",
        ),
        ("no-models-yet.yaml", "a", "the registry has no model `a`; there are no model ids"),
    ],
)
def test_missing_data_is_named(file: str, model_id: str, message: str) -> None:
    """What a probe would need and the file does not say is an error that names the key."""
    with pytest.raises(RegistryError) as caught:
        to_probe_config(load_registry(GOOD / file), model_id)

    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("model_id", "headroom", "resident", "ok", "reason"),
    [
        (
            "local-small",
            3300,
            None,
            True,
            "local-small fits: headroom 3300 MB, required 3300 MB, never-evict models not resident yet reserve 2900 MB "
            "(bge-m3 1200, tei-reranker 1700)",
        ),
        (
            "local-small",
            3299.5,
            ["bge-m3"],
            False,
            "local-small does not fit: headroom 3299.5 MB, required 3300 MB, never-evict models not resident yet reserve "
            "1700 MB (tei-reranker 1700)",
        ),
        (
            "bge-m3",
            0,
            ["bge-m3", "tei-reranker", "something-else"],
            True,
            "bge-m3 is never-evict, it is always loaded: headroom 0 MB, required 1200 MB, never-evict models not resident "
            "yet reserve 0 MB",
        ),
        (
            "kimi",
            0,
            ["bge-m3", "tei-reranker"],
            True,
            "kimi takes no GPU memory, it has no gpu_residency: headroom 0 MB, required 0 MB, never-evict models not "
            "resident yet reserve 0 MB",
        ),
    ],
)
def test_preload_check_says_its_numbers(
    model_id: str, headroom: float, resident: list[str] | None, ok: bool, reason: str
) -> None:
    """A model may be loaded iff it takes nothing, is never-evict, or fits; the reason carries the numbers."""
    assert preload_check(load_registry(SHIPPED), model_id, headroom, resident) == (ok, reason)


def test_preload_check_knows_its_models() -> None:
    """An unknown id is an error, not a no."""
    with pytest.raises(RegistryError, match="has no model `nope`"):
        preload_check(load_registry(SHIPPED), "nope", 1)
