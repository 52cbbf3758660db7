"""`serve` and `serve --demo` with the real proxy: what they print works, and nothing is left behind."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
import yaml
from upstreams import Upstream, free_port

pytestmark = pytest.mark.host

SHIPPED = Path(__file__).parents[2] / "model-registry.yaml"
COMMAND = [sys.executable, "-m", "litellm_registry_hook"]
STRONG = "sk-correct-horse-battery-staple"
START_S = 150


def environment(tmp_path, **more):
    """A home of its own, and keys that no real provider knows: the demo must not need or use them."""
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "LD_LIBRARY_PATH")}
    return {**kept, "HOME": str(tmp_path), "TMPDIR": str(tmp_path), "LITELLM_LOCAL_MODEL_COST_MAP": "True", **more}


@contextlib.contextmanager
def running(command, tmp_path, **more):
    """A command in a session of its own; killed with its group if the test leaves it running."""
    with (
        (tmp_path / "stderr.txt").open("wb") as errors,
        subprocess.Popen(
            command,
            cwd=tmp_path,
            env=environment(tmp_path, **more),
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        ) as process,
    ):
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def descendants(pid: int) -> dict[int, int]:
    """Return pid -> pidfd of every process below one."""
    found = {}
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        found[int(child)] = os.pidfd_open(int(child))
        found.update(descendants(int(child)))
    return found


def all_end(pidfds, seconds=20) -> bool:
    """Wait until every process has ended."""
    deadline = time.monotonic() + seconds
    ends = [bool(select.select([fd], [], [], max(0, deadline - time.monotonic()))[0]) for fd in pidfds]
    for fd in pidfds:
        os.close(fd)
    return all(ends)


def read_json(process) -> dict:
    """Read the one object that --json prints when the demo is ready."""
    lines = []
    while line := process.stdout.readline():
        lines.append(line)
        if line == b"}\n":
            break
    return json.loads(b"".join(lines) or b"null")


def until_up(url: str, process) -> None:
    """Wait until a proxy answers, or its process has ended."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(f"{url}/health/liveliness", timeout=2).status_code == 200:
                return
        time.sleep(0.2)
    raise AssertionError("the proxy did not start")


def test_the_demo_works_and_leaves_nothing(tmp_path):
    """Every printed command works, the paid stand-in is never called, SIGTERM ends every process and removes the folder."""
    shutil.copy(SHIPPED, tmp_path)
    port = free_port()
    with running([*COMMAND, "serve", "--demo", "--json", "--port", str(port)], tmp_path, OPENAI_API_KEY="real") as demo:
        told = read_json(demo)
        assert told, (tmp_path / "stderr.txt").read_text()
        answers = [
            subprocess.run(["sh", "-c", item["command"]], capture_output=True, text=True, timeout=60, check=True).stdout
            for item in told["commands"]
        ]
        ask = {"model": "small", "messages": [{"role": "user", "content": "hi"}], "stream": True, "max_tokens": 20}
        with httpx.stream(
            "POST",
            f"{told['url']}/v1/chat/completions",
            json=ask,
            headers={"Authorization": f"Bearer {told['key']}"},
            timeout=60,
        ) as stream:
            events = [line for line in stream.iter_lines() if line.startswith("data: ")]
        refused = httpx.post(f"{told['url']}/v1/chat/completions", json=ask, timeout=30).status_code
        folder = Path(told["log"]).parent
        below = descendants(demo.pid)
        groups = {os.getpgid(pid) for pid in below}
        # The proxy's environment holds no key of the caller's.
        environs = [Path(f"/proc/{pid}/environ").read_bytes() for pid in below]

        demo.send_signal(signal.SIGTERM)
        code = demo.wait(30)

    chat, vector, order, paid, calls = answers
    assert told["url"] == f"http://127.0.0.1:{port}"
    assert json.loads(chat)["choices"][0]["message"]["content"]
    assert len(json.loads(vector)["data"][0]["embedding"]) == 1024
    assert [item["index"] for item in json.loads(order)["results"]] == [1, 0]
    assert paid.startswith("HTTP/1.1 403")
    assert '"metered_consent_missing"' in paid
    assert json.loads(calls) == {"calls": 0}
    assert len(events) > 2
    assert events[-1] == "data: [DONE]"
    assert refused == 401
    assert not folder.exists()
    assert code == 0
    assert all_end(below.values(), 0)
    for group in groups:
        with pytest.raises(ProcessLookupError):
            os.killpg(group, 0)
    assert len(below) >= 2
    assert [b"OPENAI_API_KEY" in environ for environ in environs if b"LITELLM_REGISTRY=" in environ][0] is False
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model-registry.yaml", "stderr.txt"]


