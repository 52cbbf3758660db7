"""Whether a model server that is no Ollama is there and holds its memory."""

from __future__ import annotations

from typing import Final

from litellm_registry_hook.core.gpu.facts import HealthState
from litellm_registry_hook.edges.gpu.web import Failure, Web

HEALTH_PATH: Final = "/health"
_SERVER_ERROR: Final = 500


class HealthReader:
    """One address.

    Attributes:
        last: what the last reading said; busy before the first: it may hold its memory.

    """

    def __init__(self, url: str, *, read_s: float = 2.0) -> None:
        """Open nothing yet; `url` is the whole address, `read_s` the seconds its answer may take."""
        self.url = url
        self._web = Web(url)
        self._read_s = read_s
        self.last: HealthState = "busy"

    def read(self) -> HealthState:
        """GET the address: any answer below 500 is up, a refused connection is gone, all else is busy. Never raises."""
        answer = self._web.ask(self.url, read_s=self._read_s)
        if isinstance(answer, Failure):
            self.last = "gone" if answer.kind == "refused" else "busy"
        else:
            self.last = "up" if answer.status < _SERVER_ERROR else "busy"
        return self.last

    def close(self) -> None:
        """Close the kept connections."""
        self._web.close()


def health_url(api_base: str, given: str | None) -> str:
    """Return the address to ask: the endpoint's own health_url, else /health at its api_base.

    >>> health_url("http://127.0.0.1:8080", None)
    'http://127.0.0.1:8080/health'
    """
    return given or api_base.rstrip("/") + HEALTH_PATH
