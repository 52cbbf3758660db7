"""What one request knows of itself, shared by the wrap, the hooks, the walk and the strategy."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from time import monotonic
from typing import IO, Any, NoReturn

from litellm_registry_hook.adapter import host
from litellm_registry_hook.core.consent import ANONYMOUS, Caller
from litellm_registry_hook.core.plan import Ask, Plan, Running
from litellm_registry_hook.core.refusal import Refusal, Skip, headers_of
from litellm_registry_hook.core.routes import Route
from litellm_registry_hook.residency.engine import Lease

from litellm_registry_hook.adapter.host import HTTPException  # isort: skip


@dataclass(slots=True)
class Scope:
    """One request.

    Attributes:
        route: how its path is treated.
        headers: its x-registry headers, by lower-case name; they are taken off the request.
        caller, allow_metered: set by the pre-call hook; until then nobody, who allows nothing.
        plans: the model name handed to the router, to the plan it stands for.
        tier: the tier asked for; None for a named model and for a list of models.
        served: the registry ids that answered; several for a list of models. skipped: members passed over.
        refusal: why it was not served.
        request_id: the host's call id, which the client gets as x-litellm-call-id.
        audited: model and code of the refusals that are in the audit trail.
        on_refused: told of each refusal.
        gone: says whether the client has hung up.
        listed: whether the client named a list of models.
        hooked: whether the pre-call hook has seen the request.
        wait_s: seconds the client waits for GPU memory; 0: not at all.
        ends: whether somebody tells when its answer has gone out.
        leases: GPU runners it has the use of until then.
        files: whether it is about a file or a batch; none of those goes through the router.
        uploading: keeps the id of the batch file that is being uploaded. spool: that file as it leaves.
        where: method and path. asked: the model as the client names it. began: when it came, on the monotonic clock.
        deployments: those that answered. status: of the answer; 0 while there is none.
        on_end: told when the answer has gone out.

    """

    route: Route
    headers: dict[str, str]
    caller: Caller = ANONYMOUS
    allow_metered: bool = False
    plans: dict[str, Plan] = field(default_factory=dict)
    tier: str | None = None
    served: tuple[str, ...] = ()
    skipped: tuple[Skip, ...] = ()
    refusal: Refusal | None = None
    hooked: bool = False
    listed: bool = False
    files: bool = False
    uploading: Callable[[str], None] | None = None
    spool: IO[bytes] | None = None
    request_id: str = ""
    audited: tuple[tuple[str, str], ...] = ()
    on_refused: Callable[[Scope, Refusal], None] | None = None
    gone: Callable[[], Awaitable[bool]] | None = None
    wait_s: float = 0.0
    ends: bool = False
    leases: list[Lease] = field(default_factory=list)
    where: tuple[str, str] = ("", "")
    asked: str = ""
    began: float = field(default_factory=monotonic)
    deployments: tuple[str, ...] = ()
    status: int = 0
    on_end: Callable[[Scope], None] | None = None

    def end(self) -> None:
        """Give back what the request had the use of, and have what was decided written down."""
        if self.spool is not None:
            self.spool.close()
        for lease in self.leases:
            lease.release()
        self.leases.clear()
        # A call that outlives its request, in the background, holds its lease for itself alone.
        self.ends = False
        if self.on_end is not None:
            self.on_end(self)

    def mark_served(self, model_id: str) -> None:
        """Note who answered; inside the attempt that did."""
        if model_id not in self.served:
            self.served = (*self.served, model_id)
        hop = HOP.get()
        if isinstance(hop, Running):
            self.deployments = (*self.deployments, hop.id)

    def ask(self) -> Ask:
        """Return what the request says of itself, now."""
        return Ask(self.caller, self.allow_metered, datetime.now(timezone.utc))


@dataclass(frozen=True, slots=True)
class Foreign:
    """The hop of a model that the registry does not know and that passed its gate.

    Attributes:
        name: as the client named it.

    """

    name: str


SCOPE: ContextVar[Scope | None] = ContextVar("registry_scope", default=None)
HOP: ContextVar[Running | Foreign | None] = ContextVar("registry_hop", default=None)


class RefusedError(HTTPException):
    """A refusal on its way through LiteLLM; the wrap writes the answer."""

    # LiteLLM reads this off the exception and so does not retry (router.py:8427).
    num_retries = 0

    def __init__(self, refusal: Refusal) -> None:
        detail: dict[str, Any] = {"error": {"message": refusal.message, "code": refusal.code, "type": "registry"}}
        super().__init__(status_code=refusal.status, detail=detail, headers=headers_of(refusal))
        self.refusal = refusal


def _for_clients(refusal: Refusal) -> Refusal:
    """Hide addresses; `explain` shows them to admins."""
    told = tuple(replace(skip, reason=host.without_addresses(skip.reason)) for skip in refusal.candidates)
    return replace(refusal, message=host.without_addresses(refusal.message), candidates=told)


def raise_refusal(refusal: Refusal) -> NoReturn:
    """Note the refusal on the request and raise it."""
    scope = SCOPE.get()
    if scope is not None:
        refusal = replace(_for_clients(refusal), waited=scope.wait_s > 0)
        scope.refusal = refusal
        scope.tier = refusal.tier or scope.tier
        scope.skipped = refusal.candidates or scope.skipped
        if scope.on_refused is not None:
            scope.on_refused(scope, refusal)
    raise RefusedError(refusal)
