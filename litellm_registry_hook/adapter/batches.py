"""The gate of batches: at the upload of a batch file and at the creation of a batch, as each leaves for its provider.

LiteLLM's deployment hook sees both with the account that they really go to, and the file itself. What leaves is what
was read: every line is written anew, with the provider's name of its model. The file's id is kept in the state with
what its lines call, so that a batch of it can be decided, and booked, again.
"""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from functools import partial
from typing import IO, Any, Final

from litellm_registry_hook.adapter import host, host_keys
from litellm_registry_hook.adapter.gates import Gates
from litellm_registry_hook.adapter.identity import auth_in
from litellm_registry_hook.adapter.meter import Meter
from litellm_registry_hook.adapter.scope import Scope, raise_refusal
from litellm_registry_hook.core.batch import (
    MAX_BYTES,
    MAX_LINE_BYTES,
    MAX_LINES,
    PROVIDERS,
    THROUGH_ROUTER,
    Account,
    Called,
    Rules,
    bad_file,
    called,
    read_line,
    write_line,
)
from litellm_registry_hook.core.gpu.ports import Ledger, Row
from litellm_registry_hook.core.plan import Index
from litellm_registry_hook.core.refusal import Refusal, all_refused, refuse
from litellm_registry_hook.core.sanitise import drop_levers
from litellm_registry_hook.errors import StateError

UPLOAD: Final = "acreate_file"
CREATE: Final = "acreate_batch"
GATED: Final = frozenset({UPLOAD, CREATE})
# Reading, listing, deleting, cancelling: no model is called. Listing files comes by the pre-call hook under the name of
# another list (files_endpoints.py: route_type=alist_fine_tuning_jobs).
FOLLOW_UPS: Final = frozenset(
    {
        "afile_content",
        "afile_retrieve",
        "afile_delete",
        "afile_list",
        "aretrieve_batch",
        "acancel_batch",
        "alist_batches",
        "alist_fine_tuning_jobs",
    }
)
# What a file may be for without its lines being read; a batch of such a file is refused.
OTHER_PURPOSES: Final = frozenset({"assistants", "vision", "user_data", "fine-tune", "evals", "messages"})
KEPT_SECONDS: Final = 30 * 24 * 3600.0
IN_MEMORY_BYTES: Final = 1024 * 1024
OWNER: Final = "batches"


@dataclass(frozen=True, slots=True)
class Checked:
    """A file that was read and written anew.

    Attributes:
        file: what leaves. called: what its lines call. lines: how many there are.

    """

    file: IO[bytes]
    called: Called
    lines: int


