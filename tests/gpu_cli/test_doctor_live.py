"""`litellm-registry doctor` beside a running Ollama and beside none."""

from __future__ import annotations

import socket
import time

import pytest
from gpu_cli_kit import Home

from litellm_registry_hook.cli.main import generate_main


@pytest.fixture
def doctored(home: Home, monkeypatch: pytest.MonkeyPatch) -> Home:
    """The home with a config, an admin key, and a closed state."""
    monkeypatch.chdir(home.folder)
    monkeypatch.delenv("LITELLM_REGISTRY", raising=False)
    assert generate_main(("--registry", str(home.file), "--config", str(home.folder / "litellm-config.yaml"))) == 0
    home.environ["LITELLM_MASTER_KEY"] = "sk-4fTq0Zr8WnPx2LkVb7Yd"
    return home


def codes(home: Home) -> tuple[int, list[tuple[str, str]]]:
    code, answer = home.ask("doctor")
    return code, [(one["severity"], one["code"]) for one in answer["findings"]]


def test_it_loads_nothing(doctored: Home) -> None:
    """Beside an Ollama with nothing loaded the missing never-evict model is found, with questions that load nothing."""
    assert codes(doctored) == (1, [("medium", "never_evict_missing")])
    assert {call.path for call in doctored.house.ollama.calls} <= {"/api/ps", "/api/tags", "/api/show", "/api/version"}
    assert doctored.loaded() == []

    doctored.load("bge-m3", -1)
    assert codes(doctored) == (0, [])


def test_an_ollama_that_is_down_is_an_info(doctored: Home) -> None:
    """On a machine with a GPU a server that refuses is told, and is no reason for exit code 1."""
    doctored.house.ollama.down()
    code, out, err = doctored.run("doctor")

    assert code == 0
    assert f"info: ollama_silent: models[0].endpoints: Ollama at {doctored.house.ollama.url} does not answer" in out
    assert err.endswith(": 1 finding (1 info)\n")
    assert doctored.ask("doctor")[1]["ok"] is True


def test_where_there_is_no_gpu_it_is_quiet(doctored: Home) -> None:
    """Without driver and Ollama, as in CI, nothing is found."""
    doctored.house.ollama.down()
    doctored.environ.pop("LD_LIBRARY_PATH")

    assert codes(doctored) == (0, [])


def test_a_server_that_hangs_does_not_hold_it_up(doctored: Home) -> None:
    """A server that accepts and never answers costs two seconds, and is an info."""
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        address = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        for name in ("model-registry.yaml", "litellm-config.yaml"):
            file = doctored.folder / name
            file.write_text(file.read_text().replace(doctored.house.ollama.url, address))
        began = time.monotonic()
        code, found = codes(doctored)

    assert (code, found) == (0, [("info", "ollama_silent")])
    assert time.monotonic() - began < 10
