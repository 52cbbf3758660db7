"""The demo from start to end: look, stand in, write, start, show, wait, stop."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import yaml

from litellm_registry_hook.core.registry import Registry
from litellm_registry_hook.demo.engine import Engine, NoEngine, start_engine
from litellm_registry_hook.demo.files import write_litellm_config, write_registry
from litellm_registry_hook.demo.keys import new_key, weakness
from litellm_registry_hook.demo.plan import Found, derived, environment_names, places_of
from litellm_registry_hook.demo.probe import look
from litellm_registry_hook.demo.proxy import Proxy, command_line, demo_environment, start_proxy
from litellm_registry_hook.demo.show import overview
from litellm_registry_hook.demo.stand_ins import speaker_of, start_stand_ins

STOPPED, FAILED = 0, 2


@dataclass(frozen=True, slots=True)
class Settings:
    """What the demo is asked to do.

    Attributes:
        registry_file: the registry to show.
        host, port: where the proxy listens.
        workers: proxy processes; None leaves it to LiteLLM.
        extra: further arguments of the proxy.

    """

    registry_file: Path
    host: str = "127.0.0.1"
    port: int = 4000
    workers: int | None = None
    extra: Sequence[str] = ()

    @property
    def url(self) -> str:
        """Where a client on this machine reaches the proxy."""
        host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(self.host, self.host)  # noqa: S104
        return f"http://{f'[{host}]' if ':' in host and not host.startswith('[') else host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Ready:
    """A demo that answers.

    Attributes:
        registry: the registry shown.
        found: who answers for each place.
        url: where the proxy answers.
        key: its admin key.
        log: the proxy's output.

    """

    registry: Registry
    found: Sequence[Found]
    url: str
    key: str
    log: Path


class Terminal(Protocol):
    """Where the demo tells people what it does."""

    def say(self, text: str) -> None:
        """Show a notice."""

    def fail(self, text: str) -> None:
        """Show why the demo ends."""

    def ready(self, demo: Ready) -> None:
        """Show how the demo is used."""


async def run_demo(
    settings: Settings, load: Callable[[Path], Registry], environ: Mapping[str, str], terminal: Terminal
) -> int:
    """Run the demo until it is stopped by SIGINT, SIGTERM or SIGHUP; return the exit code.

    Args:
        settings: what to do.
        load: reads and checks a registry file.
        environ: the caller's environment.
        terminal: where it is shown.

    Raises:
        RegistryHookError: the registry, or the one derived from it, is not valid.

    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(signum, stop.set)
    async with contextlib.AsyncExitStack() as stack:
        started = asyncio.ensure_future(_start(settings, load, environ, terminal, stack))
        stopped = asyncio.ensure_future(stop.wait())
        await asyncio.wait({started, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if not started.done():
            started.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await started
            return STOPPED
        stopped.cancel()
        proxy = started.result()
        if proxy is None:
            return FAILED
        return await _watch(proxy, stop, terminal)


async def _watch(proxy: Proxy, stop: asyncio.Event, terminal: Terminal) -> int:
    """Wait until the demo is stopped or the proxy ends."""
    ended = asyncio.ensure_future(proxy.process.wait())
    stopped = asyncio.ensure_future(stop.wait())
    await asyncio.wait({ended, stopped}, return_when=asyncio.FIRST_COMPLETED)
    if stop.is_set():
        ended.cancel()
        terminal.say("stopping …")
        return STOPPED
    stopped.cancel()
    terminal.fail(_last_words(f"the proxy ended by itself (exit status {ended.result()})", proxy))
    return FAILED


async def _start(
    settings: Settings,
    load: Callable[[Path], Registry],
    environ: Mapping[str, str],
    terminal: Terminal,
    stack: contextlib.AsyncExitStack,
) -> Proxy | None:
    """Start everything and show it; each started thing is on the stack before the next. None where it failed."""
    registry = load(settings.registry_file)
    places = places_of(registry, environ)
    engine, why_not = await asyncio.gather(start_engine(), look(places))
    if isinstance(engine, Engine):
        stack.push_async_callback(engine.stop)
    running = await start_stand_ins(places, why_not, speaker_of(engine))
    stack.push_async_callback(running.stop)

    # Made 0700; the proxy, which is stopped first, has its working directory in it.
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="litellm-registry-demo-")))
    registry_file, config_file = folder / "model-registry.yaml", folder / "litellm-config.yaml"
    document = yaml.safe_load(settings.registry_file.read_text(encoding="utf-8"))
    write_registry(registry_file, derived(document, running.found))
    write_litellm_config(config_file, load(registry_file))

    key = admin_key(environ, terminal)
    told = {
        "LITELLM_MASTER_KEY": key,
        "LITELLM_REGISTRY": str(registry_file),
        "LITELLM_REGISTRY_STATE": f"sqlite:///{folder / 'state.db'}",
    }
    environment = demo_environment(folder, environ, environment_names(running.found), told)
    command = command_line(config_file, settings.host, settings.port, settings.workers, settings.extra)
    proxy = await start_proxy(command, environment, folder, settings.url)
    stack.push_async_callback(proxy.stop)
    terminal.say(overview(registry, running.found))
    if isinstance(engine, NoEngine):
        terminal.say(f"\nChat answers are canned: {engine.reason}.")
    terminal.say(f"\nStarting the proxy at {settings.url} …")
    if not await proxy.ready():
        status = proxy.process.returncode
        how = f"it ended with status {status}" if status is not None else "it does not answer"
        terminal.fail(_last_words(f"the proxy did not start ({how})", proxy))
        return None
    terminal.ready(Ready(registry, running.found, settings.url, key, proxy.log))
    return proxy


def admin_key(environ: Mapping[str, str], terminal: Terminal) -> str:
    """Return the caller's LITELLM_MASTER_KEY if it is strong, else a new one."""
    key = environ.get("LITELLM_MASTER_KEY", "")
    if not key:
        return new_key()
    weak = weakness(key)
    if weak:
        terminal.say(f"LITELLM_MASTER_KEY is not used: {weak}")
    return new_key() if weak else key


def _last_words(what: str, proxy: Proxy) -> str:
    return "\n".join([f"{what}; its last lines:", *proxy.last_lines()])
