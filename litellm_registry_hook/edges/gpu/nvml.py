"""The GPU driver, asked through pynvml. Initialised once; what fails is tried again by itself, less and less often."""

from __future__ import annotations

import importlib
import logging
import threading
from typing import Any, Final

from litellm_registry_hook.core.gpu.facts import Gpu, Nvml, NvmlState
from litellm_registry_hook.edges.gpu.nvml_codes import (
    GPU_MISSING,
    MENDABLE,
    NO_GPUS,
    NO_MODULE,
    TIMEOUT,
    UNINITIALIZED,
    UNKNOWN,
    code_of,
    driver_reason,
    gpu_reason,
)
from litellm_registry_hook.edges.gpu.nvml_device import MIB, UNREAD, Uninitialised, read_gpu

LOG = logging.getLogger("litellm_registry_hook")
FIRST_WAIT_S: Final = 1.0
LONGEST_WAIT_S: Final = 60.0


class Backoff:
    """When to try again: after 1, 2, 4, … 60 seconds."""

    def __init__(self) -> None:
        self._wait_s = FIRST_WAIT_S
        self._failed_at: float | None = None

    def due(self, now: float) -> bool:
        """Say whether it is time; a clock that was set back does not hold it up."""
        return self._failed_at is None or not 0 <= now - self._failed_at < self._wait_s

    def failed(self, now: float) -> None:
        """Wait, and longer with each failure in a row."""
        self._wait_s = FIRST_WAIT_S if self._failed_at is None else min(self._wait_s * 2, LONGEST_WAIT_S)
        self._failed_at = now

    def worked(self) -> None:
        """Begin anew with the next failure."""
        self._failed_at = None


