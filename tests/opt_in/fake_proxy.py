"""A hand-written stand-in of LiteLLM's key routes: /key/list, /key/info, /key/update on 127.0.0.1."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

ADMIN = "sk-fake-admin-000001"


class FakeProxy:
    """Keys by token; pages of two, so that paging is seen.

    Attributes:
        rows: token -> row, as LiteLLM keeps it.
        calls: every request, "METHOD path".
        broken: status and body to answer with instead.

    """

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, Any]] = {}
        self.calls: list[str] = []
        self.broken: tuple[int, Any] | None = None
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._do("GET", None)

            def do_POST(self) -> None:
                self._do("POST", json.loads(self.rfile.read(int(self.headers["content-length"]))))

            def _do(self, method: str, body: Any) -> None:
                fake.calls.append(f"{method} {urlsplit(self.path).path}")
                status, answer = fake.answer(self.path, body, self.headers.get("authorization", ""))
                raw = json.dumps(answer).encode()
                self.send_response(status)
                if status == 307:
                    self.send_header("location", "http://127.0.0.1:1/elsewhere")
                self.send_header("content-length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self) -> FakeProxy:
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def key(self, token: str, alias: str, **permissions: Any) -> None:
        self.rows[token] = {"token": token, "key_alias": alias, "permissions": permissions}

    def answer(self, path: str, body: Any, auth: str) -> tuple[int, Any]:
        if auth != f"Bearer {ADMIN}":
            return 401, {"error": {"message": "Authentication Error", "code": "401"}}
        if self.broken is not None:
            return self.broken
        parts = urlsplit(path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if parts.path == "/key/list":
            found = [row for row in self.rows.values() if query.get("key_alias") in (None, row["key_alias"])]
            page, size = int(query["page"]), min(2, int(query["size"]))
            pages = max(1, -(-len(found) // size))
            return 200, {
                "keys": found[(page - 1) * size : page * size],
                "total_count": len(found),
                "current_page": page,
                "total_pages": pages,
            }
        token = query.get("key") if parts.path == "/key/info" else body["key"]
        if token not in self.rows:
            return 404, {"error": {"message": "Key not found in database", "code": "404"}}
        row = self.rows[token]
        if parts.path == "/key/update":
            row["permissions"] = body["permissions"]
            return 200, {**row, "key": token}
        return 200, {"key": token, "info": {name: value for name, value in row.items() if name != "token"}}
