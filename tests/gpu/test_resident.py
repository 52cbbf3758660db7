"""Whether a model is loaded, stays, and is loaded as the registry says."""

import pytest

from litellm_registry_hook.core.gpu.facts import Loaded, ModelFile
from litellm_registry_hook.core.gpu.names import full_name
from litellm_registry_hook.core.gpu.resident import residency
from litellm_registry_hook.core.gpu.verdict import Resident, Want
from tests.gpu.world import A, B, GEMMA, NOW, entry, loaded, registry, server, slot, snapshot, want

NEVER = None
STAYS = Resident(NOW + 300)
PINNED = Resident(None)


def gemma(mb=3300.0, **more):
    """The loaded chat model."""
    return loaded("gemma3:4b", mb, **{"context": 4096, **more})


def ask(*entries, known=None, policy=None, now=NOW, residency_args=None, **more):
    """Ask about the chat model of a server in some state."""
    known = known or registry(entry("chat", 3300, name="gemma3:4b", **(residency_args or {})), **(policy or {}))
    return residency(known, snapshot(server(A, *entries, **more)), want(known, "chat"), now)


@pytest.mark.parametrize(
    ("entries", "more", "expected"),
    [
        ([gemma()], {}, STAYS),
        ([gemma(left=None)], {}, PINNED),
        ([], {}, NEVER),
        # expiry within the margin, and passed
        ([gemma(left=15.0)], {}, NEVER),
        ([gemma(left=15.1)], {}, Resident(NOW + 15.1)),
        ([gemma(left=-3.0)], {}, NEVER),
        # age of the reading
        ([gemma()], {"read_at": NOW - 5}, STAYS),
        ([gemma()], {"read_at": NOW - 5.1}, NEVER),
        ([gemma(left=None)], {"read_at": NOW - 5.1}, NEVER),
        # a server that stalls keeps what it had until that expires; one that is gone keeps nothing
        ([gemma()], {"state": "stalled", "read_at": NOW - 200}, STAYS),
        ([gemma(left=None)], {"state": "stalled", "read_at": NOW - 9000}, PINNED),
        ([gemma(left=14)], {"state": "stalled", "read_at": NOW - 200}, NEVER),
        ([gemma()], {"state": "stalled", "read_at": 0.0}, NEVER),
        ([gemma(left=None)], {"state": "gone"}, NEVER),
        # context
        ([gemma(context=8192)], {}, NEVER),
        ([gemma(context=None)], {}, STAYS),
        ([gemma(context=8192)], {"residency_args": {"num_ctx": 8192}}, STAYS),
        ([gemma(context=131_072)], {"residency_args": {"num_ctx": 200_000}}, STAYS),
        ([gemma(context=200_000)], {"residency_args": {"num_ctx": 200_000}}, NEVER),
        # partly on the CPU
        ([gemma(vram_mb=3240.0)], {}, STAYS),
        ([gemma(vram_mb=3200.0)], {}, NEVER),
        ([gemma(vram_mb=0.0)], {}, NEVER),
        ([gemma(vram_mb=3200.0)], {"policy": {"partial_offload": "warn"}}, STAYS),
        ([gemma(vram_mb=0.0)], {"policy": {"partial_offload": "allow"}}, STAYS),
        ([gemma(vram_mb=0.0)], {"residency_args": {"options": {"num_gpu": 0}}}, STAYS),
    ],
)
def test_residency(entries, more, expected):
    """Loaded, long enough, in a young reading, with the registry's context and wholly on the GPU."""
    assert ask(*entries, **more) == expected


@pytest.mark.parametrize(
    ("asked", "shown", "same"),
    [
        ("gemma3", "gemma3:latest", True),
        ("registry.ollama.ai/library/gemma3", "gemma3:latest", True),
        ("library/gemma3", "gemma3", True),
        ("Gemma3:4B", "gemma3:4b", True),
        ("gemma3", "gemma3:4b", False),
        ("gemma3:4b", "gemma3:latest", False),
        ("hf.co/a/b:Q4", "hf.co/A/b:q4", True),
        ("hf.co/a/b:Q4", "hf.co/a/b:q8", False),
        ("me/gemma3", "gemma3", False),
    ],
)
def test_names_as_ollama_reads_them(asked, shown, same):
    """An implied host, namespace or tag is the same model, another tag is another (RAG tools get this wrong both ways)."""
    known = registry(entry("chat", 100, name=asked))

    found = residency(known, snapshot(server(A, loaded(shown, 100.0))), want(known, "chat"), NOW)

    assert found == (STAYS if same else None)


def copy_of(blob="b", digest="d-copy", name="copy"):
    """A second name in /api/tags."""
    return {full_name(name): ModelFile(full_name(name), digest, 3184.0, blob, GEMMA)}


@pytest.mark.parametrize(
    ("files", "entry_", "expected"),
    [
        # by blob: a Modelfile on the same weights has another digest
        ({**copy_of(), **copy_of(digest="d", name="gemma3:4b")}, gemma(digest="d"), STAYS),
        ({**copy_of(), **copy_of(digest="d", name="gemma3:4b")}, gemma(digest="d", context=8192), NEVER),
        # by digest: `ollama cp`, where blobs are not known
        ({**copy_of(blob="", digest="d"), **copy_of(blob="", digest="d", name="gemma3:4b")}, gemma(digest="d"), STAYS),
        ({**copy_of(blob="", digest="d")}, gemma(digest="d"), STAYS),
        # other weights, or nothing to compare by
        ({**copy_of(blob="x"), **copy_of(digest="d", name="gemma3:4b")}, gemma(digest="d"), NEVER),
        ({**copy_of(blob="", digest=""), **copy_of(blob="", digest="", name="gemma3:4b")}, gemma(), NEVER),
        ({}, gemma(digest="d"), NEVER),
    ],
)
def test_another_name_of_the_same_weights(files, entry_, expected):
    """Two names on one blob share a runner, and /api/ps shows only the name that loaded it."""
    known = registry(entry("copy", 3300))

    assert residency(known, snapshot(server(A, entry_, files=files)), want(known, "copy"), NOW) == expected


def test_a_loaded_model_that_the_registry_does_not_know():
    """It is resident with whatever context it has; our own size rule is about loads."""
    found = residency(registry(), snapshot(server(A, gemma(context=777))), Want(None, slot("gemma3:4b")), NOW)

    assert found == STAYS


def test_a_server_by_another_of_its_names():
    """localhost, 127.0.0.1 and the /v1 door are one server; another port is another; an unread one holds nothing."""
    seen = snapshot(server(A, gemma()))

    def at(base):
        return residency(registry(), seen, Want(None, slot("gemma3:4b", base)), NOW)

    assert (at("http://localhost:11434"), at(f"{A}/v1"), at(B)) == (STAYS, STAYS, None)


def test_a_size_that_the_server_does_not_say():
    """An entry without sizes is not taken for a partial one."""
    bare = Loaded(full_name("gemma3:4b"))

    assert ask(bare) == PINNED