class Driver:
    """NVML of this machine. Thread-safe; `read` never raises.

    A GPU counts as known from the first time it is seen until NVML is initialised anew without it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._nvml: Any = None
        self._ready = False
        self._worked = False
        self._known: dict[str, Gpu] = {}
        self._places: dict[int, Gpu] = {}
        self._retry = Backoff()
        self._mend = Backoff()
        self.last = Nvml()

    @property
    def worked(self) -> bool:
        """Whether NVML has shown a GPU in this process."""
        return self._worked

    def read(self, now: float) -> Nvml:
        """Ask the driver.

        Args:
            now: seconds on a clock of the caller's choice, the same one each time; it paces the tries after a failure.

        """
        with self._lock:
            try:
                answer = self._read(now)
            except Exception as error:  # noqa: BLE001  whatever a driver or binding does, the gate stands
                answer = self._fail(now, UNKNOWN, f"{type(error).__name__}: {error}")
            self._tell(answer)
            self.last = answer
            return answer

    def late(self, seconds: float) -> Nvml:
        """Return what is known while a read hangs: the memory is unknown, also where NVML never worked before."""
        reason = f"{driver_reason(TIMEOUT)} ({seconds:g} s)"
        return Nvml("failed", TIMEOUT, reason, tuple(_unknown(gpu, TIMEOUT) for gpu in self.last.gpus))

    def processes(self, uuid: str) -> list[tuple[int, float | None]] | None:
        """Return pid and MB of each process on a GPU; MB None where the driver does not tell it; None: not known.

        In a container the pids are the host's, or there are none.
        """
        with self._lock:
            if not self._ready:
                return None
            try:
                handle = self._nvml.nvmlDeviceGetHandleByUUID(uuid)
                found = self._nvml.nvmlDeviceGetComputeRunningProcesses(handle)
            except Exception:  # noqa: BLE001  for people only
                return None
            return [(int(one.pid), None if one.usedGpuMemory is None else one.usedGpuMemory / MIB) for one in found]

    def _read(self, now: float) -> Nvml:
        for _ in range(2):
            if not self._ready and (failure := self._start(now)) is not None:
                return failure
            try:
                gpus = self._devices()
                if self._sick(gpus) and self._mend.due(now):
                    self._mend.failed(now)
                    self._stop()
                    if (failure := self._start(now)) is not None:
                        return failure
                    gpus = self._devices()
            except Uninitialised:
                self._ready = False
            except self._nvml.NVMLError as error:
                code = code_of(int(error.value))
                if code != UNINITIALIZED:
                    return self._fail(now, code, str(error))
                self._ready = False
            else:
                return self._answer(gpus)
        return self._fail(now, UNINITIALIZED, "NVML was shut down by another part of this process")

    def _start(self, now: float) -> Nvml | None:
        """Initialise NVML where that is due; return why it does not work."""
        if not self._retry.due(now):
            return self.last
        if self._nvml is None:
            try:
                self._nvml = importlib.import_module("pynvml")
            except ImportError as error:
                return self._fail(now, NO_MODULE, str(error))
        try:
            self._nvml.nvmlInit()
        except self._nvml.NVMLError as error:
            return self._fail(now, code_of(int(error.value)), str(error))
        self._ready = True
        self._retry.worked()
        self._known = {}
        return None

    def _stop(self) -> None:
        if self._ready:
            self._ready = False
            try:
                self._nvml.nvmlShutdown()
            except self._nvml.NVMLError:
                LOG.debug("NVML: shutdown failed", exc_info=True)

    def _fail(self, now: float, code: str, detail: str) -> Nvml:
        self._stop()
        self._retry.failed(now)
        reason = driver_reason(code, detail)
        gpus = tuple(_unknown(gpu, code, reason) for gpu in self.last.gpus) if self._worked else ()
        return Nvml(self._state(), code, reason, gpus)

    def _state(self) -> NvmlState:
        return "failed" if self._worked else "never"

    def _devices(self) -> list[Gpu]:
        """Read every GPU; those that were known and are not listed any more come last."""
        count = int(self._nvml.nvmlDeviceGetCount())
        found = [read_gpu(self._nvml, index, self._places.get(index)) for index in range(count)]
        seen = {gpu.uuid: gpu for gpu in found if not gpu.uuid.startswith(UNREAD)}
        found += [_unknown(gpu, GPU_MISSING) for uuid, gpu in self._known.items() if uuid not in seen]
        self._known.update(seen)
        self._places.update({gpu.index: gpu for gpu in seen.values()})
        return found

    def _sick(self, gpus: list[Gpu]) -> bool:
        """Say whether a fresh init may help; none of it while all is well."""
        if any(gpu.code in MENDABLE for gpu in gpus) or (self._worked and not gpus):
            return True
        self._mend.worked()
        return False

    def _answer(self, gpus: list[Gpu]) -> Nvml:
        if not gpus:
            return Nvml(self._state(), NO_GPUS, driver_reason(NO_GPUS))
        self._worked = True
        return Nvml("ok", "ok", "", tuple(gpus))

    def _tell(self, answer: Nvml) -> None:
        """Log what changed, and only that."""
        if (answer.state, answer.code) != (self.last.state, self.last.code):
            level = logging.WARNING if answer.state == "failed" else logging.INFO
            LOG.log(level, "NVML: %s", _said(answer))
        if answer.state != "ok":
            return
        was = {gpu.uuid: gpu.code for gpu in self.last.gpus} if self.last.state == "ok" else {}
        for gpu in answer.gpus:
            if gpu.code != was.get(gpu.uuid, "ok"):
                level = logging.INFO if gpu.state == "ok" else logging.WARNING
                LOG.log(level, "NVML: GPU %d (%s): %s", gpu.index, gpu.uuid, gpu.reason or "its memory is read again")


def _unknown(gpu: Gpu, code: str, reason: str = "") -> Gpu:
    return Gpu(gpu.uuid, gpu.index, gpu.name, 0.0, 0.0, "unknown", code, reason or gpu_reason(code, gpu.uuid))


def _said(answer: Nvml) -> str:
    if answer.state == "ok":
        return "the driver answers, " + ", ".join(f"GPU {gpu.index} is {gpu.name or gpu.uuid}" for gpu in answer.gpus)
    sizes = "memory is unknown until it answers again" if answer.state == "failed" else "GPU sizes are as declared"
    return f"{answer.reason}; {sizes} ({answer.code})"
