"""Several slow questions at once, with one end for all."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
LOG = logging.getLogger("litellm_registry_hook")


class AtOnce(Generic[K]):
    """Runs jobs side by side, one at a time for each key.

    Daemon threads rather than an executor: an executor's threads are waited for when the process ends, and a driver
    that hangs must not keep it from ending.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._busy: dict[K, threading.Lock] = {}

    def run(self, jobs: Mapping[K, Callable[[], T]], seconds: float) -> dict[K, T]:
        """Return the results that came within `seconds`; what came later, or raised, is absent.

        A job whose key is still busy from an earlier run begins when that ends: a result is never older than the run.
        """
        end = time.monotonic() + seconds
        results: dict[K, T] = {}

        def work(key: K, job: Callable[[], T], lock: threading.Lock) -> None:
            if not lock.acquire(timeout=max(0.0, end - time.monotonic())):
                return
            try:
                results[key] = job()
            except Exception:
                LOG.exception("reading %s failed; this is a bug of litellm-registry-hook", key)
            finally:
                lock.release()

        threads = []
        for key, job in jobs.items():
            with self._lock:
                lock = self._busy.setdefault(key, threading.Lock())
            thread = threading.Thread(target=work, args=(key, job, lock), name=f"registry-look-{key}", daemon=True)
            thread.start()
            threads.append(thread)
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))
        return results.copy()
