"""The stand-in over HTTP, in real time with short durations: forms, errors, hang-ups, stalls, NVML's file."""

from __future__ import annotations

import json
import socket
import threading
import time
from datetime import datetime

import httpx
import pytest

from nvml import stub
from ollama_sim.homelab import QUICK, large_house, small_house
from ollama_sim.scheduler import BUSY, OOM
from ollama_sim.things import Settings

LOAD = {"options": {"num_ctx": 4096, "num_batch": 512}, "stream": False}


@pytest.fixture
def house(tmp_path):
    """The small house."""
    with small_house(tmp_path) as made:
        yield made


@pytest.fixture
def client(house):
    """A client of its Ollama."""
    with httpx.Client(base_url=house.ollama.url, timeout=10) as made:
        yield made


class Post(threading.Thread):
    """A request in a thread of its own."""

    method = "POST"

    def __init__(self, url, path, **body):
        super().__init__(daemon=True)
        self.url, self.path, self.body, self.answer = url, path, body, None
        self.start()

    def run(self):
        try:
            self.answer = httpx.request(self.method, self.url + self.path, json=self.body or None, timeout=10)
        except httpx.HTTPError as error:
            self.answer = error

    def result(self):
        self.join(10)
        return self.answer


class Get(Post):
    """The same with GET."""

    method = "GET"


def post(client, path, **body):
    """Status and JSON of a POST."""
    answer = client.post(path, json=body)
    return answer.status_code, answer.json()


def ps(client):
    """The names in /api/ps."""
    return [entry["name"] for entry in client.get("/api/ps").json()["models"]]


def without_time(answer):
    """An answer without its moment and durations."""
    return {name: value for name, value in answer.items() if name != "created_at" and "duration" not in name}


def test_a_chat_loads_its_model_and_ps_shows_it(house, client):
    """Every field of the entry."""
    status, answer = post(
        client, "/api/chat", model="gemma3:4b", messages=[{"role": "user", "content": "x"}], keep_alive=-1, **LOAD
    )
    assert (status, without_time(answer)) == (
        200,
        {
            "model": "gemma3:4b",
            "message": {"role": "assistant", "content": "this is an answer"},
            "done": True,
            "done_reason": "stop",
            "prompt_eval_count": 4,
            "eval_count": 4,
        },
    )
    (entry,) = client.get("/api/ps").json()["models"]
    expires = entry.pop("expires_at")
    assert expires.startswith("2319") or expires.startswith("2318")
    (tag,) = [one for one in client.get("/api/tags").json()["models"] if one["name"] == "gemma3:4b"]
    assert entry == {
        "name": "gemma3:4b",
        "model": "gemma3:4b",
        "size": 3300 * 2**20,
        "digest": tag["digest"],
        "details": tag["details"],
        "size_vram": 3300 * 2**20,
        "context_length": 4096,
    }


def test_a_stream(client):
    """One JSON object a line, the last one done."""
    with client.stream("POST", "/api/generate", json={"model": "gemma3:4b", "prompt": "x"}) as answer:
        assert answer.headers["content-type"] == "application/x-ndjson"
        lines = [json.loads(line) for line in answer.iter_lines()]
    assert [(line["response"], line["done"]) for line in lines] == [
        ("this ", False),
        ("is ", False),
        ("an ", False),
        ("answer", False),
        ("", True),
    ]


def test_empty_prompts_load_and_unload(house, client):
    """Load, then unload at once; an embedding model is loaded by /api/embed and unloaded by /api/generate."""
    assert without_time(post(client, "/api/generate", model="gemma3:4b", **LOAD)[1]) == {
        "model": "gemma3:4b",
        "response": "",
        "done": True,
        "done_reason": "load",
    }
    status, answer = post(client, "/api/embed", model="bge-m3", input=[], keep_alive=-1)
    assert (status, answer["embeddings"]) == (200, [])
    assert ps(client) == ["bge-m3:latest", "gemma3:4b"]
    for name in ("gemma3:4b", "bge-m3"):
        assert without_time(post(client, "/api/generate", model=name, keep_alive=0)[1]) == {
            "model": name,
            "response": "",
            "done": True,
            "done_reason": "unload",
        }
    house.ollama.wait(lambda sim: not sim.names())
    assert [call.empty for call in house.ollama.uses] == [True] * 4


@pytest.mark.parametrize(
    ("path", "body", "status", "error"),
    [
        ("/api/generate", {"model": "bge-m3", "prompt": "x"}, 400, '"bge-m3" does not support generate'),
        ("/api/generate", {"model": "bge-m3"}, 400, '"bge-m3" does not support generate'),
        ("/api/chat", {"model": "bge-m3", "messages": [{}]}, 400, '"bge-m3" does not support chat'),
        ("/api/embed", {"model": "gemma3:4b", "input": "x"}, 501, "this model does not support embeddings"),
        ("/api/chat", {"model": "nope"}, 404, "model 'nope' not found"),
        ("/api/show", {"model": "nope"}, 404, "model 'nope' not found"),
        ("/api/generate", {}, 400, "model is required"),
        (
            "/api/generate",
            {"model": "gemma3:4b", "keep_alive": "300"},
            400,
            'time: missing unit in duration "300"',
        ),
    ],
)
def test_refusals(house, client, path, body, status, error):
    """Ollama's own words; nothing is loaded."""
    assert post(client, path, **body) == (status, {"error": error})
    assert house.ollama.look(lambda sim: sim.events) == []


