"""What the reader makes of an Ollama server: honest answers, old ones, garbage, silence."""

from __future__ import annotations

import contextlib
import socket
import time
from datetime import datetime, timezone
from typing import Any

import pytest
from gpu.scripted import GEMMA, MB, Scripted, endless, hang_up, ollama, ps_entry, tag_entry
from upstreams import Upstream
from hypothesis import given, settings
from hypothesis import strategies as st

from litellm_registry_hook.core.gpu.facts import Loaded, ModelFile, Server, Shape
from litellm_registry_hook.edges.gpu.ollama import OllamaReader
from litellm_registry_hook.edges.gpu.ollama_parse import (
    NotOllamaError,
    blob_of,
    files_of,
    loaded_of,
    moment_of,
    shape_of,
    spellings_of,
    version_of,
)

NOW = 1796050000.0
G = "registry.ollama.ai/library/gemma3:4b"
KEYS = [
    *ps_entry(),
    *GEMMA,
    *GEMMA["model_info"],
    "models",
    "version",
    "remote_host",
]
SHAPE = Shape(layers=34, heads=8, kv_heads=4, width=2560, embedding=False, train_context=131072)
LOADED = Loaded(G, "aa11", 3300.0, 3300.0, 1796058000.123456789, 4096)


@pytest.fixture
def server():
    with Scripted() as found:
        ollama(found)
        yield found


@pytest.fixture
def reader(server):
    found = OllamaReader(server.url, read_s=1.0)
    yield found
    found.close()


def test_a_whole_server(server, reader):
    """State, version, what is loaded, and files with size, blob and shape come from four harmless calls."""
    file = ModelFile(G, "aa11", 3184.0, f"sha256-{'ab' * 32}", SHAPE)
    assert reader.read(NOW, {G}) == Server(server.url, "up", "", (0, 33, 0), (LOADED,), NOW, {G: file})
    assert [(one.method, one.path, one.json) for one in server.asked] == [
        ("GET", "/api/ps", None),
        ("GET", "/api/tags", None),
        ("GET", "/api/version", None),
        ("POST", "/api/show", {"model": "gemma3:4b"}),
    ]


def test_files_are_read_once_a_minute(server, reader):
    """Within a minute only /api/ps is asked; then the list again, but a known digest is not described again."""
    reader.read(NOW, {G})
    server.paths()
    reader.read(NOW + 59, {G})
    assert server.paths() == ["/api/ps"]
    assert reader.read(NOW + 60, {G}).files[G].shape == SHAPE
    assert server.paths() == ["/api/ps", "/api/tags", "/api/version"]


def test_a_new_digest_is_described_again(server, reader):
    """When what is loaded has another digest than the list said, the list and the description are read anew."""
    reader.read(NOW, {G})
    ollama(server, ps=[ps_entry(digest="bb22")], tags=[tag_entry(digest="bb22", size=4000 * MB)])
    server.paths()
    assert reader.read(NOW + 10, {G}).files[G].size_mb == 4000.0
    assert server.paths() == ["/api/ps", "/api/tags", "/api/version", "/api/show"]


def test_a_missing_name_is_looked_for_every_five_seconds(server, reader):
    """A wanted model that is not there yet makes the list be read again soon, though not at each look."""
    wanted = {"registry.ollama.ai/library/new:latest"}
    reader.read(NOW, wanted)
    server.paths()
    reader.read(NOW + 4, wanted)
    assert server.paths() == ["/api/ps"]
    ollama(server, tags=[tag_entry(), tag_entry("new:latest", digest="cc33")])
    assert set(reader.read(NOW + 5, wanted).files) == {G, *wanted}


def test_another_name_for_the_same_weights_is_joinable(server, reader):
    """A loaded name outside the registry is described too: its blob is that of the wanted one."""
    ollama(server, ps=[ps_entry("mine:latest", digest="bb22")], tags=[tag_entry(), tag_entry("mine", digest="bb22")])
    files = reader.read(NOW, {G}).files
    assert {files[G].blob, files["registry.ollama.ai/library/mine:latest"].blob} == {f"sha256-{'ab' * 32}"}


def test_a_name_is_asked_for_as_the_server_writes_it(server, reader):
    """Names are compared in lower case, and shown to the server in its own spelling."""
    ollama(server, ps=[], tags=[tag_entry("hf.co/Me/Model-GGUF:Q4_K_M")])
    assert reader.read(NOW, {"hf.co/me/model-gguf:q4_k_m"}).files["hf.co/me/model-gguf:q4_k_m"].shape == SHAPE
    assert server.asked[-1].json == {"model": "hf.co/Me/Model-GGUF:Q4_K_M"}


