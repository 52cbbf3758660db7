"""README.md and docs/*.md are run as they are written: every command block, the answers shown, the links.

A block marked ```sh is a command and needs a test (COVERED); an unmarked one is output or a synopsis.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from litellm_registry_hook import load_registry
from tests.start.init_kit import BGE, GEMMA, Stand, ollama_routes
from tests.upstreams import Upstream, free_port

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
VENV = Path(sys.prefix)
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
SYNOPSIS = re.compile(
    r"^(?!.*\|)((?:litellm-registry|generate-litellm-config)(?: [a-z][a-z-]*)*)((?: .*)?(?:\n +.*)*)", re.MULTILINE
)
OF_EVERY_COMMAND = {"--help", "--registry", "--json"}
START_S = 150

# Pages with a test of their own that follows them from block to block.
FOLLOWED = {
    "docs/keys.md": "tests/keys/test_docs_keys.py",
    "docs/opt-in.md": "tests/opt_in/test_docs_opt_in.py",
    "docs/batches.md": "tests/host/test_docs_batches.py",
    "docs/why.md": "tests/why/test_why_proxy.py",
    "docs/gpu.md": "tests/gpu_cli/test_docs_gpu.py",
    "docs/available.md": "tests/host/test_available.py",
    "docs/init.md": "tests/start/test_docs_init.py",
    "docs/import.md": "tests/imports/test_docs_import.py",
    "docs/tutorial.md": "tests/docs/test_tutorial.py",
    "docs/howto-add-a-model.md": "tests/docs/test_howtos.py",
    "docs/howto-move-the-embedder.md": "tests/docs/test_howtos.py",
    "docs/howto-paid-for-a-week.md": "tests/docs/test_howtos.py",
    "docs/howto-two-gpus.md": "tests/docs/test_howtos.py",
    "docs/howto-two-hosts.md": "tests/docs/test_howtos.py",
    "docs/howto-two-windows.md": "tests/docs/test_howtos.py",
}
# (page, first line of the block): the test that runs it.
COVERED = {
    ("README.md", "make run"): "test_the_demo_of_the_readme",
    ("README.md", "KEY=sk-…"): "test_the_demo_of_the_readme",
    ("README.md", "curl small"): "test_the_demo_of_the_readme",
    ("README.md", "curl paid-fallback"): "test_the_demo_of_the_readme",
    ("README.md", "make test"): "test_make_test_is_what_ci_runs",
    ("README.md", "pip install ."): "test_installing_from_the_clone_moves_nothing",
    ("README.md", "litellm-registry init --ollama http://127.0.0.1:11434 --yes"): "test_the_start_of_the_readme",
    ("README.md", "litellm-registry validate"): "test_a_registry_of_ones_own",
    ("README.md", "export LITELLM_MASTER_KEY="): "test_a_registry_of_ones_own",
    ("README.md", 'printf %s "$KEY" | sha256sum'): "test_a_key_is_opted_in_as_the_readme_says",
    ("docs/bench.md", "python -m bench"): "test_the_benchmark_takes_what_its_page_says",
    ("docs/demo.md", "pip install '.[proxy]'"): "test_installing_from_the_clone_moves_nothing",
    ("docs/demo.md", "litellm-registry serve --demo"): "test_make_run_is_the_demo",
    ("docs/demo.md", "pip install '.[demo]'"): "test_make_installs_the_engine_as_the_page_says",
}


def page(name: str) -> str:
    """Return the text of a page."""
    return (ROOT / name).read_text(encoding="utf-8")


def head(text: str) -> str:
    """Name a block: its first line, a curl by the model it asks for, an assignment by its name."""
    if text.startswith("curl "):
        model = re.search(r'"model": "([^"]+)"', text)
        return f"curl {model[1]}" if model else text.splitlines()[0]
    first = text.splitlines()[0].partition(" #")[0].rstrip()
    return first.partition("=")[0] + "=" if first.startswith("export ") else first


def blocks(name: str, language: str = "sh") -> dict[str, str]:
    """Return the blocks of one language on a page, by their head."""
    found = [text for marked, text in FENCE.findall(page(name)) if marked == language]
    named = {head(text): text for text in found}
    assert len(named) == len(found), f"two blocks of {name} begin alike"
    return named


def block(name: str, start: str) -> str:
    """Return one command block."""
    return blocks(name)[start].rstrip("\n")


def synopses() -> list[tuple[str, str, set[str]]]:
    """Return (page, command, its options) of each synopsis in an unmarked block."""
    return [
        (str(path.relative_to(ROOT)), command, set(OPTION.findall(arguments)))
        for path in PAGES
        for language, text in FENCE.findall(path.read_text(encoding="utf-8"))
        if language == ""
        for command, arguments in SYNOPSIS.findall(text)
    ]


def answer_shown(start: str) -> tuple[str, list[str], str]:
    """Return (status line, header lines, start of the body) that the README shows after a curl."""
    found = FENCE.findall(page("README.md"))
    [at] = [number for number, (language, text) in enumerate(found) if language == "sh" and head(text) == start]
    language, text = found[at + 1]
    assert language == ""
    status, *rest = text.splitlines()
    start_of_body = next((number for number, line in enumerate(rest) if line.startswith("{")), len(rest))
    headers = [line for line in rest[:start_of_body] if line != "…"]
    return status, headers, " ".join(rest[start_of_body:]).partition(", …")[0]


def environment(tmp_path: Path, **more: str) -> dict[str, str]:
    """A fresh machine's environment with this venv first in PATH; nothing of a make that runs us."""
    kept = {name: os.environ[name] for name in ("LANG", "LD_LIBRARY_PATH") if name in os.environ}
    path = f"{VENV / 'bin'}{os.pathsep}{os.environ['PATH']}"
    home = {"HOME": str(tmp_path), "TMPDIR": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    return {**kept, **home, "PATH": path, "LITELLM_LOCAL_MODEL_COST_MAP": "True", **more}


def sh(command: str, folder: Path, tmp_path: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a command block."""
    env = environment(tmp_path, **more)
    return subprocess.run(["sh", "-c", command], cwd=folder, env=env, capture_output=True, text=True, timeout=120)


def dry_make(target: str, tmp_path: Path, *settings: str) -> list[str]:
    """Return the commands that make would run."""
    done = sh(" ".join(["make -n", target, *settings]), ROOT, tmp_path)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def descendants(pid: int) -> dict[int, int]:
    """Return pid -> pidfd of every process below one."""
    found = {}
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        found[int(child)] = os.pidfd_open(int(child))
        found.update(descendants(int(child)))
    return found


def all_end(pidfds: dict[int, int], seconds: float = 20) -> bool:
    """Wait until every process has ended."""
    ends = [bool(select.select([fd], [], [], seconds)[0]) for fd in pidfds.values()]
    for fd in pidfds.values():
        os.close(fd)
    return all(ends)


@contextlib.contextmanager
def at_a_terminal(command: str, folder: Path, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A command as the foreground job of a terminal; its output on stdout. Killed if it outlives the test or the wait."""
    with subprocess.Popen(
        ["sh", "-c", command],
        cwd=folder,
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:

        def kill() -> None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

        timer = threading.Timer(START_S, kill)
        timer.start()
        try:
            yield process
        finally:
            timer.cancel()
            timer.join()
            kill()


def read_until(process: subprocess.Popen[str], text: str) -> str:
    """Return the output up to the line that holds a text."""
    lines = []
    for line in process.stdout:
        lines.append(line)
        if text in line:
            return "".join(lines)
    raise AssertionError("".join(lines))


def ctrl_c(process: subprocess.Popen[str]) -> str:
    """Press Ctrl-C: SIGINT to the foreground job; return the rest of its output once it and all below it ended."""
    below = descendants(process.pid)
    os.killpg(process.pid, signal.SIGINT)
    rest = process.stdout.read()
    process.wait(30)
    assert below
    assert all_end(below)
    return rest


def test_every_command_block_has_a_test() -> None:
    """Each sh block of the pages is run by a test; a new command block needs a test, a removed one leaves none behind."""
    pages = {str(path.relative_to(ROOT)) for path in PAGES}
    written = {(name, start) for name in pages - FOLLOWED.keys() for start in blocks(name)}

    assert written - COVERED.keys() == set(), "a new command block needs a test"
    assert COVERED.keys() - written == set()
    assert [name for name in COVERED.values() if not callable(globals().get(name))] == []
    assert [name for name, test in FOLLOWED.items() if name not in page(test)] == []


def test_the_readme_names_every_page() -> None:
    """Each page of docs/ is linked from the README."""
    assert [path.name for path in PAGES[1:] if f"](docs/{path.name})" not in page("README.md")] == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_commands_are_marked(path: Path) -> None:
    """A command stands in a block marked sh; other blocks hold yaml, output, or a synopsis with its brackets."""
    text = path.read_text(encoding="utf-8")
    command = re.compile(
        r"^ *(make|curl|pip|python3?|export|litellm|litellm-registry|generate-litellm-config)(?= |$)(?!.*\[)",
        re.MULTILINE,
    )
    unmarked = "".join(body for language, body in FENCE.findall(text) if language == "")
    indented = re.findall(r"^    .*", FENCE.sub("", text), flags=re.MULTILINE)

    assert {language for language, _ in FENCE.findall(text)} <= {"", "sh", "yaml"}
    assert [found[0] for found in command.finditer(unmarked)] == []
    assert [line for line in indented if command.match(line)] == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    """Every relative link of a page names a file of the repository."""
    links = re.findall(r"\]\(([^)#\s]+)", path.read_text(encoding="utf-8"))
    dead = [link for link in links if "://" not in link and not (path.parent / link).exists()]

    assert dead == []


@pytest.mark.parametrize(
    ("name", "command", "options"), synopses(), ids=lambda value: value if isinstance(value, str) else ""
)
def test_synopses_are_the_help(name: str, command: str, options: set[str], tmp_path: Path) -> None:
    """The synopsis of a command on a page has the options of its --help; those of every command may be left out."""
    told = sh(f"{command} --help", tmp_path, tmp_path).stdout
    listed = {option for line in told.splitlines() for option in OPTION.findall(line[:30]) if line.startswith("  -")}

    assert options <= listed
    assert listed - options - OF_EVERY_COMMAND == (
        {"--demo"} if (name, command) == ("docs/demo.md", "litellm-registry serve") else set()
    )


def test_make_run_is_the_demo(tmp_path: Path) -> None:
    """`make run` runs what docs/demo.md says, on the port asked for, after installing whatever is missing."""
    fresh = tmp_path / "venv"
    first, *installs, last = dry_make("run", tmp_path, f"VENV={fresh}", "PORT=4567", "PYTHON=some-python")

    assert block("README.md", "make run") == "make run"
    assert first == f"some-python -m venv {fresh}"
    assert (
        f"{fresh}/bin/python -m pip install --disable-pip-version-check -q -c constraints.txt -e '.[proxy]'" in installs
    )
    assert last == f"{fresh}/bin/{block('docs/demo.md', 'litellm-registry serve --demo')} --port 4567"


def test_make_installs_the_engine_as_the_page_says(tmp_path: Path) -> None:
    """`make run` does each line of the page's block on the engine, and goes on where that is not possible."""
    lines = block("docs/demo.md", "pip install '.[demo]'").splitlines()
    recipe = [line for line in dry_make("run", tmp_path, f"VENV={tmp_path / 'venv'}") if "[demo]" in line]

    assert len(recipe) == 1
    for line in lines:
        assert line.removeprefix("pip install ") in recipe[0]
    assert re.search(r"^\t-\$\(PIP\) -e '\.\[demo\]'", page("Makefile"), flags=re.MULTILINE)


def test_make_test_is_what_ci_runs(tmp_path: Path) -> None:
    """`make test` runs the tests without the rigs, with ARGS behind, and is the command that CI calls first."""
    fresh = tmp_path / "venv"
    ran = dry_make("test", tmp_path, f"VENV={fresh}", "ARGS='-x tests/core'")
    ci = page(".ci/run").splitlines()

    assert ran[-1] == f'{fresh}/bin/python -m pytest -m "not rig" -n 2 --dist loadfile -x tests/core'
    assert [line for line in ci if line.startswith("make ")][0] == block("README.md", "make test")


def test_the_benchmark_takes_what_its_page_says(tmp_path: Path) -> None:
    """Each command of docs/bench.md names a module and options that it takes; tests/bench runs the dry one."""
    lines = [line.partition(" #")[0].split() for line in block("docs/bench.md", "python -m bench").splitlines()]
    *whole, hooks = [line[2:] for line in lines]
    told = sh("python -m bench --help", ROOT, tmp_path).stdout
    options = {word for line in whole for word in line if word.startswith("--")}

    assert {tuple(line[:2]) for line in lines} == {("python", "-m")}
    assert {line[0] for line in whole} == {"bench"}
    assert options == set(OPTION.findall(told)) - {"--help", "--out"}
    assert hooks == ["bench.hooks", "--profile"]
    assert '"--profile"' in page("bench/hooks.py")
    assert (
        dry_make("bench", tmp_path, f"VENV={tmp_path}", "ARGS=--quick")[-1] == f"{tmp_path}/bin/python -m bench --quick"
    )


@pytest.mark.parametrize(
    ("name", "start"), [("README.md", "pip install ."), ("docs/demo.md", "pip install '.[proxy]'")]
)
def test_installing_from_the_clone_moves_nothing(name: str, start: str, tmp_path: Path) -> None:
    """Beside the LiteLLM of this environment the install adds the plugin and moves no other package."""
    command = f"python -m {block(name, start)} --dry-run --no-index --no-build-isolation"
    done = sh(command, ROOT, tmp_path, PIP_DISABLE_PIP_VERSION_CHECK="1")

    assert done.returncode == 0, done.stdout + done.stderr
    [would] = re.findall(r"^Would install (.+)$", done.stdout, flags=re.MULTILINE)
    assert re.fullmatch(r"litellm-registry-hook-[\w.]+", would)


@pytest.mark.host
def test_the_demo_of_the_readme(tmp_path: Path) -> None:
    """`make run` becomes ready, its curls answer as the README shows, and Ctrl-C leaves nothing."""
    port = free_port()
    command = f"{block('README.md', 'make run')} PORT={port} VENV={VENV}"
    would = dry_make("run", tmp_path, f"PORT={port}", f"VENV={VENV}")
    if len(would) > 1:  # this venv was not made by make: what it runs at the end, without installing anything
        command = would[-1]
    with at_a_terminal(command, ROOT, tmp_path) as demo:
        told = read_until(demo, "Ctrl-C stops everything")
        key = re.search(r"Bearer (sk-[\w-]+)", told)[1]
        answers = {}
        for start in ("curl small", "curl paid-fallback"):
            given = block("README.md", "KEY=sk-…").replace("sk-…", key)
            text = block("README.md", start).replace("127.0.0.1:4000", f"127.0.0.1:{port}")
            answers[start] = sh(f"{given}\n{text}", tmp_path, tmp_path).stdout
        log = Path(re.search(r"The proxy's log: (\S+)", told)[1])
        assert log.exists()
        rest = ctrl_c(demo)

    assert f"at http://127.0.0.1:{port} …" in told
    assert re.search(r"^kimi +large +\S+ +stand-in subscription", told, flags=re.MULTILINE)
    for start, answer in answers.items():
        status, headers, body = answer_shown(start)
        top, _, rest_of_it = answer.replace("\r\n", "\n").partition("\n\n")
        assert top.splitlines()[0] == status
        assert set(headers) <= set(top.splitlines())
        assert rest_of_it.startswith(body)
        json.loads(rest_of_it)
    assert len(answer_shown("curl small")[1]) == 2
    assert answer_shown("curl paid-fallback")[2].endswith('"code": "metered_consent_missing"')
    assert "stopping …" in rest
    assert not log.parent.exists()
    assert list(tmp_path.iterdir()) == []
    with socket.socket() as one:
        one.bind(("127.0.0.1", port))


def test_the_port_of_the_readme_is_the_default(tmp_path: Path) -> None:
    """The README's address is where `make run` listens when nothing else is said."""
    [last] = dry_make("run", tmp_path, f"VENV={tmp_path / 'venv'}")[-1:]
    addresses = set(re.findall(r"127\.0\.0\.1:(\d+)/v1/chat", page("README.md")))

    assert {last.rpartition(" ")[2]} == addresses == {"4000"}


def test_the_start_of_the_readme(tmp_path: Path) -> None:
    """init writes a valid registry, the generator its config, and serve, with its new key, only wants a free port; the
    tutorial's test goes on."""
    folder = tmp_path / "own"
    folder.mkdir()
    text = block("README.md", "litellm-registry init --ollama http://127.0.0.1:11434 --yes")
    with Stand(ollama_routes({"gemma3:4b": GEMMA, "bge-m3:latest": BGE})) as ollama, socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = sh(f"{text.replace('http://127.0.0.1:11434', ollama.url)} --port {port}", folder, tmp_path)

    assert done.returncode == 2
    assert f"port {port} on 127.0.0.1 cannot be used" in done.stderr
    assert [call for call in ollama.calls if call.startswith("POST") and call != "POST /api/show"] == []
    assert set(load_registry(folder / "model-registry.yaml").routing.tiers) == {"large", "small", "embed"}
    assert "model_name: gemma3:4b\n" in (folder / "litellm-config.yaml").read_text()


@pytest.mark.host
def test_a_registry_of_ones_own(tmp_path: Path) -> None:
    """In an empty folder the README's registry is valid, makes a config, and is served with a new admin key."""
    folder = tmp_path / "own"
    folder.mkdir()
    config = folder / "litellm-config.yaml"
    [registry, _] = [text for language, text in FENCE.findall(page("README.md")) if language == "yaml"]
    check, diff, make = block("README.md", "litellm-registry validate").splitlines()
    key_line, serve = block("README.md", "export LITELLM_MASTER_KEY=").splitlines()
    port = free_port()
    with Upstream("local") as local:
        (folder / "model-registry.yaml").write_text(registry.replace("http://127.0.0.1:11434", local.url))
        checked = sh(check, folder, tmp_path)
        seen = sh(diff, folder, tmp_path)
        unmade = config.exists()
        made = sh(make, folder, tmp_path)
        again = sh(diff, folder, tmp_path)
        keyless = sh(f"{serve} --port {port}", folder, tmp_path)
        with at_a_terminal(f'{key_line}\necho "$LITELLM_MASTER_KEY"\n{serve} --port {port}', folder, tmp_path) as proxy:
            key = proxy.stdout.readline().strip()
            read_until(proxy, "Started worker")
            with httpx.Client(transport=httpx.HTTPTransport(retries=5), timeout=60) as client:
                said = client.post(
                    f"http://127.0.0.1:{port}/v1/chat/completions",
                    json={"model": "small", "messages": [{"role": "user", "content": "hi"}]},
                    headers={"Authorization": f"Bearer {key}"},
                )
            ctrl_c(proxy)

    assert (checked.returncode, checked.stderr) == (0, "model-registry.yaml: valid, 0 errors, 0 warnings\n")
    assert (seen.returncode, unmade) == (1, False)
    assert "+  - model_name: gemma\n" in seen.stdout
    assert made.returncode == 0, made.stderr
    assert config.exists()
    assert (again.returncode, again.stdout) == (0, "")
    assert keyless.returncode == 2
    assert "LITELLM_MASTER_KEY is not set" in keyless.stderr
    assert said.status_code == 200, said.text
    assert said.json()["choices"][0]["message"]["content"] == "answer from local"
    assert (said.headers["x-registry-tier"], said.headers["x-registry-model"]) == ("small", "gemma")


def test_a_key_is_opted_in_as_the_readme_says(tmp_path: Path) -> None:
    """The command gives the hash that the registry wants, and the README's entry is valid in the shipped registry."""
    [_, grant] = [text for language, text in FENCE.findall(page("README.md")) if language == "yaml"]
    hashed = sh(block("README.md", 'printf %s "$KEY" | sha256sum'), tmp_path, tmp_path, KEY="password").stdout.split()[
        0
    ]
    shipped = page("model-registry.yaml")
    entry = grant.removeprefix("routing:\n")
    file = tmp_path / "model-registry.yaml"
    file.write_text(shipped.replace("  metered_opt_in: []\n", entry))
    granted = load_registry(file).routing.metered_opt_in

    assert f"sha256:{hashed}" in grant
    assert [(one.key, one.token, one.models, one.expires) for one in granted] == [
        ("agent-torgash", f"sha256:{hashed}", ("paid-fallback",), "2027-01-31")
    ]
