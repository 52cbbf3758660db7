"""Small model servers for `init`: they answer what they are told to, write down every call, and can be slow or silly."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from litellm_registry_hook.core.gpu.facts import Loaded, ModelFile, Shape
from litellm_registry_hook.core.gpu.names import full_name
from litellm_registry_hook.core.start.found import OllamaModel

MB = 1024 * 1024
SCRIPT = str(Path(sys.executable).parent / "litellm-registry")
GEMMA_SHAPE = Shape(34, 8, 4, 2560, train_context=131072)
BGE_SHAPE = Shape(24, 16, 16, 1024, embedding=True, train_context=8192)


class Stand:
    """One server on 127.0.0.1.

    Attributes:
        routes: what a path answers: plain data (200, JSON), bytes (200, as they are), or a call that returns one of
            them; an int is an empty answer of that status.
        calls: `METHOD path` of each request, oldest first.

    """

    def __init__(self, routes: Mapping[str, Any]) -> None:
        self.routes = dict(routes)
        self.calls: list[str] = []
        self.over = threading.Event()
        stand = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                stand.calls.append(f"{self.command} {self.path}")
                said = stand.routes.get(self.path, 404)
                if callable(said):
                    said = said(json.loads(body) if body else None)
                status = said if isinstance(said, int) else 200
                content = (
                    said if isinstance(said, bytes) else b"" if isinstance(said, int) else json.dumps(said).encode()
                )
                try:
                    self.send_response(status)
                    self.send_header("Content-Length", str(len(content)))
                    self.end_headers()
                    self.wfile.write(content)
                except OSError:
                    pass  # the client has hung up

            do_GET = do_POST = answer

            def log_message(self, *_: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 64

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self) -> Stand:
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.server.shutdown()
        self.server.server_close()

    def silent(self, _: Any = None) -> Any:
        """An answer that does not come before the server is closed."""
        self.over.wait(60)
        return 500


def ollama_routes(
    models: Mapping[str, Mapping[str, Any]], loaded: Mapping[str, Mapping[str, Any]] = {}
) -> dict[str, Any]:
    """What an Ollama answers.

    Args:
        models: by name: size (MB), digest, remote, capabilities, info (model_info) as they should be told.
        loaded: by name: size, vram (MB), context.

    """
    tags = [
        {
            "name": name, "model": name, "size": int(one.get("size", 1000) * MB), "digest": one.get("digest", name),
            "details": {"parameter_size": one.get("params", "")}, **({"remote_host": "https://ollama.com"} if one.get("remote") else {}),
        }
        for name, one in models.items()
    ]  # fmt: skip
    ps = [
        {
            "name": name, "model": name, "size": int(one["size"] * MB), "size_vram": int(one["vram"] * MB),
            "digest": models.get(name, {}).get("digest", name), "expires_at": "2318-01-01T00:00:00Z",
            "context_length": one.get("context", 4096),
        }
        for name, one in loaded.items()
    ]  # fmt: skip

    def show(body: Any) -> Any:
        one = models.get(body["model"])
        if one is None:
            return 404
        return {
            "capabilities": one.get("capabilities", ["completion"]),
            "model_info": one.get("info", {}),
            "parameters": one.get("parameters", ""),
        }

    return {
        "/api/version": {"version": "0.33.0"},
        "/api/tags": {"models": tags},
        "/api/ps": {"models": ps},
        "/api/show": show,
    }


def info(kind: str, shape: Shape, params: float = 0) -> dict[str, Any]:
    """model_info of /api/show."""
    told = {
        "general.architecture": kind,
        f"{kind}.block_count": shape.layers,
        f"{kind}.embedding_length": shape.width,
        f"{kind}.attention.head_count": shape.heads,
        f"{kind}.attention.head_count_kv": shape.kv_heads,
        f"{kind}.context_length": shape.train_context,
    }
    return {**told, "general.parameter_count": params} if params else told


GEMMA = {
    "size": 3184,
    "capabilities": ["completion", "vision"],
    "info": info("gemma3", GEMMA_SHAPE, 4.3e9),
    "digest": "aa",
}
BGE = {"size": 1157, "capabilities": ["embedding"], "info": info("bert", BGE_SHAPE, 567e6), "digest": "bb"}


def chat(name: str, size_mb: float = 3184, params: float = 4.3e9, **more: Any) -> OllamaModel:
    """A chat model as it was seen."""
    shape = more.pop("shape", GEMMA_SHAPE)
    file = ModelFile(full_name(name), more.pop("digest", name), size_mb, shape=shape, remote=more.pop("remote", False))
    return OllamaModel(name, file, more.pop("abilities", ("completion",)), params=params, **more)


def embedder(name: str = "bge-m3:latest", size_mb: float = 1157, width: int | None = 1024, **more: Any) -> OllamaModel:
    """An embedding model as it was seen."""
    file = ModelFile(full_name(name), more.pop("digest", name), size_mb, shape=BGE_SHAPE)
    return OllamaModel(name, file, ("embedding",), embedding=True, width=width, params=567e6, **more)


def held(name: str, vram_mb: float, context: int | None = 4096, size_mb: float | None = None) -> Loaded:
    """An entry of /api/ps."""
    return Loaded(full_name(name), "", size_mb or vram_mb, vram_mb, None, context)


def init(
    folder: Path, *arguments: str, env: Mapping[str, str] | None = None, stdin: Any = subprocess.DEVNULL
) -> subprocess.CompletedProcess[str]:
    """Run `litellm-registry init` in a folder, without a terminal."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LITELLM", "OLLAMA"))}
    home = {"HOME": str(folder), "TMPDIR": str(folder)}
    return subprocess.run(
        [SCRIPT, "init", *arguments],
        cwd=folder,
        env={**kept, **home, **(env or {})},
        capture_output=True,
        text=True,
        timeout=120,
        stdin=stdin,
    )


def timed(what: Callable[[], Any]) -> tuple[float, Any]:
    """Return seconds and result."""
    began = time.monotonic()
    result = what()
    return time.monotonic() - began, result
