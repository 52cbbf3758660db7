"""The probes themselves: real programs, real files, real servers."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from availability.avail_kit import http_server, says, soon

from litellm_registry_hook.core.availability.probes import Answer, Probe
from litellm_registry_hook.edges.probes.ask import ask
from litellm_registry_hook.edges.probes.command import ask_command
from litellm_registry_hook.edges.probes.file import ask_file
from litellm_registry_hook.edges.probes.http import ask_url


def _stat(path: Path) -> list[str]:
    """State, parent and so on of a process; gone where there is none any more."""
    try:
        return path.read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ["gone", "0"]


def alive(pid: int) -> bool:
    """Whether a process is there and is no zombie."""
    return _stat(Path(f"/proc/{pid}/stat"))[0] not in {"Z", "gone"}


def script(folder: Path, text: str) -> str:
    """A shell script as a command line."""
    path = folder / "usage.sh"
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return str(path)


def test_a_command_gets_path_home_lang_and_the_named_variables_only(tmp_path: Path) -> None:
    """Nothing else of the proxy's environment reaches it, its keys least of all."""
    env = {
        "PATH": os.environ["PATH"],
        "HOME": "/home/somebody",
        "LANG": "C.UTF-8",
        "KIMI_TOKEN": "k-1",
        "OPENAI_API_KEY": "sk-secret",
        "LITELLM_MASTER_KEY": "sk-master",
    }
    found = ask_command(f"{sys.executable} -S -c 'import os; print(sorted(os.environ))'", ("KIMI_TOKEN", "UNSET"), env)

    shown = set(eval(found.text)) - {"LC_CTYPE"}  # Python itself adds that one
    assert shown == {"PATH", "HOME", "LANG", "KIMI_TOKEN"}


def test_no_shell_reads_the_command(tmp_path: Path) -> None:
    """Quotes are split, everything else stays text."""
    found = ask_command("printf '%s|' 'a b' $HOME ; > x `id`", (), os.environ)

    assert found == Answer("a b|$HOME|;|>|x|`id`|")


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("usage 'x", "probe_command cannot be split: No closing quotation"),
        ("  ", "probe_command is empty"),
        ("/no/such", "probe_command cannot be started: No such file or directory"),
        ("/", "probe_command cannot be started: Permission denied"),
        ("a\0b", "probe_command cannot be started: embedded null byte"),
    ],
)
def test_a_command_that_cannot_be_started(line: str, error: str) -> None:
    """It is an error with its reason, never an exception."""
    found = ask_command(line, (), os.environ)

    assert found.error == error
    assert found.detail in {"", line}


def test_an_error_says_the_exit_and_hides_the_named_variables(tmp_path: Path) -> None:
    """Standard error is quoted on one line, without the token that was handed in."""
    line = script(tmp_path, 'echo "login of $TOKEN failed" >&2\necho "see log" >&2\nexit 3\n')
    found = ask_command(line, ("TOKEN",), {**os.environ, "TOKEN": "t0ps3cret"})

    assert found == Answer(error="exit 3", detail="login of *** failed see log")


def test_a_command_that_is_killed_says_by_what(tmp_path: Path) -> None:
    """A signal is no exit code."""
    assert ask_command(script(tmp_path, "kill -9 $$\n"), (), os.environ) == Answer(error="killed by signal 9")


def test_standard_input_is_closed(tmp_path: Path) -> None:
    """A program that asks for a password gets none and does not hang."""
    assert ask_command(script(tmp_path, "cat\necho done\n"), (), os.environ) == Answer("done\n")


def test_too_much_output_ends_it(tmp_path: Path) -> None:
    """A program that never stops printing is killed at 1 MB."""
    began = time.monotonic()
    found = ask_command("yes", (), os.environ)

    assert found == Answer(error="it printed more than 1 MB, killed")
    assert time.monotonic() - began < 10


def test_a_hanging_command_is_killed_with_its_grandchildren(tmp_path: Path) -> None:
    """Its whole process group goes, though the grandchild ignores SIGTERM and SIGHUP."""
    pids = tmp_path / "pids"
    line = script(
        tmp_path, f"sh -c 'trap \"\" TERM HUP; echo $$ >> {pids}; sleep 600 & echo $! >> {pids}; wait' &\nwait\n"
    )
    found = ask_command(line, (), os.environ, timeout_s=1.0)

    assert found == Answer(error="no answer within 1 s, killed")
    started = [int(pid) for pid in pids.read_text().split()]
    assert len(started) == 2
    soon(lambda: not any(alive(pid) for pid in started))


def test_what_a_command_leaves_behind_is_ended(tmp_path: Path) -> None:
    """A background process that holds the pipe open neither delays the answer nor outlives it."""
    pids = tmp_path / "pids"
    line = script(tmp_path, f"sleep 600 &\necho $! > {pids}\necho '{{}}'\n")
    began = time.monotonic()
    found = ask_command(line, (), os.environ)

    assert found == Answer("{}\n")
    assert time.monotonic() - began < 5
    soon(lambda: not alive(int(pids.read_text())))


def test_a_command_that_closes_its_output_and_stays_is_ended(tmp_path: Path) -> None:
    """Closed pipes are no end: its time is."""
    line = script(tmp_path, "exec >&- 2>&-\nexec sleep 600\n")

    assert ask_command(line, (), os.environ, timeout_s=0.5) == Answer(error="no answer within 0.5 s, killed")


def test_no_descriptor_and_no_zombie_is_left(tmp_path: Path) -> None:
    """Twenty probes, half of them killed, leave as many open files as before."""
    before = len(os.listdir("/proc/self/fd"))
    for n in range(20):
        ask_command("sleep 600" if n % 2 else "true", (), os.environ, timeout_s=0.05)

    assert len(os.listdir("/proc/self/fd")) == before
    fields = [_stat(path) for path in Path("/proc").glob("[0-9]*/stat")]
    assert [one for one in fields if one[0] == "Z" and int(one[1]) == os.getpid()] == []


