"""A real LiteLLM proxy as a subprocess, on a folder that holds a registry and a config."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import httpx
import yaml

from tests.upstreams import Upstream

ROOT = Path(__file__).resolve().parents[2]
CALLBACK = "litellm_registry_hook.proxy_handler_instance"
MASTER = "sk-test-master-9f2c4e7a1b3d"
START_SECONDS = 180

KEYS = '''
"""Virtual keys of the tests: the bearer says who it is."""
from litellm.proxy._types import ProxyException, UserAPIKeyAuth

KEYS = {
    "sk-plain-key-000001": dict(key_alias="plain"),
    "sk-opted-key-000001": dict(key_alias="opted"),
    "sk-large-key-000001": dict(key_alias="only-large", models=["large"]),
    "sk-small-key-000001": dict(key_alias="only-small", models=["small"]),
    "sk-admin-key-000001": dict(key_alias="admin", user_role="proxy_admin"),
}


async def auth(request, api_key):
    if api_key not in KEYS:
        raise ProxyException(message="no such key", type="auth_error", param="key", code=401)
    return UserAPIKeyAuth(api_key=api_key, **KEYS[api_key])
'''
ADMIN = "sk-admin-key-000001"
PLAIN, OPTED, ONLY_LARGE, ONLY_SMALL = (f"sk-{who}-key-000001" for who in ("plain", "opted", "large", "small"))


class Proxy:
    """A proxy on 127.0.0.1 and a free port.

    Attributes:
        folder: its working directory.
        url: where it answers.
        log: what it printed.

    """

    def __init__(
        self,
        folder: Path,
        *,
        workers: int = 1,
        python: str = sys.executable,
        env: Mapping[str, str] | None = None,
        args: tuple[str, ...] = (),
    ) -> None:
        self.folder, self.workers, self.python, self.args = folder, workers, python, args
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        state = {"LITELLM_MASTER_KEY": MASTER, "LITELLM_REGISTRY_STATE": f"sqlite:///{folder}/state.sqlite"}
        self.env = clean_env() | state | dict(env or {})
        self.log_file = folder / "proxy.log"
        self.process: subprocess.Popen[bytes] | None = None

    # Those between start and stop: what upstreams' faults have taught them can be taken back.
    running: ClassVar[list[Proxy]] = []

    def __enter__(self) -> Proxy:
        self.start()
        try:
            self.wait()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    @property
    def log(self) -> str:
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def start(self) -> None:
        command = [
            str(Path(self.python).parent / "litellm"), "--config", "litellm-config.yaml", "--host", "127.0.0.1",
            "--port", str(self.port), "--num_workers", str(self.workers), "--telemetry", "False", *self.args,
        ]  # fmt: skip
        if self.workers > 1:
            # uvicorn kills a worker that does not answer its ping for 5 s, as one that imports LiteLLM on a busy machine.
            command += ["--timeout_worker_healthcheck", str(START_SECONDS)]
        Proxy.running.append(self)
        with self.log_file.open("wb") as out:
            self.process = subprocess.Popen(
                command, cwd=self.folder, env=self.env, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
            )

    def wait(self) -> None:
        """Wait until every worker answers; a proxy that ends first is an error with its log."""
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            assert self.process is not None
            if self.process.poll() is not None:
                raise AssertionError(f"the proxy ended with {self.process.returncode}:\n{self.log[-4000:]}")
            try:
                if httpx.get(f"{self.url}/health/liveliness", timeout=2).status_code == 200 and (
                    self.log.count("Application startup complete") >= self.workers or "granian" in self.log.lower()
                ):
                    return
            except httpx.HTTPError:
                pass
            time.sleep(0.1)
        raise AssertionError(f"the proxy did not answer in {START_SECONDS} s:\n{self.log[-4000:]}")

    def ended(self, seconds: float = START_SECONDS) -> int:
        """Wait for the process to end by itself."""
        assert self.process is not None
        return self.process.wait(seconds)

    def stop(self) -> None:
        if self in Proxy.running:
            Proxy.running.remove(self)
        if self.process is None:
            return
        for sig in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, sig)
            except ProcessLookupError:
                break
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                continue
        self.process.wait(10)

    def post(
        self, path: str, body: Any = None, *, key: str = PLAIN, headers: Mapping[str, str] | None = None, **kw: Any
    ) -> httpx.Response:
        return httpx.post(
            f"{self.url}{path}",
            json=body,
            headers={"Authorization": f"Bearer {key}", **(headers or {})},
            timeout=60,
            **kw,
        )

    def get(self, path: str, *, key: str = PLAIN, **kw: Any) -> httpx.Response:
        return httpx.get(f"{self.url}{path}", headers={"Authorization": f"Bearer {key}"}, timeout=60, **kw)

    def chat(
        self, model: str, *, key: str = PLAIN, headers: Mapping[str, str] | None = None, **body: Any
    ) -> httpx.Response:
        return self.post(
            "/v1/chat/completions",
            {"model": model, "messages": [{"role": "user", "content": "hi"}], **body},
            key=key,
            headers=headers,
        )


def heal(ups: Iterable[Upstream]) -> None:
    """End the upstreams' faults and forget their calls; proxies forget what the faults have taught them."""
    ups = list(ups)
    troubled = any(up.troubled for up in ups)
    for up in ups:
        up.reset()
        up.troubled = False
    if not troubled:
        return
    for proxy in Proxy.running:
        if proxy.process is None or proxy.process.poll() is not None:
            continue
        with contextlib.suppress(httpx.HTTPError):
            if proxy.post("/registry/reopen", key=ADMIN).status_code != 200:
                proxy.post("/registry/reopen", key=proxy.env["LITELLM_MASTER_KEY"])


def clean_env() -> dict[str, str]:
    """The environment of a fresh machine: no provider keys, no LiteLLM settings of this one."""
    kept = {k: v for k, v in os.environ.items() if k in {"PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH"}}
    return kept | {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "PYTHONUNBUFFERED": "1", "LITELLM_LOG": "INFO"}


def free_port() -> int:
    import socket

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def write_folder(folder: Path, registry: Mapping[str, Any], config: Mapping[str, Any], *, keys: bool = True) -> Path:
    """Lay out a proxy's folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model-registry.yaml").write_text(yaml.safe_dump(dict(registry), sort_keys=False))
    (folder / "litellm-config.yaml").write_text(yaml.safe_dump(dict(config), sort_keys=False))
    if keys:
        (folder / "test_keys.py").write_text(KEYS)
    return folder