class Batches:
    """The gate of one worker."""

    def __init__(self, gates: Gates, meter: Meter) -> None:
        self.gates = gates
        self.meter = meter

    def asked(self, kind: str, data: dict[str, Any]) -> None:
        """Look at a file or batch route's request before LiteLLM finds its account.

        Raises:
            RefusedError: LiteLLM would make the calls itself, or spread them.

        """
        provider = data.get("custom_llm_provider")
        drop_levers(data)
        if kind == CREATE and isinstance(provider, str):
            # It picks an account, and the account is looked at when the batch leaves.
            data["custom_llm_provider"] = provider
        if kind in GATED and (host.balances_batches() or host.is_managed_file(str(data.get("input_file_id") or ""))):
            raise_refusal(refuse("route_not_governed", THROUGH_ROUTER))

    async def leaves(self, kind: str, kwargs: dict[str, Any], scope: Scope | None) -> dict[str, Any]:
        """Decide an upload or a batch at its provider; returns the call as it may leave.

        Raises:
            RefusedError: it may not.

        """
        if scope is None or not scope.hooked:
            raise_refusal(refuse("route_not_governed", "nobody asked for this file or batch on a route of the proxy"))
        if kind == UPLOAD and str(kwargs.get("purpose")) in OTHER_PURPOSES:
            return kwargs
        account = host.account_of(kwargs)
        if account.provider not in PROVIDERS:
            raise_refusal(
                refuse(
                    "route_not_governed",
                    f"batches of {account.provider} are closed: their lines do not name the model; "
                    f"the registry reads those of {' and '.join(sorted(PROVIDERS))}",
                )
            )
        if kwargs.get("litellm_credential_name"):
            raise_refusal(refuse("route_not_governed", "a batch with a named credential is closed"))
        # The provider's SDK merges these into the request, over what was checked.
        kwargs = {**kwargs, "extra_body": None, "extra_headers": None}
        if kind == UPLOAD:
            return await self._upload(kwargs, scope, account)
        return await self._create(kwargs, scope, account)

    async def _upload(self, kwargs: dict[str, Any], scope: Scope, account: host.HostAccount) -> dict[str, Any]:
        name, file, *rest = kwargs["file"]
        decide = await self._decider(scope, account, kwargs)
        loop = asyncio.get_running_loop()

        def decided(model: str) -> Called | Refusal:
            return asyncio.run_coroutine_threadsafe(decide(model), loop).result()

        checked = await asyncio.to_thread(check_file, file, decided)
        if isinstance(checked, Refusal):
            raise_refusal(checked)
        # Closed with the request, whether the upload works or not.
        scope.spool = checked.file
        scope.uploading = partial(self._keep, account, checked.called.upstream, checked.lines)
        return {**kwargs, "file": (name, checked.file, *rest)}

    async def uploaded(self, file_id: str, scope: Scope | None) -> None:
        """Remember the file that was just uploaded by this request, before its client can name it."""
        keep, file_id = scope.uploading if scope is not None else None, str(file_id or "")
        if scope is None or keep is None or not file_id:
            return
        scope.uploading = None
        await asyncio.to_thread(keep, file_id)

    async def _create(self, kwargs: dict[str, Any], scope: Scope, account: host.HostAccount) -> dict[str, Any]:
        file_id = str(kwargs.get("input_file_id") or "")
        row = await asyncio.to_thread(self._find, account, file_id)
        if isinstance(row, Refusal):
            raise_refusal(row)
        model, lines = str(row.data["model"]), int(row.data["lines"])
        decide = await self._decider(scope, account, kwargs)
        found = await decide(model)
        if isinstance(found, Refusal):
            raise_refusal(found)
        if found.booked_as is not None:
            skip = await self.meter.admit(scope, found.booked_as, lines, f"batch of {lines} calls")
            if skip is not None:
                raise_refusal(all_refused(found.booked_as, None, (skip,)))
        if found.model is not None:
            scope.mark_served(found.model.id)
        # Sent again by the provider's SDK after a lost answer it would be a second batch.
        return {**kwargs, "max_retries": 0}

    async def _decider(
        self, scope: Scope, account: host.HostAccount, kwargs: dict[str, Any]
    ) -> Callable[[str], Coroutine[Any, Any, Called | Refusal]]:
        auth = auth_in(kwargs)
        if auth is None:
            raise_refusal(refuse("gate_failed", "it is not known whose batch this is"))
        index, rules = self.gates.index, Rules(host.upstream_name, self.gates.foreign, self.gates.books_foreign)
        place = await asyncio.to_thread(self._place, account, index)

        async def decide(name: str) -> Called | Refusal:
            found = called(index, place, name, scope.ask(), rules)
            if isinstance(found, Refusal):
                return found
            for one in (name, found.model.id) if found.model is not None else (name,):
                if not (auth.models or auth.team_models) or await host_keys.key_may_call(one, auth):
                    return found
            return refuse(
                "model_not_allowed_for_key",
                f"this virtual key may not use {name!r}; its list of models does not have it",
            )

        return decide

    def _place(self, account: host.HostAccount, index: Index) -> Account:
        """Say which deployments are called on an account, and whether a metered one is served at its address."""
        here = []
        metered = False
        for one in index.by_deployment.values():
            theirs = host.account_of_deployment(self.gates.router, one.id)
            if theirs == account:
                here.append(one)
            if theirs is not None and theirs.same_place(account):
                metered = metered or one.model.metered
        return Account(tuple(here), metered)

    def _ledger(self) -> Ledger | None:
        state = self.meter.live.state
        return state.ledger if state is not None else None

    def _keep(self, account: host.HostAccount, model: str, lines: int, file_id: str) -> None:
        ledger = self._ledger()
        if ledger is not None:
            data = {"model": model, "lines": lines}
            ledger.take(_kind(account, file_id), file_id, OWNER, KEPT_SECONDS, data=data)

    def _find(self, account: host.HostAccount, file_id: str) -> Row | Refusal:
        ledger = self._ledger()
        try:
            rows = ledger.rows(_kind(account, file_id)) if ledger is not None else None
        except StateError:
            rows = None
        if rows is None:
            return refuse("model_unavailable", "the state cannot be used, and no batch runs without a record")
        if rows:
            return rows[0]
        return refuse(
            "batch_file_unchecked",
            f"file {file_id!r} did not come through this gate in the last 30 days or went to another account, so "
            "nobody knows what its lines call; upload it here with purpose=batch, and create the batch with the same "
            "model",
        )


def _kind(account: host.HostAccount, file_id: str) -> str:
    """Name the row of one file; one kind a file, for rows are looked up by their kind."""
    place = f"{account.provider}\n{account.api_base}\n{file_id}"
    return f"batch-file:{hashlib.sha256(place.encode()).hexdigest()}"


def check_file(source: Any, decide: Callable[[str], Called | Refusal]) -> Checked | Refusal:
    """Read a batch file line by line and write what may leave; runs in a thread.

    Args:
        source: a file opened for bytes, or bytes. decide: says what a model name of a line calls.

    """
    out: IO[bytes] = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY_BYTES)  # noqa: SIM115  it leaves with the call
    found: Checked | Refusal | None = None
    try:
        found = _written(source, decide, out)
    finally:
        if not isinstance(found, Checked):
            out.close()
    return found


def _written(source: Any, decide: Callable[[str], Called | Refusal], out: IO[bytes]) -> Checked | Refusal:
    first: Called | None = None
    lines = size = 0
    for number, raw in enumerate(_lines(source), start=1):
        size += len(raw)
        if len(raw) > MAX_LINE_BYTES:
            return bad_file(f"line {number} is longer than {MAX_LINE_BYTES // 1024**2} MB")
        if size > MAX_BYTES:
            return bad_file(f"it is larger than {MAX_BYTES // 1024**2} MB")
        text = raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw
        if not text.strip():
            continue
        lines += 1
        if lines > MAX_LINES:
            return bad_file(f"it has more than {MAX_LINES} lines")
        line = read_line(text, number)
        if isinstance(line, Refusal):
            return line
        name = line["body"]["model"]
        if first is None:
            found = decide(name)
            if isinstance(found, Refusal):
                return found
            first = found
        elif name != first.name:
            return bad_file(f"line {number} names {name!r}, and the lines before it {first.name!r}; one model a file")
        line["body"]["model"] = first.upstream
        out.write(write_line(line))
    if first is None:
        return bad_file("it has no lines")
    out.seek(0)
    return Checked(out, first, lines)


def _lines(source: Any) -> Iterator[bytes]:
    """Give the lines of a file, none of them much longer than MAX_LINE_BYTES."""
    if isinstance(source, (bytes, bytearray)):
        yield from bytes(source).split(b"\n")
        return
    source.seek(0)
    while line := source.readline(MAX_LINE_BYTES + 1):
        yield line
