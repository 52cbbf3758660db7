"""One GPU read through pynvml."""

from __future__ import annotations

from typing import Any

from litellm_registry_hook.core.gpu.facts import Gpu, GpuState
from litellm_registry_hook.edges.gpu.nvml_codes import MIG, UNINITIALIZED, UNSUPPORTED, code_of, gpu_reason

MIB = 1024 * 1024
UNREAD = "GPU-unread-"


class Uninitialised(Exception):  # noqa: N818  not a failure of the GPU: init again and ask again
    """Somebody in this process has shut NVML down."""


def code_in(error: Exception) -> str:
    """Return the code of an NVMLError.

    Raises:
        Uninitialised: that is what the error says.

    """
    code = code_of(int(getattr(error, "value", 999)))
    if code == UNINITIALIZED:
        raise Uninitialised from error
    return code


def read_gpu(nvml: Any, index: int, was: Gpu | None) -> Gpu:
    """Read one GPU.

    Args:
        nvml: the module pynvml, initialised.
        index: 0-based.
        was: what was at this index before; it names a GPU that does not answer now.

    Raises:
        Uninitialised: NVML is shut down.

    """
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        uuid = _text(nvml.nvmlDeviceGetUUID(handle))
    except nvml.NVMLError as error:
        uuid = was.uuid if was is not None else f"{UNREAD}{index}"
        return _without_numbers(Gpu(uuid, index, was.name if was is not None else ""), code_in(error), str(error))
    gpu = Gpu(uuid, index, _name(nvml, handle) or (was.name if was is not None and was.uuid == uuid else ""))
    if _mig_on(nvml, handle):
        return _without_numbers(gpu, MIG)
    try:
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    except nvml.NVMLError as error:
        code = code_in(error)
        if code == "no_permission" and _has_mig_devices(nvml, handle):
            code = MIG
        return _without_numbers(gpu, code, str(error))
    total, free = int(memory.total), int(memory.free)
    if total <= 0:
        return _without_numbers(gpu, "not_supported")
    if not 0 <= free <= total:
        return _without_numbers(gpu, "unknown_error", f"it says {free} bytes are free of {total}")
    return Gpu(uuid, index, gpu.name, total / MIB, free / MIB)


def _without_numbers(gpu: Gpu, code: str, detail: str = "") -> Gpu:
    state: GpuState = "unsupported" if code in UNSUPPORTED else "unknown"
    return Gpu(gpu.uuid, gpu.index, gpu.name, 0.0, 0.0, state, code, gpu_reason(code, gpu.uuid, detail))


def _name(nvml: Any, handle: Any) -> str:
    try:
        return _text(nvml.nvmlDeviceGetName(handle))
    except nvml.NVMLError as error:
        code_in(error)
        return ""


def _mig_on(nvml: Any, handle: Any) -> bool:
    """Say whether MIG is on; a GPU or driver that does not know MIG has it off."""
    try:
        return bool(nvml.nvmlDeviceGetMigMode(handle)[0])
    except nvml.NVMLError as error:
        return code_in(error) == "no_permission" and _has_mig_devices(nvml, handle)


def _has_mig_devices(nvml: Any, handle: Any) -> bool:
    try:
        nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, 0)
    except nvml.NVMLError as error:
        code_in(error)
        return False
    return True


def _text(value: Any) -> str:
    """Return a driver's text; some releases of pynvml give bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
