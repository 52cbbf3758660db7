"""Builds the callback and attaches it to the proxy of this worker."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from litellm_registry_hook.adapter import admin, custom_auth, host, reopen, why
from litellm_registry_hook.adapter.asgi import Guard, Wrap
from litellm_registry_hook.adapter.gates import Gates
from litellm_registry_hook.adapter.gpu import GpuGate, gpu_gate
from litellm_registry_hook.adapter.handler import RegistryHandler
from litellm_registry_hook.adapter.host_spend import ask_spend, running_loop
from litellm_registry_hook.adapter.identity import caller_of
from litellm_registry_hook.adapter.live import Live
from litellm_registry_hook.adapter.meter import Meter
from litellm_registry_hook.adapter.metrics_requests import request_metrics
from litellm_registry_hook.adapter.records import Records, show_decisions
from litellm_registry_hook.adapter.scope import HOP, Scope
from litellm_registry_hook.adapter.strategy import Strategy
from litellm_registry_hook.adapter.walk import Walk
from litellm_registry_hook.core.consent import Caller
from litellm_registry_hook.core.plan import NOT_IN_PROXY, Running
from litellm_registry_hook.core.refusal import Refusal, Skip
from litellm_registry_hook.core.registry import Registry
from litellm_registry_hook.edges.doctor_case import diagnose
from litellm_registry_hook.edges.registry_file import registry_path
from litellm_registry_hook.edges.store import place
from litellm_registry_hook.edges.store.port import State
from litellm_registry_hook.errors import HostError, RegistryHookError, StateError
from litellm_registry_hook.watch.engine import Watch
from litellm_registry_hook.wiring import load_registry

log = logging.getLogger("litellm_registry_hook")


SOON_S = 0.25
SOON_TRIES = 480


def attach_soon(loop: asyncio.AbstractEventLoop | None, ensure: Callable[[], bool], tries: int = SOON_TRIES) -> None:
    """Attach as soon as LiteLLM has made its router, not only with the first request. On the proxy's loop."""
    if loop is None or tries <= 0:
        return
    try:
        if ensure():
            return
    except Exception:
        # The next request tries again, and is refused.
        log.exception("the registry could not be attached")
        return
    loop.call_later(SOON_S, attach_soon, loop, ensure, tries - 1)


class Attachment:
    """Keeps the gates on the worker's router.

    LiteLLM makes the router after it has loaded the callbacks, and drops a custom strategy when its routing strategy
    is changed at run time (router.py:15945), so every request makes sure first: three look-ups.
    """

    def __init__(self, gates: Gates, meter: Meter, gpu: GpuGate) -> None:
        self.gates = gates
        self.meter = meter
        self.gpu = gpu
        self.listed: Registry | None = None
        self.router: Any = None
        self.strategy: Strategy | None = None
        self.walk: Walk | None = None

    def ensure(self) -> bool:
        """Attach to the present router where that is not done yet; False while there is none."""
        router = host.running_router()
        if router is None:
            return False
        own = router.__dict__
        if (
            router is self.router
            and self.listed is self.gates.registry
            and own.get("async_function_with_fallbacks") is self.walk
            and "async_get_available_deployment" in own
            and own["async_get_available_deployment"].__self__ is self.strategy
        ):
            return True
        self._attach(router)
        return True

    def _attach(self, router: Any) -> None:
        self.gates.use_router(router)
        self.strategy = Strategy(self.gates, router)
        self.walk = Walk(self.gates, self.meter, self.gpu, host.original_walk(router))
        router.set_custom_routing_strategy(self.strategy)
        router.async_function_with_fallbacks = self.walk
        if not isinstance(router.amoderation, Walk):
            router.amoderation = Walk(self.gates, self.meter, self.gpu, host.original_moderation(router))
        self.listed = registry = self.gates.registry
        host.list_names(router, (*registry.routing.tiers, *registry.routing.aliases))
        self.router = router
        log.info(
            "registry attached: %d deployments of %d models",
            len(self.gates.index.by_deployment),
            len(self.gates.registry.models),
        )


