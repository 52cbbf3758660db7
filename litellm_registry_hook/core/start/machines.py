"""The GPUs of the machines that models run on: read by NVML, said by a person, none, or not known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from litellm_registry_hook.core.start.choices import Choices
from litellm_registry_hook.core.start.draft import Draft
from litellm_registry_hook.core.start.found import Found
from litellm_registry_hook.core.start.own import machine_of

HERE: Final = "localhost"
How = Literal["nvml", "declared", "none", "unknown"]


@dataclass(frozen=True, slots=True)
class Machine:
    """The GPU of one machine.

    Attributes:
        how: where its size comes from; unknown: nobody has told it yet, or nobody knows.
        total_mb: of its largest GPU, as a model is put on one of them; 0 where there is none or it is not known.
        key: what `endpoints[].gpu` says; None = leave it out (auto).

    """

    how: How
    total_mb: float = 0.0
    key: str | int | None = None

    @property
    def counted(self) -> bool:
        """Whether the gate has numbers for it."""
        return self.how in {"nvml", "declared"}


def machines_of(found: Found, drafts: Iterable[Draft], choices: Choices) -> dict[str, Machine]:
    """Return the machine of each of the house's own servers, by host; this one is `localhost`."""
    hosts = dict.fromkeys(machine_of(base) for draft in drafts if draft.own for base in draft.bases)
    machines: dict[str, Machine] = {}
    declared = 0
    # This machine first: index 0 is what `auto` means where NVML does not work.
    for host in sorted(hosts, key=lambda one: one != HERE):
        read = _read(found) if host == HERE else None
        if not found.gpus_asked:
            machines[host] = Machine("none", key="none")
        elif read is not None and read.how == "nvml":
            machines[host] = read
        elif total := choices.gpu_mb.get(host):
            key = read.key if read is not None and read.key is not None else declared
            machines[host] = Machine("declared", float(total), key)
            declared += key == declared
        else:
            machines[host] = Machine("none" if choices.gpu_mb.get(host) == 0 else "unknown", key="none")
    return machines


def _read(found: Found) -> Machine | None:
    """Return this machine as NVML has it; of one whose memory it cannot count, only the UUID."""
    sizes = [gpu.total_mb for gpu in found.nvml.gpus if gpu.state == "ok"]
    if found.nvml.state == "ok" and sizes:
        return Machine("nvml", max(sizes))
    uncounted = [gpu.uuid for gpu in found.nvml.gpus if gpu.state == "unsupported" and gpu.uuid.startswith("GPU-")]
    return Machine("unknown", key=uncounted[0]) if uncounted else None


def gpus_section(found: Found, machines: Mapping[str, Machine]) -> dict[str | int, Any]:
    """Return `gpu_residency_policy.gpus`; sizes in whole MB."""
    section: dict[str | int, Any] = {}
    if any(machine.how == "nvml" for machine in machines.values()):
        section |= {gpu.uuid: {"total_mb": int(gpu.total_mb)} for gpu in found.nvml.gpus if gpu.state == "ok"}
    for machine in machines.values():
        if machine.how == "declared" and machine.key is not None:
            section[machine.key] = {"total_mb": int(machine.total_mb)}
    return section