def test_a_cloud_model_takes_no_memory_and_is_not_described(server, reader):
    """A model with a remote host, or a mere stub with a cloud tag, is remote; a large file with such a tag is not."""
    tags = [
        tag_entry("a:cloud", size=300),
        tag_entry("b:120b-cloud", size=300),
        tag_entry("c:x", size=300, remote_host="https://ollama.com", remote_model="c"),
        tag_entry("d:my-cloud"),
    ]
    ollama(server, ps=[], tags=tags)
    names = {f"registry.ollama.ai/library/{name}" for name in ("a:cloud", "b:120b-cloud", "c:x", "d:my-cloud")}
    files = reader.read(NOW, names).files
    assert {name.rpartition("/")[2]: file.remote for name, file in files.items()} == {
        "a:cloud": True,
        "b:120b-cloud": True,
        "c:x": True,
        "d:my-cloud": False,
    }
    assert [one.json for one in server.asked if one.path == "/api/show"] == [{"model": "d:my-cloud"}]


def test_a_refused_connection_is_gone_and_comes_back_fresh():
    """A server that is not there is gone and holds nothing; when it is back its files are read anew."""
    with Upstream("ollama", models=("gemma3:4b",)) as upstream:
        upstream.load("gemma3:4b")
        reader = OllamaReader(upstream.url)
        assert [one.name for one in reader.read(NOW).loaded] == [G]
        upstream.refuse()
        gone = reader.read(NOW + 1)
        upstream.models = ["new"]
        upstream.ok()
        back = reader.read(NOW + 2)
        reader.close()
    assert (gone.state, gone.reason, gone.loaded, gone.read_at) == ("gone", "/api/ps: connection refused", (), NOW)
    assert (back.state, set(back.files)) == ("up", {"registry.ollama.ai/library/new:latest"})


def test_a_host_that_does_not_resolve_is_gone():
    """An address without a host is gone."""
    reader = OllamaReader("http://no-such-host.invalid:11434")
    server = reader.read(NOW)
    reader.close()
    assert (server.state, server.loaded) == ("gone", ())
    assert server.reason.startswith("/api/ps: no connection: ")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ((500, {"error": "boom"}), "/api/ps: it answered 500 boom"),
        ((503, b"busy"), "/api/ps: it answered 503 busy"),
        ((404, b"404 page not found"), "/api/ps: it answered 404 404 page not found"),
        ((301, b""), "/api/ps: it answered 301"),
        (b"<html><h1>Welcome to nginx!</h1></html>", "its answer to /api/ps is not Ollama's: it is not JSON"),
        (b"", "its answer to /api/ps is not Ollama's: it is not JSON"),
        (b"[" * 100_000, "its answer to /api/ps is not Ollama's: it is not JSON"),
        (b"\xff\xfe\x00", "its answer to /api/ps is not Ollama's: it is not JSON"),
        ([], "its answer to /api/ps is not Ollama's: it has no list `models`"),
        ({"data": []}, "its answer to /api/ps is not Ollama's: it has no list `models`"),
        ({"models": "all"}, "its answer to /api/ps is not Ollama's: `models` is no list of entries"),
        ({"models": [1]}, "its answer to /api/ps is not Ollama's: `models` is no list of entries"),
        (hang_up, "/api/ps: RemoteProtocolError: Server disconnected without sending a response."),
        (endless, "/api/ps: its answer had not ended after 1 s"),
    ],
)
def test_garbage_is_a_stalled_server_that_keeps_what_it_said(server, reader, answer, reason):
    """No answer raises; what was loaded stays as it was said last, with the moment of that answer."""
    reader.read(NOW, {G})
    server.answers["/api/ps"] = answer
    began = time.monotonic()
    found = reader.read(NOW + 1, {G})
    assert (found.state, found.reason, found.loaded, found.read_at) == ("stalled", reason, (LOADED,), NOW)
    assert time.monotonic() - began < 8


def test_a_server_that_hangs_is_stalled(server, reader):
    """A server that answers too late is stalled, and what was loaded stays."""
    reader.read(NOW, {G})
    server.hold("/api/ps")
    found = reader.read(NOW + 1, {G})
    assert (found.state, found.reason, found.loaded) == ("stalled", "/api/ps: no answer within 1 s", (LOADED,))


