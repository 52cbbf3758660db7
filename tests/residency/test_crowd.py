"""Many requests at once, several workers, and workers that die."""

from __future__ import annotations

from typing import Any

import pytest
from ollama_sim.homelab import large_home
from residency.world import Request, World, claims, reason

from litellm_registry_hook.residency.ticket import Granted


def big(id: str, name: str, **more: Any) -> dict[str, Any]:
    return {
        "id": id, "role": "chat", "lifecycle": "on-demand", "metered": False,
        "litellm": {"model": f"ollama_chat/{name}"}, "endpoints": [{"api_base": "http://127.0.0.1:11434"}],
        "gpu_residency": {"vram_mb": 9000, "num_ctx": 4096, **more},
    }  # fmt: skip


def two_big() -> dict[str, Any]:
    """Two 9 GB models and a pinned embedder on a 16 GB card."""
    return {
        "version": 1,
        "models": [
            big("big-a", "big-a:14b"),
            big("big-b", "big-b:14b"),
            {
                "id": "bge-m3", "role": "embedder", "lifecycle": "always-on", "metered": False, "dimensions": 1024,
                "litellm": {"model": "ollama/bge-m3"}, "endpoints": [{"api_base": "http://127.0.0.1:11434"}],
                "gpu_residency": {"vram_mb": 1200, "never_evict": True},
            },
        ],
        "routing": {"tiers": {"a": ["big-a"], "b": ["big-b"], "embed": ["bge-m3"]}},
        "gpu_residency_policy": {"never_evict_ids": ["bge-m3"]},
    }  # fmt: skip


def started(workers: int) -> World:
    world = World(two_big(), large_home(), workers)
    world.run(10)
    assert world.sim.names() == ["bge-m3:latest"]
    return world


def drain(world: World, requests: list[Request], seconds: float, each_s: float = 1.0) -> None:
    """Let time pass; every granted request takes `each_s`."""
    end = world.clock() + seconds
    while world.clock() < end:
        world.run(0.1)
        for request in requests:
            began = request.call.running_at if request.call is not None else None
            if began is not None and not request.ended and world.clock() - began >= each_s:
                world.finish(request)


def loads(world: World) -> list[str]:
    return [load.model for load in world.sim.loads if load.model.startswith("big")]


def overlaps(world: World) -> int:
    spans = sorted((load.begin, load.end) for load in world.sim.loads)
    return sum(later[0] < earlier[1] for earlier, later in zip(spans, spans[1:], strict=False))


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_fifty_requests_for_two_models_load_one_and_refuse_the_other_with_numbers(workers: int) -> None:
    """Nobody waits: one model is loaded once, its requests all join, the others get the numbers at once."""
    world = started(workers)
    requests = [world.ask(["big-a", "big-b"][n % 2], worker=n % workers) for n in range(50)]
    drain(world, requests, 20)
    served = [request.want.use.model for request in requests if isinstance(request.answer, Granted)]
    refused = {reason(request).partition(":")[0] for request in requests if not isinstance(request.answer, Granted)}
    assert (set(served), len(served)) in [({"big-a"}, 25), ({"big-b"}, 25)]
    assert refused == {"gpu_no_headroom"}
    assert (len(loads(world)), overlaps(world), world.sim.ooms, world.sim.left("bge-m3")) == (1, 0, 0, [])


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_fifty_requests_that_wait_are_all_served_with_two_loads(workers: int) -> None:
    """With x-registry-wait the second model comes when the first is idle: one swap, nobody is refused."""
    world = started(workers)
    requests = [world.ask(["big-a", "big-b"][n % 2], worker=n % workers, wait_s=30) for n in range(50)]
    drain(world, requests, 60)
    assert [reason(request) for request in requests if not isinstance(request.answer, Granted)] == []
    assert sorted(set(loads(world))) == ["big-a:14b", "big-b:14b"]
    assert len(loads(world)) <= 4
    assert (overlaps(world), world.sim.ooms, world.sim.left("bge-m3"), world.sim.evictions) == (0, 0, [], [])
    assert claims(world) == []


