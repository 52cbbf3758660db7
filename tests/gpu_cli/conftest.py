"""A house with an Ollama, a reranker, a card and the NVML stub, and the command line in it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from gpu_cli_kit import Home
from nvml import stub
from ollama_sim.homelab import small_house


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stub of NVIDIA's library."""
    return stub.build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def home(tmp_path: Path, nvml_library: Path) -> Iterator[Home]:
    """The shipped registry's home: 8 GB, gemma3:4b, bge-m3 and TEI, with nothing loaded."""
    with small_house(tmp_path) as house:
        yield Home(tmp_path, house, nvml_library)
