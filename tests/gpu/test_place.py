"""Where a model sits, and how the memory of its GPU is known."""

from dataclasses import replace

import pytest

from litellm_registry_hook.core.gpu.facts import Gpu, Nvml, Snapshot
from litellm_registry_hook.core.gpu.place import (
    Card,
    Room,
    declared_total,
    homes_of,
    machine_of,
    overlap,
    resolve_addresses,
    room_of,
    server_key,
)
from tests.gpu.world import A, AWAY, NOW, entry, nvml, registry, slot, tei

HERE = "localhost"
NEVER = Nvml("never", "library_not_found", "no NVML library")
FAILED = Nvml("failed", "unknown", "Unknown Error")
ONE = {"gpus": {0: {"total_mb": 8192}}}
BASELINE = {"baseline": {"measured_mb": 6000, "total_mb": 6144}}
TWO = nvml(3000.0, 5000.0)


def with_state(state, code="gpu_lost", driver=TWO, index=0):
    """The driver with one GPU in another state."""
    gpus = list(driver.gpus)
    gpus[index] = replace(gpus[index], state=state, code=code, reason="a reason", total_mb=0.0, free_mb=0.0)
    return replace(driver, gpus=tuple(gpus))


def card(n, free, total=8192.0):
    """A card as NVML shows it."""
    return Card(f"GPU-{n}", total, free)


@pytest.mark.parametrize(
    ("api_base", "expected"),
    [
        ("http://localhost:11434", "box"),
        ("http://127.0.0.1:11434/", "box"),
        ("http://127.8.9.1:1", "box"),
        ("http://[::1]:11434", "box"),
        ("http://0.0.0.0:11434", "box"),
        ("http://GPU-Box:11434/v1", "gpu-box"),
        ("http://host.docker.internal:11434", "host.docker.internal"),
    ],
)
def test_machine(api_base, expected):
    """Loopback is this machine, anything else is the host that is named."""
    assert machine_of(api_base, "box") == expected


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("http://localhost:11434", "http://127.0.0.1:11434/", True),
        ("http://127.0.0.1:11434/v1", "http://127.0.0.1:11434", True),
        ("http://127.0.0.1:11434", "http://127.0.0.1:11435", False),
        ("http://one:11434", "http://two:11434", False),
        ("http://one/ollama-a", "http://one/ollama-b", False),
        ("https://one", "https://one:443", True),
        ("http://one:port", "http://one:port", True),
    ],
)
def test_same_server(one, other, same):
    """A server is host, port and path; loopback names are one host, and /v1 is Ollama's OpenAI door."""
    assert (server_key(one) == server_key(other)) is same


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("auto", "GPU-1", True),
        ("0", "0", True),
        ("0", "1", False),
        ("GPU-1", "gpu-1", True),
        ("GPU-1", "GPU-2", False),
        ("0", "GPU-1", True),
    ],
)
def test_overlap(one, other, expected):
    """Two GPU names are one GPU unless they are known to differ."""
    assert overlap(one, other) is expected
    assert overlap(other, one) is expected


@pytest.mark.parametrize(
    ("policy", "names", "expected"),
    [
        ({}, ("auto",), None),
        (BASELINE, ("auto",), 6144),
        (BASELINE, ("1",), 6144),
        ({**ONE, **BASELINE}, ("0",), 8192),
        ({**ONE, **BASELINE}, ("1",), 6144),
        (ONE, ("1",), None),
        ({"gpus": {"GPU-x": {"total_mb": 9}}}, ("gpu-X",), 9),
        ({"gpus": {"GPU-x": {"total_mb": 9}}}, ("auto",), 9),
        ({"gpus": {0: {"total_mb": 8}, 1: {"total_mb": 4}}}, ("auto",), 8),
        ({"gpus": {1: {"total_mb": 8}, 2: {"total_mb": 4}}}, ("auto",), 4),
    ],
)
def test_declared_total(policy, names, expected):
    """The GPU's own size; for auto index 0, the only one or the smallest; else the baseline's."""
    assert declared_total(registry(**policy).gpu_residency_policy, names) == expected


