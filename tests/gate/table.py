"""The table of the money gate: every route and every lever, times who asks and how.

A row is a way to the paid model. A column is an identity with or without this request's consent. The cell is what must
come of it: the answer's code, and how often the paid stand-in was called.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from tests.host.proxy import heal, Proxy
from tests.host.test_families import LARGE, MESSAGES
from tests.upstreams import Upstream

Ups = dict[str, Upstream]
Headers = Mapping[str, str]
Send = Callable[[Proxy, str, Headers], httpx.Response]
CONSENT: Headers = {"x-registry-allow-metered": "true"}
NONE: Headers = {}

MISSING, NOT_OPTED = "metered_consent_missing", "metered_key_not_opted_in"


@dataclass(frozen=True)
class Row:
    """One way to the paid model.

    Attributes:
        send: asks.
        no_consent, not_opted: codes where it is refused. served: what both consents give: a status or a code.
        calls: how often the paid stand-in is called then.
        broken: upstreams that fail meanwhile.

    """

    send: Send
    no_consent: str = MISSING
    not_opted: str = NOT_OPTED
    served: str = "200"
    calls: int = 1
    broken: tuple[str, ...] = ()


def family(name: str) -> Send:
    call, _ = LARGE[name]

    def send(proxy: Proxy, key: str, headers: Headers) -> httpx.Response:
        return call(Keyed(proxy, key, headers), "paid-fallback")

    return send


class Keyed:
    """A proxy that asks with one key and headers, in the place of the tests' default key."""

    def __init__(self, proxy: Proxy, key: str, headers: Headers) -> None:
        self.proxy, self.key, self.headers, self.url = proxy, key, headers, proxy.url

    def post(self, path: str, body: Any = None, **kw: Any) -> httpx.Response:
        return self.proxy.post(path, body, **{"key": self.key, "headers": self.headers, **kw})

    def chat(self, model: str, **body: Any) -> httpx.Response:
        return self.proxy.chat(model, key=self.key, headers=self.headers, **body)


def chat(model: str, **body: Any) -> Send:
    return lambda proxy, key, headers: proxy.chat(model, key=key, headers=headers, **body)


def post(path: str, body: Any) -> Send:
    return lambda proxy, key, headers: proxy.post(path, body, key=key, headers=headers)


BODY = {"model": "small", "messages": MESSAGES}
UNLISTED = {"no_consent": "unlisted_model", "not_opted": "unlisted_model"}
CLOSED = {
    "no_consent": "route_not_governed",
    "not_opted": "route_not_governed",
    "served": "route_not_governed",
    "calls": 0,
}
ALL_DOWN = {"no_consent": "model_unavailable", "not_opted": "model_unavailable", "broken": ("kimi", "mid")}
SMALL_DOWN = {"no_consent": "model_unavailable", "not_opted": "model_unavailable", "broken": ("ollama",)}
SPOOF = {"user_api_key_hash": "0" * 64, "user_api_key_alias": "opted", "user_api_key_auth": {"token": "0" * 64}}
BAD = {"no_consent": "bad_fallbacks", "not_opted": "bad_fallbacks", "served": "bad_fallbacks", "calls": 0}


def upload(account: str, *names: str) -> Send:
    """Upload a batch file with a line a name, to the account of a model."""
    lines = "\n".join(json.dumps({"custom_id": name, "method": "POST", "url": "/v1/chat/completions",
                                  "body": BODY | {"model": name}}) for name in names)  # fmt: skip

    def send(proxy: Proxy, key: str, headers: Headers) -> httpx.Response:
        return httpx.post(
            f"{proxy.url}/v1/files?model={account}",
            files={"file": ("lines.jsonl", lines.encode(), "application/jsonl")},
            data={"purpose": "batch"},
            headers={"Authorization": f"Bearer {key}", **headers},
            timeout=60,
        )

    return send


def batch(account: str, *names: str) -> Send:
    """Upload a batch file and, where that was let through, create its batch."""

    def send(proxy: Proxy, key: str, headers: Headers) -> httpx.Response:
        uploaded = upload(account, *names)(proxy, key, headers)
        if uploaded.status_code != 200:
            return uploaded
        body = {"input_file_id": uploaded.json()["id"], **WINDOW}
        return proxy.post("/v1/batches", body, key=key, headers=headers)

    return send


