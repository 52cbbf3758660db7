"""A whole look: every server of the registry, at once, within its bound, whatever they do."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from gpu.scripted import Scripted, hang_up, ollama, tag_entry

from litellm_registry_hook.core.gpu.facts import Gpu, Nvml
from litellm_registry_hook.core.registry import Registry
from litellm_registry_hook.edges.gpu.eyes import MachineEyes
from litellm_registry_hook.edges.gpu.health import HealthReader
from litellm_registry_hook.edges.gpu.nvml import Driver
from litellm_registry_hook.edges.gpu.parallel import AtOnce

NOW = 1796050000.0
GPU = Gpu("GPU-a", 0, "GTX 1070", 8192.0, 5000.0)


class Card(Driver):
    """A driver with one GPU; `gate` holds its answer back."""

    def __init__(self) -> None:
        super().__init__()
        self.gate: threading.Event | None = None
        self.reads = 0

    def read(self, now: float) -> Nvml:
        self.reads += 1
        if self.gate is not None:
            self.gate.wait(30)
        self.last = Nvml("ok", "ok", "", (GPU,))
        return self.last


def entry(id: str, name: str, *bases: str, residency: bool = True, **more: Any) -> dict[str, Any]:
    endpoints = [base if isinstance(base, dict) else {"api_base": base} for base in bases]
    found = {"id": id, "role": "chat", "lifecycle": "always-on", "metered": False, "litellm": {"model": name}}
    return {**found, "endpoints": endpoints, **({"gpu_residency": {"vram_mb": 1}} if residency else {}), **more}


def registry(*entries: dict[str, Any]) -> Registry:
    return Registry.model_validate({"version": 1, "models": list(entries), "routing": {"tiers": {}}})


@pytest.fixture
def servers():
    with Scripted() as one, Scripted() as two, Scripted() as tei:
        ollama(one)
        ollama(two, ps=[])
        tei.answers["/health"] = {}
        yield one, two, tei


def eyes_of(found: Registry, driver: Driver | None = None, env: dict[str, str] | None = None, **more: Any):
    return MachineEyes(lambda: found, env or {}, lambda: NOW, driver=driver or Card(), machine="box", **more)


def test_one_look_at_everything(servers):
    """Each Ollama address is asked once, `gpu: none` too; others with gpu_residency by their health; NVML beside."""
    one, two, tei = servers
    found = registry(
        entry("a", "ollama_chat/gemma3:4b", one.url + "/"),
        entry("b", "ollama/bge-m3", one.url, "os.environ/SECOND"),
        entry("c", "ollama_chat/small", {"api_base": "os.environ/SECOND", "gpu": "none"}, residency=False),
        entry("d", "huggingface/r", {"api_base": tei.url, "health_url": f"{tei.url}/health"}),
        entry("e", "openai/remote", "https://api.example.test", residency=False),
    )
    eyes = eyes_of(found, env={"SECOND": two.url})
    seen = eyes.look()
    eyes.close()
    assert (seen.at, seen.machine, seen.nvml.gpus, seen.health) == (NOW, "box", (GPU,), {tei.url: "up"})
    assert {base: (server.state, len(server.loaded)) for base, server in seen.servers.items()} == {
        one.url: ("up", 1),
        two.url: ("up", 0),
    }
    assert one.paths().count("/api/ps") == two.paths().count("/api/ps") == 1


def test_a_server_with_two_addresses_is_asked_once(servers):
    """`localhost` and 127.0.0.1, and another provider's /v1, are one server, under its first name, with all its models."""
    one, _, _ = servers
    ollama(one, ps=[], tags=[tag_entry(), tag_entry("b", digest="b"), tag_entry("c", digest="c")])
    found = registry(
        entry("c", "openai/c", one.url + "/v1"),
        entry("a", "ollama_chat/gemma3:4b", one.url),
        entry("b", "ollama/b", one.url.replace("127.0.0.1", "localhost")),
    )
    eyes = eyes_of(found)
    seen = eyes.look()
    assert set(seen.servers) == {one.url}
    assert {name.rpartition("/")[2]: file.shape is not None for name, file in seen.servers[one.url].files.items()} == {
        "gemma3:4b": True,
        "b:latest": True,
        "c:latest": True,
    }
    assert one.paths().count("/api/ps") == 1
    eyes.look([one.url.replace("127.0.0.1", "localhost") + "/v1/"])
    eyes.close()
    assert one.paths() == ["/api/ps"]


