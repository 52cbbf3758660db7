"""Each test of the state runs on a SQLite file and on a real Valkey."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from litellm_registry_hook.edges.store.place import open_state
from litellm_registry_hook.edges.store.port import State
from tests.state.valkey import Valkey


@pytest.fixture(scope="session")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Valkey]:
    """A server for the whole run; it ends with it."""
    with Valkey(tmp_path_factory.mktemp("valkey")) as one:
        yield one


@pytest.fixture(params=["sqlite", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a state that nobody has used."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/state.sqlite"
    server: Valkey = request.getfixturevalue("valkey")
    server.command("FLUSHALL")
    return server.url


@pytest.fixture
def opened(url: str) -> Iterator[Callable[[], State]]:
    """Open the state once more, as another process would."""
    every: list[State] = []

    def call() -> State:
        every.append(open_state({}, url))
        return every[-1]

    yield call
    for one in every:
        one.close()


@pytest.fixture
def state(opened: Callable[[], State]) -> State:
    return opened()
