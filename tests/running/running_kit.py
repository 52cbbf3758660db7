"""A folder with a registry and its config, the command run on it, and a stand-in of the routes that it asks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

GENERATE = Path(sys.executable).parent / "generate-litellm-config"
MASTER = "sk-running-master-5b2d9c"


def run(folder: Path, *words: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run generate-litellm-config in a folder."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    whole = {**kept, "LITELLM_MASTER_KEY": MASTER, **(env or {})}
    return subprocess.run([GENERATE, *words], cwd=folder, env=whole, capture_output=True, text=True, timeout=60)


def write(folder: Path, registry: Mapping[str, Any]) -> Path:
    """Write the registry alone."""
    (folder / "model-registry.yaml").write_text(yaml.safe_dump(dict(registry), sort_keys=False))
    return folder


class FakeProxy:
    """Answers GET by path.

    Attributes:
        answers: path -> (status, JSON, or bytes as they are). hang: path that is never answered. drip: path that gets a byte now and then.
        calls: every path asked for, with the key.

    """

    def __init__(self, answers: Mapping[str, tuple[int, Any]], *, hang: str = "", drip: str = "") -> None:
        self.answers, self.hang, self.drip = dict(answers), hang, drip
        self.calls: list[tuple[str, str]] = []
        self.over = threading.Event()
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                fake.calls.append((self.path, self.headers.get("authorization", "")))
                if self.path == fake.hang:
                    fake.over.wait(60)
                    return
                status, answer = fake.answers.get(self.path, (404, {"detail": "Not Found"}))
                raw = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(raw) + (1000 if self.path == fake.drip else 0)))
                self.end_headers()
                self.wfile.write(raw)
                while self.path == fake.drip and not fake.over.wait(0.2):
                    try:
                        self.wfile.write(b" ")
                    except OSError:
                        return

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self) -> FakeProxy:
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()
