"""The command itself, without a terminal and on one: exit codes, what it prints, what it never does."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import time
from pathlib import Path

import pytest

from litellm_registry_hook import load_registry
from tests.start.init_kit import BGE, GEMMA, SCRIPT, Stand, init, ollama_routes

REGISTRY = "model-registry.yaml"
TWO = {"gemma3:4b": GEMMA, "bge-m3:latest": BGE}
GENERATING = ("/api/generate", "/api/chat", "/api/embed", "/api/embeddings", "/v1/chat", "/v1/embeddings", "/rerank")


def test_nothing_there(tmp_path: Path) -> None:
    """Exit 1 with every address that was tried, why it gave nothing, and the options; nothing is written."""
    done = init(tmp_path, "--ollama", "http://127.0.0.1:9", "--tei", "127.0.0.1:19", "--no-gpu", "--yes")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "nothing to propose was found, and nothing was written. Tried:\n"
        "  http://127.0.0.1:9: /api/version: connection refused (start it, or leave it out)\n"
        "  http://127.0.0.1:19: /info: connection refused (start it, or leave it out)\n"
        "name your servers with --ollama URL, --tei URL and --openai URL,"
        " or import a LiteLLM config with --from-config\n"
    )
    assert not (tmp_path / REGISTRY).exists()


def test_a_server_without_a_model_that_fits_is_not_called_refused(tmp_path: Path) -> None:
    """Of a server that answers, what it lists and why that is not proposed is told; one that lists nothing answers too."""
    with Stand(ollama_routes({"gemma3:4b": GEMMA})) as ollama, Stand(ollama_routes({})) as empty:
        options = ("--gpu-total", "1000", "--yes")
        done = init(tmp_path, "--ollama", ollama.url, "--ollama", empty.url, *options)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[:-1] == [
        "nothing to propose was found, and nothing was written. Tried:",
        f"  {ollama.url}: it answers, and has no model to propose",
        f"  {empty.url}: it answers, and has no model to propose",
        f"  gemma3:4b at {ollama.url}: it needs 3864 MB (estimated) and a reserve of 300, the GPU has 1000 MB"
        " (--size gemma3:4b=MB if it takes less)",
    ]


def test_a_config_of_foreign_entries_alone_says_why(tmp_path: Path) -> None:
    """Where nothing of a config can be carried over, every entry is told with its reason."""
    entry = "{model_name: m, litellm_params: {model: 'openai/*'}}"
    (tmp_path / "c.yaml").write_text(f"model_list:\n  - {entry}\n")
    done = init(tmp_path, "--from-config", "c.yaml", "--ollama", "http://127.0.0.1:9", "--no-gpu", "--yes")
    assert done.returncode == 1
    assert "  line 2: model_list[0] (m): a wildcard names no model; it stays as it is" in done.stderr


def test_an_address_that_cannot_be_looked_at_does_not_stop_an_import(tmp_path: Path) -> None:
    """An Ollama behind a query, and one whose address nobody can read, are carried over without a look."""
    entries = [f"{{model_name: {name}, litellm_params: {{model: ollama_chat/x, api_base: '{base}'}}}}" for name, base in {
        "query": "http://127.0.0.1:9/?tenant=1", "broken": "http://[::1",
    }.items()]  # fmt: skip
    (tmp_path / "c.yaml").write_text("model_list:\n" + "".join(f"  - {one}\n" for one in entries))
    done = init(tmp_path, "--from-config", "c.yaml", "--ollama", "http://127.0.0.1:9", "--no-gpu", "--yes", "--json")
    assert (done.returncode, [one["id"] for one in json.loads(done.stdout)["models"]]) == (0, ["query", "broken"])


def test_it_loads_nothing_and_says_what_it_found(tmp_path: Path) -> None:
    """One JSON object; the servers saw only calls that load nothing; /api/ps is as before."""
    with Stand(ollama_routes(TWO, {"bge-m3:latest": {"size": 1200, "vram": 1200}})) as ollama:
        done = init(tmp_path, "--ollama", ollama.url, "--gpu-total", "8192", "--yes", "--json")
        assert sorted(set(ollama.calls)) == ["GET /api/ps", "GET /api/tags", "GET /api/version", "POST /api/show"]
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert told == {
        "file": REGISTRY,
        "models": [
            {
                "id": "gemma3:4b", "role": "chat", "tiers": ["large", "small"], "metered": False, "vram_mb": 3864,
                "vram": "estimated: run litellm-registry calibrate",
            },
            {
                "id": "bge-m3", "role": "embedder", "tiers": ["embed"], "metered": False, "vram_mb": 1200,
                "vram": "measured: resident now",
            },
        ],
        "tiers": {"large": ["gemma3:4b"], "small": ["gemma3:4b"], "embed": ["bge-m3"]},
        "aliases": {"embedder": "embed"},
        "never_evict_ids": ["bge-m3"],
        "gpus": {"0": {"total_mb": 8192}},
        "tried": [ollama.url],
        "left": [],
        "warnings": [],
        "next": ["generate-litellm-config", "litellm-registry serve"],
    }  # fmt: skip
    registry = load_registry(tmp_path / REGISTRY)
    assert [model.id for model in registry.models] == ["gemma3:4b", "bge-m3"]


def test_a_file_that_is_there_stays(tmp_path: Path) -> None:
    """Exit 2 before anything is asked, with the option; --force replaces it; a broken one is replaced as well."""
    (tmp_path / REGISTRY).write_text("mine: [\n")
    with Stand(ollama_routes(TWO)) as ollama:
        done = init(tmp_path, "--ollama", ollama.url, "--yes", "--no-gpu")
        assert (done.returncode, ollama.calls) == (2, [])
        assert done.stderr == (
            "error: model-registry.yaml is there already and was left as it is: --force replaces it, --output writes elsewhere\n"
        )
        assert (tmp_path / REGISTRY).read_text() == "mine: [\n"
        assert init(tmp_path, "--ollama", ollama.url, "--yes", "--no-gpu", "--force").returncode == 0
    assert load_registry(tmp_path / REGISTRY).routing.tiers["embed"] == ("bge-m3",)


def test_a_file_that_appears_meanwhile_stays(tmp_path: Path) -> None:
    """Somebody writes the file while the servers are looked at: exit 2, and it is theirs."""
    with Stand(ollama_routes(TWO)) as ollama:
        tags = ollama.routes["/api/tags"]

        def meanwhile(_: object) -> object:
            (tmp_path / REGISTRY).write_text("theirs\n")
            return tags

        ollama.routes["/api/tags"] = meanwhile
        done = init(tmp_path, "--ollama", ollama.url, "--yes", "--no-gpu")
    assert (done.returncode, done.stderr) == (
        2, "error: model-registry.yaml has been written by somebody else meanwhile, and was left as it is\n",
    )  # fmt: skip
    assert (tmp_path / REGISTRY).read_text() == "theirs\n"


def test_where_it_writes(tmp_path: Path) -> None:
    """--output, else --registry, else $LITELLM_REGISTRY; a folder that is not there is an error."""
    with Stand(ollama_routes(TWO)) as ollama:
        looks = ("--ollama", ollama.url, "--yes", "--no-gpu")
        assert init(tmp_path, *looks, "--registry", "r.yaml", "-o", "o.yaml").returncode == 0
        assert init(tmp_path, *looks, "--registry", "r.yaml").returncode == 0
        done = init(tmp_path, *looks, env={"LITELLM_REGISTRY": "e.yaml"})
        assert done.returncode == 0
        gone = init(tmp_path, *looks, "-o", "no/such/r.yaml")
    assert sorted(path.name for path in tmp_path.glob("*.yaml")) == ["e.yaml", "o.yaml", "r.yaml"]
    assert (gone.returncode, gone.stderr) == (
        2,
        "error: there is no folder no/such: make it, or name another file with --output\n",
    )


def test_without_a_person_the_options_are_named(tmp_path: Path) -> None:
    """No terminal and no --yes: exit 2, each open question with the option that answers it; nothing is written."""
    models = {"a-embed": {**BGE, "digest": "1"}, "b-embed": {**BGE, "digest": "2"}}
    with Stand(ollama_routes(models)) as ollama:
        done = init(tmp_path, "--ollama", ollama.url, "--gpu-total", "8192")
        assert done.returncode == 2
        assert done.stderr == (
            "error: a person must decide; --yes takes the safe answers, these options give others:\n"
            "  --embedder ID: Which embedding model is the one of the tier `embed`? Vectors of two models are not comparable\n"
            "  --never-evict ID, or --no-never-evict: Which models stay on the GPU for good (ids, commas between;"
            " `none` for none)? Proposed: a-embed 1541 MB\n"
        )
        assert not (tmp_path / REGISTRY).exists()
        answers = ("--embedder", "b-embed", "--no-never-evict")
        assert init(tmp_path, "--ollama", ollama.url, "--gpu-total", "8192", *answers).returncode == 0
    registry = load_registry(tmp_path / REGISTRY)
    assert (registry.routing.tiers["embed"], registry.gpu_residency_policy.never_evict_ids) == (("b-embed",), ())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--embedder", "x"), "--embedder: x was not found; found were: gemma3:4b, bge-m3"),
        (("--embedder", "gemma3:4b"), "--embedder: gemma3:4b is not an embedding model"),
        (("--size", "gemma3:4b=much"), "--size gemma3:4b=much: much is not a whole number from 1 on"),
        (("--size", "gemma3"), "--size gemma3: write ID=MB"),
        (("--gpu-total", "-1"), "--gpu-total localhost=-1: -1 is not a whole number from 0 on"),
        (("--never-evict", "bge-m3", "--no-never-evict"), "--never-evict and --no-never-evict contradict each other"),
        (
            ("--openai", "https://u:p@h"),
            "--openai: an address with a password would stand in the registry: put the server behind a key",
        ),
        (("--key-env", "http://h=NO_SUCH"), "--key-env: the environment variable NO_SUCH is not set"),
        (("--keep-foreign", "x"), "--keep-foreign goes with --from-config FILE"),
    ],
)
def test_options_that_cannot_be(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    """Exit 2, the option named and what would be right; nothing is written."""
    with Stand(ollama_routes(TWO)) as ollama:
        done = init(tmp_path, "--ollama", ollama.url, "--yes", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: {said} (see `litellm-registry init --help`)\n"
    assert not (tmp_path / REGISTRY).exists()


def test_names_that_yaml_would_misread(tmp_path: Path) -> None:
    """Models called `no`, `3.10`, `1:30`, `large` and in Chinese: all are there, under ids that can be called."""
    names = ["no:latest", "3.10:latest", "1:30", "large:latest", "模型:latest", "@x@1:latest"]
    models = {name: {**GEMMA, "digest": name} for name in names}
    with Stand(ollama_routes(models)) as ollama:
        done = init(tmp_path, "--ollama", ollama.url, "--yes", "--no-gpu")
    assert done.returncode == 0, done.stderr
    registry = load_registry(tmp_path / REGISTRY)
    assert [(model.id, model.litellm["model"]) for model in registry.models] == [
        ("no", "ollama_chat/no"), ("3.10", "ollama_chat/3.10"), ("1:30", "ollama_chat/1:30"),
        ("large:latest", "ollama_chat/large"), ("model", "ollama_chat/模型"), ("x-1", "ollama_chat/@x@1"),
    ]  # fmt: skip


def test_a_key_is_taken_from_the_environment_and_never_written(tmp_path: Path) -> None:
    """--key-env: the listing is asked for with the key; the file has the variable's name only."""
    seen: list[str] = []
    with Stand({"/v1/models": {"data": [{"id": "m-7b"}]}}) as server:
        handler = server.server.RequestHandlerClass
        plain = handler.do_GET
        handler.do_GET = lambda self: (seen.append(str(self.headers["Authorization"])), plain(self))[1]
        done = init(
            tmp_path, "--openai", f"{server.url}/v1", "--key-env", f"{server.url}=MY_KEY", "--yes", "--no-gpu",
            env={"MY_KEY": "sk-secret-0001"},
        )  # fmt: skip
    assert (done.returncode, set(seen)) == (0, {"Bearer sk-secret-0001"})
    text = (tmp_path / REGISTRY).read_text()
    assert "os.environ/MY_KEY" in text and "secret" not in text + done.stdout


