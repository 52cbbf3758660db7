"""How the command fails when the proxy does: one line with the fix, exit code 2, in bounded time."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from running_kit import MASTER, FakeProxy, run, write

from litellm_registry_hook.cli.running_text import running_lines
from litellm_registry_hook.core.opt_in import OptInError
from litellm_registry_hook.core.running import Comparison, Gap, Running
from litellm_registry_hook.edges.registry_file import digest_of
from litellm_registry_hook.edges.running import read_running
from tests.host.proxy import free_port

REGISTRY = {
    "version": 1,
    "models": [
        {
            "id": "m", "role": "chat", "lifecycle": "always-on", "metered": False,
            "litellm": {"model": "openai/m", "api_base": "http://127.0.0.1:1/v1", "api_key": "os.environ/M_KEY"},
        }
    ],
    "routing": {"tiers": {"small": ["m"]}},
}  # fmt: skip
ROW = {
    "model_name": "m",
    "litellm_params": {"model": "openai/m", "api_base": "http://127.0.0.1:1/v1"},
    "model_info": {"id": "m@0", "db_model": False, "managed_by": "litellm-registry-hook", "mode": "chat"},
}
NOT_COMPARED = (
    "not compared: model_list[m@0].litellm_params.api_key (LiteLLM shows no keys, so a changed one is not seen there)"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder whose config follows its registry."""
    write(tmp_path, REGISTRY)
    assert run(tmp_path).returncode == 0
    return tmp_path


def healthy(folder: Path, *more: dict[str, Any], **status: Any) -> dict[str, tuple[int, Any]]:
    path = folder / "model-registry.yaml"
    own = {"path": str(path), "digest": digest_of(path), "loaded_at": "2026-11-30T10:00:00+00:00", "broken": []}
    at = {"at": "2026-11-30T11:00:00+00:00", "registry": own, "state": {"in_force": []}}
    return {
        "/v1/model/info": (200, {"data": [ROW, *more]}),
        "/registry/status": (200, at | status),
        "/health/readiness/details": (200, {"litellm_version": "1.108.7"}),
    }


def test_up_to_date(folder: Path) -> None:
    """Exit 0, a verdict with the registry in force, and what LiteLLM does not show."""
    with FakeProxy(healthy(folder)) as fake:
        done = run(folder, "--check", "--running", fake.url)
    assert (done.returncode, done.stdout.splitlines()) == (
        0,
        [
            "litellm-config.yaml: up to date",
            f"{fake.url}: up to date: 1 deployment, registry {digest_of(folder / 'model-registry.yaml')}",
            f"{fake.url}: {NOT_COMPARED}",
        ],
    )
    assert {key for _, key in fake.calls} == {f"Bearer {MASTER}"}


def test_a_model_added_in_the_ui_and_json(folder: Path) -> None:
    """`--json`, before or after, is one object; the model of the database is exit 1."""
    ui = {"model_name": "gpt", "litellm_params": {"model": "openai/g"}, "model_info": {"id": "u1", "db_model": True}}
    with FakeProxy(healthy(folder, ui, ui)) as fake:
        done = run(folder, "--json", "--check", "--running", fake.url)
        after = run(folder, "--check", "--running", fake.url, "--json")
    assert (done.returncode, done.stdout) == (after.returncode, after.stdout)
    digest = digest_of(folder / "model-registry.yaml")
    assert (done.returncode, json.loads(done.stdout)) == (
        1,
        {
            "config": "litellm-config.yaml", "changed": False, "written": False, "differences": [], "warnings": [],
            "running": {
                "url": fake.url, "up_to_date": False, "litellm": "1.108.7", "plugin": True, "deployments": 2,
                "registries": [
                    {
                        "worker": None, "path": str(folder / "model-registry.yaml"), "digest": digest,
                        "loaded_at": "2026-11-30T10:00:00+00:00",
                    }
                ],
                "gaps": [
                    {
                        "code": "added_in_ui",
                        "message": "model 'gpt' (u1) was added in the UI, to the proxy's database",
                        "fix": "describe it in the registry and delete it in the UI, or set store_model_in_db: false",
                    }
                ],
                "unseen": ["model_list[m@0].litellm_params.api_key"],
            },
        },
    )  # fmt: skip


