"""The router's choice of a deployment, on every attempt.

Unlike `async_filter_deployments` it also sees a model named by its deployment id (router.py:14142 returns before the
filter), and it replaces LiteLLM's cooldowns for registry models.
"""

from __future__ import annotations

from typing import Any

from litellm_registry_hook.adapter import host
from litellm_registry_hook.adapter.gates import Gates
from litellm_registry_hook.adapter.identity import auth_in
from litellm_registry_hook.adapter.scope import HOP, SCOPE, Foreign, Scope, raise_refusal
from litellm_registry_hook.core.plan import NOT_IN_PROXY, Plan, Running
from litellm_registry_hook.core.refusal import Refusal, Skip, all_refused
from litellm_registry_hook.core.routes import Route


class Strategy(host.CustomRoutingStrategyBase):
    """Hands the router the deployment of the present hop."""

    def __init__(self, gates: Gates, router: Any) -> None:
        self.gates = gates
        self._pick = host.original_pick(router)
        self._pick_sync = host.original_pick_sync(router)

    async def async_get_available_deployment(
        self,
        model: str,
        messages: Any = None,
        input: Any = None,  # noqa: A002
        specific_deployment: bool | None = False,  # noqa: ARG002  LiteLLM's signature
        request_kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Return an element of router.model_list.

        Raises:
            RefusedError: the model may not be used.

        """
        ours = self._ours(model, request_kwargs)
        if ours is not None:
            return ours
        kwargs = {"messages": messages, "input": input, "request_kwargs": request_kwargs or {}}
        return self._cleared(await self._pick(model=model, **kwargs), request_kwargs)

    def get_available_deployment(
        self,
        model: str,
        messages: Any = None,
        input: Any = None,  # noqa: A002
        specific_deployment: bool | None = False,  # noqa: ARG002  LiteLLM's signature
        request_kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Return an element of router.model_list, for LiteLLM's sync paths; raises as the async form does."""
        ours = self._ours(model, request_kwargs)
        if ours is not None:
            return ours
        kwargs = {"messages": messages, "input": input, "request_kwargs": request_kwargs or {}}
        return self._cleared(self._pick_sync(model=model, **kwargs), request_kwargs)

    def _ours(self, model: str, request_kwargs: dict[str, Any] | None) -> dict[str, Any] | None:
        hop = HOP.get()
        if isinstance(hop, Running) and model == hop.model.id:
            return self._live(hop)
        if isinstance(hop, Foreign):
            return None
        # A choice outside the walk (count_tokens, prompt management): the same decision, its first deployment.
        found = self.gates.decide(model, self._scope(request_kwargs).ask())
        if isinstance(found, Refusal):
            raise_refusal(found)
        return self._live(found.targets[0]) if isinstance(found, Plan) else None

    def _scope(self, request_kwargs: dict[str, Any] | None) -> Scope:
        scope = SCOPE.get() or Scope(Route("model"), {})
        auth = None if scope.hooked else auth_in(request_kwargs)
        if auth is not None:
            scope.caller = self.gates.identify(auth)
        return scope

    def _live(self, target: Running) -> dict[str, Any]:
        try:
            return self.gates.live(target)
        except LookupError:
            gone = Skip(target.model.id, "model_unavailable", NOT_IN_PROXY)
            raise_refusal(all_refused(target.model.id, None, (gone,)))

    def _cleared(self, entry: Any, request_kwargs: dict[str, Any] | None) -> Any:
        """Gate what LiteLLM chose for a foreign name: a wildcard or an alias may lead to a registry model."""
        refusal = self.gates.clear(host.seen_of(entry), self._scope(request_kwargs).ask())
        if refusal is not None:
            raise_refusal(refusal)
        return entry