def test_a_config_beside_it_is_only_mentioned(tmp_path: Path) -> None:
    """A litellm-config.yaml in the folder is read where --from-config names it; then its names go on working."""
    with Stand(ollama_routes(TWO, {"gemma3:4b": {"size": 3300, "vram": 3300}})) as ollama:
        (tmp_path / "litellm-config.yaml").write_text(
            "model_list:\n"
            "  - model_name: chatty\n"
            f"    litellm_params: {{model: ollama_chat/gemma3:4b, api_base: '{ollama.url}'}}\n"
        )
        done = init(tmp_path, "--ollama", ollama.url, "--yes", "--gpu-total", "8192")
        assert "a litellm-config.yaml lies here and was not read: --from-config litellm-config.yaml" in done.stderr
        done = init(
            tmp_path,
            "--from-config",
            "litellm-config.yaml",
            "--ollama",
            ollama.url,
            "--yes",
            "--force",
            "--gpu-total",
            "8192",
        )
    assert done.returncode == 0, done.stderr
    registry = load_registry(tmp_path / REGISTRY)
    assert [model.id for model in registry.models] == ["chatty", "bge-m3"]
    chatty = registry.by_id["chatty"]
    assert chatty.gpu_residency is not None and chatty.gpu_residency.vram_mb == 3300
    assert registry.routing.tiers["small"] == ("chatty",)