def test_embeddings_have_their_dimensions(client):
    """Both paths; `dimensions` cuts."""
    assert len(post(client, "/api/embed", model="bge-m3", input=["a", "b"])[1]["embeddings"][1]) == 1024
    assert len(post(client, "/api/embed", model="bge-m3", input="a", dimensions=8)[1]["embeddings"][0]) == 8
    assert len(post(client, "/api/embeddings", model="bge-m3", prompt="a")[1]["embedding"]) == 1024


def test_show_has_the_shape_and_the_blob(client):
    """What the prediction is made of."""
    shown = post(client, "/api/show", model="gemma3:4b")[1]
    assert shown["model_info"] == {
        "general.architecture": "gemma3",
        "general.file_type": 15,
        "general.parameter_count": 4776000000,
        "gemma3.block_count": 34,
        "gemma3.embedding_length": 2560,
        "gemma3.attention.head_count": 8,
        "gemma3.attention.head_count_kv": 4,
        "gemma3.context_length": 131072,
    }
    (origin,) = [line for line in shown["modelfile"].splitlines() if line.startswith("FROM ")]
    assert "/blobs/sha256-" in origin
    assert shown["capabilities"] == ["completion", "tools"]


def test_version_and_root(client):
    """As any Ollama."""
    assert client.get("/api/version").json() == {"version": "0.33.0"}
    assert client.get("/").text == "Ollama is running"
    assert client.head("/api/version").status_code == 200


def test_out_of_memory_is_a_500(house, client):
    """In the words of the runner."""
    house.ollama.do(lambda sim: sim.fail_next_load("gemma3:4b"))
    assert post(client, "/api/generate", model="gemma3:4b", prompt="x") == (500, {"error": OOM})


def test_a_full_queue_is_a_503(tmp_path):
    """OLLAMA_MAX_QUEUE 1: one loads, one waits, the third is refused."""
    with small_house(tmp_path, Settings(max_queue=1, load_s=30)) as house:
        Post(house.ollama.url, "/api/generate", model="gemma3:4b")
        house.ollama.wait(lambda sim: sim.said("load_begin"))
        Post(house.ollama.url, "/api/generate", model="qwen:4b")
        house.ollama.wait(lambda sim: sim.waiting == 1)
        third = httpx.post(f"{house.ollama.url}/api/generate", json={"model": "qwen:4b"})
    assert (third.status_code, third.json()) == (503, {"error": BUSY})


def test_a_hang_up_during_a_load_aborts_it(tmp_path):
    """The client closes its connection while the model loads."""
    with small_house(tmp_path, Settings(load_s=30, recovery_s=0.1)) as house:
        body = b'{"model": "gemma3:4b"}'
        head = f"POST /api/generate HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        with socket.create_connection(("127.0.0.1", house.ollama.port)) as client:
            client.sendall(head + body)
            house.ollama.wait(lambda sim: sim.said("load_begin"))
        house.ollama.wait(lambda sim: sim.said("load_aborted"))
        house.ollama.wait(lambda sim: sim.used_mb() == 1800)
        assert house.ollama.look(lambda sim: ([one.ok for one in sim.loads], sim.names())) == ([False], [])


def test_ps_stalls_as_long_as_it_is_told(house):
    """Other reads go on, and it answers as soon as the stall ends."""
    house.ollama.do(lambda sim: sim.stall(time.time() + 3600))
    asked = Get(house.ollama.url, "/api/ps")
    house.ollama.wait(lambda sim: len(house.ollama.calls) == 1)
    assert httpx.get(f"{house.ollama.url}/api/tags").status_code == 200
    assert asked.answer is None
    house.ollama.do(lambda sim: sim.stall(0))
    assert asked.result().json() == {"models": []}


def test_ps_stalls_while_a_model_spawns(tmp_path):
    """It comes back no earlier than the spawn has ended, before the load has."""
    with small_house(tmp_path, Settings(load_s=30, spawn_s=0.4)) as house:
        Post(house.ollama.url, "/api/generate", model="gemma3:4b")
        (began,) = house.ollama.wait(lambda sim: sim.said("load_begin"))
        assert httpx.get(f"{house.ollama.url}/api/ps").json() == {"models": []}
        assert time.time() >= began.at + 0.4