@pytest.mark.parametrize(
    ("driver", "api_base", "gpu", "policy", "expected"),
    [
        (TWO, A, "none", {}, Room("none", HERE, "none")),
        (nvml(3000.0), A, "auto", {}, Room("nvml", HERE, "auto", (card(0, 3000.0),))),
        (TWO, A, "auto", {}, Room("nvml", HERE, "auto", (card(0, 3000.0), card(1, 5000.0)))),
        (TWO, A, "1", {}, Room("nvml", HERE, "GPU-1", (card(1, 5000.0),), (card(0, 3000.0),))),
        (TWO, A, "gpu-1", {}, Room("nvml", HERE, "GPU-1", (card(1, 5000.0),), (card(0, 3000.0),))),
        (
            NEVER,
            A,
            "auto",
            ONE,
            Room(
                "declared",
                HERE,
                "auto",
                (Card("auto", 8192, None),),
                reason="NVML does not work here (no NVML library)",
            ),
        ),
        (
            TWO,
            AWAY,
            "0",
            ONE,
            Room(
                "declared",
                "gpu-box",
                "0",
                (Card("0", 8192, None),),
                reason="gpu-box is another machine, which NVML cannot see",
            ),
        ),
        (
            NEVER,
            A,
            "auto",
            {},
            Room(
                "unknown",
                HERE,
                "auto",
                reason="NVML does not work here (no NVML library) and no size is declared; declare "
                "gpu_residency_policy.gpus or baseline.total_mb",
            ),
        ),
        (FAILED, A, "auto", {}, Room("unknown", HERE, "auto", reason="NVML worked and now fails: Unknown Error")),
        (
            FAILED,
            A,
            "0",
            ONE,
            Room(
                "unknown",
                HERE,
                "0",
                fallback=Card("0", 8192, None),
                reason="NVML worked and now fails: Unknown Error",
            ),
        ),
        (
            TWO,
            A,
            "7",
            {},
            Room("unknown", HERE, "7", reason="NVML has no GPU 7; mend endpoints[].gpu in the registry"),
        ),
        (
            Nvml("ok"),
            A,
            "auto",
            {},
            Room(
                "unknown",
                HERE,
                "auto",
                reason="NVML finds no GPU on this machine; mend endpoints[].gpu in the registry",
            ),
        ),
        (with_state("unknown"), A, "0", {}, Room("unknown", HERE, "GPU-0", reason="reading GPU 0 failed: a reason")),
        # the other GPU goes on
        (with_state("unknown"), A, "auto", {}, Room("nvml", HERE, "auto", (card(1, 5000.0),))),
        (with_state("unsupported"), A, "auto", {}, Room("nvml", HERE, "auto", (card(1, 5000.0),))),
        (
            with_state("unsupported", "mig"),
            A,
            "0",
            {},
            Room(
                "unknown",
                HERE,
                "GPU-0",
                reason="NVML cannot count the memory of GPU 0 (a reason) and no size is declared; declare "
                "gpu_residency_policy.gpus or baseline.total_mb",
            ),
        ),
        (
            with_state("unsupported", "unified_memory"),
            A,
            "GPU-0",
            ONE,
            Room(
                "declared",
                HERE,
                "GPU-0",
                (Card("GPU-0", 8192, None),),
                reason="NVML cannot count the memory of GPU 0 (a reason)",
            ),
        ),
    ],
)
def test_room(driver, api_base, gpu, policy, expected):
    """Measured on loopback, declared where NVML never worked or cannot see, unknown where it failed."""
    seen = Snapshot(NOW, driver)

    assert room_of(registry(**policy).gpu_residency_policy, seen, api_base, gpu) == expected


def test_unified_memory_alone_on_a_machine():
    """A single GPU that NVML cannot count is of the declared size, whatever index it was declared by."""
    driver = Nvml("ok", gpus=(Gpu("GPU-0", 0, state="unsupported", code="unified_memory", reason="GB10"),))

    assert room_of(registry(**ONE).gpu_residency_policy, Snapshot(NOW, driver), A, "auto") == Room(
        "declared", HERE, "auto", (Card("auto", 8192, None),), reason="NVML cannot count the memory of GPU 0 (GB10)"
    )


def test_homes():
    """Every Ollama place, Ollama's own address by default, what another provider serves there, and sized servers."""
    bare = entry("bare")
    del bare["endpoints"]
    through = entry("through", 900)
    through["litellm"] = {"model": "openai/qwen3"}
    through["endpoints"] = [{"api_base": "http://localhost:11434/v1"}]
    cloud = {
        **entry("cloud"),
        "litellm": {"model": "openai/gpt"},
        "endpoints": [{"api_base": "https://api.openai.com/v1"}],
    }
    known = registry(entry("two", 10, base=f"{A} {AWAY}", gpu=1), bare, through, tei(), cloud)

    assert [(home.model.id, home.api_base, home.gpu, home.slot) for home in homes_of(known)] == [
        ("two", A, "1", slot("two")),
        ("two", AWAY, "1", slot("two", AWAY)),
        ("bare", "http://localhost:11434", "auto", slot("bare", "http://localhost:11434")),
        ("through", "http://localhost:11434/v1", "auto", slot("qwen3", "http://localhost:11434/v1")),
        ("tei", "http://127.0.0.1:8080", "auto", None),
    ]


def test_addresses_from_the_environment():
    """os.environ/ addresses are resolved in a copy; an unset one stays as it is, and nothing to do is no copy."""
    known = registry(entry("a", 1, base="os.environ/HERE"), entry("b", 1, base="os.environ/UNSET"), entry("c", 1))
    assert known.by_id["a"].places[0].api_base == "os.environ/HERE"

    found = resolve_addresses(known, {"HERE": AWAY})

    assert [model.places[0].api_base for model in found.by_id.values()] == [AWAY, "os.environ/UNSET", A]
    assert dict(found.by_id["a"]) == dict(known.by_id["a"])
    assert resolve_addresses(found, {}) is found