def test_a_port_that_accepts_and_says_nothing_is_stalled():
    """A listener whose owner hangs is stalled from the start, with no moment of an answer."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        base = f"http://127.0.0.1:{listener.getsockname()[1]}"
        reader = OllamaReader(base, read_s=0.2)
        assert reader.read(NOW) == Server(base, "stalled", "/api/ps: no answer within 0.2 s")
        reader.close()


def test_an_address_that_is_none_is_stalled():
    """An api_base that no client can read is stalled with a reason, not an exception."""
    reader = OllamaReader("http://127.0.0.1:port")
    found = reader.read(NOW)
    reader.close()
    assert (found.state, found.reason.startswith("/api/ps: ")) == ("stalled", True)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("size", -1),
        ("size", "3 GB"),
        ("size", None),
        ("size", True),
        ("size", 10**400),
        ("size", float("nan")),
        ("size_vram", -5),
        ("size_vram", None),
        ("name", 7),
        ("expires_at", "soon"),
        ("expires_at", 12),
        ("expires_at", None),
        ("expires_at", "2026-02-30T00:00:00Z"),
        ("digest", 5),
        ("context_length", "4k"),
        ("context_length", -1),
    ],
)
def test_one_wrong_field_spoils_the_whole_answer(field, value):
    """An entry that cannot be right makes the answer none: half of what is loaded would look like free memory."""
    with pytest.raises(NotOllamaError):
        loaded_of({"models": [ps_entry("other"), ps_entry(**{field: value})]}, NOW)


@pytest.mark.parametrize("field", ["size", "size_vram", "expires_at"])
def test_a_missing_field_spoils_it_too(field):
    """A key that Ollama always sends must be there."""
    entry = {key: value for key, value in ps_entry().items() if key != field}
    with pytest.raises(NotOllamaError):
        loaded_of({"models": [entry]}, NOW)


def test_an_older_server():
    """Without context_length the context is not known; `model` may stand for `name`; a null list is an empty one."""
    entry = {key: value for key, value in ps_entry("Gemma3").items() if key not in {"context_length", "name", "digest"}}
    loaded = loaded_of({"models": [entry]}, NOW)
    assert loaded == (Loaded("registry.ollama.ai/library/gemma3:latest", "", 3300.0, 3300.0, LOADED.expires_at, None),)
    assert loaded_of({"models": None}, NOW) == ()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2026-11-30T17:00:00Z", 1796058000.0),
        ("2026-11-30T18:00:00.123456789+01:00", 1796058000.123456789),
        ("2026-11-30T11:30:00.5-05:30", 1796058000.5),
        ("2026-11-30T17:00:00.000000001z", 1796058000.0),
        ("2318-07-15T01:23:45.123456789+02:00", datetime(2318, 7, 14, 23, 23, 45, 123457, timezone.utc).timestamp()),
        ("0001-01-01T00:00:00Z", -62135596800.0),
        (
            "9999-12-31T23:59:59.999999999-12:00",
            datetime(9999, 12, 31, 23, 59, 59, 999999, timezone.utc).timestamp() + 12 * 3600,
        ),
    ],
)
def test_moments_as_go_prints_them(text, seconds):
    """Nine fraction digits, offsets of both signs, Z, the year 2318 and Go's zero time are read."""
    assert moment_of(text) == pytest.approx(seconds, rel=0, abs=2e-5)


def test_a_moment_more_than_a_year_ahead_is_pinned():
    """keep_alive -1 shows as the year 2318 and is None; a year ahead and less is a moment."""
    entries = [ps_entry("a", expires_at="2318-07-15T01:23:45.1Z"), ps_entry("b", expires_at="2027-11-29T00:00:00Z")]
    assert [one.expires_at is None for one in loaded_of({"models": entries}, NOW)] == [True, False]


def _shown(**changes: Any) -> dict[str, Any]:
    info = {key: value for key, value in {**GEMMA["model_info"], **changes}.items() if value != "left out"}
    return {**GEMMA, "model_info": info}


@pytest.mark.parametrize(
    ("changes", "heads", "kv_heads"),
    [
        ({"gemma3.attention.head_count_kv": "left out"}, 8, 1),
        ({"gemma3.attention.head_count_kv": [4, 2, 0]}, 8, 1),
        ({"gemma3.attention.head_count_kv": [4, 2]}, 8, 2),
        ({"gemma3.attention.head_count_kv": None}, 8, 8),
        ({"gemma3.attention.head_count_kv": []}, 8, 8),
        ({"gemma3.attention.head_count": [8, 16]}, 16, 4),
        ({"gemma3.attention.head_count": "left out"}, 1, 4),
        ({"gemma3.attention.head_count": 8.0}, 8, 4),
    ],
)
def test_heads_are_counted_as_ollama_counts_them(changes, heads, kv_heads):
    """The most heads, the fewest for KV, one where the file says nothing; a list left out is as many as can be."""
    shape = shape_of(_shown(**changes))
    assert shape is not None
    assert (shape.heads, shape.kv_heads) == (heads, kv_heads)