def test_a_file_has_the_moment_it_was_written(tmp_path: Path) -> None:
    """The value is as old as the file; a byte order mark does not matter."""
    path = tmp_path / "usage.json"
    path.write_bytes(b'\xef\xbb\xbf{"used": 1}')
    os.utime(path, (1000.5, 1000.5))

    assert ask_file(str(path)) == Answer('{"used": 1}', read_at=1000.5)


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda path: path.mkdir(), "probe_file is no regular file"),
        (lambda path: os.mkfifo(path), "probe_file is no regular file"),
        (lambda path: None, "probe_file cannot be read: No such file or directory"),
        (lambda path: path.write_bytes(b" " * (1024 * 1024 + 1)), "probe_file is larger than 1 MB"),
        (lambda path: path.symlink_to(path), "probe_file cannot be read: Too many levels of symbolic links"),
    ],
)
def test_a_file_that_cannot_be_read(make: Any, error: str, tmp_path: Path) -> None:
    """A folder, a pipe, nothing, too much and a loop are errors, at once."""
    path = tmp_path / "usage.json"
    make(path)

    assert ask_file(str(path)) == Answer(error=error)


def test_an_address_is_asked_once_without_credentials() -> None:
    """One GET, no Authorization, and the body is the answer."""
    seen: list[tuple[str, dict[str, str]]] = []

    def answer(handler: Any) -> None:
        seen.append((handler.path, {name.lower(): value for name, value in handler.headers.items()}))
        says('{"used": 1}')(handler)

    with http_server(answer) as url:
        found = ask_url(url, time.time())

    assert found == Answer('{"used": 1}')
    ((path, headers),) = seen
    assert path == "/usage"
    assert "authorization" not in headers
    assert headers["user-agent"] == "litellm-registry-hook"


@pytest.mark.parametrize(
    ("status", "headers", "retry"),
    [
        (429, {"Retry-After": "120"}, 120.0),
        (429, {"Retry-After": "0"}, 0.0),
        (429, {"Retry-After": "Sun, 01 Mar 2026 12:02:00 GMT"}, 120.0),
        (503, {"Retry-After": "soon"}, None),
        (302, {"Location": "http://127.0.0.1:1/"}, None),
        (204, {}, None),
    ],
)
def test_any_answer_but_200_is_an_error(status: int, headers: dict[str, str], retry: float | None) -> None:
    """A redirect is not followed, and a Retry-After is handed on."""
    with http_server(says("", status, **headers)) as url:
        found = ask_url(url, 1772366400.0)

    assert found == Answer(error=f"it answered {status}", retry_after_s=retry)


def test_an_answer_that_never_ends_is_cut() -> None:
    """Neither its size nor its time is without bounds."""

    def large(handler: Any) -> None:
        handler.send_response(200)
        handler.end_headers()
        for _ in range(40):
            handler.wfile.write(b" " * 65536)

    over = threading.Event()

    def slow(handler: Any) -> None:
        handler.send_response(200)
        handler.end_headers()
        while not over.wait(0.02):
            handler.wfile.write(b" ")

    def quietly(answer: Any) -> Any:
        def run(handler: Any) -> None:
            try:
                answer(handler)
            except OSError:
                pass  # the client has gone

        return run

    with http_server(quietly(large)) as url:
        assert ask_url(url, 0.0) == Answer(error="its answer is larger than 1 MB")
    with http_server(quietly(slow)) as url:
        try:
            assert ask_url(url, 0.0, timeout_s=0.3) == Answer(error="its answer had not ended after 0.3 s")
        finally:
            over.set()


def test_an_address_gets_the_token_that_the_registry_names() -> None:
    """probe_bearer is read from the environment at each call; without it nobody is asked."""
    seen: list[str | None] = []

    def answer(handler: Any) -> None:
        seen.append(handler.headers["Authorization"])
        says("{}")(handler)

    with http_server(answer) as url:
        probe = Probe("m", "m", "url", url, env=("USAGE_TOKEN",))
        assert ask(probe, {"USAGE_TOKEN": "t-1"}) == Answer("{}")
        assert ask(Probe("m", "m", "url", url), {"USAGE_TOKEN": "t-1"}) == Answer("{}")
        assert ask(probe, {}) == Answer(
            error="the token of probe_bearer is not set", detail="USAGE_TOKEN in the environment"
        )
    assert seen == ["Bearer t-1", None]


def test_an_address_that_cannot_be_asked() -> None:
    """No such host, no such port: an error, not an exception."""
    refused = Answer(error="probe_url cannot be asked (ConnectError)", detail="[Errno 111] Connection refused")

    assert ask_url("http://127.0.0.1:1/", 0.0) == refused
    assert ask_url("http://[::1", 0.0).error == "probe_url cannot be asked (InvalidURL)"


def test_each_kind_goes_to_its_reader(tmp_path: Path) -> None:
    """A probe is asked by what it is."""
    path = tmp_path / "usage.json"
    path.write_text("{}")

    with http_server(says("{}")) as url:
        answers = [
            ask(Probe("m", "m", "command", f"cat {path}"), os.environ),
            ask(Probe("m", "m", "file", str(path)), {}),
            ask(Probe("m", "m", "url", url), {}),
            ask(Probe("m|x", "m", "health", url), {}),
        ]

    assert [one.text for one in answers] == ["{}", "{}", "{}", "up"]
    assert [one.error for one in answers] == ["", "", "", ""]