def show_log() -> None:
    """Print our lines like the proxy's own, unless the operator has configured the logger."""
    if log.handlers or log.level != logging.NOTSET:
        # Decisions go where the operator has sent the rest.
        return
    printer = logging.StreamHandler()
    printer.setFormatter(logging.Formatter("%(asctime)s - registry:%(levelname)s: %(message)s", "%H:%M:%S"))
    log.addHandler(printer)
    log.setLevel(logging.INFO)
    log.propagate = False
    show_decisions()


def attach(registry: Registry, path: Path) -> RegistryHandler:
    """Check the host, wrap its app and return the callback.

    Args:
        registry: the registry to start with.
        path: its file, watched for edits.

    Raises:
        HostError: this LiteLLM cannot be governed; the proxy must not start.

    """
    release = host.check_host()
    show_log()
    if release.text:
        log.warning("%s", release.text)
    state = open_state(registry)
    ledger = state.ledger if state is not None else None
    loop = running_loop()
    gates = Gates(
        registry,
        lambda current: Watch(
            current, ledger, time.time, host.environment(), spend=ask_spend(current, loop, time.time)
        ),
    )
    live = Live(path, state, lambda edited: put_in_force(gates, edited))
    meter = Meter(live, lambda: gates.registry)
    gpu = gpu_gate(lambda: gates.registry, host.environment(), ledger)
    attachment = Attachment(gates, meter, gpu)

    def identify(auth: object) -> Caller:
        return caller_of(auth, live.revoked, custom_auth.embedded_live if custom_auth.is_ours() else None)

    def on_refused(scope: Scope, refusal: Refusal) -> None:
        for skip in refusal.candidates or (Skip("", refusal.code, refusal.message),):
            meter.refused(scope, skip)

    gates.identify = identify
    gates.ensure = attachment.ensure
    app = host.proxy_app()
    if app.middleware_stack is None:
        app.middleware_stack = app.build_middleware_stack()
    if app.middleware_stack is None:
        raise HostError("the proxy's middleware stack cannot be wrapped: the registry cannot govern its routes")
    records = Records(live.state)
    metrics = request_metrics()
    if metrics is not None:
        records.count = metrics.count
        records.turn = lambda: metrics.tell(gates.watch.facts, time.time(), broken=bool(live.broken))
    guard = Guard(
        attachment.ensure, lambda: gates.observing, host.is_pass_through, on_refused, host.root_paths(), records.add
    )
    app.middleware_stack = Wrap(app.middleware_stack, guard)
    admin.mount(app, gates)
    reopen.mount(app, gates)
    why.mount(app, why.Knows(gates, gpu, live, records))
    host.try_once(lambda: isinstance(HOP.get(), Running))
    live.start()
    gates.watch.start()
    records.start()
    gpu.residency.start()
    attach_soon(loop, attachment.ensure)
    threading.Thread(target=log_side_doors, args=(path,), name="registry-doctor", daemon=True).start()
    return RegistryHandler(gates, meter, gpu)


def put_in_force(gates: Gates, edited: Registry) -> None:
    """Take an edited registry, and say what of it the proxy cannot serve before its config follows."""
    before = gates.not_in_proxy()
    gates.registry = edited
    missing = [model for model in gates.not_in_proxy() if model not in before]
    if missing:
        log.warning("%s: %s", ", ".join(missing), NOT_IN_PROXY)


def log_side_doors(path: Path) -> None:
    """Log what opens a side door in the config that this proxy runs on; the gates hold at request time all the same."""
    config = host.config_file()
    if config is None:
        return
    try:
        findings = diagnose(path, config, os.environ, datetime.now(timezone.utc))
    except RegistryHookError as error:
        log.warning("the config could not be examined: %s", error)
        return
    for found in findings:
        if found.severity == "high":
            log.warning("side door: %s: %s: %s (%s)", found.code, found.path, found.message, found.fix)


def open_state(registry: Registry) -> State | None:
    """Name the state; without one the proxy serves what is free, and says so once. One that is ill may recover."""
    try:
        return place.open_state(os.environ, registry.state)
    except StateError as error:
        log.error("%s; no metered calls", error)  # noqa: TRY400  the sentence says it all
        return None


def proxy_handler_instance() -> RegistryHandler:
    """Load the registry and attach it to this worker's proxy.

    Raises:
        RegistryError: the registry is missing or invalid, with every problem in its text; the proxy does not start.
        HostError: this LiteLLM cannot be governed.

    """
    return attach(load_registry(), registry_path())