def test_a_worker_killed_while_it_loads_leaves_the_model_loadable() -> None:
    """kill -9 in the middle of a load: its booking lapses within its lifetime and the next request is served."""
    world = started(2)
    lost = world.ask("big-a", worker=0)
    world.run(1)
    assert claims(world) == ["big-a:14b"]
    world.kill(world.workers[0])
    waiting = world.ask("big-a", worker=1)
    world.run(1)
    assert (lost.call, waiting.answer) == (None, None)
    world.run(15)
    assert isinstance(waiting.answer, Granted), reason(waiting)
    world.finish(waiting)
    world.run(1)
    assert claims(world) == []


def test_a_client_that_hangs_up_does_not_end_a_load_that_others_wait_for() -> None:
    """The first client goes during the load; the second gets the model from that same load."""
    world = started(1)
    first = world.ask("big-a")
    second = world.ask("big-a")
    world.run(0.5)
    world.hang_up(first)
    world.run(5)
    assert isinstance(second.answer, Granted)
    assert (first.answer, loads(world)) == (None, ["big-a:14b"])
    world.finish(second)
    world.run(1)
    assert world.workers[0].view.busy() == {}


def test_a_full_queue_is_a_no_at_once() -> None:
    """The hundred and first request that wants to wait is refused at once and says so."""
    world = started(1)
    world.serve("big-a")
    busy = world.ask("big-a")
    waiting = [world.ask("big-b", wait_s=30) for _ in range(101)]
    world.run(2)
    [full] = [request for request in waiting if request.answer is not None]
    assert reason(full).endswith("and the queue of waiting requests is full")
    world.finish(busy)
    drain(world, waiting, 30)
    assert sum(isinstance(request.answer, Granted) for request in waiting) == 100


def test_those_who_wait_are_served_in_order_of_arrival() -> None:
    """Two models wait for the place of a third: the first to come is loaded first."""
    world = started(2)
    world.serve("big-a")
    busy = world.ask("big-a", worker=0)
    first = world.ask("big-b", worker=1, wait_s=30)
    world.run(1)
    second = world.ask("big-b", worker=0, wait_s=30)
    world.run(1)
    assert (first.answer, second.answer) == (None, None)
    world.finish(busy)
    drain(world, [first, second], 20)
    assert first.granted_at is not None and second.granted_at is not None
    assert first.granted_at <= second.granted_at


def test_without_the_state_nothing_new_is_loaded_and_what_is_loaded_goes_on() -> None:
    """The state is gone: a resident model is served, another is refused as unknown; then it is back."""
    world = started(1)
    world.ledger.down = True
    assert isinstance(world.serve("bge-m3").answer, Granted)
    refused = world.serve("big-a")
    assert reason(refused).startswith("gpu_state_unknown: big-a is not loaded, and nothing is loaded without the state")
    world.ledger.down = False
    world.run(2)
    assert isinstance(world.serve("big-a").answer, Granted)


def test_a_model_that_is_being_unloaded_is_not_used_by_another_worker() -> None:
    """While one worker swaps a model out, the other sends no request to it: the server would load it again, ungated."""
    world = started(2)
    for worker in (0, 1):
        world.serve("big-a", worker=worker)
    assert all(world.want("big-a").use in worker.view.resident for worker in world.workers)
    world.run(2)
    newcomer = world.ask("big-b", worker=0, wait_s=20)
    late: list[Request] = []
    for _ in range(60):
        world.run(0.05)
        late.append(world.ask("big-a", worker=1))
        for request in late:
            if request.call is not None and not request.ended:
                world.finish(request)
    world.run(15)
    assert isinstance(newcomer.answer, Granted), reason(newcomer)
    assert [request for request in world.cold if request.want.use.model == "big-a"] == []
    assert loads(world).count("big-a:14b") == 1


def test_a_model_in_use_by_another_worker_is_not_unloaded() -> None:
    """The victim has a request in flight at the other worker: the swap is called off, and that request ends well."""
    world = started(2)
    world.serve("big-a", worker=0)
    world.run(1)
    inside = world.ask("big-a", worker=1)
    assert inside.fast
    refused = world.serve("big-b", worker=0)
    assert "requests in flight" in reason(refused)
    assert (inside.call.state, world.workers[0].starter.unloaded) == ("running", [])
    world.finish(inside)
    world.run(2)
    assert isinstance(world.serve("big-b", worker=0).answer, Granted)


