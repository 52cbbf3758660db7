"""Looking at servers over real HTTP: what each really is, and how slow and silly ones end."""

from __future__ import annotations

import pytest

from litellm_registry_hook.core.start.found import OpenAiModel, OpenAiSeen, TeiSeen
from litellm_registry_hook.core.start.proposal import Left
from litellm_registry_hook.edges.start.look import Target, address, look, usual
from tests.start.init_kit import BGE, GEMMA, Stand, ollama_routes, timed


class Quiet:
    """A watcher that counts."""

    def __init__(self) -> None:
        self.steps = 0

    def say(self, text: str) -> None:
        """Nothing to show."""

    def step(self) -> None:
        """One more."""
        self.steps += 1


def test_each_port_is_what_it_is() -> None:
    """An Ollama named as OpenAI, a TEI named as Ollama, a vLLM named as TEI: each is recognised; two names are one server."""
    routes = ollama_routes({"gemma3:4b": GEMMA, "bge-m3:latest": BGE}, {"bge-m3:latest": {"size": 1200, "vram": 1200}})
    routes["/v1/models"] = {"object": "list", "data": [{"id": "gemma3:4b", "object": "model"}]}
    info = {"model_id": "BAAI/bge-m3", "model_type": {"embedding": {"pooling": "cls"}}, "max_input_length": 8192}
    listed = {
        "object": "list",
        "data": [
            {"id": "a-7b", "max_model_len": 4096},
            {"id": "b", "meta": {"n_ctx_train": 9, "n_embd": 64, "n_params": 5e8}},
        ],
    }
    watcher = Quiet()
    with Stand(routes) as ollama, Stand({"/info": info}) as tei, Stand({"/v1/models": listed}) as vllm:
        again = ollama.url.replace("127.0.0.1", "localhost")
        targets = [
            Target("openai", ollama.url), Target("ollama", again), Target("ollama", tei.url), Target("tei", vllm.url),
        ]  # fmt: skip
        found = look(targets, watcher, answer_s=5, gpus=False)
    [seen] = found.ollamas
    assert (seen.base, seen.version, [one.name for one in seen.loaded]) == (
        ollama.url, (0, 33, 0), ["registry.ollama.ai/library/bge-m3:latest"],
    )  # fmt: skip
    assert [(one.name, one.abilities, one.embedding, one.width, one.params) for one in seen.models] == [
        ("gemma3:4b", ("completion", "vision"), False, None, 4.3e9),
        ("bge-m3:latest", ("embedding",), True, 1024, 567e6),
    ]
    assert found.teis == (TeiSeen(tei.url, "BAAI/bge-m3", "embedder", 8192),)
    assert found.openais == (
        OpenAiSeen(f"{vllm.url}/v1", (OpenAiModel("a-7b", 4096), OpenAiModel("b", None, 64, 5e8))),
    )
    assert (found.left, watcher.steps) == ((), 3)


def test_slow_and_silly_servers_end_in_time_and_are_named() -> None:
    """One that hangs, one that lists and then hangs, garbage, wrong JSON, another service, nobody: each has its reason."""
    tags = ollama_routes({"gemma3:4b": GEMMA})
    with (
        Stand({}) as hangs, Stand({}) as half, Stand({"/api/version": b"\xff\x00{"}) as garbage,
        Stand({"/api/version": {"version": "1"}, "/api/tags": {"models": [{"size": "big"}]}}) as wrong,
        Stand({"/v1/models": 401}) as locked, Stand(tags) as good,
    ):  # fmt: skip
        hangs.routes["/api/version"] = hangs.silent
        half.routes |= {**tags, "/api/show": half.silent}
        refused = Target("tei", "http://127.0.0.1:9")
        targets = [Target("ollama", one.url) for one in (hangs, half, garbage, wrong, locked, good)]
        seconds, found = timed(lambda: look([*targets, refused], Quiet(), answer_s=0.5, gpus=False))
    assert seconds < 6
    assert {one.what: (one.why, one.fix) for one in found.left} == {
        hangs.url: ("/api/version: no answer within 0.5 s", "start it, or leave it out"),
        garbage.url: (
            "neither Ollama, TEI nor OpenAI-compatible: /api/version: its answer is not JSON;"
            " /info: it answered 404; /v1/models: it answered 404",
            "",
        ),
        wrong.url: (
            "neither Ollama, TEI nor OpenAI-compatible: its answers are not Ollama's: an entry has no name;"
            " /info: it answered 404; /v1/models: it answered 404",
            "",
        ),
        locked.url: ("/v1/models: it answered 401, it wants a key", f"--key-env {locked.url}=NAME"),
        refused.base: ("/info: connection refused", "start it, or leave it out"),
    }
    # A server whose /api/show hangs still has its list; one without it is only less well known.
    assert [(one.base, [(model.name, model.params) for model in one.models]) for one in found.ollamas] == [
        (half.url, [("gemma3:4b", 0.0)]), (good.url, [("gemma3:4b", 4.3e9)]),
    ]  # fmt: skip


