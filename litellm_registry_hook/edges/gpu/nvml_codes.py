"""What NVML's error numbers mean to us: a stable code, and a sentence that says what to do."""

from __future__ import annotations

from typing import Final

UNINITIALIZED: Final = "uninitialized"
NO_GPUS: Final = "no_gpus"
MIG: Final = "mig"
GPU_MISSING: Final = "gpu_missing"
UNKNOWN: Final = "unknown_error"
NO_MODULE: Final = "pynvml_missing"
TIMEOUT: Final = "timeout"

# nvml.h, nvmlReturn_t.
_CODES: Final = {
    1: UNINITIALIZED,
    2: "invalid_argument",
    3: "not_supported",
    4: "no_permission",
    6: "not_found",
    7: "insufficient_size",
    8: "insufficient_power",
    9: "driver_not_loaded",
    10: TIMEOUT,
    11: "irq_issue",
    12: "library_not_found",
    13: "function_not_found",
    14: "corrupted_inforom",
    15: "gpu_lost",
    16: "reset_required",
    17: "operating_system",
    18: "version_mismatch",
    19: "in_use",
    20: "out_of_host_memory",
    21: "no_data",
    23: "insufficient_resources",
    25: "struct_version_mismatch",
    27: "not_ready",
    28: "gpu_not_found",
    29: "invalid_state",
    999: UNKNOWN,
}
# What the driver lacks for good; declared sizes are the way out.
UNSUPPORTED: Final = frozenset({"not_supported", "function_not_found", "struct_version_mismatch", MIG})
# What a fresh init may end: the driver lists its GPUs anew.
MENDABLE: Final = frozenset(
    {"gpu_lost", "reset_required", "gpu_not_found", "not_found", "invalid_argument", GPU_MISSING}
)

_DECLARE: Final = "write gpu_residency_policy.gpus: {{{gpu}: {{total_mb: …}}}}, so that its size counts as declared"
_DRIVER: Final = {
    "library_not_found": "libnvidia-ml.so.1 is not on this machine, or not in this container: install the NVIDIA"
    " driver, or start the container with its GPUs",
    "driver_not_loaded": "the NVIDIA kernel driver is not loaded: `nvidia-smi` shows the same; load it or reboot",
    "version_mismatch": "the driver's library and its kernel module differ in version, as after an upgrade: reboot",
    "no_permission": "this user may not ask the driver: give it access to /dev/nvidia*",
    "function_not_found": "the driver is too old for the calls that are made: upgrade it",
    NO_GPUS: "the driver works and lists no GPU",
    NO_MODULE: "the Python module pynvml cannot be imported: install nvidia-ml-py",
    TIMEOUT: "the driver did not answer in time",
}
_GPU: Final = {
    "gpu_lost": "the GPU is lost: it fell off the bus; a reset or reboot brings it back",
    "reset_required": "the GPU has to be reset before it works again: `nvidia-smi --gpu-reset`",
    GPU_MISSING: "the driver does not list this GPU any more",
    "not_supported": "NVML cannot tell the memory of this GPU, as on those that share the system's (GB10, Jetson): ",
    "function_not_found": "the driver is too old to tell the memory of this GPU: upgrade it, or ",
    "struct_version_mismatch": "the driver does not know the form in which its memory is asked for: upgrade it, or ",
    MIG: "MIG is on, and which of its instances a model server uses is not known: ",
    "no_permission": "this user may not read the memory of this GPU: give it access to /dev/nvidia*",
    TIMEOUT: "the driver did not answer in time",
}


def code_of(number: int) -> str:
    """Return the code of an nvmlReturn_t; `nvml_N` for one that has no name here."""
    return _CODES.get(number, f"nvml_{number}")


def driver_reason(code: str, detail: str = "") -> str:
    """Return a sentence for people about the driver as a whole; `detail` is the driver's own word."""
    said = _DRIVER.get(code)
    if said is None:
        said = f"NVML fails: {detail or code}"
    return said


def gpu_reason(code: str, gpu: str, detail: str = "") -> str:
    """Return a sentence for people about one GPU, named as the registry would name it."""
    said = _GPU.get(code)
    if said is None:
        return f"reading its memory failed: {detail or code}"
    return said + _DECLARE.format(gpu=gpu) if code in UNSUPPORTED else said