def test_an_address_that_is_not_set_is_left_out(servers):
    """`os.environ/NAME` of an unset name is no server: nobody is asked in its place."""
    one, _, _ = servers
    found = registry(
        entry("a", "ollama_chat/gemma3:4b", one.url, "os.environ/UNSET"), entry("d", "vllm/r", "os.environ/NO")
    )
    eyes = eyes_of(found)
    seen = eyes.look()
    eyes.close()
    assert (set(seen.servers), seen.health) == ({one.url}, {})


def test_a_look_at_one_server_leaves_the_others_as_they_were(servers):
    """With `bases` only these and NVML are read anew, once everything has been read."""
    one, two, tei = servers
    found = registry(
        entry("a", "ollama_chat/gemma3:4b", one.url),
        entry("b", "ollama_chat/b", two.url),
        entry("d", "vllm/r", tei.url),
    )
    driver = Card()
    eyes = eyes_of(found, driver)
    first = eyes.look([one.url])
    assert (one.paths()[0], two.paths()[0], tei.paths()) == ("/api/ps", "/api/ps", ["/health"])
    second = eyes.look([one.url + "/"])
    eyes.close()
    assert (one.paths(), two.paths(), tei.paths(), driver.reads) == (["/api/ps"], [], [], 2)
    assert second.servers[two.url] == first.servers[two.url]
    assert second.health == first.health == {tei.url: "up"}


def test_a_look_ends_in_time_whatever_hangs(servers):
    """Servers and a driver that hang cost one bound together: stalled, busy, and memory that is unknown."""
    one, two, tei = servers
    found = registry(
        entry("a", "ollama_chat/gemma3:4b", one.url),
        entry("b", "ollama_chat/b", two.url),
        entry("d", "vllm/r", tei.url),
    )
    driver = Card()
    eyes = eyes_of(found, driver, look_s=1.2, read_s=0.6)
    before = eyes.look()
    one.hold("/api/ps"), two.hold("/api/ps"), tei.hold("/health")
    driver.gate = threading.Event()
    began = time.monotonic()
    seen = eyes.look()
    took = time.monotonic() - began
    driver.gate.set()
    assert took < 6
    assert {base: (server.state, server.loaded) for base, server in seen.servers.items()} == {
        base: ("stalled", server.loaded) for base, server in before.servers.items()
    }
    assert seen.health == {tei.url: "busy"}
    assert (seen.nvml.state, seen.nvml.code) == ("failed", "timeout")
    assert [(gpu.uuid, gpu.state) for gpu in seen.nvml.gpus] == [("GPU-a", "unknown")]
    driver.gate = None
    assert eyes.look().nvml.state == "ok"
    eyes.close()


def test_many_threads_may_look_at_once(servers):
    """Looks of several threads do not mix up; each is whole."""
    one, two, _ = servers
    eyes = eyes_of(registry(entry("a", "ollama_chat/gemma3:4b", one.url), entry("b", "ollama_chat/b", two.url)))
    with ThreadPoolExecutor(8) as pool:
        seen = list(pool.map(lambda _: eyes.look(), range(24)))
    eyes.close()
    states = {tuple((base, server.state, len(server.loaded)) for base, server in one.servers.items()) for one in seen}
    assert states == {((one.url, "up", 1), (two.url, "up", 0))}