def test_many_hanging_shows_are_cut_off() -> None:
    """Fifty models and an /api/show that never answers: it ends after six answers' time, with all fifty listed."""
    models = {f"m{number}:4b": {**GEMMA, "digest": f"{number}", "params": "4B"} for number in range(50)}
    with Stand(ollama_routes(models)) as ollama:
        ollama.routes["/api/show"] = ollama.silent
        seconds, found = timed(lambda: look([Target("ollama", ollama.url)], Quiet(), answer_s=0.2, gpus=False))
    assert (len(found.ollamas[0].models), found.left) == (50, ())
    assert seconds < 4


def test_two_hundred_models() -> None:
    """All are described, each asked for once."""
    models = {f"m{number}:4b": {**GEMMA, "digest": f"{number}"} for number in range(200)}
    with Stand(ollama_routes(models)) as ollama:
        found = look([Target("ollama", ollama.url)], Quiet(), answer_s=5, gpus=False)
        assert ollama.calls.count("POST /api/show") == 200
    assert [one.params for one in found.ollamas[0].models] == [4.3e9] * 200


def test_the_usual_places_are_quiet_where_nobody_is() -> None:
    """An address that nobody named and nobody listens at is no finding."""
    target = Target("ollama", "http://127.0.0.1:9", named=False)
    found = look([target], Quiet(), answer_s=1, gpus=False)
    assert (found.left, found.tried) == ((), ("http://127.0.0.1:9",))


@pytest.mark.parametrize(
    ("variable", "first"),
    [
        (None, "http://127.0.0.1:11434"),
        ("", "http://127.0.0.1:11434"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:9999", "http://127.0.0.1:9999"),
        ("gpu-box", "http://gpu-box:11434"),
        ("https://gpu-box:1/", "https://gpu-box:1"),
        ("http://gpu-box", "http://gpu-box"),
        ("::nonsense::", "http://127.0.0.1:11434"),
        (":8888", "http://127.0.0.1:8888"),
        ("[::]:999", "http://127.0.0.1:999"),
        ("::", "http://127.0.0.1:11434"),
        ("::1", "http://[::1]:11434"),
        ("[::1]:8888", "http://[::1]:8888"),
        ("gpu-box:", "http://gpu-box:11434"),
        ("'0.0.0.0:8888'", "http://127.0.0.1:8888"),
        ("0.0.0.0.example.com", "http://0.0.0.0.example.com:11434"),
    ],
)
def test_ollama_host(variable: str | None, first: str) -> None:
    """$OLLAMA_HOST names the server, also where it says where that listens."""
    targets = usual(variable)
    assert [target.base for target in targets] == [
        first,
        "http://127.0.0.1:8080",
        "http://127.0.0.1:8000",
        "http://127.0.0.1:1234",
    ]
    assert not any(target.named for target in targets)


@pytest.mark.parametrize("key", ["sk-secret\r\nX-Evil: 1", "sk-sécret"])
def test_a_key_that_no_header_can_carry_is_not_repeated(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    """The reason names the variable, never what is in it."""
    monkeypatch.setenv("SOME_KEY", key)
    with Stand({}) as server:
        found = look([Target("openai", server.url, key_env="SOME_KEY")], Quiet(), answer_s=5, gpus=False)
        why = "the key in SOME_KEY has characters that no header can carry"
        assert (found.left, server.calls) == ((Left(server.url, why, "export SOME_KEY with the key alone"),), [])


def test_the_line_end_of_a_key_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that was read from a file ends with one."""
    monkeypatch.setenv("SOME_KEY", "sk-secret\n")
    with Stand({"/v1/models": {"data": []}}) as server:
        found = look([Target("openai", server.url, key_env="SOME_KEY")], Quiet(), answer_s=5, gpus=False)
    assert found.openais == (OpenAiSeen(f"{server.url}/v1", (), "SOME_KEY"),)


def test_a_model_that_only_show_calls_remote_is_a_cloud_model() -> None:
    """Where /api/show names another host, the model runs there; where it fails, the name tells what makes vectors."""
    routes = ollama_routes({"gpt-oss:120b": GEMMA, "bge-m3:latest": BGE})
    remote = {"remote_host": "https://ollama.com:443", "remote_model": "gpt-oss:120b", "capabilities": ["completion"]}
    routes["/api/show"] = lambda body: remote if body["model"] == "gpt-oss:120b" else 500
    with Stand(routes) as server:
        [seen] = look([Target("ollama", server.url)], Quiet(), answer_s=5, gpus=False).ollamas
    assert [(one.name, one.file.remote, one.embedding) for one in seen.models] == [
        ("gpt-oss:120b", True, False), ("bge-m3:latest", False, True),
    ]  # fmt: skip


class Words(Quiet):
    """A watcher that keeps what it was told."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def say(self, text: str) -> None:
        """Keep it."""
        self.said.append(text)


def test_names_of_models_do_not_steer_the_terminal() -> None:
    """What is said while looking has no control characters."""
    watcher = Words()
    with Stand(ollama_routes({"evil\x1b[2J": GEMMA})) as server:
        look([Target("ollama", server.url)], watcher, answer_s=5, gpus=False)
        assert watcher.said == [server.url, f"evil�[2j:latest at {server.url}"]


@pytest.mark.parametrize(
    "text", ["", "ftp://x", "http://", "http://a b", "http://x:99999", "http://u:p@x", "http://x?k=1", "http://x\x07"]
)
def test_what_is_no_address(text: str) -> None:
    """No host, another scheme, a password or a query: refused before anything is asked."""
    with pytest.raises(ValueError):
        address(text)
