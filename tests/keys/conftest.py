"""A state of its own for each test, and the command line on it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from litellm_registry_hook.cli.main import main
from litellm_registry_hook.edges.store.database import Database
from tests.host.proxy import heal
from tests.upstreams import Upstream

ROOT = Path(__file__).parents[2]
NAMES = ("kimi", "mid", "paid", "ollama", "tei")
Answer = tuple[int, str, str]
Ups = dict[str, Upstream]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "test_keys_proxy" in str(item.path):
            item.add_marker(pytest.mark.host)


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of a state that does not exist yet; the environment names it, and the shipped registry."""
    path = tmp_path / "state" / "keys.sqlite"
    monkeypatch.setenv("LITELLM_REGISTRY_STATE", f"sqlite:///{path}")
    monkeypatch.setenv("LITELLM_REGISTRY", str(ROOT / "model-registry.yaml"))
    return path


@pytest.fixture
def database(state: Path) -> Iterator[Database]:
    one = Database(state)
    yield one
    one.close()


@pytest.fixture
def cli(state: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    """Run `litellm-registry keys …`."""

    def call(*arguments: str) -> Answer:
        code = main(("keys", *arguments))
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.fixture
def make(cli: Callable[..., Answer]) -> Callable[..., dict[str, str]]:
    """Make a key; return what --json prints."""

    def call(*arguments: str) -> dict[str, str]:
        code, out, err = cli("create", "--json", *arguments)
        assert code == 0, err
        return json.loads(out)

    return call


@pytest.fixture(scope="module")
def started() -> Iterator[Ups]:
    ups = {name: Upstream(name) for name in NAMES}
    for up in ups.values():
        up.__enter__()
    yield ups
    for up in ups.values():
        up.__exit__(None, None, None)


@pytest.fixture
def ups(started: Ups) -> Iterator[Ups]:
    """Healthy upstreams without calls."""
    heal(started.values())
    yield started
