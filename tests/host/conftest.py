"""One proxy for most tests; the upstreams are healthy and uncounted again before each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.host.proxy import Proxy, heal, write_folder
from tests.host.shapes import config_for, registry_for
from tests.upstreams import Upstream

NAMES = ("kimi", "mid", "paid", "ollama", "tei")
Ups = dict[str, Upstream]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/host" in str(item.path):
            item.add_marker(pytest.mark.host)


@pytest.fixture(scope="session")
def started() -> Iterator[Ups]:
    ups = {name: Upstream(name) for name in NAMES}
    for up in ups.values():
        up.__enter__()
    yield ups
    for up in ups.values():
        up.__exit__(None, None, None)


@pytest.fixture
def ups(started: Ups, request: pytest.FixtureRequest) -> Iterator[Ups]:
    """Healthy upstreams without calls; afterwards the paid one has none, unless the test is marked `pays`."""
    heal(started.values())
    yield started
    if request.node.get_closest_marker("pays") is None:
        assert [call.path for call in started["paid"].generating_calls] == []


@pytest.fixture(scope="session")
def proxy(started: Ups, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    registry = registry_for(started)
    with Proxy(write_folder(tmp_path_factory.mktemp("proxy"), registry, config_for(registry))) as one:
        yield one
