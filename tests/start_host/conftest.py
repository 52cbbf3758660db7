"""The NVML stub, compiled once; every test here starts a real proxy."""

from __future__ import annotations

from pathlib import Path

import pytest
from nvml.stub import build


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/start_host" in str(item.path):
            item.add_marker(pytest.mark.host)


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("nvml"))
