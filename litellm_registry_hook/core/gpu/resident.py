"""Whether a model is loaded, stays long enough, and is loaded as the registry says. No room is looked at here."""

from __future__ import annotations

from typing import Final, Literal

from litellm_registry_hook.core.gpu.facts import Loaded, Server, Snapshot
from litellm_registry_hook.core.gpu.place import server_key
from litellm_registry_hook.core.gpu.predict import context_of, on_cpu
from litellm_registry_hook.core.gpu.verdict import Resident, Want
from litellm_registry_hook.core.registry import Model, Registry

MAX_AGE_S: Final = 5.0
MARGIN_S: Final = 15.0
# Sizes of /api/ps are rounded: a fiftieth missing is not a layer on the CPU.
_WHOLE: Final = 0.98

Fault = Literal["other_context", "partial"]


def server_of(snapshot: Snapshot, api_base: str) -> Server | None:
    """Return the server at an address, by any of its names; None where it was never read."""
    server = snapshot.servers.get(api_base)
    if server is not None:
        return server
    key = server_key(api_base)
    return next((one for base, one in snapshot.servers.items() if server_key(base) == key), None)


def same_runner(server: Server, name: str, other: str, digest: str = "") -> bool:
    """Say whether two full names are one runner of a server: Ollama's key is the blob of the weights, not the name.

    Args:
        server: where both are.
        name, other: full names. digest: what /api/ps says of `other`, where it says so.

    """
    if name == other:
        return True
    mine, theirs = server.files.get(name), server.files.get(other)
    if mine is None:
        return False
    if theirs is not None and mine.blob and mine.blob == theirs.blob:
        return True
    return bool(mine.digest) and mine.digest == (digest or (theirs.digest if theirs is not None else ""))


def runner_of(server: Server, name: str) -> Loaded | None:
    """Return the entry of /api/ps that a full name is served by, under whatever name it was loaded."""
    for entry in server.loaded:
        if entry.name == name:
            return entry
    for entry in server.loaded:
        if same_runner(server, name, entry.name, entry.digest):
            return entry
    return None


def is_partial(entry: Loaded) -> bool:
    """Say whether some of a loaded model is on the CPU."""
    return entry.vram_mb < entry.size_mb * _WHOLE


def fault_of(registry: Registry, server: Server, entry: Loaded, model: Model | None, name: str) -> Fault | None:
    """Return why a loaded model cannot be used as it is: Ollama would reload it, or it is partly on the CPU."""
    file = server.files.get(name)
    context = context_of(model, file.shape if file is not None else None)
    if context is not None and entry.context is not None and entry.context != context:
        return "other_context"
    if registry.gpu_residency_policy.partial_offload != "refuse" or not is_partial(entry):
        return None
    return None if model is not None and on_cpu(model) else "partial"


def stays(entry: Loaded, now: float, margin_s: float = MARGIN_S) -> bool:
    """Say whether a loaded model is pinned or does not leave within the margin."""
    return entry.expires_at is None or entry.expires_at - now > margin_s


def residency(  # noqa: PLR0917 - the limits are the spec's and seldom given
    registry: Registry,
    snapshot: Snapshot,
    want: Want,
    now: float,
    max_age_s: float = MAX_AGE_S,
    margin_s: float = MARGIN_S,
) -> Resident | None:
    """Return until when a model can be used without a load; None where it cannot.

    A server that answers must have been read at most `max_age_s` ago. While it stalls, what was loaded stays so until
    it expires. Whatever expires within `margin_s` counts as not loaded.
    """
    server = server_of(snapshot, want.slot.api_base)
    if server is None or server.state == "gone" or server.read_at <= 0:
        return None
    if server.state == "up" and now - server.read_at > max_age_s:
        return None
    entry = runner_of(server, want.slot.name)
    if entry is None or not stays(entry, now, margin_s):
        return None
    if fault_of(registry, server, entry, want.model, want.slot.name) is not None:
        return None
    return Resident(entry.expires_at)
