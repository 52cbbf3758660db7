"""Generated Ollama parameters arrive where Ollama reads them (with the LiteLLM at hand, against a real local server)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from sync_kit import SHIPPED, registry

from litellm_registry_hook.core.sync import wanted_entries

SCRIPT = """
import asyncio, json, sys
from litellm import Router
router = Router(model_list=json.loads(sys.stdin.read()))
async def main():
    await router.acompletion("local-small", messages=[{"role": "user", "content": "x"}], temperature=0.5)
    await router.aembedding("bge-m3", input=["x"])
asyncio.run(main())
"""


class FakeOllama(BaseHTTPRequestHandler):
    """Answers /api/chat and /api/embed and keeps what it was sent."""

    def log_message(self, *args: Any) -> None:
        """Stay quiet."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.seen.append((self.path, body))  # type: ignore[attr-defined]
        answer: dict[str, Any] = {"model": body["model"], "done": True, "done_reason": "stop", "prompt_eval_count": 1}
        answer |= {"message": {"role": "assistant", "content": "hi"}, "eval_count": 1, "embeddings": [[0.5]]}
        payload = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)


@pytest.mark.host
def test_options_arrive_in_their_place() -> None:
    """num_ctx and num_batch arrive in `options`, keep_alive beside them, for chat and for embeddings."""
    with ThreadingHTTPServer(("127.0.0.1", 0), FakeOllama) as server:
        server.seen = []  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        models = [
            {**model, "endpoints": [{"api_base": f"http://127.0.0.1:{server.server_port}"}]}
            for model in SHIPPED["models"]
            if model["id"] in {"local-small", "bge-m3"}
        ]
        entries = json.dumps([dict(entry.content) for entry in wanted_entries(registry(models=models), {})])
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            input=entries.encode(),
            env={**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
            check=True,
            timeout=120,
            capture_output=True,
        )
        server.shutdown()
        seen = server.seen  # type: ignore[attr-defined]

    chat, embed = seen
    assert chat[0] == "/api/chat"
    assert chat[1]["options"] == {"num_ctx": 4096, "num_batch": 512, "temperature": 0.5}
    assert chat[1]["keep_alive"] == "5m"
    assert embed[0] == "/api/embed"
    assert embed[1]["options"] == {"num_batch": 512}
    assert embed[1]["keep_alive"] == -1
