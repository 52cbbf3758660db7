"""Laws that the stand-in keeps under any sequence of requests, on a clock that moves when told."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from ollama_sim.scheduler import Sim
from ollama_sim.things import Card, Settings, SimModel, VirtualClock

NAMES = ["a", "b", "c", "d", "e"]
SIZES = {"a": 900, "b": 2500, "c": 4000, "d": 5200, "e": 12_000}
ACTIONS = st.one_of(
    st.tuples(
        st.just("begin"),
        st.sampled_from(NAMES),
        st.sampled_from([None, 0, 3, "5m", -1]),
        st.sampled_from([{}, {"num_ctx": 8192}, {"num_batch": 2048}, {"num_gpu": 0}, {"num_gpu": 7}]),
    ),
    st.tuples(st.just("finish"), st.integers(0, 9)),
    st.tuples(st.just("cancel"), st.integers(0, 9)),
    st.tuples(st.just("unload"), st.sampled_from(NAMES)),
    st.tuples(st.just("foreign"), st.integers(0, 3000)),
    st.tuples(st.just("advance"), st.sampled_from([0.1, 0.5, 2.0, 30.0])),
    st.tuples(st.just("restart")),
)


def play(actions, version, cards):
    """Do all of it on a new server, checking the card after each action; return the server and the tickets."""
    models = [SimModel(name, file_mb=mb * 0.9, vram_mb=mb) for name, mb in SIZES.items()]
    sim = Sim(version, [Card(8192) for _ in range(cards)], models, VirtualClock(), Settings(recovery_s=1))
    tickets = []
    for action in actions:
        match action:
            case ("begin", name, keep_alive, options):
                tickets.append(sim.begin(name, keep_alive, options))
            case ("finish" | "cancel", at):
                running = [one for one in tickets if one.state in ("queued", "loading", "running")]
                if at < len(running):
                    one = running[at]
                    sim.finish(one) if action[0] == "finish" and one.state == "running" else sim.cancel(one)
            case ("unload", name):
                sim.unload(name)
            case ("foreign", mb):
                sim.foreign(0, min(mb, sim.cards[0].free_mb + sim.cards[0].uses.get("foreign", 0)))
            case ("advance", seconds):
                sim.advance(sim.clock() + seconds)
            case ("restart",):
                sim.restart()
        for card in sim.cards:
            assert sum(card.uses.values()) <= card.total_mb + 0.001
        assert len(sim.ps()) <= sim.max_loaded
    return sim, tickets


@settings(max_examples=200, deadline=None)
@given(st.lists(ACTIONS, max_size=40), st.sampled_from(["0.33.0", "0.12.6"]), st.integers(1, 2))
def test_every_request_ends_and_all_memory_comes_back(actions, version, cards):
    """When all requests have ended and all models were unloaded, only foreign memory is held; nothing waits for ever."""
    sim, tickets = play(actions, version, cards)
    for _ in range(len(tickets) + 1):
        sim.settle()
        for ticket in tickets:
            sim.finish(ticket) if ticket.state == "running" else None
    sim.settle()
    assert {ticket.state for ticket in tickets} <= {"done", "failed", "cancelled"}
    for name in NAMES:
        sim.unload(name)
        sim.settle()
    assert [{**card.uses, "foreign": 0} for card in sim.cards] == [{"foreign": 0}] * cards
    assert sim.names() == []


@settings(max_examples=50, deadline=None)
@given(st.lists(ACTIONS, max_size=30))
def test_the_same_actions_give_the_same_events(actions):
    """Nothing depends on chance or on the addresses of objects."""
    assert play(actions, "0.33.0", 1)[0].events == play(actions, "0.33.0", 1)[0].events


@settings(max_examples=100, deadline=None)
@given(st.lists(ACTIONS, max_size=40))
def test_loads_never_overlap(actions):
    """One load at a time."""
    sim, _ = play(actions, "0.33.0", 2)
    loads = sim.loads
    for before, after in zip(loads, loads[1:]):
        assert before.end <= after.begin
