"""One Ollama server, read without ever loading a model."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from litellm_registry_hook.core.gpu.facts import Loaded, ModelFile, Server, ServerState, Shape
from litellm_registry_hook.core.gpu.names import short_name
from litellm_registry_hook.edges.gpu.ollama_parse import (
    NotOllamaError,
    blob_of,
    files_of,
    loaded_of,
    shape_of,
    spellings_of,
    version_of,
)
from litellm_registry_hook.edges.gpu.web import Answer, Failure, Web

FILES_EVERY_S: Final = 60.0
ASK_AGAIN_S: Final = 5.0
MARGIN_S: Final = 0.6
_OK: Final = 200
_STATES: Final[Mapping[str, ServerState]] = {"refused": "gone", "late": "stalled", "broken": "stalled"}


class OllamaReader:
    """Reads /api/ps at each look; /api/tags, /api/version and /api/show once a minute, or when they must have changed.

    Attributes:
        last: what the last reading said; safe to take while another thread reads.

    """

    def __init__(self, base: str, headers: Mapping[str, str] | None = None, *, read_s: float = 2.0) -> None:
        """Open nothing yet.

        Args:
            base: without a trailing slash. headers: sent with every call.
            read_s: seconds one answer may take. A whole reading takes at most 0.6 s more: files may have to wait.

        """
        self._web = Web(base, headers)
        self._headers = dict(headers or {})
        self._read_s = read_s
        self._lock = threading.Lock()
        self._files_at: float | None = None
        self._asked_at: float | None = None
        self._spelled: dict[str, str] = {}
        # By name and digest. What has no shape is asked for again with the next list of files.
        self._shown: dict[tuple[str, str], _Shown] = {}
        self.last = Server(base, "stalled", "it has not been asked yet")

    def speaks_with(self, headers: Mapping[str, str]) -> bool:
        """Say whether the reader sends these headers."""
        return self._headers == dict(headers)

    def read(self, now: float, wanted: Collection[str] = ()) -> Server:
        """Look at the server; never raises.

        Args:
            now: seconds since the epoch.
            wanted: full names whose size and shape are needed.

        """
        with self._lock:
            self.last = self._read(now, wanted, time.monotonic() + self._read_s + MARGIN_S)
            return self.last

    def late(self, seconds: float) -> Server:
        """Return what is known while a reading hangs."""
        return replace(self.last, state="stalled", reason=f"no answer within {seconds:g} s")

    def close(self) -> None:
        """Close the kept connections."""
        self._web.close()

    def _read(self, now: float, wanted: Collection[str], end: float) -> Server:
        try:
            loaded = loaded_of(self._get("/api/ps", self._read_s), now)
        except _Unanswered as error:
            if error.state == "gone":
                self._files_at = None  # it may come back as another version, with other models
                return replace(self.last, state="gone", reason=str(error), loaded=())
            return replace(self.last, state=error.state, reason=str(error))
        except NotOllamaError as error:
            return replace(self.last, state="stalled", reason=f"its answer to /api/ps is not Ollama's: {error}")
        server = replace(self.last, state="up", reason="", loaded=loaded, read_at=now)
        try:
            return self._with_files(server, now, wanted, end)
        except (_Unanswered, NotOllamaError) as error:
            return replace(server, reason=f"its files could not be read, they are as before: {error}")

    def _with_files(self, server: Server, now: float, wanted: Collection[str], end: float) -> Server:
        if self._files_due(server, now, wanted):
            self._asked_at = now
            tags = self._get("/api/tags", end - time.monotonic())
            files, spelled = files_of(tags), spellings_of(tags)
            version = version_of(self._get("/api/version", end - time.monotonic()))
            self._shown = {key: seen for key, seen in self._shown.items() if seen.shape is not None and key[0] in files}
            self._files_at, self._spelled = now, spelled
            server = replace(server, files=files, version=version)
        needed = {*wanted, *(one.name for one in server.loaded)} & server.files.keys()
        return replace(server, files={**server.files, **self._described(server.files, sorted(needed), now, end)})

    def _files_due(self, server: Server, now: float, wanted: Collection[str]) -> bool:
        if self._files_at is None:
            return True
        old = not 0 <= now - self._files_at < FILES_EVERY_S
        missing = any(name not in server.files for name in wanted) or _changed(server)
        return (old or missing) and (self._asked_at is None or not 0 <= now - self._asked_at < ASK_AGAIN_S)

    def _described(
        self, files: Mapping[str, ModelFile], names: list[str], now: float, end: float
    ) -> dict[str, ModelFile]:
        """Fill in blob and shape of these files, as far as the time goes; the rest comes with the next reading."""
        found = {}
        for name in names:
            file = files[name]
            key = (name, file.digest)
            seen = self._shown.get(key)
            if not file.remote and (seen is None or seen.again(now)) and (left := end - time.monotonic()) > 0:
                seen = self._shown[key] = self._show(name, left, now)
            if seen is not None:
                found[name] = replace(file, blob=seen.blob, shape=seen.shape)
        return found

    def _show(self, name: str, seconds: float, now: float) -> _Shown:
        """Ask /api/show, which loads nothing."""
        named = self._spelled.get(name, short_name(name))
        answer = self._web.ask("/api/show", body={"model": named}, read_s=min(seconds, self._read_s))
        if isinstance(answer, Failure):
            return _Shown(failed_at=now)
        try:
            said = answer.json() if answer.status == _OK else None
        except ValueError:
            said = None
        return _Shown(blob_of(said), shape_of(said))

    def _get(self, path: str, seconds: float) -> Any:
        if seconds <= 0:
            raise _Unanswered("stalled", f"no time was left to ask for {path}")
        answer: Answer | Failure = self._web.ask(path, read_s=min(seconds, self._read_s))
        if isinstance(answer, Failure):
            raise _Unanswered(_STATES[answer.kind], f"{path}: {answer.reason}")
        if answer.status != _OK:
            raise _Unanswered("stalled", f"{path}: it answered {answer.status} {answer.said()}".rstrip())
        try:
            return answer.json()
        except ValueError as error:
            raise NotOllamaError("it is not JSON") from error


@dataclass(frozen=True, slots=True)
class _Shown:
    """What /api/show says of one file.

    Attributes:
        blob, shape: as in ModelFile.
        failed_at: when it did not answer; it is then left alone for a while, so that it does not slow each look.

    """

    blob: str = ""
    shape: Shape | None = None
    failed_at: float | None = None

    def again(self, now: float) -> bool:
        """Say whether to ask once more."""
        return self.failed_at is not None and not 0 <= now - self.failed_at < ASK_AGAIN_S


class _Unanswered(Exception):  # noqa: N818  a state of the server, not an error of ours
    """There is no answer to work with."""

    def __init__(self, state: ServerState, reason: str) -> None:
        super().__init__(reason)
        self.state: ServerState = state


def _changed(server: Server) -> bool:
    """Say whether what is loaded is not what the list of files says: pulled, created or copied since."""
    return any(_stranger(one, server.files) for one in server.loaded)


def _stranger(one: Loaded, files: Mapping[str, ModelFile]) -> bool:
    file = files.get(one.name)
    return file is None or (one.digest not in {"", file.digest})
