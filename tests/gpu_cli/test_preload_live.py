"""`litellm-registry preload-check --live`: the gate's answer, and nothing happens."""

from __future__ import annotations

import os
import time

import pytest
from gpu_cli_kit import Home

from litellm_registry_hook.core.gpu.facts import Claim, Slot
from litellm_registry_hook.edges.store.sqlite_state import SqliteState
from litellm_registry_hook.residency.records import CLAIM, FAILED, claim_data, key_of

GEMMA, BGE, QWEN = (f"registry.ollama.ai/library/{name}" for name in ("gemma3:4b", "bge-m3:latest", "qwen:4b"))


def slot(home: Home, name: str) -> Slot:
    return Slot(home.house.ollama.url, name)


def test_it_fits(home: Home) -> None:
    """Room enough: ok with the arithmetic and what it needs; the never-evict model that is missing is reserved."""
    code, answer = home.ask("preload-check", "--id", "small", "--live")

    assert code == 0
    assert answer["reason"].startswith(
        f"small fits GPU-stub-1070 on {os.uname().nodename} (NVML): 3300 MB needed, 6392 MB free - 300 reserve - "
        "1200 never-evict not resident (bge 1200) - 0 loads in flight = 4892 MB"
    )
    assert {name: answer[name] for name in answer if name != "reason"} == {"ok": True, "needed_mb": 3300.0}
    assert home.used_models() == []


def test_it_does_not_fit(home: Home) -> None:
    """No room: exit code 1 with every number."""
    home.house.ollama.do(lambda _sim: home.house.card.hold("game", 3000))
    code, answer = home.ask("preload-check", "--id", "small", "--live")
    numbers = {name: value for name, value in answer.items() if name.endswith("_mb")}

    assert (code, answer["ok"]) == (1, False)
    assert "3300 MB needed, 3392 MB free - 300 reserve - 1200 never-evict not resident" in answer["reason"]
    assert numbers == {"needed_mb": 3300.0, "free_mb": 3392.0, "reserved_mb": 1500.0, "promised_mb": 0.0}
    assert home.used_models() == []


def test_resident_counts_as_loaded(home: Home) -> None:
    """With --resident a missing never-evict model reserves nothing; an unknown id is an error."""
    home.house.ollama.do(lambda _sim: home.house.card.hold("game", 1000))
    home.change("reserve_mb: 300", "reserve_mb: 1500")

    assert home.ask("preload-check", "--id", "small", "--live")[0] == 1
    code, answer = home.ask("preload-check", "--id", "small", "--live", "--resident", "bge")
    assert code == 0
    assert "3300 MB needed, 5392 MB free - 1500 reserve - 0 never-evict not resident" in answer["reason"]
    assert home.run("preload-check", "--id", "small", "--live", "--resident", "nope")[0] == 2


@pytest.mark.parametrize(("keep_alive", "said"), [(-1, "small is loaded and pinned"), ("5m", "small is loaded")])
def test_it_is_loaded(home: Home, keep_alive: object, said: str) -> None:
    """A model that stays loaded is fine as it is."""
    home.load("gemma3:4b", keep_alive)

    assert home.ask("preload-check", "--id", "small", "--live") == (0, {"ok": True, "reason": said})


def test_a_swap_names_its_victims(home: Home) -> None:
    """Where something would have to go the answer is yes and says what; it is not unloaded."""
    home.edit(lambda data: data["models"][3].update(gpu_residency={"vram_mb": 3400}))
    home.load("qwen:4b")
    code, answer = home.ask("preload-check", "--id", "small", "--live")

    assert (code, answer["ok"]) == (0, True)
    assert answer["reason"].endswith("(would be unloaded first: qwen:4b)")
    assert home.loaded() == ["qwen:4b"]


def test_a_load_in_flight_is_joined_and_a_failed_one_is_not_repeated(home: Home) -> None:
    """What another worker loads is waited for; what has just failed is refused with its reason."""
    ledger = SqliteState(home.folder / "state.sqlite").ledger
    now = time.time()
    claim = Claim(slot(home, GEMMA), "small", 3300, "", "proxy-1", now, now + 60)
    ledger.take(CLAIM, key_of(claim.slot), "proxy-1", 60, data=claim_data(claim))
    assert home.ask("preload-check", "--id", "small", "--live") == (
        0, {"ok": True, "reason": "small is being loaded by proxy-1", "needed_mb": 3300.0},
    )  # fmt: skip

    ledger.drop(CLAIM, key_of(claim.slot), "proxy-1")
    ledger.take(FAILED, key_of(claim.slot), "proxy-1", 60, data={"why": "out of memory"})
    code, answer = home.ask("preload-check", "--id", "small", "--live")
    assert (code, answer["ok"]) == (1, False)
    assert answer["reason"].startswith("small could not be loaded: out of memory; not tried again for ")


def test_models_without_a_gate(home: Home) -> None:
    """A model that the proxy never loads is always fine."""
    said = "reranker is on no Ollama server with a GPU: the proxy loads nothing for it"

    assert home.ask("preload-check", "--id", "reranker", "--live") == (0, {"ok": True, "reason": said})


def test_unknown_memory_is_no(home: Home) -> None:
    """A driver that fails in its own words, and no declared size: not known is not plenty."""
    home.edit(lambda data: data["gpu_residency_policy"].pop("baseline"))
    home.house.nvml.fail(err_init=9)
    code, answer = home.ask("preload-check", "--id", "small", "--live")

    assert code == 1
    assert "the NVIDIA kernel driver is not loaded" in answer["reason"]


def test_without_the_state_there_is_no_answer(home: Home) -> None:
    """The state holds the loads in flight: without it exit code 2."""
    (home.folder / "state.sqlite").write_text("this is no database")

    code, out, err = home.run("preload-check", "--id", "small", "--live")
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
