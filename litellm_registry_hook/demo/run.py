"""The demo from start to end: look, stand in, write, start, show, wait, stop."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from litellm_registry_hook.core.registry import Registry
from litellm_registry_hook.demo.engine import Engine, start_engine
from litellm_registry_hook.demo.files import litellm_config, write_yaml
from litellm_registry_hook.demo.keys import new_key, weakness
from litellm_registry_hook.demo.plan import derived, environment_names, places_of
from litellm_registry_hook.demo.probe import look
from litellm_registry_hook.demo.proxy import Proxy, command_line, demo_environment, start_proxy
from litellm_registry_hook.demo.show import commands, reasons, table
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


async def run_demo(
    settings: Settings,
    load: Callable[[Path], Registry],
    environ: Mapping[str, str],
    say: Callable[[str], None],
    complain: Callable[[str], None],
) -> int:
    """Run the demo until it is stopped by SIGINT or SIGTERM; return the exit code.

    Args:
        settings: what to do.
        load: reads and checks a registry file.
        environ: the caller's environment.
        say: prints a line for people. complain: prints an error.

    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(signum, stop.set)
    async with contextlib.AsyncExitStack() as stack:
        demo = asyncio.ensure_future(_start(settings, load, environ, say, complain, stack))
        stopped = asyncio.ensure_future(stop.wait())
        await asyncio.wait({demo, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if not demo.done():
            demo.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await demo
            return STOPPED
        proxy = demo.result()
        if proxy is None:
            stopped.cancel()
            return FAILED
        ended = asyncio.ensure_future(proxy.process.wait())
        await asyncio.wait({ended, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if not stop.is_set():
            stopped.cancel()
            complain(f"the proxy ended by itself (exit status {ended.result()}); its last lines:")
            complain("\n".join(proxy.last_lines()))
            return FAILED
        ended.cancel()
        say("stopping …")
    return STOPPED


async def _start(
    settings: Settings,
    load: Callable[[Path], Registry],
    environ: Mapping[str, str],
    say: Callable[[str], None],
    complain: Callable[[str], None],
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
    write_yaml(registry_file, derived(document, running.found))
    write_yaml(config_file, litellm_config(load(registry_file)))

    key = environ.get("LITELLM_MASTER_KEY", "")
    if key and (weak := weakness(key)):
        say(f"LITELLM_MASTER_KEY is not used: {weak}")
    if not key or weak:
        key = new_key()
    told = {
        "LITELLM_MASTER_KEY": key,
        "LITELLM_REGISTRY": str(registry_file),
        "LITELLM_REGISTRY_STATE": f"sqlite:///{folder / 'state.db'}",
    }
    environment = demo_environment(folder, environ, environment_names(running.found), told)
    command = command_line(config_file, settings.host, settings.port, settings.workers, settings.extra)
    proxy = await start_proxy(command, environment, folder, settings.url)
    stack.push_async_callback(proxy.stop)
    say(table(registry, running.found))
    if lines := reasons(running.found):
        say(f"\nWhy there is a stand-in:\n{lines}")
    if not isinstance(engine, Engine):
        say(f"\nChat answers are canned: {engine.reason}.")
    say(f"\nStarting the proxy at {settings.url} …")
    if not await proxy.ready():
        status = proxy.process.returncode
        how = f"it ended with status {status}" if status is not None else "it does not answer"
        complain(f"the proxy did not start ({how}); its last lines:")
        complain("\n".join(proxy.last_lines()))
        return None
    say("ready\n")
    for what, line in commands(registry, running.found, settings.url, key):
        say(f"# {what}\n{line}\n")
    say(f"Add -i to a command to see which model answered. The proxy's log: {proxy.log}\nCtrl-C stops everything.")
    return proxy
