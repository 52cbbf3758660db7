"""NVML that fails while requests run: who is resident is served, loads follow the rule, and it comes back by itself."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from nvml import stub
from ollama_sim.homelab import House, small_house

from tests.host.proxy import Proxy
from tests.residency_host.house_kit import PATIENCE_S, answer, headers, message, proxy_for, shipped, streaming, within

Home = tuple[House, Proxy]
HERE = socket.gethostname()
DECLARE = "write gpu_residency_policy.gpus: {GPU-stub-1070: {total_mb: …}}, so that its size counts as declared"
LOST = "the GPU is lost: it fell off the bus; a reset or reboot brings it back"
NO_MEMORY = f"NVML cannot tell the memory of this GPU, as on those that share the system's (GB10, Jetson): {DECLARE}"
# What is injected, and what the refusal says of it. err_init is met at the next initialisation, which a lost GPU brings on.
FAILURES: dict[str, tuple[dict[str, int], str]] = {
    "no driver": ({"err_mem": 15, "err_init": 9}, "the NVIDIA kernel driver is not loaded: `nvidia-smi` shows the same; load it or reboot"),
    "no library": ({"err_mem": 15, "err_init": 12}, "libnvidia-ml.so.1 is not on this machine, or not in this container"),
    "version mismatch": ({"err_count": 18, "err_init": 18}, "the driver's library and its kernel module differ in version, as after an upgrade: reboot"),
    "no permission": ({"err_count": 4, "err_init": 4}, "this user may not ask the driver: give it access to /dev/nvidia*"),
    "no permission for this GPU": ({"err_mem": 4}, "this user may not read the memory of this GPU"),
    "uninitialized": ({"err_count": 1}, "NVML was shut down by another part of this process"),
    "GPU lost at its handle": ({"err_handle": 15}, LOST),
    "GPU lost at its memory": ({"err_mem": 15}, LOST),
    "reset required": ({"err_mem": 16}, "the GPU has to be reset before it works again: `nvidia-smi --gpu-reset`"),
    "symbol missing": ({"err_mem": 13}, f"the driver is too old to tell the memory of this GPU: upgrade it, or {DECLARE}"),
    "struct version": ({"err_mem": 25}, f"the driver does not know the form in which its memory is asked for: upgrade it, or {DECLARE}"),
    "unified memory": ({"err_mem": 3}, NO_MEMORY),
    "MIG": ({"mig": 1}, f"MIG is on, and which of its instances a model server uses is not known: {DECLARE}"),
    "hangs": ({"hang_ms": 4000}, "the driver did not answer in time"),
    "unknown error": ({"err_mem": 999}, "reading its memory failed: "),
}  # fmt: skip


@contextlib.contextmanager
def home_with(folder: Path, library: Path, on_unknown: str) -> Iterator[Home]:
    with small_house(folder) as house:
        registry = shipped(house)
        registry["routing"] |= {"trust_custom_auth": True, "on_unknown": {"vram": on_unknown}}
        # With it, a GPU whose memory NVML cannot tell is judged by its declared size at once.
        del registry["gpu_residency_policy"]["baseline"]
        with proxy_for(folder / "proxy", house, library, registry) as proxy:
            house.ollama.wait(lambda sim: "bge-m3:latest" in sim.names(), PATIENCE_S)
            yield house, proxy


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory, library: Path) -> Iterator[Home]:
    with home_with(tmp_path_factory.mktemp("refusing"), library, "refuse") as home:
        yield home


@pytest.fixture
def home(refusing: Home) -> Iterator[Home]:
    """NVML works, bge-m3 and second-chat are loaded; at the end nothing left but by our hand."""
    house, proxy = refusing
    house.nvml.ok()
    if "qwen:4b" not in house.ollama.look(lambda sim: sim.names()):
        assert within(lambda: answer(proxy.chat("second-chat")) == (200, "second-chat"))
    before = house.ollama.look(lambda sim: len(sim.events))
    yield house, proxy
    house.nvml.ok()
    decided = house.ollama.look(lambda sim: [one for one in sim.events[before:] if one.kind in {"evict", "oom"}])
    assert (decided, house.ollama.look(lambda sim: sim.left("bge-m3"))) == ([], [])


def embed(proxy: Proxy) -> tuple[int, str]:
    return answer(proxy.post("/v1/embeddings", {"model": "embed", "input": "hello"}))


@pytest.mark.parametrize("failure", FAILURES)
def test_what_is_resident_is_served_and_nothing_is_loaded(home: Home, failure: str) -> None:
    """Each failure of NVML: resident models go on, a load is refused with the reason; when it ends, loads go on too."""
    house, proxy = home
    faults, said = FAILURES[failure]
    loads = house.ollama.look(lambda sim: len(sim.loads))
    house.nvml.fail(**faults)
    refused = proxy.chat("local-small")
    assert (refused.status_code, headers(refused), refused.json()["error"]["code"]) == (
        503, {"x-registry-skipped": "local-small=gpu_state_unknown", "retry-after": "10", "x-should-retry": "false"},
        "gpu_state_unknown",
    )  # fmt: skip
    text = message(refused)
    assert text.startswith(
        "model 'local-small': local-small (3300 MB) is not loaded, the state of its GPU is not known: "
    )
    assert text.endswith("; mend that, or set routing.on_unknown.vram: allow")
    assert said in text
    assert [embed(proxy), answer(proxy.chat("second-chat"))] == [(200, "bge-m3"), (200, "second-chat")]
    assert house.ollama.look(lambda sim: len(sim.loads)) == loads
    house.nvml.ok()
    assert within(lambda: answer(proxy.chat("local-small")) == (200, "local-small"), 10)
    assert [embed(proxy), answer(proxy.chat("second-chat"))] == [(200, "bge-m3"), (200, "second-chat")]


@pytest.mark.parametrize("failure", ["unified memory", "MIG"])
def test_declared_sizes_are_the_way_out(home: Home, failure: str) -> None:
    """The fix that the message names works: with the GPU's total_mb in the registry, loads are judged by declared sizes."""
    house, proxy = home
    file = proxy.folder / "model-registry.yaml"
    before = file.read_text()
    registry: dict[str, Any] = yaml.safe_load(before)
    registry["gpu_residency_policy"]["gpus"] = {"GPU-stub-1070": {"total_mb": 8192}}
    house.nvml.fail(**FAILURES[failure][0])
    assert answer(proxy.chat("local-small")) == (503, "gpu_state_unknown")
    try:
        replaced(file, yaml.safe_dump(registry, sort_keys=False))
        assert within(lambda: answer(proxy.chat("local-small")) == (200, "local-small"), 20)
        with house.ollama.held("gemma3:4b"), streaming(proxy, "local-small"):
            refused = proxy.chat("second-chat")
            assert answer(refused) == (503, "gpu_no_headroom")
            assert message(refused) == (
                f"model 'second-chat': second-chat does not fit its GPU on {HERE} (declared sizes): 3400 MB needed, "
                "1992 MB free - 300 reserve - 0 never-evict not resident - 0 loads in flight = 1692 MB; "
                "in use and not unloaded: local-small (1 in flight); wait for them"
            )
        assert embed(proxy) == (200, "bge-m3")
    finally:
        replaced(file, before)
    assert within(lambda: "GPU-stub-1070" not in file.read_text())