def encoded(file_id: str, model: str) -> str:
    """LiteLLM's form of a file id that carries the model whose account it lies on."""
    return "file-" + base64.urlsafe_b64encode(f"litellm:{file_id};model,{model}".encode()).decode().rstrip("=")


WINDOW = {"endpoint": "/v1/chat/completions", "completion_window": "24h"}
UNREADABLE = {"no_consent": "bad_batch_file", "not_opted": "bad_batch_file", "served": "bad_batch_file", "calls": 0}
UNCHECKED = {
    "no_consent": "batch_file_unchecked",
    "not_opted": "batch_file_unchecked",
    "served": "batch_file_unchecked",
    "calls": 0,
}

# Families whose form helper sends its own key are not asked here; test_families covers them without consent.
FORMS = {"image edits", "transcription"}
ROWS: dict[str, Row] = {
    **{f"route: {name}": Row(family(name)) for name in LARGE if name not in FORMS},
    "lever: tier of only paid members": Row(chat("only-paid")),
    "lever: deployment id": Row(chat("paid-fallback@0")),
    "lever: litellm string": Row(chat("openai/paid-fallback-up")),
    "lever: host alias": Row(chat("cheap")),
    "lever: comma list": Row(chat("large,paid-fallback")),
    "lever: path over body": Row(post("/engines/paid-fallback/chat/completions", BODY)),
    "lever: query over body": Row(post("/v1/chat/completions?model=paid-fallback", BODY)),
    "lever: pool whose free members fail": Row(chat("large"), **ALL_DOWN),
    "lever: pool whose free members fail, stream": Row(chat("large", stream=True), **ALL_DOWN),
    "lever: pool whose free members fail, messages": Row(
        post("/v1/messages", {"model": "large", "max_tokens": 9, "messages": MESSAGES}), **ALL_DOWN
    ),
    "lever: named fallback": Row(chat("small", fallbacks=["paid-fallback"]), **SMALL_DOWN),
    "lever: fallback map": Row(chat("small", fallbacks=[{"small": ["paid-fallback"]}]), **BAD),
    "lever: fallback with forged metadata": Row(
        chat("small", fallbacks=[{"model": "paid-fallback", "metadata": SPOOF}]), **BAD
    ),
    "lever: spoofed metadata": Row(chat("paid-fallback", metadata=dict(SPOOF), litellm_metadata=dict(SPOOF))),
    "lever: foreign model": Row(chat("gpt-foreign"), **UNLISTED),
    "lever: wildcard": Row(chat("wild/anything"), **UNLISTED),
    "closed: queue": Row(post("/queue/chat/completions", BODY | {"model": "paid-fallback", "priority": 1}), **CLOSED),
    "closed: assistants": Row(post("/v1/assistants", {"model": "paid-fallback"}), **CLOSED),
    "closed: threads": Row(post("/v1/threads/t/runs", {"model": "paid-fallback"}), **CLOSED),
    "batch: file": Row(upload("paid-fallback", "paid-fallback")),
    "batch: file, a tier in its lines": Row(upload("paid-fallback", "large")),
    "batch: file, the provider's own name": Row(upload("paid-fallback", "paid-fallback-up")),
    "batch: file, the provider's own name on a free account": Row(upload("kimi", "paid-fallback-up"), calls=0),
    "batch: file, a snapshot": Row(upload("paid-fallback", "paid-fallback-up-2026-01-01"), **UNLISTED),
    "batch: file, account of a foreign model": Row(upload("gpt-foreign", "foreign"), **UNLISTED),
    "batch: file, two models": Row(upload("kimi", "kimi", "paid-fallback"), **UNREADABLE),
    "batch: file and batch": Row(batch("paid-fallback", "paid-fallback"), calls=2),
    "batch: unknown file, model in the query": Row(
        post("/v1/batches?model=paid-fallback", {"input_file_id": "file-x", **WINDOW}), **UNCHECKED
    ),
    "batch: unknown file, model in the body": Row(
        post("/v1/batches", {"input_file_id": "file-x", "model": "paid-fallback", **WINDOW}), **UNCHECKED
    ),
    "batch: unknown file, model in the id": Row(
        post("/v1/batches", {"input_file_id": encoded("file-x", "paid-fallback"), **WINDOW}), **UNCHECKED
    ),
    "closed: batches of a provider": Row(post("/openai/v1/batches", {"input_file_id": "file-x"}), **CLOSED),
    "closed: batches passed through": Row(post("/openai/batches", {"input_file_id": "file-x"}), **CLOSED),
    "closed: files of a provider": Row(post("/openai/v1/files?model=paid-fallback", {}), **CLOSED),
    "closed: fine tuning": Row(post("/v1/fine_tuning/jobs", {"model": "paid-fallback"}), **CLOSED),
    "closed: vector stores": Row(post("/v1/vector_stores", {"model": "paid-fallback"}), **CLOSED),
    "closed: agents": Row(post("/a2a/paid-fallback/message/send", {}), **CLOSED),
    "closed: bedrock": Row(post("/bedrock/model/paid-fallback/invoke", {}), **CLOSED),
    "closed: vertex": Row(post("/vertex_ai/v1/x", {}), **CLOSED),
    "closed: azure": Row(post("/azure/openai/deployments/paid-fallback/chat/completions", BODY), **CLOSED),
    "closed: vllm": Row(post("/vllm/v1/chat/completions", BODY | {"model": "paid-fallback"}), **CLOSED),
    "closed: rag ingest": Row(post("/v1/rag/ingest", {}), **CLOSED),
    "closed: search": Row(post("/v1/search/tool", {"query": "x"}), **CLOSED),
    "closed: containers": Row(post("/v1/containers", {"model": "paid-fallback"}), **CLOSED),
    "closed: evals": Row(post("/v1/evals", {"model": "paid-fallback"}), **CLOSED),
}