def test_a_killed_demo_takes_its_children_along(tmp_path):
    """Even kill -9 of the demo ends engine and proxy: each is tied to its parent's life."""
    shutil.copy(SHIPPED, tmp_path)
    with running([*COMMAND, "serve", "--demo", "--port", str(free_port())], tmp_path) as demo:
        while b"Starting the proxy" not in demo.stdout.readline():
            assert demo.poll() is None
        below = descendants(demo.pid)

        demo.kill()

        assert below
        assert all_end(below.values())


def test_the_demo_stops_while_it_starts(tmp_path):
    """SIGTERM before the proxy answers ends everything, exit 0."""
    shutil.copy(SHIPPED, tmp_path)
    with running([*COMMAND, "serve", "--demo", "--port", str(free_port())], tmp_path) as demo:
        while b"Starting the proxy" not in demo.stdout.readline():
            assert demo.poll() is None
        below = descendants(demo.pid)
        demo.terminate()

        assert demo.wait(30) == 0
        assert all_end(below.values())
    assert (tmp_path / "stderr.txt").read_text() == ""
    assert list(tmp_path.glob("litellm-registry-demo-*")) == []


def test_a_proxy_that_does_not_start_shows_its_last_lines(tmp_path):
    """When the proxy ends at its start the demo prints why and exits 2."""
    shutil.copy(SHIPPED, tmp_path)
    command = [*COMMAND, "serve", "--demo", "--port", str(free_port()), "--", "--no-such-option"]
    with running(command, tmp_path) as demo:
        demo.stdout.read()
        code = demo.wait(START_S)

    errors = (tmp_path / "stderr.txt").read_text()
    assert code == 2
    assert errors.startswith("error: the proxy did not start (it ended with status 2); its last lines:\n")
    assert "No such option" in errors


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_serve_runs_several_workers_and_hears_signals(tmp_path, signum):
    """serve becomes the proxy on granian: the registry is in force in its workers, drift is warned of, Ctrl-C ends it."""
    port = free_port()
    with Upstream("local") as upstream:
        entry = {"id": "m", "role": "chat", "lifecycle": "always-on", "metered": False}
        entry["litellm"] = {"model": "openai/m", "api_base": upstream.openai_base, "api_key": "x"}
        registry = {"version": 1, "models": [entry], "routing": {"tiers": {"small": ["m"]}}}
        (tmp_path / "model-registry.yaml").write_text(yaml.safe_dump(registry))
        generate = [sys.executable, "-c", "from litellm_registry_hook.cli.main import generate_main; generate_main([])"]
        subprocess.run(generate, cwd=tmp_path, env=environment(tmp_path), check=True, capture_output=True, timeout=60)
        config = tmp_path / "litellm-config.yaml"
        config.write_text(config.read_text().replace("mode: chat", "mode: completion"))

        command = [*COMMAND, "serve", "--port", str(port), "--workers", "2"]
        with running(command, tmp_path, LITELLM_MASTER_KEY=STRONG) as server:
            until_up(f"http://127.0.0.1:{port}", server)
            below = descendants(server.pid)
            answer = httpx.post(
                f"http://127.0.0.1:{port}/v1/chat/completions",
                json={"model": "small", "messages": [{"role": "user", "content": "hi"}]},
                headers={"Authorization": f"Bearer {STRONG}"},
                timeout=60,
            )
            server.send_signal(signum)
            output = server.stdout.read().decode()
            code = server.wait(30)

    assert answer.json()["choices"][0]["message"]["content"] == "answer from local"
    assert answer.headers["x-registry-model"] == "m"
    assert "using Granian" in output
    assert len(below) >= 2
    assert all_end(below.values())
    assert code == 0
    assert (
        (tmp_path / "stderr.txt")
        .read_text()
        .startswith(
            "warning: litellm-config.yaml is not what the registry wants (model_list[m@0].model_info.mode); "
            "mend it with: generate-litellm-config\n"
        )
    )
