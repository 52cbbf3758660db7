"""OpenAI's Files and Batches API as a stand-in: keeps what is uploaded, and completes no batch."""

from __future__ import annotations

import email.parser
import email.policy
import json
from collections.abc import Mapping
from itertools import count
from typing import Any


class BatchApi:
    """The files and batches of one upstream.

    Attributes:
        files: what was uploaded, by id. purposes: what for. batches: what was created, by id.

    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.files: dict[str, bytes] = {}
        self.purposes: dict[str, str] = {}
        self.batches: dict[str, dict[str, Any]] = {}
        self._numbers = count(1)

    @staticmethod
    def answers(path: str) -> bool:
        return path.startswith(("/v1/files", "/v1/batches"))

    def lines(self, file_id: str) -> list[Any]:
        """What a file holds, parsed line by line."""
        return [json.loads(line) for line in self.files[file_id].splitlines()]

    def answer(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> tuple[int, Any]:
        _, _, kind, *rest = path.split("/")
        return self._file(method, rest, headers, body) if kind == "files" else self._batch(method, rest, body)

    def _file(self, method: str, rest: list[str], headers: Mapping[str, str], body: bytes) -> tuple[int, Any]:
        if method == "POST":
            parts = _form(headers["content-type"], body)
            file_id = f"file-{self.name}{next(self._numbers)}"
            self.files[file_id] = parts["file"]
            self.purposes[file_id] = parts["purpose"].decode()
            return 200, self._shown(file_id)
        if not rest:
            return 200, {"object": "list", "data": [self._shown(one) for one in self.files], "has_more": False}
        if rest[0] not in self.files:
            return 404, {"error": {"message": f"{self.name} has no file {rest[0]}", "type": "not_found"}}
        if method == "DELETE":
            del self.files[rest[0]]
            return 200, {"id": rest[0], "object": "file", "deleted": True}
        return 200, self.files[rest[0]] if rest[1:] == ["content"] else self._shown(rest[0])

    def _batch(self, method: str, rest: list[str], body: bytes) -> tuple[int, Any]:
        if method == "POST" and not rest:
            asked = json.loads(body)
            batch_id = f"batch_{self.name}{next(self._numbers)}"
            self.batches[batch_id] = {
                "id": batch_id, "object": "batch", "status": "validating", "created_at": 1,
                "endpoint": asked["endpoint"], "input_file_id": asked["input_file_id"],
                "completion_window": asked["completion_window"], "metadata": asked.get("metadata"),
            }  # fmt: skip
            return 200, self.batches[batch_id]
        if not rest:
            return 200, {"object": "list", "data": list(self.batches.values()), "has_more": False}
        if rest[0] not in self.batches:
            return 404, {"error": {"message": f"{self.name} has no batch {rest[0]}", "type": "not_found"}}
        if rest[1:] == ["cancel"]:
            self.batches[rest[0]]["status"] = "cancelling"
        return 200, self.batches[rest[0]]

    def _shown(self, file_id: str) -> dict[str, Any]:
        return {
            "id": file_id, "object": "file", "bytes": len(self.files[file_id]), "created_at": 1,
            "filename": "lines.jsonl", "purpose": self.purposes[file_id], "status": "processed",
        }  # fmt: skip


def _form(content_type: str, body: bytes) -> dict[str, bytes]:
    head = f"Content-Type: {content_type}\r\n\r\n".encode()
    message = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + body)
    return {
        str(part.get_param("name", header="content-disposition")): part.get_payload(decode=True)
        for part in message.iter_parts()
    }
