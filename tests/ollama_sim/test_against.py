"""What the stand-in and a real Ollama have in common over HTTP; the real one only where its binary is on PATH."""

from __future__ import annotations

import json
import time
from datetime import datetime

import httpx
import pytest

from ollama_sim.real import NAME, real_ollama
from ollama_sim.scheduler import Sim
from ollama_sim.server import OllamaServer
from ollama_sim.things import Settings, SimModel

SMOL = SimModel(
    NAME,
    file_mb=94,
    vram_mb=200,
    layers=30,
    heads=9,
    kv_heads=3,
    width=576,
    train_ctx=8192,
    params={"num_ctx": 2048},
    vram_ctx=2048,
)
QUICK = Settings(load_s=0.1, recovery_s=0.05, spawn_s=0, exit_s=0)
ANSWER = {"model", "created_at", "done", "done_reason"}
COUNTS = {
    "total_duration",
    "load_duration",
    "prompt_eval_count",
    "prompt_eval_duration",
    "eval_count",
    "eval_duration",
}


@pytest.fixture(scope="module", params=["stand-in", "ollama"])
def url(request, tmp_path_factory):
    """The one, then the other; neither has a GPU, on which an unload's memory would be waited for."""
    if request.param == "ollama":
        with real_ollama(tmp_path_factory.mktemp("ollama")) as made:
            yield made
    else:
        with OllamaServer(Sim("0.33.0", [], [SMOL], time.time, QUICK)) as ollama:
            yield ollama.url


@pytest.fixture
def client(url):
    """A client; nothing is loaded before and after."""
    with httpx.Client(base_url=url, timeout=120) as made:
        gone(made)
        yield made
        gone(made)


def gone(client):
    """Unload the model and wait until /api/ps is empty."""
    client.post("/api/generate", json={"model": NAME, "keep_alive": 0})
    end = time.monotonic() + 20
    while client.get("/api/ps").json()["models"]:
        assert time.monotonic() < end, "the model stays loaded"
        time.sleep(0.02)


def post(client, path, **body):
    """Status and JSON of a POST."""
    answer = client.post(path, json=body)
    return answer.status_code, answer.json()


def seconds_left(client):
    """The seconds until the model expires."""
    (entry,) = client.get("/api/ps").json()["models"]
    moment = entry["expires_at"]
    head, _, tail = moment.partition(".")
    zone = tail.lstrip("0123456789").replace("Z", "+00:00")
    return datetime.fromisoformat(head + zone).timestamp() - time.time()


def test_tags_and_show_tell_the_shape(client):
    """Size, digest, and the fields that a prediction needs."""
    (entry,) = client.get("/api/tags").json()["models"]
    assert (entry["name"], entry["model"]) == (NAME, NAME)
    assert 90 <= entry["size"] / 2**20 <= 100
    assert len(entry["digest"]) == 64
    _, shown = post(client, "/api/show", model=NAME)
    arch = shown["model_info"]["general.architecture"]
    fields = ["block_count", "embedding_length", "attention.head_count", "attention.head_count_kv", "context_length"]
    assert [shown["model_info"][f"{arch}.{field}"] for field in fields] == [30, 576, 9, 3, 8192]
    assert "completion" in shown["capabilities"]
    assert "/sha256-" in next(line for line in shown["modelfile"].splitlines() if line.startswith("FROM "))


def test_an_empty_prompt_loads(client):
    """And /api/ps has it then, under its own name."""
    status, answer = post(client, "/api/generate", model=NAME)
    assert (status, set(answer)) == (200, ANSWER | {"response"})
    assert (answer["response"], answer["done"], answer["done_reason"]) == ("", True, "load")
    (entry,) = client.get("/api/ps").json()["models"]
    assert {"name", "model", "size", "digest", "details", "expires_at", "size_vram"} <= set(entry)
    assert (entry["name"], entry.get("context_length", 2048)) == (NAME, 2048)
    assert entry["size_vram"] <= entry["size"]


def test_keep_alive_0_unloads(client):
    """At once, and it says so."""
    post(client, "/api/generate", model=NAME)
    status, answer = post(client, "/api/generate", model=NAME, keep_alive=0)
    assert (status, answer["done_reason"]) == (200, "unload")


def test_keep_alive_of_the_last_request_that_has_one(client):
    """-1 pins for centuries, none leaves it, 5m un-pins."""
    post(client, "/api/generate", model=NAME, keep_alive=-1)
    assert seconds_left(client) > 200 * 365 * 86400
    post(client, "/api/chat", model=NAME, messages=[])
    assert seconds_left(client) > 200 * 365 * 86400
    post(client, "/api/generate", model=NAME, keep_alive="5m")
    assert 200 < seconds_left(client) <= 301


def test_names_in_any_spelling(client):
    """Host, namespace and case make no difference."""
    spelled = f"registry.ollama.ai/library/{NAME}".replace("smol", "SMOL")
    assert post(client, "/api/generate", model=spelled)[0] == 200
    assert [entry["name"].lower() for entry in client.get("/api/ps").json()["models"]] == [NAME]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("path", "body", "part"),
    [
        ("/api/generate", {"prompt": "Say hi"}, "response"),
        ("/api/chat", {"messages": [{"role": "user", "content": "Say hi"}]}, "message"),
    ],
)
def test_answers(client, path, body, part, stream):
    """One object, or a line for each piece; the counts are in the last one."""
    body = {"model": NAME, "stream": stream, "options": {"num_predict": 8, "seed": 1}, **body}
    answer = client.post(path, json=body)
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert (len(lines) > 1) is stream
    assert all({"model", "created_at", part, "done"} <= set(line) for line in lines)
    assert [line["done"] for line in lines] == [False] * (len(lines) - 1) + [True]
    assert ANSWER | COUNTS <= set(lines[-1])
    said = "".join(line["response"] if part == "response" else line["message"]["content"] for line in lines)
    assert said.strip()


@pytest.mark.parametrize("path", ["/api/generate", "/api/chat", "/api/embed", "/api/show"])
def test_an_unknown_model_is_a_404(client, path):
    """With an error that names it."""
    status, answer = post(client, path, model="nobody-has-this", input="x", prompt="x")
    assert (status, set(answer)) == (404, {"error"})
    assert "nobody-has-this" in answer["error"]


def test_a_keep_alive_without_a_unit_is_a_400(client):
    """Go's own words."""
    status, answer = post(client, "/api/generate", model=NAME, keep_alive="300")
    assert status == 400
    assert 'time: missing unit in duration "300"' in answer["error"]


def test_another_context_reloads_the_model(client):
    """/api/ps has the new one."""
    post(client, "/api/generate", model=NAME, options={"num_ctx": 1024})
    (entry,) = client.get("/api/ps").json()["models"]
    if "context_length" not in entry:
        pytest.skip("this version of Ollama does not tell the context")
    assert entry["context_length"] == 1024
    post(client, "/api/generate", model=NAME, options={"num_ctx": 512})
    assert [entry["context_length"] for entry in client.get("/api/ps").json()["models"]] == [512]


def test_reads_load_nothing(client):
    """tags, show, version and ps leave memory alone."""
    for path in ("/api/tags", "/api/version", "/api/ps", "/"):
        assert client.get(path).status_code == 200
    post(client, "/api/show", model=NAME)
    assert client.get("/api/ps").json()["models"] == []
