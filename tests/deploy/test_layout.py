"""The proxy as the unit and the container start it: their command, environment and folders, in a cage like theirs, and not as root.

Nothing here builds the image: what it would hold is installed beside the tests, see test_image.py for that step.
"""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from deploy_kit import BIN, HOST, Layout, caged, last, of_compose, of_unit, why_no_cage

from tests.host.proxy import MASTER, START_SECONDS, free_port
from tests.host.shapes import shipped
from tests.upstreams import Upstream, upstreams

pytestmark = [pytest.mark.host, pytest.mark.skipif(bool(why_no_cage()), reason=why_no_cage())]
IN_FORCE_S = 10
LAYOUTS = {"unit": of_unit, "compose": of_compose}


class Deployed:
    """A proxy in its cage.

    Attributes:
        root: the folder that stands for / of the target machine. layout: how it is started. url: where it answers.

    """

    def __init__(self, name: str, layout: Layout, registry: dict[str, Any]) -> None:
        self.name, self.layout = name, layout
        # Not below /tmp, which is another one in the cage.
        self.root = Path(tempfile.mkdtemp(prefix="registry-deploy-", dir="/var/tmp"))
        self.root.chmod(0o755)
        self.config, self.state = self.at(layout.config), self.at(layout.state)
        self.config.mkdir(parents=True)
        self.state.mkdir(parents=True, mode=0o700)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = self.root / "log"
        self.write(registry)
        (self.config / "litellm.env").write_text(f"LITELLM_MASTER_KEY={MASTER}\nKIMI_API_KEY=a\nPAID_API_KEY=b\n")
        names = [
            "--registry",
            str(self.config / "model-registry.yaml"),
            "--config",
            str(self.config / "litellm-config.yaml"),
        ]
        subprocess.run([BIN / "generate-litellm-config", *names], env={}, check=True, capture_output=True)

    def at(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def write(self, registry: dict[str, Any]) -> None:
        """Put a new file in the place of the registry, as editors and git do."""
        fresh = self.config / ".model-registry.yaml.new"
        fresh.write_text(yaml.safe_dump(registry, sort_keys=False))
        fresh.replace(self.config / "model-registry.yaml")

    def words(self) -> list[str]:
        """The environment and the command, with their paths under this root."""

        def moved(text: str) -> str:
            for path in (self.layout.config, self.layout.state):
                text = text.replace(path, str(self.at(path)))
            return text

        env = {
            **self.layout.env,
            **dict(line.split("=", 1) for line in (self.config / "litellm.env").read_text().split()),
        }
        program, *arguments = self.layout.command
        assert Path(program).name == "litellm-registry"
        port = arguments.index("--port") + 1
        arguments[port] = str(self.port)
        command = [str(BIN / "litellm-registry"), *map(moved, arguments)]
        return [f"PATH={BIN}:{os.environ['PATH']}", *(f"{key}={moved(value)}" for key, value in env.items()), *command]

    def start(self) -> None:
        hosts = None
        if self.name == "compose":
            hosts = self.root / "hosts"
            hosts.write_text(f"127.0.0.1 localhost {HOST}\n")
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(
                caged(self.config, self.state, hosts, self.words()), stdout=out, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            assert self.process.poll() is None, self.log.read_text()[-4000:]
            try:
                if httpx.get(f"{self.url}/health/liveliness", timeout=2).status_code == 200:
                    return
            except httpx.HTTPError:
                pass
            time.sleep(0.2)
        raise AssertionError(self.log.read_text()[-4000:])

    def stop(self) -> None:
        for sig in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, sig)
                self.process.wait(15)
            except ProcessLookupError:
                break
            except subprocess.TimeoutExpired:
                continue
        shutil.rmtree(self.root)

    def ask(self, path: str, **body: Any) -> httpx.Response:
        return httpx.post(f"{self.url}{path}", json=body, headers={"Authorization": f"Bearer {MASTER}"}, timeout=60)

    def chat(self, model: str) -> httpx.Response:
        return self.ask("/v1/chat/completions", model=model, messages=[{"role": "user", "content": "hi"}])


def registry_at(ups: dict[str, Upstream], name: str) -> dict[str, Any]:
    """The shipped registry with the stand-ins' addresses; for the container as deploy/README.md has it."""
    registry = shipped()
    models = {model["id"]: model for model in registry["models"]}
    host = HOST if name == "compose" else "127.0.0.1"
    del models["kimi"]["quota"]
    models["kimi"] |= {"lifecycle": "always-on"}
    models["kimi"]["litellm"]["api_base"] = ups["kimi"].openai_base
    models["paid-fallback"]["litellm"]["api_base"] = ups["paid"].openai_base
    for model, up in (("local-small", "ollama"), ("bge-m3", "ollama"), ("tei-reranker", "tei")):
        models[model]["endpoints"] = [{"api_base": ups[up].url.replace("127.0.0.1", host)}]
    registry["gpu_residency_policy"]["baseline"]["total_mb"] = 65536
    return registry


@pytest.fixture(scope="module")
def ups() -> Iterator[dict[str, Upstream]]:
    names = ("kimi", "paid", "ollama", "tei")
    with upstreams(*names) as found:
        yield dict(zip(names, found, strict=True))


@pytest.fixture(scope="module", params=LAYOUTS)
def deployed(ups: dict[str, Upstream], request: pytest.FixtureRequest) -> Iterator[Deployed]:
    name = request.param
    one = Deployed(name, LAYOUTS[name](), registry_at(ups, name))
    try:
        one.start()
        yield one
    finally:
        one.stop()


def test_every_tier_answers(deployed: Deployed, ups: dict[str, Upstream]) -> None:
    """One request for each tier of the shipped registry; the paid model gets none."""
    answers = [
        deployed.chat("large"),
        deployed.chat("small"),
        deployed.ask("/v1/embeddings", model="embed", input="x"),
        deployed.ask("/v1/rerank", model="rerank", query="a", documents=["a"]),
    ]
    assert [one.headers.get("x-registry-model") or one.text for one in answers] == [
        "kimi", "local-small", "bge-m3", "tei-reranker",
    ]  # fmt: skip
    assert ups["paid"].generating_calls == []


def test_the_state_lies_where_it_says(deployed: Deployed) -> None:
    """In the one writable folder, mode 600 in 700, and nothing else was written anywhere near it."""
    modes = {one.name: stat.S_IMODE(one.stat().st_mode) for one in deployed.state.glob("state.sqlite*")}
    assert modes == {"state.sqlite": 0o600, "state.sqlite-shm": 0o600, "state.sqlite-wal": 0o600}
    assert stat.S_IMODE(deployed.state.stat().st_mode) == 0o700
    owner = int(last("USER").partition(":")[0])
    assert {one.stat().st_uid for one in (deployed.state, *deployed.state.glob("state.sqlite*"))} == {owner}
    assert sorted(one.name for one in deployed.config.iterdir()) == [
        "litellm-config.yaml", "litellm.env", "model-registry.yaml",
    ]  # fmt: skip


def test_the_workers_share_it(deployed: Deployed) -> None:
    """All workers of the command are in the one state, with one registry in force."""
    arguments = deployed.layout.command
    workers = int(arguments[arguments.index("--workers") + 1])
    assert workers > 1
    head = {"Authorization": f"Bearer {MASTER}"}
    end = time.monotonic() + 30
    state: dict[str, Any] = {}
    while state.get("workers") != workers and time.monotonic() < end:
        state = httpx.get(f"{deployed.url}/registry/status", headers=head, timeout=30).json()["state"]
        time.sleep(0.2)
    assert state["workers"] == workers
    assert len({one["digest"] for one in state["in_force"]}) == 1
    assert state["place"] == str(deployed.state / "state.sqlite")


def test_a_replaced_registry_is_in_force(deployed: Deployed, ups: dict[str, Upstream]) -> None:
    """A new file in the place of the old one, then a folder of a config map swapped by its link: both are seen."""

    def until(alias: str) -> None:
        end = time.monotonic() + IN_FORCE_S
        alike = 0
        # Both workers have it when a row of answers has it.
        while alike < 10:
            assert time.monotonic() < end, alias
            alike = alike + 1 if deployed.chat(alias).status_code == 200 else 0

    registry = registry_at(ups, deployed.name)
    assert deployed.chat("big").json()["error"]["code"] == "unknown_model"
    registry["routing"]["aliases"]["big"] = "large"
    deployed.write(registry)
    until("big")

    registry["routing"]["aliases"]["bigger"] = "large"
    data = deployed.config / "..data-1"
    data.mkdir()
    (data / "model-registry.yaml").write_text(yaml.safe_dump(registry, sort_keys=False))
    link = deployed.config / "link"
    link.symlink_to("..data-1/model-registry.yaml")
    link.replace(deployed.config / "model-registry.yaml")
    until("bigger")


def test_an_invalid_registry_does_not_start(ups: dict[str, Upstream]) -> None:
    """The unit's command ends with the code on which systemd does not start it again."""
    from deploy_kit import unit

    registry = registry_at(ups, "unit")
    one = Deployed("unit", of_unit(), registry)
    (one.config / "model-registry.yaml").write_text("version: 1\nmodels: [{id: x}]\n")
    done = subprocess.run(caged(one.config, one.state, None, one.words()), capture_output=True, text=True, timeout=120)
    one.process = subprocess.Popen(["true"], start_new_session=True)
    one.stop()
    assert str(done.returncode) in unit()["RestartPreventExitStatus"], done.stderr
    assert "missing_key" in done.stderr or "error:" in done.stderr
