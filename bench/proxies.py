"""The proxies under test, started once and kept as long as a section needs them, and their upstream.

| name | what |
|---|---|
| plain, plain-again | `litellm --config`, no callback, the client names the model group: two of the same, for the noise |
| plugin | the same with the callback, the client names the tier |
| serve | `litellm-registry serve`: the plugin, granian, opentelemetry-sdk |
| bare | `litellm --config` as somebody has it who installed nothing else: uvicorn, no callback, opentelemetry-sdk hidden |
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from bench import pin, registries
from bench.load import Load, chat_request, load
from bench.rows import percentile

START_S = 180
KINDS = ("plain", "plain-again", "plugin", "serve", "bare")
WITH_PLUGIN = frozenset({"plugin", "serve"})
TIER, GROUP = "large", "kimi"
MASTER = "sk-bench-master-9f2c4e7a1b3d"
BIN = Path(sys.executable).parent

KEYS = f'''
"""One virtual key, known without a database."""
from litellm.proxy._types import ProxyException, UserAPIKeyAuth


async def auth(request, api_key):
    if api_key != "{registries.KEY}":
        raise ProxyException(message="no such key", type="auth_error", param="key", code=401)
    return UserAPIKeyAuth(api_key=api_key, key_alias="agent:bench")
'''

# The real search runs to its end and finds nothing, so hiding costs what not having it costs.
HIDE = '''
"""opentelemetry-sdk is hidden, as if it were not installed."""
import sys
from importlib.machinery import PathFinder


class Hidden:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "opentelemetry.sdk":
            PathFinder.find_spec("opentelemetry.sdk_that_is_not_there", path)
            raise ModuleNotFoundError("No module named 'opentelemetry.sdk'", name=name)
        return None


sys.meta_path.insert(0, Hidden)
'''


class StartError(RuntimeError):
    """A proxy did not come up."""


@dataclass
class Server:
    """One running proxy.

    Attributes:
        kind: one of KINDS. port: where it listens. process: the leader of its group. log: its output.
        rss_at_start: MB of its worker once it answers, before the load.

    """

    kind: str
    port: int
    process: subprocess.Popen[bytes]
    log: Path
    rss_at_start: float = 0.0
    requests: dict[bool, bytes] = field(default_factory=dict)

    @property
    def rss_mb(self) -> float:
        return pin.rss_mb(self.process.pid)

    @property
    def cpu_seconds(self) -> float:
        return pin.cpu_seconds(self.process.pid)

    def drive(self, clients: int, requests: int, *, stream: bool = False) -> Load:
        model = TIER if self.kind in WITH_PLUGIN else GROUP
        request = chat_request(self.port, model, registries.KEY, stream=stream)
        return load(self.port, request, clients=clients, requests=requests)

    def tail(self) -> str:
        return self.log.read_text(errors="replace")[-1500:] if self.log.exists() else ""

    def stop(self) -> None:
        for sig in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, sig)
            end = time.monotonic() + 10
            while time.monotonic() < end and (self.process.poll() is None or pin.members(self.process.pid)):
                time.sleep(0.05)
            if self.process.poll() is not None and not pin.members(self.process.pid):
                return


class Fleet:
    """The upstream and the proxies that were asked for so far."""

    def __init__(self, proxy_cores: set[int], load_cores: set[int]) -> None:
        self.proxy_cores = proxy_cores
        self.root = Path(tempfile.mkdtemp(prefix="litellm-registry-bench-"))
        self.running: dict[str, Server] = {}
        port_file = self.root / "upstream-port"
        command = [sys.executable, "-m", "bench.upstream", str(port_file), *map(str, sorted(load_cores))]
        self.upstream = subprocess.Popen(command, cwd=registries.ROOT, start_new_session=True)
        end = time.monotonic() + 20
        while not port_file.exists():
            if self.upstream.poll() is not None or time.monotonic() > end:
                raise StartError("the fake upstream did not start")
            time.sleep(0.02)
        self.upstream_port = int(port_file.read_text())

    def need(self, *kinds: str) -> list[Server]:
        """Return running proxies, starting together those that are not up yet."""
        fresh = [self._launch(kind) for kind in kinds if kind not in self.running]
        try:
            for server in fresh:
                self._await(server)
        except BaseException:
            for server in fresh:
                server.stop()
            raise
        for server in fresh:
            pin.pin_group(server.process.pid, self.proxy_cores)
            server.drive(2, 20)
            server.rss_at_start = server.rss_mb
            self.running[server.kind] = server
        return [self.running[kind] for kind in kinds]

    def release(self, *kinds: str) -> None:
        for kind in kinds:
            if kind in self.running:
                self.running.pop(kind).stop()

    def stop(self) -> None:
        self.release(*list(self.running))
        with suppress(ProcessLookupError):
            self.upstream.terminate()
        self.upstream.wait(10)
        shutil.rmtree(self.root, ignore_errors=True)

    def _launch(self, kind: str) -> Server:
        folder = self.root / kind
        folder.mkdir()
        self._lay_out(folder, kind)
        port = free_port()
        where = ["--config", "litellm-config.yaml", "--host", "127.0.0.1", "--port", str(port)]
        if kind == "serve":
            command = [sys.executable, "-m", "litellm_registry_hook", "serve", "--registry", "model-registry.yaml"]
            command += [*where, "--", "--telemetry", "False"]
        else:
            command = [str(BIN / "litellm"), *where, "--telemetry", "False"]
        log = folder / "proxy.log"
        everywhere = self.proxy_cores | os.sched_getaffinity(0) if self.proxy_cores else set()
        before = os.sched_getaffinity(0) if everywhere else set()
        pin.pin_self(
            everywhere
        )  # importing LiteLLM may use every core; it is pinned before the first request that counts
        try:
            with log.open("wb") as out:
                process = subprocess.Popen(
                    command, cwd=folder, env=self._environment(folder, kind), stdin=subprocess.DEVNULL, stdout=out,
                    stderr=subprocess.STDOUT, start_new_session=True,
                )  # fmt: skip
        finally:
            pin.pin_self(before)
        return Server(kind, port, process, log)

    def _await(self, server: Server) -> None:
        end = time.monotonic() + START_S
        while time.monotonic() < end:
            if server.process.poll() is not None:
                raise StartError(f"{server.kind} ended with {server.process.returncode}: {server.tail()}")
            with suppress(OSError, urllib.error.URLError):
                with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/health/liveliness", timeout=5) as answer:
                    if answer.status == 200:
                        return
            time.sleep(0.2)
        raise StartError(f"{server.kind} did not answer in {START_S} s: {server.tail()}")

    def _lay_out(self, folder: Path, kind: str) -> None:
        """Write registry and config; the config by the generator, as its users do, then the callback taken out."""
        usage = folder / "usage.json"
        usage.write_text(json.dumps({"used_pct": 10}))
        token = "sha256:" + hashlib.sha256(registries.KEY.encode()).hexdigest()
        registry = registries.served(self.upstream_port, usage, token)
        (folder / "model-registry.yaml").write_text(yaml.safe_dump(registry, sort_keys=False))
        (folder / "bench_keys.py").write_text(KEYS)
        config = folder / "litellm-config.yaml"
        general = {"master_key": "os.environ/LITELLM_MASTER_KEY", "custom_auth": "bench_keys.auth"}
        config.write_text(
            yaml.safe_dump({"model_list": [], "litellm_settings": {}, "general_settings": general}, sort_keys=False)
        )
        done = subprocess.run(
            [str(BIN / "generate-litellm-config"), "--registry", "model-registry.yaml", "--config", "litellm-config.yaml"],
            cwd=folder, env=clean_environment(), capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise StartError(f"generate-litellm-config ended with {done.returncode}: {done.stderr[-500:]}")
        if kind not in WITH_PLUGIN:
            content = yaml.safe_load(config.read_text())
            content["litellm_settings"].pop("callbacks")
            config.write_text(yaml.safe_dump(content, sort_keys=False))

    def _environment(self, folder: Path, kind: str) -> dict[str, str]:
        found = clean_environment() | {
            "LITELLM_MASTER_KEY": MASTER, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MODE": "PRODUCTION",
            "LITELLM_REGISTRY_STATE": f"sqlite:///{folder}/state.db",
            # Two processes of the same code differ by how their dicts fall; that is no difference of ours.
            "PYTHONHASHSEED": "0",
        }  # fmt: skip
        if kind == "bare":
            hide = folder / "hide"
            hide.mkdir()
            (hide / "sitecustomize.py").write_text(HIDE)
            found["PYTHONPATH"] = str(hide)
        return found


def clean_environment() -> dict[str, str]:
    """Return an environment without this machine's provider keys and LiteLLM settings."""
    kept = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH", "VIRTUAL_ENV")
    return {name: os.environ[name] for name in kept if name in os.environ}


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


