"""The proof: what every name reaches before the import, on plain LiteLLM, it reaches afterwards, with the plugin."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from litellm_registry_hook.edges.start.render import document
from tests.host.proxy import KEYS, OPTED, PLAIN, Proxy, clean_env
from tests.host.shapes import token
from tests.imports.house import CHAT, EMBEDDING, OTHER, SEVERAL, UPSTREAMS, house
from tests.imports.import_kit import imported
from tests.upstreams import Upstream, free_port

pytestmark = pytest.mark.host

ENV = {"LOCAL_KEY": "key-of-local", "AZURE_KEY": "key-of-azure", "CLAUDE_KEY": "key-of-claude", "LAB_KEY": "key-of-lab"}
AUTH = ("authorization", "api-key", "x-api-key", "x-room")
NAMES = [*CHAT, *EMBEDDING, *OTHER]
FOREIGN = {"wild/anything", "leaked"}
CONSENT = {"x-registry-allow-metered": "true"}


@dataclass(frozen=True)
class Reached:
    """What arrived at a server: its name, the path, the body, and the headers that say who calls."""

    upstream: str
    path: str
    body: Any
    headers: tuple[tuple[str, str], ...]


def ask(proxy: Proxy, name: str, key: str = OPTED, consent: Mapping[str, str] = CONSENT) -> httpx.Response:
    headers = {"x-litellm-num-retries": "0", **consent}
    kind = OTHER.get(name) or ("embedding" if name in EMBEDDING else "chat")
    if kind == "transcription":
        return httpx.post(
            f"{proxy.url}/v1/audio/transcriptions",
            data={"model": name},
            files={"file": ("a.mp3", b"ID3", "audio/mpeg")},
            headers={"Authorization": f"Bearer {key}", **headers},
            timeout=60,
        )
    path, body = {
        "chat": ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}]}),
        "embedding": ("/v1/embeddings", {"input": "hi"}),
        "speech": ("/v1/audio/speech", {"input": "hi", "voice": "alloy"}),
        "image": ("/v1/images/generations", {"prompt": "a cat"}),
        "rerank": ("/v1/rerank", {"query": "q", "documents": ["a", "b"]}),
        "responses": ("/v1/responses", {"input": "hi"}),
    }[kind]
    return proxy.post(path, {"model": name, **body}, key=key, headers=headers)


def survey(proxy: Proxy, ups: Mapping[str, Upstream]) -> tuple[dict[str, set[Reached]], dict[str, int]]:
    """Ask for every name, for those with several deployments more than once."""
    reached: dict[str, set[Reached]] = {}
    status: dict[str, int] = {}
    for name in NAMES:
        for up in ups.values():
            up.reset()
        for _ in range(12 if name in SEVERAL else 1):
            answer = ask(proxy, name)
            status[name] = answer.status_code
        reached[name] = {
            Reached(
                up.name,
                call.path,
                repr(sorted(call.json.items())) if isinstance(call.json, dict) else "",
                tuple(sorted((key, value) for key, value in call.headers.items() if key in AUTH)),
            )
            for up in ups.values()
            for call in up.generating_calls
        }
    return reached, status


@dataclass(frozen=True)
class Both:
    """The same questions to both proxies.

    Attributes:
        before, after: what each name reached. status: answers of both. listed: names of /v1/models of both.
        info: /model/info of both.
        plain: answers of the second proxy to a caller who does not mean to spend money. unknown: to a name nobody knows.
        again: what `--check --adopt` says of the generated config.

    """

    before: dict[str, set[Reached]]
    after: dict[str, set[Reached]]
    status: tuple[dict[str, int], dict[str, int]]
    listed: tuple[set[str], set[str]]
    info: tuple[list[dict[str, Any]], list[dict[str, Any]]]
    plain: dict[str, int]
    unknown: httpx.Response
    again: int


def listed(proxy: Proxy) -> set[str]:
    return {one["id"] for one in proxy.get("/v1/models", key=OPTED).json()["data"]}


def info(proxy: Proxy) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = proxy.get("/model/info", key=OPTED).json()["data"]
    return found


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    ups = {name: Upstream(name) for name in UPSTREAMS}
    for up in ups.values():
        up.__enter__()
    try:
        yield compare(ups, tmp_path_factory.mktemp("import"))
    finally:
        for up in ups.values():
            up.__exit__(None, None, None)


def compare(ups: Mapping[str, Upstream], folder: Path) -> Both:
    before, after = folder / "before", folder / "after"
    for one in (before, after):
        one.mkdir()
        (one / "litellm-config.yaml").write_text(house(ups, f"http://127.0.0.1:{free_port()}/v1"))
        (one / "test_keys.py").write_text(KEYS)
    shutil.copy(before / "litellm-config.yaml", after / "litellm-config.yaml")
    registry = document(imported(after / "litellm-config.yaml"))
    # What an operator decides: who may spend money, and that their own custom_auth tells callers apart.
    registry["routing"] |= {"metered_opt_in": [token(OPTED)], "trust_custom_auth": True}
    (after / "model-registry.yaml").write_text(yaml.safe_dump(registry, sort_keys=False))
    generate = [str(Path(sys.executable).parent / "generate-litellm-config"), "--adopt"]
    subprocess.run(generate, cwd=after, env=clean_env(), capture_output=True, check=True)
    again = subprocess.run([*generate, "--check"], cwd=after, env=clean_env(), capture_output=True, check=False)
    for name in ("llama3", "gemma3", "nomic-embed-text"):
        # The gate serves an Ollama model of unknown size only while it is loaded.
        ups["ollama"].load(name, seconds=-1)
    ups["ollama"].loaded["llama3:latest"]["context_length"] = 2048
    ups["ollama"].tracks_loads = False
    with Proxy(before, env=ENV) as plain:
        was, was_status = survey(plain, ups)
        names_before, info_before = listed(plain), info(plain)
    with Proxy(after, env=ENV) as ours:
        now, now_status = survey(ours, ups)
        names_after, info_after = listed(ours), info(ours)
        plain_status = {name: ask(ours, name, PLAIN, {}).status_code for name in NAMES}
        unknown = ask(ours, "no-such-name")
    return Both(
        was, now, (was_status, now_status), (names_before, names_after), (info_before, info_after), plain_status, unknown,
        again.returncode,
    )  # fmt: skip


def test_every_name_answers_before_and_after(both: Both) -> None:
    """No name that clients use has ceased to work."""
    assert both.status[0] == dict.fromkeys(NAMES, 200)
    assert both.status[1] == both.status[0]


@pytest.mark.parametrize("name", [name for name in NAMES if name != "old-ollama"])
def test_a_name_reaches_the_same_model_at_the_same_address(both: Both, name: str) -> None:
    """The same server gets the same path, model, parameters and key; of several deployments, one of them."""
    assert both.after[name] != set()
    if name in SEVERAL:
        assert both.after[name] <= both.before[name]
    else:
        assert both.after[name] == both.before[name]


def test_an_old_ollama_prefix_reaches_the_same_model_by_the_chat_route(both: Both) -> None:
    """`ollama/` for chats becomes `ollama_chat/`: the same model at the same server, on the route that knows tools."""
    [was], [now] = both.before["old-ollama"], both.after["old-ollama"]

    assert (was.upstream, was.path) == ("ollama", "/api/generate")
    assert (now.upstream, now.path) == ("ollama", "/api/chat")
    assert "('model', 'llama3')" in was.body and "('model', 'llama3')" in now.body
    assert "'num_ctx': 2048" in was.body and "'num_ctx': 2048" in now.body


def test_every_listed_name_is_listed_still(both: Both) -> None:
    """/v1/models of before is in that of after."""
    assert both.listed[0] - both.listed[1] == set()


def test_model_info_has_the_same_deployments(both: Both) -> None:
    """/model/info lists the same upstream models at the same addresses, without a key that stood in the config."""

    def deployments(found: list[dict[str, Any]]) -> set[tuple[str, str]]:
        return {
            (
                one["litellm_params"]["model"].replace("ollama_chat/", "ollama/"),
                one["litellm_params"].get("api_base", ""),
            )
            for one in found
        }

    was, now = (deployments(one) for one in both.info)
    lab = next(base for model, base in now if model == "openai/lab-up")

    assert now == (was - {("openai/lab-up", "")}) | {("openai/lab-up", lab)}


def test_free_names_ask_for_nothing_and_the_others_for_consent(both: Both) -> None:
    """Without the header and an opted-in key, names that are metered or that stay LiteLLM's are refused, no others."""
    assert both.plain == {name: 403 if name in FOREIGN | {"azure-gpt"} else 200 for name in NAMES}


def test_a_name_that_nobody_knows_is_refused(both: Both) -> None:
    """What default_fallbacks answered once for any name is unknown_model now."""
    assert (both.unknown.status_code, both.unknown.json()["error"]["code"]) == (400, "unknown_model")


def test_the_generated_config_needs_nothing_more(both: Both) -> None:
    """A second run of the generator finds nothing to do."""
    assert both.again == 0
