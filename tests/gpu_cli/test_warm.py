"""`litellm-registry warm` against a scheduler like Ollama's and the NVML stub."""

from __future__ import annotations

import os
import pty
import subprocess
import time

import pytest
from gpu_cli_kit import SCRIPT, Home

from litellm_registry_hook.edges.store.sqlite_state import SqliteState
from litellm_registry_hook.residency.records import LOCK, WORKER, worker_data


def test_the_set_is_loaded_and_pinned(home: Home) -> None:
    """What is missing is loaded for ever, what runs elsewhere is looked at, nothing else is touched."""
    assert home.run("warm") == (0, "bge: loaded\nreranker: was loaded already\n", "")
    assert home.used_models() == [("bge-m3", -1)]
    assert home.loaded() == ["bge-m3:latest"]
    assert home.ask("warm") == (0, {"loaded": [], "already": ["reranker", "bge"], "failed": []})
    assert home.used_models() == [("bge-m3", -1)]


def test_the_biggest_comes_first(home: Home) -> None:
    """Several missing models are loaded in order of their size."""
    home.change("vram_mb: 3300, num_ctx: 4096", "vram_mb: 3300, num_ctx: 4096, never_evict: true")
    home.change("never_evict_ids: [bge, reranker]", "never_evict_ids: [bge, reranker, small]")

    assert home.ask("warm") == (0, {"loaded": ["small", "bge"], "already": ["reranker"], "failed": []})
    assert home.used_models() == [("gemma3:4b", -1), ("bge-m3", -1)]


def test_a_lost_pin_is_set_again(home: Home) -> None:
    """A never-evict model that is loaded for five minutes only is pinned, and is no new load."""
    home.house.ollama.do(lambda sim: sim.begin("bge-m3", keep_alive="5m"))
    home.house.ollama.wait(lambda sim: "bge-m3:latest" in sim.names())

    assert home.ask("warm") == (0, {"loaded": [], "already": ["reranker", "bge"], "failed": []})
    assert home.used_models() == [("bge-m3", -1)]
    [entry] = home.house.ollama.look(lambda sim: sim.ps())
    assert entry.expires_at > time.time() + 365 * 86400


def test_what_does_not_fit_is_named_with_its_numbers(home: Home) -> None:
    """A model for which there is no room is exit code 1 with the arithmetic, and nothing was asked of the server."""
    home.house.ollama.do(lambda _sim: home.house.card.hold("game", 6000))
    code, answer = home.ask("warm")

    assert (code, answer["loaded"], answer["already"]) == (1, [], ["reranker"])
    [failed] = answer["failed"]
    assert failed["id"] == "bge"
    assert "1200 MB needed, 392 MB free - 300 reserve" in failed["reason"]
    assert home.used_models() == []


def test_a_server_that_is_gone(home: Home) -> None:
    """An Ollama and a reranker that refuse connections are named, each with its address."""
    home.house.ollama.down()
    home.change(f"{home.house.tei.url}/health", "http://127.0.0.1:9/health")
    code, out, err = home.run("warm")

    assert (code, err) == (1, "")
    assert f"reranker: not loaded: its server at {home.house.tei.url} does not answer; only Ollama is loaded" in out
    assert f"bge: not loaded: bge is not available: Ollama at {home.house.ollama.url} does not answer" in out


def test_without_the_state_nothing_is_loaded(home: Home) -> None:
    """A state that cannot be used is exit code 2 and one sentence."""
    (home.folder / "state.sqlite").write_text("this is no database")
    code, out, err = home.run("warm")

    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert home.used_models() == []


def test_it_waits_for_the_lock_and_leaves_no_rows(home: Home) -> None:
    """While another worker decides nothing is loaded; afterwards it is, and no row of the command stays."""
    ledger = SqliteState(home.folder / "state.sqlite").ledger
    ledger.take(LOCK, os.uname().nodename, "proxy-1", 1.5)
    began = time.monotonic()

    assert home.ask("warm")[0] == 0
    assert time.monotonic() - began > 1.0
    assert ledger.rows(LOCK, WORKER, "gpu-claim", "gpu-fence", "gpu-failed") == []


def test_a_worker_beside_it_is_seen(home: Home) -> None:
    """A request of a proxy at the only possible victim keeps it loaded: the set waits, and says why at the end."""
    home.edit(_tight)
    home.house.ollama.do(lambda sim: sim.begin("gemma3:4b", keep_alive="5m", options={"num_ctx": 4096}))
    home.house.ollama.wait(lambda sim: "gemma3:4b" in sim.names())
    ledger = SqliteState(home.folder / "state.sqlite").ledger
    busy = worker_data({_slot(home): 1}, {}, [])
    ledger.take(WORKER, "proxy-1", "proxy-1", 60, data=busy)

    code, answer = home.ask("warm", "--timeout", "3")

    assert code == 1
    [failed] = answer["failed"]
    assert failed["id"] == "bge"
    assert "small" in failed["reason"]
    assert home.loaded() == ["gemma3:4b"]


def _tight(data: dict) -> None:
    data["gpu_residency_policy"]["reserve_mb"] = 2500


def _slot(home: Home):
    from litellm_registry_hook.core.gpu.facts import Slot

    return Slot(home.house.ollama.url, "registry.ollama.ai/library/gemma3:4b")


@pytest.mark.parametrize("quiet", [{}, {"NO_COLOR": "1"}])
def test_a_terminal_sees_a_bar(home: Home, quiet: dict[str, str]) -> None:
    """On a terminal stderr shows what is being loaded, without colours where NO_COLOR is set; stdout stays clean."""
    ours, theirs = pty.openpty()
    env = {**home.environ, "TERM": "xterm-256color", **quiet}
    done = subprocess.run([SCRIPT, "warm"], cwd=home.folder, env=env, stdout=subprocess.PIPE, stderr=theirs, timeout=60)
    os.close(theirs)
    said = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:
            break
        if not part:
            break
        said += part
    os.close(ours)

    assert (done.returncode, done.stdout) == (0, b"bge: loaded\nreranker: was loaded already\n")
    assert b"loading bge" in said
    assert (b"\x1b[38;5;" in said or b"\x1b[3" in said) != bool(quiet)


def test_no_never_evict_model(home: Home) -> None:
    """A registry without a never-evict model has nothing to load, and says so."""
    home.edit(lambda data: [one.get("gpu_residency", {}).pop("never_evict", None) for one in data["models"]])
    home.edit(lambda data: data["gpu_residency_policy"].pop("never_evict_ids"))

    assert home.run("warm") == (0, "", "the registry has no never-evict model\n")
