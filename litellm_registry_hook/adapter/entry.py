"""Builds the callback and attaches it to the proxy of this worker."""

from __future__ import annotations

import logging
from typing import Any

from litellm_registry_hook.adapter import host
from litellm_registry_hook.adapter.asgi import Wrap
from litellm_registry_hook.adapter.gates import Gates
from litellm_registry_hook.adapter.handler import RegistryHandler
from litellm_registry_hook.adapter.strategy import Strategy
from litellm_registry_hook.adapter.walk import Walk
from litellm_registry_hook.core.registry import Registry
from litellm_registry_hook.errors import HostError

log = logging.getLogger("litellm_registry_hook")


class Attachment:
    """Keeps the gates on the worker's router.

    LiteLLM makes the router after it has loaded the callbacks, and drops a custom strategy when its routing strategy
    is changed at run time (router.py:15945), so every request makes sure first: three look-ups.
    """

    def __init__(self, gates: Gates) -> None:
        self.gates = gates
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
        self.walk = Walk(self.gates, host.original_walk(router))
        router.set_custom_routing_strategy(self.strategy)
        router.async_function_with_fallbacks = self.walk
        if not isinstance(router.amoderation, Walk):
            router.amoderation = Walk(self.gates, host.original_moderation(router))
        routing = self.gates.registry.routing
        host.list_names(router, (*routing.tiers, *routing.aliases))
        self.router = router
        log.info(
            "registry attached: %d deployments of %d models",
            len(self.gates.index.by_deployment),
            len(self.gates.registry.models),
        )


def show_log() -> None:
    """Print our lines like the proxy's own, unless the operator has configured the logger."""
    if log.handlers or log.level != logging.NOTSET:
        return
    printer = logging.StreamHandler()
    printer.setFormatter(logging.Formatter("%(asctime)s - registry:%(levelname)s: %(message)s", "%H:%M:%S"))
    log.addHandler(printer)
    log.setLevel(logging.INFO)
    log.propagate = False


def attach(registry: Registry) -> RegistryHandler:
    """Check the host, wrap its app and return the callback.

    Raises:
        HostError: this LiteLLM cannot be governed; the proxy must not start.

    """
    host.check_host()
    show_log()
    gates = Gates(registry)
    attachment = Attachment(gates)
    app = host.proxy_app()
    if app.middleware_stack is None:
        app.middleware_stack = app.build_middleware_stack()
    if app.middleware_stack is None:
        raise HostError("the proxy's middleware stack cannot be wrapped: the registry cannot govern its routes")
    app.middleware_stack = Wrap(app.middleware_stack, attachment.ensure, lambda: gates.observing)
    return RegistryHandler(gates)


def proxy_handler_instance() -> RegistryHandler:
    """Load the registry and attach it to this worker's proxy.

    Raises:
        RegistryError: the registry is missing or invalid, with every problem in its text; the proxy does not start.
        HostError: this LiteLLM cannot be governed.

    """
    from litellm_registry_hook.wiring import load_registry  # noqa: PLC0415

    return attach(load_registry())