def test_questions_on_a_terminal(tmp_path: Path) -> None:
    """A person is asked what only a person knows; Enter takes the safe answer; the file is written."""
    models = {"a-embed": {**BGE, "digest": "1"}, "b-embed": {**BGE, "digest": "2"}, "gemma3:4b": GEMMA}
    with Stand(ollama_routes(models)) as ollama:
        said = on_a_terminal(
            tmp_path, [SCRIPT, "init", "--ollama", ollama.url],
            [("not known", "lots\r"), ("not known", "8192\r"), ("not comparable", "b-embed\r"), ("Proposed", "\r")],
        )  # fmt: skip
    assert "'lots' is not a whole number" in said
    registry = load_registry(tmp_path / REGISTRY)
    assert (registry.routing.tiers["embed"], registry.gpu_residency_policy.never_evict_ids) == (
        ("b-embed",),
        ("b-embed",),
    )


def test_a_person_may_keep_the_file(tmp_path: Path) -> None:
    """On a terminal it asks before it replaces a file; no is exit 1, and the file is as it was."""
    (tmp_path / REGISTRY).write_text("mine\n")
    on_a_terminal(tmp_path, [SCRIPT, "init", "--ollama", "http://127.0.0.1:9"], [("Replace it?", "n\r")], code=1)
    assert (tmp_path / REGISTRY).read_text() == "mine\n"


def on_a_terminal(folder: Path, command: list[str], answers: list[tuple[str, str]], code: int = 0, **more: str) -> str:
    """Run a command on a terminal: after each text that it shows, type the answer; return all it showed."""
    master, slave = pty.openpty()
    env = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("LITELLM", "OLLAMA"))},
        "HOME": str(folder),
        "TERM": "dumb",
        **more,
    }
    process = subprocess.Popen(
        command, cwd=folder, env=env, stdin=slave, stdout=slave, stderr=slave, start_new_session=True
    )
    os.close(slave)
    shown, at, left, end = "", 0, list(answers), time.monotonic() + 60
    try:
        while time.monotonic() < end:
            if select.select([master], [], [], 0.1)[0]:
                try:
                    part = os.read(master, 65536)
                except OSError:
                    break
                if not part:
                    break
                shown += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", part.decode(errors="replace"))
            flat = shown.replace("\r\n", " ")
            if left and (found := flat.find(left[0][0], at)) >= 0:
                at = found + len(left[0][0])
                os.write(master, left.pop(0)[1].encode())
        assert (process.wait(10), left) == (code, []), shown
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(master)
    return shown