def test_away_from_the_config(folder: Path) -> None:
    """Without a config at hand the proxy is compared with the registry, and that is said."""
    (folder / "litellm-config.yaml").unlink()
    hand = {"model_name": "hand", "litellm_params": {}, "model_info": {"id": "h", "db_model": False}}
    with FakeProxy(healthy(folder, hand)) as fake:
        done = run(folder, "--check", "--running", fake.url)
    assert (done.returncode, done.stdout.splitlines()[0], done.stderr) == (
        0,
        f"{fake.url}: up to date: 2 deployments, registry {digest_of(folder / 'model-registry.yaml')}",
        "note: litellm-config.yaml is not here: the proxy is compared with the registry alone\n",
    )


def test_workers_right_after_an_edit(folder: Path) -> None:
    """A row of a worker counts once it must have been renewed; rows of proxies with other files never do."""
    path = str(folder / "model-registry.yaml")
    rows = [{"worker": "w-1", "path": path, "digest": "old", "loaded_at": "x", "broken": []}]
    rows.append({"worker": "w-2", "path": "/elsewhere", "digest": "other", "loaded_at": "x", "broken": []})
    state = {"in_force": rows}
    with FakeProxy(healthy(folder, state=state)) as fake:
        later = run(folder, "--check", "--running", fake.url)
        fake.answers |= healthy(folder, state=state, at="2026-11-30T10:00:02+00:00")
        at_once = run(folder, "--check", "--running", fake.url)
    assert (later.returncode, at_once.returncode) == (1, 0)
    assert [line.split(" has old")[0] for line in later.stdout.splitlines() if "registry_older" in line] == [
        f"{fake.url}: registry_older: worker w-1"
    ]


def test_no_models_at_all(folder: Path) -> None:
    """LiteLLM's 500 where it has no models is an empty list, not a failure."""
    none = {"/v1/model/info": (500, {"detail": {"error": "LLM Model List not loaded in. Make sure you passed models"}})}
    with FakeProxy(healthy(folder) | none) as fake:
        done = run(folder, "--check", "--running", fake.url)
    assert done.returncode == 1
    assert f"{fake.url}: not_loaded: the proxy has no deployment m@0" in done.stdout


REFUSED = "refuses the key in LITELLM_MASTER_KEY (401): set it to the proxy's master key or an admin's key"
NO_ADMIN = "the key in LITELLM_MASTER_KEY is no proxy admin's at <U>, and sees only its own models: set the master key"


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ({"/v1/model/info": (401, {"error": {"message": "no"}})}, f"the proxy <U> {REFUSED}"),
        ({"/v1/model/info": (404, {})}, "what answers at <U> is no LiteLLM proxy (404 to /v1/model/info): give its base URL"),
        ({"/v1/model/info": (200, "hello")}, "what answers at <U> is no LiteLLM proxy (200 to /v1/model/info): give its base URL"),
        ({"/registry/status": (403, {"error": {"code": "admin_only"}})}, NO_ADMIN),
        ({"/registry/status": (404, {}), "/router/settings": (403, {})}, NO_ADMIN),
        ({"/registry/status": (502, {})}, "the plugin at <U> answers /registry/status with 502: see the proxy's log, and try again"),
    ],
)  # fmt: skip
def test_answers_that_end_it(folder: Path, answers: dict[str, Any], expected: str) -> None:
    """Each is one line on stderr with the fix, nothing on stdout, exit code 2."""
    with FakeProxy(healthy(folder) | answers) as fake:
        done = run(folder, "--check", "--running", fake.url)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"error: {expected.replace('<U>', fake.url)}\n")


def test_nobody_answers(folder: Path) -> None:
    """A port that nobody listens on is said."""
    url = f"http://127.0.0.1:{free_port()}"
    done = run(folder, "--check", "--running", url)
    refused = f"error: the proxy at {url} does not answer: [Errno 111] Connection refused\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", refused)