@pytest.mark.parametrize(
    "answer",
    [
        None,
        {},
        {"model_info": None},
        {"model_info": {}},
        _shown(**{"gemma3.block_count": "left out"}),
        _shown(**{"gemma3.embedding_length": "wide"}),
        _shown(**{"gemma3.attention.head_count": None}),
        _shown(**{"general.architecture": 3}),
    ],
)
def test_a_shape_that_is_not_told_is_none(answer):
    """A figure that is missing or wrong leaves the shape out, and nothing raises."""
    assert shape_of(answer) is None


def test_embedding_models_are_known_by_ability_or_pooling():
    """The list of abilities decides; without one, a pooling type does."""
    assert shape_of({**GEMMA, "capabilities": ["embedding"]}).embedding
    assert shape_of({**_shown(**{"gemma3.pooling_type": 1}), "capabilities": None}).embedding
    assert not shape_of(_shown(**{"gemma3.pooling_type": 1})).embedding


@pytest.mark.parametrize(
    ("text", "blob"),
    [
        (f"FROM /a/blobs/sha256-{'ab' * 32}", f"sha256-{'ab' * 32}"),
        (f'FROM "/a b/blobs/sha256-{"AB" * 32}"\n', f"sha256-{'ab' * 32}"),
        (f"FROM C:\\models\\blobs\\sha256-{'ab' * 32}\n", f"sha256-{'ab' * 32}"),
        (f"# FROM /a/blobs/sha256-{'ab' * 32}\nFROM gemma3:4b", ""),
        ("FROM gemma3:4b", ""),
        (7, ""),
    ],
)
def test_the_blob_of_a_modelfile(text, blob):
    """The first FROM that names a blob says which weights these are."""
    assert blob_of({"modelfile": text}) == blob


def test_versions():
    """A version is its numbers; a build without any has none."""
    assert [version_of({"version": text}) for text in ("0.33.0-rc2", "v0.9.6", "0.0.0", "dev", "", None)] == [
        (0, 33, 0),
        (0, 9, 6),
        (0, 0, 0),
        (),
        (),
        (),
    ]


@pytest.mark.parametrize("path", ["/api/tags", "/api/version"])
def test_files_that_cannot_be_read_leave_the_server_up(server, reader, path):
    """What is loaded counts even while the list of files fails; the reason says so and the files stay as they were."""
    reader.read(NOW, {G})
    server.answers[path] = (500, {"error": "disk"})
    found = reader.read(NOW + 60, {G})
    assert (found.state, found.loaded, found.files[G].size_mb) == ("up", (LOADED,), 3184.0)
    assert found.reason == f"its files could not be read, they are as before: {path}: it answered 500 disk"


def test_one_file_that_hangs_does_not_slow_each_look(server, reader):
    """A description that does not come is left alone for five seconds; the others are read."""
    b = "registry.ollama.ai/library/z:latest"
    ollama(server, tags=[tag_entry(), tag_entry("z:latest", digest="zz")])

    def show(handler: Any) -> None:
        if server.asked[-1].json == {"model": "gemma3:4b"}:
            server._held[0].wait(30)
        data = b'{"model_info": {}}'
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    server.hold("/unused")
    server.answers["/api/show"] = show
    reader.read(NOW, {G, b})
    assert [one.json for one in server.asked if one.path == "/api/show"] == [
        {"model": "gemma3:4b"},
        {"model": "z:latest"},
    ]
    server.paths()
    reader.read(NOW + 1, {G, b})
    assert server.paths() == ["/api/ps"]
    server.answers["/api/show"] = GEMMA
    assert reader.read(NOW + 5, {G, b}).files[G].shape == SHAPE


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=5), inner),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None)
@given(answer=ANY, entry=st.dictionaries(st.sampled_from(KEYS), ANY))
def test_no_json_raises_anything_but_not_ollama(answer, entry):
    """Whatever JSON a server sends, it is read or it is refused as not Ollama's."""
    for parse in (lambda given: loaded_of(given, NOW), files_of, spellings_of):
        for given_answer in (answer, {"models": [answer]}, {"models": [{**ps_entry(), **entry}]}):
            with contextlib.suppress(NotOllamaError):
                parse(given_answer)
    for given_answer in (answer, {**GEMMA, **entry}, {**GEMMA, "model_info": {**GEMMA["model_info"], **entry}}):
        shape_of(given_answer), blob_of(given_answer), version_of(given_answer)


def test_files_without_sizes_are_no_list():
    """A list of files with a wrong entry counts for nothing."""
    with pytest.raises(NotOllamaError):
        files_of({"models": [tag_entry(size="large")]})