@pytest.mark.parametrize("gap_s", [0.05, 0.3, 0.7])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_model_that_asks_to_leave_at_once_is_not_used_while_it_leaves(workers: int, gap_s: float) -> None:
    """keep_alive 0 in the registry: a second request right after the first never meets a model on its way out."""
    registry = two_big()
    registry["models"][0]["gpu_residency"]["keep_alive"] = "0"
    world = World(registry, large_home(), workers)
    world.run(10)
    for turn in range(6):
        request = world.serve("big-a", worker=turn % workers, for_s=0.2)
        assert isinstance(request.answer, Granted), reason(request)
        world.run(gap_s)
    assert (world.cold, world.sim.evictions, world.sim.left("bge-m3")) == ([], [], [])


def test_a_wait_ends_in_time_also_where_the_machine_is_held() -> None:
    """Somebody holds the machine's lock all the time: the request is refused after its wait, with its size and the fix."""
    world = started(1)
    machine = world.workers[0].board.machine(world.want("big-a").slot)
    assert world.ledger.take("gpu-lock", machine, "calibrate", 1000)
    request = world.ask("big-a", wait_s=5)
    world.run(4)
    assert request.answer is None
    world.run(3)
    assert reason(request) == (
        "gpu_no_headroom: big-a (9000 MB) has to wait: another load is being prepared on its machine; "
        "send x-registry-wait, or try again"
    )


def test_what_cannot_be_decided_is_refused_and_holds_up_nobody() -> None:
    """A bug in the decision about one model is a refusal of its requests; the others are served."""
    world = started(1)
    board = world.workers[0].board
    decide = board.decide

    def broken(want: Any, **more: Any) -> Any:
        if want.model.id == "big-b":
            raise RuntimeError("a bug")
        return decide(want, **more)

    board.decide = broken  # type: ignore[method-assign]
    refused, served = world.ask("big-b"), world.ask("big-a")
    world.run(10)
    assert reason(refused) == (
        "gpu_state_unknown: big-b is not loaded: the gate failed and lets nothing through; see the log"
    )
    assert isinstance(served.answer, Granted)


def test_a_load_that_ends_while_ps_stalls_is_a_good_one() -> None:
    """/api/ps does not answer at the end of a load: those who wait get the model once it does."""
    world = started(1)
    first, second = world.ask("big-a"), world.ask("big-a")
    world.run(1)
    world.sim.stall(world.clock() + 8)
    world.run(5)
    assert (first.answer, second.answer, claims(world)) == (None, None, ["big-a:14b"])
    world.run(8)
    assert isinstance(first.answer, Granted), reason(first)
    assert isinstance(second.answer, Granted), reason(second)
    assert (loads(world), claims(world), world.workers[0].board.counts.get("failed_loads", 0)) == (["big-a:14b"], [], 0)


def test_a_load_whose_server_never_shows_it_ends_with_a_reason() -> None:
    """/api/ps stays silent: the request ends after fifteen seconds and nothing stays booked."""
    world = started(1)
    request = world.ask("big-a")
    world.run(1)
    world.sim.stall(world.clock() + 60)
    world.run(25)
    assert "has not answered /api/ps for 15 s" in reason(request)
    assert claims(world) == []


@pytest.mark.parametrize("policy", ["allow", "warn"])
def test_a_model_that_spills_is_served_and_warned_of_where_asked(policy: str, caplog: pytest.LogCaptureFixture) -> None:
    """partial_offload warn serves like allow, and says in the log what is not on the GPU."""
    registry = two_big()
    del registry["models"][2], registry["routing"]["tiers"]["embed"]
    registry["gpu_residency_policy"] = {"partial_offload": policy}
    home = large_home()
    home.cards[0].total_mb = 8000.0
    request = World(registry, home).serve("big-a")
    assert isinstance(request.answer, Granted), reason(request)
    assert ("MB on the GPU" in caplog.text) is (policy == "warn")