def test_no_key_and_another_variable(folder: Path) -> None:
    """The key's variable is named where it is empty; --admin-key-env names another one."""
    with FakeProxy(healthy(folder)) as fake:
        none = run(folder, "--check", "--running", fake.url, env={"LITELLM_MASTER_KEY": ""})
        other = run(folder, "--check", "--running", fake.url, "--admin-key-env", "OTHER", env={"OTHER": "sk-o"})
    message = f"the proxy {fake.url} needs an admin key: set LITELLM_MASTER_KEY, or name another with --admin-key-env"
    assert (none.returncode, none.stderr) == (2, f"error: {message}\n")
    assert (other.returncode, {key for _, key in fake.calls}) == (0, {"Bearer sk-o"})


def test_running_without_check(folder: Path) -> None:
    """It compares and writes nothing, so it wants --check."""
    done = run(folder, "--running", "http://127.0.0.1:1")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: --running goes with --check: it compares, and writes nothing")


def test_an_admin_key_for_nobody(folder: Path) -> None:
    """Without --running no proxy is asked, so a key's variable would have no effect."""
    done = run(folder, "--check", "--admin-key-env", "OTHER_KEY")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: --admin-key-env goes with --running: nobody else is asked")


@pytest.mark.parametrize("how", ["hang", "drip"])
def test_a_hanging_proxy(folder: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """A proxy that never answers, and one that sends a byte now and then, are given up in time."""
    monkeypatch.setenv("LITELLM_MASTER_KEY", MASTER)
    started = time.monotonic()
    with FakeProxy(healthy(folder), **{how: "/registry/status"}) as fake, pytest.raises(OptInError) as caught:
        read_running(fake.url, "LITELLM_MASTER_KEY", limit_s=2)
    assert time.monotonic() - started < 10
    assert (caught.value.code, str(caught.value).split(":")[0]) == ("proxy_failed", "the proxy at http")
    assert "does not answer" in str(caught.value)


def test_what_is_no_http(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A port of something else is said, without a traceback."""
    import socket
    import threading

    monkeypatch.setenv("LITELLM_MASTER_KEY", MASTER)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(20)

        def talk() -> None:
            one, _ = server.accept()
            with one:
                one.recv(4096)
                one.sendall(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")

        thread = threading.Thread(target=talk)
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(OptInError, match=r"answers with what is no HTTP \(BadStatusLine\)"):
            read_running(url, "LITELLM_MASTER_KEY")
        thread.join()


def test_json_without_a_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that is nested too deeply to be read is said, and is no bug of ours."""
    monkeypatch.setenv("LITELLM_MASTER_KEY", MASTER)
    with FakeProxy({"/v1/model/info": (200, b"[" * 200_000)}) as fake, pytest.raises(OptInError) as caught:
        read_running(fake.url, "LITELLM_MASTER_KEY")
    assert str(caught.value) == (
        f"the proxy at {fake.url} answers with JSON that is nested too deeply: is the URL right, and the proxy up?"
    )


def test_names_do_not_steer_the_terminal() -> None:
    """What the proxy says is shown without control characters and without keys."""
    gap = Gap("added_in_ui", f"model 'x\x1b[2J' at http://me:{MASTER}@h\r", "delete it")
    lines = running_lines(Running("http://p", (), ()), Comparison((gap,), ("model_list[\x9b].a",)), file_differs=False)
    assert list(lines) == [
        "http://p: added_in_ui: model 'x?[2J' at http://***@h? (delete it)",
        "http://p: 1 thing not as the registry says",
        "http://p: not compared: model_list[?].a (LiteLLM shows no keys, so a changed one is not seen there)",
    ]


@pytest.mark.parametrize("key", ["plain\nsecret", "plain\r\nX-Evil: secret", "sécret"])
def test_a_key_that_no_header_can_carry_is_not_repeated(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    """The message names the variable, never what is in it."""
    monkeypatch.setenv("SOME_KEY", key)
    with pytest.raises(OptInError) as caught:
        read_running("http://127.0.0.1:9", "SOME_KEY")
    assert str(caught.value) == "the key in SOME_KEY has characters that no header can carry: set it to the key alone"


def test_the_line_end_of_a_key_does_not_count(folder: Path) -> None:
    """A key that was read from a file ends with one."""
    with FakeProxy(healthy(folder)) as fake:
        done = run(folder, "--check", "--running", fake.url, env={"LITELLM_MASTER_KEY": f"{MASTER}\n"})
        assert (done.returncode, {key for _, key in fake.calls}) == (0, {f"Bearer {MASTER}"})
