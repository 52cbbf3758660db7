"""The LiteLLM proxy as a child process: its command, its environment, its start and its end."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import signal
import site
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from litellm_registry_hook.core.compatibility import before_start
from litellm_registry_hook.demo.tether import tethered

# Everything else of the caller's environment stays out of the demo, above all the keys of real providers.
KEPT_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "PYTHONPATH")
START_S = 120.0
STOP_S = 8.0
LAST_LINES = 20


def missing_host() -> str:
    """Return what to install where LiteLLM's proxy is not, or is too old; empty where it is. Imports nothing of it."""
    if importlib.util.find_spec("litellm") is None:
        return "LiteLLM is not installed; install it with: pip install 'litellm-registry-hook[proxy]'"
    lacking = [name for name in ("fastapi", "uvicorn") if importlib.util.find_spec(name) is None]
    if lacking:
        names = " and ".join(lacking)
        return f"LiteLLM is here without its proxy ({names} missing); pip install 'litellm-registry-hook[proxy]'"
    try:
        return before_start(metadata.version("litellm"))
    except metadata.PackageNotFoundError:
        return ""  # on the path without its metadata: the adapter looks at it


def command_line(config: Path, host: str, port: int, workers: int | None, extra: Sequence[str] = ()) -> list[str]:
    """Return the command that runs the installed proxy, on granian where that is installed.

    Granian serves more requests a second than LiteLLM's default runner; a runner named in `extra` wins.
    """
    command = [sys.executable, "-m", "litellm.proxy.proxy_cli", "--config", str(config)]
    command += ["--host", host, "--port", str(port)]
    if workers is not None:
        command += ["--num_workers", str(workers)]
    chosen = any(arg.startswith(("--run_", "--reload")) for arg in extra)
    if not chosen and importlib.util.find_spec("granian") is not None:
        command.append("--run_granian")
    return [*command, *extra]


def port_problem(host: str, port: int) -> str:
    """Return why nothing can listen at host and port; empty where something can."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        return f"host {host!r} cannot be resolved ({error})"
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
            # Another socket may be bound without listening yet; listening is what must work.
            probe.listen(1)
        except OSError as error:
            fix = "stop what listens there or give --port (make run PORT=…)"
            return f"port {port} on {host} cannot be used ({error.strerror}); {fix}"
    return ""


def demo_environment(
    folder: Path, caller: Mapping[str, str], names: Sequence[str], extra: Mapping[str, str]
) -> dict[str, str]:
    """Return the environment of the demo's proxy: nothing of the caller's but the harmless, and a home of its own.

    Args:
        folder: the demo's folder.
        caller: the caller's environment.
        names: further variables to carry over, for real servers found here.
        extra: what the proxy is told.

    """
    kept = {name: caller[name] for name in (*KEPT_ENVIRONMENT, *names) if name in caller}
    home = {
        "HOME": str(folder),
        "XDG_STATE_HOME": str(folder / "state"),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "XDG_CONFIG_HOME": str(folder / "config"),
        # With another HOME, packages of the user's own site folder would vanish.
        "PYTHONUSERBASE": site.getuserbase(),
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        # DEV would read a .env file of the user's.
        "LITELLM_MODE": "PRODUCTION",
        "PYTHONUNBUFFERED": "1",
    }
    return {**kept, **home, **extra}


@dataclass
class Proxy:
    """A running proxy.

    Attributes:
        process: the leader of its process group.
        log: where its output goes.
        url: where it answers.

    """

    process: asyncio.subprocess.Process
    log: Path
    url: str

    async def ready(self) -> bool:
        """Wait until it answers; False where it ended or START_S passed."""
        # LiteLLM brings it; what is asked before the proxy starts must work without LiteLLM.
        import aiohttp  # noqa: PLC0415

        loop = asyncio.get_running_loop()
        deadline = loop.time() + START_S
        timeout = aiohttp.ClientTimeout(total=2)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            while self.process.returncode is None and loop.time() < deadline:
                with contextlib.suppress(aiohttp.ClientError, asyncio.TimeoutError, OSError):
                    async with session.get(f"{self.url}/health/liveliness") as answer:
                        if answer.status == 200:  # noqa: PLR2004
                            return True
                await asyncio.sleep(0.2)
        return False

    async def stop(self) -> None:
        """End its whole process group: asked first, killed after STOP_S."""
        for signum, wait_s in ((signal.SIGTERM, STOP_S), (signal.SIGKILL, STOP_S)):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signum)
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._gone(), wait_s)
                return

    async def _gone(self) -> None:
        await self.process.wait()
        while _group_alive(self.process.pid):  # noqa: ASYNC110
            await asyncio.sleep(0.05)

    def last_lines(self) -> list[str]:
        """Return the end of its output."""
        try:
            return self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-LAST_LINES:]
        except OSError:
            return []


def _group_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


async def start_proxy(command: Sequence[str], environment: Mapping[str, str], folder: Path, url: str) -> Proxy:
    """Start the proxy in a process group of its own; it is ended with this process, however that ends."""
    log = folder / "proxy.log"
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *tethered(list(command)),
            env=dict(environment),
            cwd=folder,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
    return Proxy(process, log, url)