_FLEET: Fleet | None = None


def fleet(options: object) -> Fleet:
    """Return the fleet of this run, made on first use."""
    global _FLEET
    if _FLEET is None:
        _FLEET = Fleet(options.proxy_cores, options.load_cores)
    return _FLEET


def stop_all() -> None:
    """Stop whatever was started."""
    global _FLEET
    if _FLEET is not None:
        _FLEET.stop()
        _FLEET = None


@dataclass
class Taken:
    """What several runs of one proxy gave.

    Attributes:
        rps: requests a second of each run.
        cpu_ms: CPU of the proxy a request, in ms, of each run; a single one is rounded by the clock's 10 ms.
        latencies: of all requests in ms, run after run.

    """

    rps: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)

    @property
    def mean_cpu_ms(self) -> float:
        return sum(self.cpu_ms) / len(self.cpu_ms)

    def p99s(self, stretches: int) -> list[float]:
        """Return the p99 in ms of each of so many equal stretches; one short run has too few requests for one."""
        return [percentile(part, 0.99) for part in _parts(self.latencies, stretches)]

    def cpus(self, stretches: int) -> list[float]:
        """Return the CPU a request in ms of each of so many equal stretches."""
        return [sum(part) / len(part) for part in _parts(self.cpu_ms, stretches)]


def _parts(values: list[float], count: int) -> list[list[float]]:
    size = len(values) // count
    return [values[n * size : (n + 1) * size] for n in range(count)]


def rounds(
    servers: Iterable[Server], count: int, clients: int, requests: int, *, stream: bool = False
) -> Mapping[str, Taken]:
    """Load each proxy once a round, `count` rounds, the order turned by one each time."""
    order = list(servers)
    found = {server.kind: Taken() for server in order}
    for server in order:
        server.drive(clients, max(clients * 4, 24), stream=stream)
    for _ in range(count):
        for server in order:
            taken = found[server.kind]
            before = server.cpu_seconds
            run = server.drive(clients, requests, stream=stream)
            taken.cpu_ms.append((server.cpu_seconds - before) / requests * 1000)
            taken.rps.append(run.rps)
            taken.latencies += [one * 1000 for one in run.latencies]
        order = [*order[1:], order[0]]
    return found
