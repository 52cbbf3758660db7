"""Questions to one server, with an end for all of them together."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from litellm_registry_hook.edges.gpu.web import Failure, Web

_OK = 200


class NotThatError(Exception):
    """The server is there, and is not of the kind that was asked for; the text says what differs."""


class SilentError(Exception):
    """There is no answer to work with; asking for another kind would end alike.

    Attributes:
        refused: whether nobody listens there.

    """

    def __init__(self, reason: str, *, refused: bool = False) -> None:
        super().__init__(reason)
        self.refused = refused


class Asking:
    """One server.

    Attributes:
        base: its address without `/v1` and trailing slash.

    """

    def __init__(self, base: str, answer_s: float, whole_s: float, headers: Mapping[str, str] | None = None) -> None:
        """Open nothing yet.

        Args:
            base: the address. answer_s: seconds one answer may take. whole_s: seconds for all answers together.
            headers: sent with every call.

        """
        self.base = base
        self._web = Web(base, headers)
        self._answer_s = answer_s
        self._end = time.monotonic() + whole_s

    def json(self, path: str) -> Any:
        """GET a path and return its parsed body.

        Raises:
            NotThatError: it answers something else than 200 and JSON.
            SilentError: it does not answer.

        """
        answer = self._web.ask(path, read_s=self._seconds(path), connect_s=min(1.0, self._answer_s), again=False)
        if isinstance(answer, Failure):
            if answer.kind == "broken":
                raise NotThatError(f"{path}: {answer.reason}")
            raise SilentError(f"{path}: {answer.reason}", refused=answer.kind == "refused")
        if answer.status in {401, 403}:
            raise SilentError(f"{path}: it answered {answer.status}, it wants a key")
        if answer.status != _OK:
            raise NotThatError(f"{path}: it answered {answer.status}")
        try:
            return answer.json()
        except ValueError as error:
            raise NotThatError(f"{path}: its answer is not JSON") from error

    def maybe(self, path: str, body: Any = None) -> Any:
        """Return the parsed body of a GET, or of a POST with a body; None where there is none in time."""
        try:
            seconds = self._seconds(path)
        except SilentError:
            return None
        answer = self._web.ask(path, body=body, read_s=seconds, again=False)
        if isinstance(answer, Failure) or answer.status != _OK:
            return None
        try:
            return answer.json()
        except ValueError:
            return None

    def close(self) -> None:
        """Close the kept connections."""
        self._web.close()

    def _seconds(self, path: str) -> float:
        left = self._end - time.monotonic()
        if left <= 0:
            raise SilentError(f"{path}: no time was left to ask")
        return min(self._answer_s, left)