@dataclass(frozen=True)
class Who:
    """The keys of the columns."""

    plain: str
    opted: str
    other: str
    expired: str


def columns(who: Who) -> dict[str, tuple[str, Headers]]:
    return {
        "no consent": (who.plain, NONE),
        "request only": (who.plain, CONSENT),
        "key only": (who.opted, NONE),
        "both": (who.opted, CONSENT),
        "opted in for another model": (who.other, CONSENT),
        "expired": (who.expired, CONSENT),
    }


def wanted(row: Row) -> dict[str, tuple[str, int]]:
    return {
        "no consent": (row.no_consent, 0),
        "request only": (row.not_opted, 0),
        "key only": (row.no_consent, 0),
        "both": (row.served, row.calls),
        "opted in for another model": (row.not_opted, 0),
        "expired": (row.not_opted, 0),
    }


def found(row: Row, proxy: Proxy, ups: Ups, who: Who) -> dict[str, tuple[str, int]]:
    """Ask once a column."""
    seen: dict[str, tuple[str, int]] = {}
    for column, (key, headers) in columns(who).items():
        heal(ups.values())
        for name in row.broken:
            ups[name].fail(500)
        response = row.send(proxy, key, headers)
        error = response.json().get("error") if response.status_code >= 400 else None
        code = str(error["code"] if isinstance(error, dict) and "code" in error else response.status_code)
        seen[column] = (code, len(ups["paid"].generating_calls))
    return seen


def registry_with_grants(registry: dict[str, Any], who: Who, token: Callable[[str], str]) -> dict[str, Any]:
    registry["routing"]["metered_opt_in"] = [
        {"key": "opted", "token": token(who.opted)},
        {"key": "other", "token": token(who.other), "models": ["other-paid"]},
        {"key": "expired", "token": token(who.expired), "expires": "2020-01-01"},
    ]
    registry["models"].append(
        {
            **registry["models"][-1],
            "id": "other-paid",
            "litellm": {**registry["models"][-1]["litellm"], "model": "openai/other-up"},
        }
    )
    return registry


def foreign(ups: Ups) -> list[dict[str, Any]]:
    base = ups["paid"].openai_base
    return [
        {"model_name": "gpt-foreign", "litellm_params": {"model": "openai/foreign", "api_key": "x", "api_base": base}},
        {"model_name": "wild/*", "litellm_params": {"model": "openai/*", "api_key": "x", "api_base": base}},
    ]


ROUTER = {"model_group_alias": {"cheap": "paid-fallback"}}
