"""Real proxies beside the GPU commands: their /metrics, and who gives way to whom."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import yaml
from gpu_cli_kit import SCRIPT, Home
from nvml import stub

from tests.host.proxy import CALLBACK, Proxy, write_folder
from tests.host.shapes import config_for

pytestmark = pytest.mark.host


def proxy_at(home: Home, workers: int = 1) -> Proxy:
    """A proxy on the home's registry and state, with LiteLLM's own metrics."""
    registry = yaml.safe_load(home.file.read_text())
    registry["routing"]["trust_custom_auth"] = True
    config = config_for(registry)
    config["litellm_settings"]["callbacks"] = [CALLBACK, "prometheus"]
    write_folder(home.folder, registry, config)
    return Proxy(home.folder, workers=workers, env=stub.environment(home.library, home.house.nvml.path))


def metrics(proxy: Proxy) -> dict[str, float]:
    """Our numbers at /metrics."""
    text = proxy.get("/metrics/").text
    return {name: float(value) for name, value in re.findall(r"^(registry_gpu_\S+) (\S+)$", text, re.MULTILINE)}


def within(check: Callable[[], Any], seconds: float = 40) -> Any:
    """Ask until the answer is true, and return the last one."""
    end = time.monotonic() + seconds
    while not (found := check()) and time.monotonic() < end:
        time.sleep(0.1)
    return found


@pytest.mark.parametrize("workers", [1, 2])
def test_metrics(home: Home, workers: int) -> None:
    """GET /metrics of a real proxy shows loads, refusals, free memory and sizes, of one worker as of several."""
    home.change("vram_mb: 1200", "vram_mb: 1000")
    with proxy_at(home, workers) as proxy:
        within(lambda: home.loaded() == ["bge-m3:latest"])
        assert proxy.chat("small").status_code == 200
        refused = proxy.chat("coder")
        # Several workers tell their numbers within a second each.
        shown = within(
            lambda: (
                (found := metrics(proxy)).get("registry_gpu_refusals_total")
                and 'registry_gpu_load_seconds_count{model="small"}' in found
                and found
            )
        )

    url = home.house.ollama.url
    assert refused.status_code == 503
    seconds = {name: value for name, value in shown.items() if name.startswith("registry_gpu_load_seconds_count")}
    assert seconds == {f'registry_gpu_load_seconds_count{{model="{model}"}}': 1.0 for model in ("bge", "small")}
    others = {name: value for name, value in shown.items() if "_created" not in name and "_load_seconds_" not in name}
    assert others == {
        "registry_gpu_loads_total": 2.0,
        "registry_gpu_swaps_total": 0.0,
        "registry_gpu_refusals_total": 1.0,
        "registry_gpu_failed_loads_total": 0.0,
        "registry_gpu_pinned_again_total": 0.0,
        "registry_gpu_never_evict_missing": 0.0,
        "registry_gpu_state_ok": 1.0,
        f'registry_gpu_vram_disagreement_percent{{api_base="{url}",model="bge"}}': 20.0,
        f'registry_gpu_vram_disagreement_percent{{api_base="{url}",model="small"}}': 0.0,
        'registry_gpu_free_mb{gpu="GPU-stub-1070"}': 8192.0 - 1800 - 1200 - 3300,
    }


def test_the_commands_beside_a_proxy(home: Home) -> None:
    """A proxy that runs has its set loaded; a calibration measures beside it, and a request meanwhile waits and is served."""
    with proxy_at(home) as proxy:
        within(lambda: home.loaded() == ["bge-m3:latest"])
        assert home.ask("warm") == (0, {"loaded": [], "already": ["reranker", "bge"], "failed": []})
        measuring = subprocess.Popen(
            [SCRIPT, "calibrate", "small", "--yes", "--json"], cwd=home.folder, env=home.environ,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        with ThreadPoolExecutor(1) as pool:
            within(lambda: any(call.uses and call.model == "gemma3:4b" for call in home.house.ollama.calls))
            asked = pool.submit(proxy.chat, "small", headers={"x-registry-wait": "25"})
            out, err = measuring.communicate(timeout=60)
            answer = asked.result(60)

    assert measuring.returncode == 0, (out, err)
    [one] = json.loads(out)["measured"]
    assert (one["how"], one["measured_mb"]) == ("loaded", 3300)
    assert answer.status_code == 200, answer.text
    gemma = [
        (call.path, call.keep_alive) for call in home.house.ollama.calls if call.uses and call.model == "gemma3:4b"
    ]
    assert gemma[:3] == [("/api/generate", "5m"), ("/api/generate", 0), ("/api/generate", "5m")]
    assert home.house.ollama.look(lambda sim: sim.left("bge-m3")) == []