def test_a_held_model_is_busy(house, client):
    """Its answers do not end; an unload waits for them; expires_at lies in the past."""
    with house.ollama.held("gemma3:4b"):
        busy = Post(house.ollama.url, "/api/generate", model="gemma3:4b", prompt="x", stream=False)
        house.ollama.wait(lambda sim: sim.names() == ["gemma3:4b"])
        post(client, "/api/generate", model="gemma3:4b", keep_alive=0)
        (entry,) = client.get("/api/ps").json()["models"]
        assert datetime.fromisoformat(entry["expires_at"][:19]) <= datetime.now()
    assert busy.result().status_code == 200
    house.ollama.wait(lambda sim: not sim.names())


def test_a_client_that_leaves_a_held_stream_frees_the_model(house):
    """The request ends with its client."""
    with house.ollama.held("gemma3:4b"):
        with httpx.stream("POST", f"{house.ollama.url}/api/generate", json={"model": "gemma3:4b", "prompt": "x"}) as it:
            next(it.iter_lines())
        house.ollama.wait(lambda sim: sim.runner("gemma3:4b").refs == 0)


def test_a_model_that_dies_at_work_ends_its_answers(house):
    """500, and everything has expired."""
    with house.ollama.held("gemma3:4b"):
        busy = Post(house.ollama.url, "/api/generate", model="gemma3:4b", prompt="x", stream=False)
        house.ollama.wait(lambda sim: sim.names() == ["gemma3:4b"])
        house.ollama.do(lambda sim: sim.runtime_oom("gemma3:4b"))
        assert (busy.result().status_code, busy.result().json()) == (500, {"error": OOM})


def test_a_killed_server_refuses_and_comes_back_empty(house, client):
    """The same port."""
    post(client, "/api/generate", model="gemma3:4b", **LOAD)
    house.ollama.down()
    assert house.card.used_mb == 1800
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{house.ollama.url}/api/ps")
    house.ollama.up()
    assert httpx.get(f"{house.ollama.url}/api/ps").json() == {"models": []}


def test_the_nvml_file_follows_the_card(house, client):
    """Loads climb into it, unloads leave it, another process shows in it, the driver fails in it."""

    def used():
        return stub_numbers(house)["used_mib"]

    assert stub_numbers(house) == {"gpu": "GTX 1070", "uuid": "GPU-stub-1070", "total_mib": "8192", "used_mib": "1800"}
    post(client, "/api/generate", model="gemma3:4b", **LOAD)
    assert used() == "5100"
    house.ollama.do(lambda sim: sim.foreign(0, 500))
    assert used() == "5600"
    post(client, "/api/generate", model="gemma3:4b", keep_alive=0)
    house.ollama.wait(lambda sim: sim.said("memory_back"))
    house.tei.down()
    assert used() == "600"
    house.nvml.fail(err_mem=15)
    assert "err_mem = 15" in house.nvml.path.read_text()
    house.nvml.ok()
    assert house.nvml.path.read_text() == stub.text(
        [stub.Card(name="GTX 1070", uuid="GPU-stub-1070", total_mib=8192, used_mib=600)]
    )


def stub_numbers(house):
    """The main keys of NVML's file."""
    lines = dict(line.split(" = ", 1) for line in house.nvml.path.read_text().splitlines())
    return {name: lines[name] for name in ("gpu", "uuid", "total_mib", "used_mib")}


def test_tei_has_a_health_and_its_memory(house):
    """200, 503 while too busy, refused when it is dead; and back."""
    health = f"{house.tei.url}/health"
    assert httpx.get(health).status_code == 200
    house.tei.status = 503
    assert httpx.get(health).status_code == 503
    house.tei.down()
    with pytest.raises(httpx.ConnectError):
        httpx.get(health)
    assert house.card.used_mb == 100
    house.tei.up()
    assert (httpx.post(f"{house.tei.url}/rerank", json={"query": "q", "texts": ["a"]}).json(), house.card.used_mb) == (
        [{"index": 0, "score": 0.5}],
        1800,
    )


def test_two_models_of_9_gb_asked_for_at_once(tmp_path):
    """Left to Ollama the one replaces the other, load after load; both requests are answered."""
    with large_house(tmp_path, QUICK) as house:
        posts = [Post(house.ollama.url, "/api/generate", model=name, **LOAD) for name in ("big-a:14b", "big-b:14b")]
        assert [one.result().status_code for one in posts] == [200, 200]
        loads, evictions = house.ollama.look(lambda sim: (sim.loads, sim.evictions))
    assert loads[0].end <= loads[1].begin
    assert [(event.model, event.by) for event in evictions] == [(loads[0].model, loads[1].model)]


def test_calls_are_recorded(house, client):
    """What arrived: path, keep_alive, options."""
    post(client, "/api/embed", model="bge-m3", input=["x"], keep_alive=-1, options={"num_batch": 512})
    (call,) = house.ollama.uses
    assert (call.path, call.model, call.keep_alive, call.options) == ("/api/embed", "bge-m3", -1, {"num_batch": 512})
