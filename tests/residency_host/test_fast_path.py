"""A request for a resident model: nothing on the event loop touches a file, a socket, a database, a thread or a lock."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import yaml
from nvml.stub import environment
from ollama_sim.homelab import small_house

from tests.host.proxy import ROOT
from tests.residency_host.house_kit import shipped

# Without LiteLLM, whose import opens everything: the gate itself is what is measured.
SCRIPT = """
import asyncio, inspect, json, os, re, sys, threading, time
from litellm_registry_hook.core.gpu.names import slot_of
from litellm_registry_hook.core.gpu.verdict import Want
from litellm_registry_hook.edges.gpu.eyes import MachineEyes
from litellm_registry_hook.edges.gpu.hands import OllamaHands
from litellm_registry_hook.edges.registry_file import load_registry
from litellm_registry_hook.edges.store.place import open_state
from litellm_registry_hook.residency.board import Sources
from litellm_registry_hook.residency.engine import Residency, Threads
from litellm_registry_hook.residency.view import View

registry = load_registry("model-registry.yaml")
state = open_state({}, "sqlite:///" + os.path.abspath("state.sqlite"))
want = Want(registry.by_id["local-small"], slot_of(registry.by_id["local-small"], sys.argv[1]))


class Counting:
    looks = 0

    def __init__(self, eyes):
        self.eyes = eyes

    def look(self, bases=None):
        self.looks += 1
        return self.eyes.look(bases)


eyes = Counting(MachineEyes(lambda: registry, dict(os.environ), time.time))
sources = Sources(lambda: registry, lambda: {want.use: want}, eyes, state.ledger)
residency = Residency(sources, Threads(OllamaHands(dict(os.environ))), View(time.time), "worker")
residency.start()
me, recording, events, calls, codes = threading.get_ident(), False, [], set(), set()


async def once():
    lease = await residency.enter((want,), 0, None)
    lease.release()


def audit(event, args):
    if recording and threading.get_ident() == me:
        events.append(event)


def profile(frame, event, arg):
    if event == "c_call":
        calls.add(getattr(arg, "__qualname__", repr(arg)))
    elif event == "call":
        calls.add(frame.f_code.co_name)
        if "litellm_registry_hook" in frame.f_code.co_filename:
            codes.add(frame.f_code)


async def main():
    global recording
    await once()  # at the desk, which loads it
    residency.stop()
    residency.board.look()
    looks = eyes.looks
    lease = await residency.enter((want,), 0, None)
    busy = [residency.view.busy().get(want.slot)]
    lease.release()
    busy.append(residency.view.busy().get(want.slot))
    recording = True
    for _ in range(1000):
        await once()
    recording = False
    sys.setprofile(profile)
    await once()
    sys.setprofile(None)
    guarded = [code.co_name for code in codes if re.search("^ *(async )?with ", inspect.getsource(code), re.MULTILINE)]
    print(json.dumps({
        "ours": sorted(code.co_name for code in codes), "guarded": guarded,
        "busy": busy, "events": events, "looks": eyes.looks - looks, "left": len(residency.desk.tickets),
        "calls": sorted(name for name in calls if name != "setprofile"),
    }))


sys.addaudithook(audit)
asyncio.run(main())
"""
# What might wait for somebody else, in any spelling.
WAITS = (
    "lock",
    "acquire",
    "wait",
    "open",
    "read",
    "write",
    "connect",
    "send",
    "recv",
    "execute",
    "commit",
    "put",
    "Event",
)


def test_a_resident_model_costs_no_file_socket_or_lock(tmp_path: Path, library: Path) -> None:
    """A thousand grants and releases: no audited event on their thread, no look at the machines, no call that may wait."""
    with small_house(tmp_path) as house:
        (tmp_path / "model-registry.yaml").write_text(yaml.safe_dump(shipped(house), sort_keys=False))
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, house.ollama.url], cwd=tmp_path, capture_output=True, text=True, timeout=120,
            env={**os.environ, **environment(library, house.nvml.path), "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        loads = house.ollama.look(lambda sim: [load.model for load in sim.loads])
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    calls, ours = found.pop("calls"), found.pop("ours")
    # `guarded`: functions of ours with a `with` statement, which the profiler would not show as a call.
    assert found == {"busy": [1, None], "events": [], "looks": 0, "left": 0, "guarded": []}
    assert (loads, {"enter", "release", "leave"} <= set(ours)) == (["gemma3:4b"], True)
    assert [name for name in calls if any(word in name for word in WAITS)] == []