def test_an_edited_registry_changes_what_is_looked_at(servers):
    """Servers that an edit adds are read, those it removes are let go, and those that stay keep what they know."""
    one, two, tei = servers
    holder = {"now": registry(entry("a", "ollama_chat/gemma3:4b", one.url), entry("d", "vllm/r", tei.url))}
    eyes = MachineEyes(lambda: holder["now"], {}, lambda: NOW, driver=Card(), machine="box")
    assert set(eyes.look().servers) == {one.url}
    one.paths()
    holder["now"] = registry(entry("a", "ollama_chat/gemma3:4b", one.url, two.url))
    seen = eyes.look()
    eyes.close()
    assert (set(seen.servers), seen.health) == ({one.url, two.url}, {})
    assert one.paths() == ["/api/ps"]


def test_the_key_of_an_ollama_behind_a_proxy_is_sent(servers):
    """The reader asks with the api_key that LiteLLM uses there, or with the login in the address."""
    one, _, _ = servers
    made = entry("a", "ollama_chat/gemma3:4b", one.url)
    made["litellm"]["api_key"] = "os.environ/KEY"
    eyes = eyes_of(registry(made), env={"KEY": "sk-test"})
    eyes.look()
    eyes.close()
    with_login = one.url.replace("http://", "http://user:p%40ss@")
    eyes = eyes_of(registry(entry("a", "ollama_chat/gemma3:4b", with_login)))
    eyes.look()
    eyes.close()
    assert {request.headers["authorization"] for request in one.asked} == {"Bearer sk-test", "Basic dXNlcjpwQHNz"}


def test_a_proxy_of_the_environment_is_not_used(servers, monkeypatch):
    """HTTP_PROXY does not stand between us and a model server."""
    one, _, _ = servers
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    eyes = eyes_of(registry(entry("a", "ollama_chat/gemma3:4b", one.url)))
    assert eyes.look().servers[one.url].state == "up"
    eyes.close()


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        ({}, "up"),
        ((204, b""), "up"),
        ((301, b""), "up"),
        ((401, b""), "up"),
        ((404, b""), "up"),
        ((429, b""), "up"),
        ((500, b""), "busy"),
        ((503, b""), "busy"),
        (hang_up, "busy"),
    ],
)
def test_health(servers, answer, state):
    """Any answer below 500 means the server is there and well; what fails may still hold its memory."""
    tei = servers[2]
    tei.answers["/health"] = answer
    reader = HealthReader(f"{tei.url}/health")
    assert (reader.last, reader.read(), reader.last) == ("busy", state, state)
    reader.close()


def test_health_of_a_server_that_is_gone():
    """A refused connection is gone: it holds no memory."""
    with Scripted() as short:
        pass
    reader = HealthReader(f"{short.url}/health")
    assert reader.read() == "gone"
    reader.close()


def test_jobs_of_one_key_never_run_side_by_side_and_a_result_is_never_older_than_its_run():
    """A job that was given up blocks its key alone; the next run waits for it, then asks anew."""
    at_once: AtOnce[str] = AtOnce()
    gate, running, most = threading.Event(), [], []

    def job(number: int) -> int:
        running.append(number)
        most.append(len(running))
        if number == 1:
            gate.wait(30)
        running.remove(number)
        return number

    assert at_once.run({"a": lambda: job(1), "b": lambda: 7}, 0.1) == {"b": 7}
    timer = threading.Timer(0.1, gate.set)
    timer.start()
    assert at_once.run({"a": lambda: job(2)}, 20) == {"a": 2}
    timer.join()
    assert max(most) == 1


def test_a_job_that_raises_is_absent_and_logged(caplog):
    """A bug in one reader costs its own answer only, and the log says so."""
    at_once: AtOnce[str] = AtOnce()
    assert at_once.run({"a": lambda: 1 // 0, "b": lambda: 2}, 5) == {"b": 2}
    assert [record.getMessage() for record in caplog.records] == [
        "reading a failed; this is a bug of litellm-registry-hook"
    ]