def replaced(file: Path, text: str) -> None:
    fresh = file.with_suffix(".new")
    fresh.write_text(text)
    os.replace(fresh, file)


def test_a_gpu_that_is_not_listed_any_more(home: Home) -> None:
    """No GPU in the driver's list, where there was one: unknown, not zero and not plenty; it is back as it is listed."""
    house, proxy = home
    stub.write(house.nvml.path, [])
    refused = proxy.chat("local-small")
    assert (answer(refused), headers(refused)["retry-after"]) == ((503, "gpu_state_unknown"), "10")
    assert "the driver works and lists no GPU" in message(refused) or "does not list this GPU any more" in message(
        refused
    )
    assert [embed(proxy), answer(proxy.chat("second-chat"))] == [(200, "bge-m3"), (200, "second-chat")]
    house.nvml.ok()
    assert within(lambda: answer(proxy.chat("local-small")) == (200, "local-small"), 10)


def test_allow_loads_what_refuse_does_not(tmp_path: Path, library: Path) -> None:
    """on_unknown.vram allow: what is not known is taken from the declared sizes, and bge-m3 still stays.

    Where NVML never worked the sizes are as declared from the start; it is used as soon as it answers.
    """
    with small_house(tmp_path) as house:
        registry = shipped(house)
        registry["routing"] |= {"trust_custom_auth": True, "on_unknown": {"vram": "allow"}}
        house.nvml.fail(err_init=9)
        with proxy_for(tmp_path / "proxy", house, library, registry) as proxy:
            house.ollama.wait(lambda sim: "bge-m3:latest" in sim.names(), PATIENCE_S)
            assert [answer(proxy.chat(model)) for model in ("local-small", "second-chat")] == [
                (200, "local-small"), (200, "second-chat"),
            ]  # fmt: skip
            assert proxy.log.count("the driver answers, GPU 0 is GTX 1070") == 0
            house.nvml.ok()
            assert within(lambda: "NVML: the driver answers, GPU 0 is GTX 1070" in proxy.log)
            assert answer(proxy.chat("local-small")) == (200, "local-small")
            # A swap by declared sizes takes five seconds: what has just left may still hold its memory.
            for faults, model in (({"err_mem": 15, "err_init": 9}, "second-chat"), ({"mig": 1}, "local-small")):
                house.nvml.fail(**faults)
                response = proxy.chat(model)
                assert (response.status_code, headers(response)) == (200, {"x-registry-model": model}), response.text
            assert embed(proxy) == (200, "bge-m3")
            assert house.ollama.look(lambda sim: (sim.evictions, sim.ooms, sim.left("bge-m3"))) == ([], 0, [])
