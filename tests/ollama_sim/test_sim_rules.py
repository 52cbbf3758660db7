"""The stand-in's scheduler against the facts about Ollama's: one test for each rule, on a clock that moves when told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ollama_sim.homelab import BGE, GEMMA, QWEN, large_home, small_card, small_home
from ollama_sim.scheduler import BUSY, OOM, Sim
from ollama_sim.things import Card, Event, Load, Settings, SimModel, VirtualClock

SMALL_BATCH = {"num_batch": 512}


def model(name, mb, **more):
    """A model whose prediction is its file: no KV."""
    return SimModel(name, file_mb=mb, vram_mb=mb, layers=1, heads=8, kv_heads=1, width=0, growth=0.0, **more)


def home(*models, total=10_000, cards=1, version="0.33.0", **settings):
    """A server with models whose batches cost nothing."""
    settings = Settings(**{"auto_num_batch": 512, **settings})
    return Sim(version, [Card(total, uuid=f"GPU-{i}") for i in range(cards)], models, VirtualClock(), settings)


def load(sim, name, keep_alive=None, **options):
    """Load a model and let the request end."""
    ticket = sim.begin(name, keep_alive, options)
    sim.settle()
    assert ticket.state == "running", ticket.error
    sim.finish(ticket)
    return ticket


def busy(sim, name, keep_alive=None, **options):
    """Load a model and leave the request on it."""
    ticket = sim.begin(name, keep_alive, options)
    sim.settle()
    assert ticket.state == "running", ticket.error
    return ticket


def pushed_out(sim):
    """Who was evicted, why, for whom."""
    return [(event.model, event.why, event.by) for event in sim.evictions]


def test_s1_a_newcomer_above_80_percent_of_free_evicts_before_it_spawns():
    """Free 8000: 6400 goes in beside, 6401 pushes the other out before its load begins."""
    fits = home(model("a", 2000), model("b", 6400))
    load(fits, "a")
    load(fits, "b")
    assert fits.names() == ["a:latest", "b:latest"]

    evicts = home(model("a", 2000), model("b", 6401))
    load(evicts, "a")
    ticket = evicts.begin("b")
    assert [event.kind for event in evicts.events[-1:]] == ["evict"]
    assert evicts.names() == []
    assert ticket.state == "queued"
    evicts.settle()
    assert pushed_out(evicts) == [("a:latest", "fit", "b:latest")]
    assert evicts.names() == ["b:latest"]


def test_s1_the_rule_needs_something_loaded():
    """With nothing loaded 9900 of 10000 goes in as a whole."""
    sim = home(model("b", 9900))
    load(sim, "b")
    (entry,) = sim.ps()
    assert (entry.size_mb, entry.vram_mb) == (9900, 9900)


def test_s1_before_0_30_all_of_the_free_memory_counts():
    """The older rule is free memory itself."""
    sim = home(model("a", 2000), model("b", 8000), version="0.12.6")
    load(sim, "a")
    load(sim, "b")
    assert sim.names() == ["a:latest", "b:latest"]


@pytest.mark.parametrize(("cards", "limit", "holds"), [(1, 0, 3), (2, 0, 6), (1, 1, 1), (0, 0, 3)])
def test_s2_the_count_evicts_though_memory_is_free(cards, limit, holds):
    """OLLAMA_MAX_LOADED_MODELS, or three for each GPU, on the CPU three."""
    sim = home(*(model(f"m{i}", 10) for i in range(8)), cards=cards, max_loaded=limit)
    for i in range(holds):
        load(sim, f"m{i}", keep_alive=100 + i)
    assert sim.evictions == []
    load(sim, "m7")
    assert pushed_out(sim) == [("m0:latest", "count", "m7:latest")]


def test_s3_the_victim_has_the_shortest_keep_alive_not_the_oldest_use():
    """The model used last goes, as its keep_alive is shorter."""
    sim = home(model("old", 10), model("new", 10), model("x", 10), max_loaded=2)
    load(sim, "old", keep_alive="1h")
    load(sim, "new", keep_alive="5m")
    load(sim, "x")
    assert pushed_out(sim) == [("new:latest", "count", "x:latest")]


def test_s3_equal_keep_alives_go_by_the_path_of_the_blob():
    """Alphabetically, whatever the names are."""
    sim = home(model("a", 10, blob="sha256-2"), model("b", 10, blob="sha256-1"), model("x", 10), max_loaded=2)
    load(sim, "a")
    load(sim, "b")
    load(sim, "x")
    assert pushed_out(sim) == [("b:latest", "count", "x:latest")]


def test_s3_an_idle_pinned_model_goes_before_a_busy_one():
    """keep_alive -1 sorts last among the idle only."""
    sim = home(model("pinned", 10), model("busy", 10), model("x", 10), max_loaded=2)
    load(sim, "pinned", keep_alive=-1)
    working = busy(sim, "busy", keep_alive="5m")
    load(sim, "x")
    assert pushed_out(sim) == [("pinned:latest", "count", "x:latest")]
    assert working.state == "running"


def test_s3_where_all_are_busy_the_shortest_is_waited_for():
    """The load stands still until that request ends."""
    sim = home(model("a", 10), model("b", 10), model("x", 10), max_loaded=2)
    busy(sim, "a", keep_alive="1h")
    short = busy(sim, "b", keep_alive="5m")
    waits = sim.begin("x")
    sim.advance(sim.clock() + 100)
    assert (waits.state, sim.names()) == ("queued", ["a:latest", "b:latest"])
    sim.finish(short)
    sim.settle()
    assert (waits.state, sim.names()) == ("running", ["a:latest", "x:latest"])


def test_s4_a_load_out_of_memory_evicts_all_others_and_is_tried_once_more():
    """A true size above the prediction costs the pinned model its place."""
    liar = SimModel("liar", file_mb=1000, vram_mb=9000, layers=1, kv_heads=1, width=8)
    sim = home(model("pinned", 2000), model("other", 10), liar)
    load(sim, "pinned", keep_alive=-1)
    load(sim, "other")
    load(sim, "liar")
    assert sim.names() == ["liar:latest"]
    assert sim.ooms == 1
    assert sorted(pushed_out(sim)) == [("other:latest", "oom", "liar:latest"), ("pinned:latest", "oom", "liar:latest")]
    assert [item.ok for item in sim.loads] == [True, True, False, True]


def test_s4_the_retry_waits_for_the_last_of_the_others():
    """Three unloads, one after the other, each with its wait for the memory."""
    liar = SimModel("liar", file_mb=1000, vram_mb=9000, layers=1, kv_heads=1, width=8)
    sim = home(model("a", 900), model("b", 900), model("c", 900), liar, recovery_s=0.5, max_loaded=9)
    for name in "abc":
        load(sim, name)
    load(sim, "liar")
    (oom,) = sim.said("oom")
    assert sim.loads[-1].begin - oom.at == 1.5


def test_s4_there_is_one_retry_only():
    """Though the automatic context could be lowered once more."""
    sim = home(model("a", 100, train_ctx=262144), total=48 * 1024)
    sim.fail_next_load("a", times=2)
    ticket = sim.begin("a")
    sim.settle()
    assert (ticket.state, sim.ooms, ticket.wanted.num_ctx) == ("failed", 2, 32768)


def test_s4_the_retry_waits_for_busy_models():
    """A busy one leaves when its request ends."""
    liar = SimModel("liar", file_mb=1000, vram_mb=9000, layers=1, kv_heads=1, width=8)
    sim = home(model("a", 2000), liar)
    working = busy(sim, "a", keep_alive=-1)
    waits = sim.begin("liar")
    sim.advance(sim.clock() + 10)
    assert (sim.ooms, waits.state) == (1, "queued")
    sim.finish(working)
    sim.settle()
    assert (waits.state, sim.names()) == ("running", ["liar:latest"])


def test_s4_a_keep_alive_meanwhile_lets_the_retry_wait_on():
    """The last writer wins here too: the busy model stays, and the load stands still until something unloads."""
    liar = SimModel("liar", file_mb=1000, vram_mb=9000, layers=1, kv_heads=1, width=8)
    sim = home(model("a", 2000), liar)
    working = busy(sim, "a", keep_alive=-1)
    waits = sim.begin("liar")
    sim.advance(sim.clock() + 10)
    again = sim.begin("a", keep_alive=-1)
    sim.finish(working)
    sim.finish(again)
    sim.advance(sim.clock() + 1000)
    assert (waits.state, sim.names()) == ("queued", ["a:latest"])
    sim.unload("a")
    sim.settle()
    assert (waits.state, sim.names()) == ("running", ["liar:latest"])


@pytest.mark.parametrize(("options", "context"), [({}, 4096), ({"num_ctx": 32768}, 32768)])
def test_s4_an_automatic_context_is_lowered_for_the_retry(options, context):
    """32768 falls to 4096 where the request did not name it; the others go all the same."""
    sim = home(model("a", 100), model("b", 100), total=24 * 1024)
    load(sim, "a", keep_alive=-1)
    sim.fail_next_load("b")
    load(sim, "b", **options)
    assert [(entry.name, entry.context) for entry in sim.ps()] == [("b:latest", context)]
    assert pushed_out(sim) == [("a:latest", "oom", "b:latest")]


def test_s4_a_second_time_out_of_memory_fails():
    """Foreign memory leaves too little for a model that is larger than its prediction; the others are gone for nothing."""
    sim = home(model("a", 100), SimModel("liar", file_mb=1000, vram_mb=9000))
    sim.foreign(0, 3000)
    load(sim, "a", keep_alive=-1)
    ticket = sim.begin("liar")
    sim.settle()
    assert (ticket.state, ticket.status, ticket.error) == ("failed", 500, OOM)
    assert sim.ooms == 2
    assert sim.names() == []


def test_s4_alone_or_for_another_reason_a_failure_is_final():
    """Nothing else loaded: no retry. A crash that is no lack of memory: nobody is evicted."""
    alone = home(model("a", 100))
    alone.fail_next_load("a")
    ticket = alone.begin("a")
    alone.settle()
    assert (ticket.status, alone.ooms) == (500, 1)

    crash = home(model("a", 100), model("b", 100))
    load(crash, "b")
    crash.fail_next_load("a", "llama runner process has terminated: exit status 2", oom=False)
    ticket = crash.begin("a")
    crash.settle()
    assert (ticket.status, crash.ooms, crash.names()) == (500, 0, ["b:latest"])


def test_s4_out_of_memory_at_work_expires_every_model():
    """The idle ones leave at once, a busy one after its request, pinned or not."""
    sim = home(model("a", 10), model("b", 10), model("c", 10))
    load(sim, "a", keep_alive=-1)
    working = busy(sim, "b", keep_alive=-1)
    dying = busy(sim, "c")
    sim.runtime_oom("c")
    sim.settle()
    assert (dying.state, dying.status, sim.names()) == ("failed", 500, ["b:latest"])
    sim.finish(working)
    sim.settle()
    assert sim.names() == []
    assert {event.why for event in sim.evictions} == {"runtime_oom"}


def test_s4_before_0_30_out_of_memory_hits_only_the_model_itself():
    """No eviction of others, no second try."""
    sim = home(model("a", 100), model("b", 100), version="0.12.6")
    load(sim, "b")
    sim.fail_next_load("a")
    ticket = sim.begin("a")
    sim.settle()
    assert (ticket.status, sim.names(), sim.evictions) == (500, ["b:latest"], [])
    busy(sim, "a")
    sim.runtime_oom("a")
    sim.settle()
    assert sim.names() == ["b:latest"]


@pytest.mark.parametrize(
    ("sent", "left_after_s"), [(None, None), ("5m", 300), (0, 0), ("0", 0), (60, 60), ("-1m", None)]
)
def test_s5_the_last_keep_alive_wins_and_none_leaves_it(sent, left_after_s):
    """A client's keep_alive un-pins a pinned model; a request without one does not."""
    sim = home(model("a", 10))
    load(sim, "a", keep_alive=-1)
    begin = sim.clock()
    load(sim, "a", keep_alive=sent)
    sim.advance(begin + 10**6)
    assert [event.at - begin for event in sim.left("a")] == ([] if left_after_s is None else [left_after_s])


def test_s5_the_first_load_without_keep_alive_takes_the_servers():
    """OLLAMA_KEEP_ALIVE, counted from the end of the request."""
    sim = home(model("a", 10), keep_alive_s=77)
    working = busy(sim, "a")
    sim.advance(sim.clock() + 500)
    end = sim.clock()
    sim.finish(working)
    sim.advance(end + 1000)
    assert [event.at for event in sim.left("a")] == [end + 77]


def test_s5_a_keep_alive_ollama_cannot_read_is_refused():
    """Go wants a unit."""
    with pytest.raises(ValueError, match="missing unit in duration"):
        home(model("a", 10)).begin("a", keep_alive="300")


@pytest.mark.parametrize(
    ("first", "second", "reloads"),
    [
        ({"num_ctx": 4096}, {"num_ctx": 8192}, True),
        ({"num_ctx": 4096}, {"num_ctx": 4096}, False),
        ({}, {}, False),
        ({"num_ctx": 8192}, {}, True),  # a load that named it, a request that does not: the default is another one
        ({}, {"num_ctx": 4096}, False),  # the same as the automatic one
        ({}, {"num_ctx": 8192}, True),
        ({"num_ctx": 32768}, {"num_ctx": 65536}, False),  # both cut to the train context
        ({"num_batch": 512}, {"num_batch": 1024}, True),
        ({"num_batch": 512}, {}, False),  # the default
        ({"num_batch": 1024}, {}, True),
        ({}, {"num_gpu": 0}, True),
        ({"num_gpu": 1}, {}, False),
        ({"num_thread": 4}, {}, True),
        ({}, {"temperature": 0.5}, False),
    ],
)
def test_s6_other_runner_options_reload_the_model(first, second, reloads):
    """Options that a runner starts with, where they were sent."""
    sim = home(model("a", 10))
    load(sim, "a", **first)
    load(sim, "a", **second)
    assert pushed_out(sim) == ([("a:latest", "reload", "a:latest")] if reloads else [])
    assert len(sim.loads) == 1 + reloads


def test_s6_an_automatic_batch_is_what_the_load_chose():
    """1024 for a longer context with room to spare: naming the default then reloads, naming nothing does not."""
    sim = home(model("a", 10), auto_num_batch=0)
    load(sim, "a", num_ctx=8192)
    load(sim, "a", num_ctx=8192)
    load(sim, "a", num_ctx=8192, num_batch=1024)
    assert sim.evictions == []
    load(sim, "a", num_ctx=8192, num_batch=512)
    assert pushed_out(sim) == [("a:latest", "reload", "a:latest")]


def test_s6_before_0_30_an_absent_num_ctx_reloads_too():
    """The older server compares with its default."""
    sim = home(model("a", 10), version="0.12.6")
    load(sim, "a", num_ctx=8192)
    load(sim, "a")
    assert pushed_out(sim) == [("a:latest", "reload", "a:latest")]


@pytest.mark.parametrize(("total_gib", "context"), [(8, 4096), (22, 4096), (23, 32768), (46, 32768), (47, 131072)])
def test_s7_the_default_context_depends_on_the_card(total_gib, context):
    """4k, 32k or 256k, and never above the train context."""
    sim = home(GEMMA, total=total_gib * 1024)
    load(sim, "gemma3:4b")
    assert [entry.context for entry in sim.ps()] == [context]


def test_s7_an_embedding_model_has_no_parallel_requests():
    """OLLAMA_NUM_PARALLEL is not for it."""
    assert home(BGE, parallel=4).predict_mb("bge-m3") == 1157 + 384


def test_s18_a_fixed_batch_counts_where_the_request_names_none():
    """A setting of the stand-in, for the caller who leaves it to chance."""
    assert home(GEMMA, auto_num_batch=2048).predict_mb("gemma3:4b") == 3864 + 2048


def test_s7_parallel_requests_multiply_the_context():
    """Prediction and true size grow with OLLAMA_NUM_PARALLEL."""
    one, four = (home(QWEN, total=20_000, parallel=n) for n in (1, 4))
    assert [sim.predict_mb("qwen:4b") for sim in (one, four)] == [3900, 2300 + 4 * 1600]
    load(four, "qwen:4b")
    assert four.used_mb() == 3400 + 0.25 * 3 * 1600


def test_s8_a_loading_model_is_not_in_ps_while_its_memory_climbs():
    """It shows only when it is ready."""
    sim = home(model("a", 1000), load_s=4)
    sim.begin("a")
    seen = []
    for _ in range(4):
        sim.advance(sim.clock() + 1)
        seen.append((sim.names(), sim.used_mb()))
    assert seen == [([], 250), ([], 500), ([], 750), (["a:latest"], 1000)]


def test_s8_before_0_30_a_loading_model_is_in_ps():
    """It shows from the start."""
    sim = home(model("a", 1000), version="0.12.6", load_s=4)
    sim.begin("a")
    assert (sim.names(), sim.used_mb()) == (["a:latest"], 0)


def test_s8_ps_stalls_at_a_spawn_and_at_an_exit():
    """The moment before which the HTTP server does not answer."""
    sim = home(model("a", 10), spawn_s=1.5, exit_s=2.5)
    begin = sim.clock()
    load(sim, "a")
    assert sim.ps_blocked_until == begin + 1.5
    left = sim.clock()
    sim.unload("a")
    assert sim.ps_blocked_until == left + 2.5
    sim.stall(left + 100)
    assert sim.ps_blocked_until == left + 100


def test_s8_an_expired_model_still_holds_its_memory():
    """An unload of a busy model: in ps with a past expires_at until its request ends."""
    sim = home(model("a", 1000))
    working = busy(sim, "a", keep_alive=-1)
    sim.unload("a")
    sim.advance(sim.clock() + 5)
    (entry,) = sim.ps()
    assert entry.expires_at == sim.clock() - 5
    assert sim.used_mb() == 1000
    sim.finish(working)
    sim.settle()
    assert (sim.names(), sim.used_mb()) == ([], 0)


def test_s8_a_used_model_shows_the_expiry_of_its_last_idle_moment():
    """A long request runs past the expires_at that ps shows; the model stays all the same."""
    sim = home(model("a", 10))
    load(sim, "a", keep_alive=60)
    idle_since = sim.clock()
    busy(sim, "a")
    sim.advance(idle_since + 500)
    assert [entry.expires_at - idle_since for entry in sim.ps()] == [60]


@pytest.mark.parametrize(("recovery_s", "next_load_after_s"), [(0.0, 0.25), (0.25, 0.25), (0.6, 0.75), (3, 3), (9, 5)])
def test_s9_memory_comes_back_late_and_is_waited_for_in_polls(recovery_s, next_load_after_s):
    """Polls of 250 ms until 75 % is back, five seconds at most, then it goes on regardless."""
    sim = home(model("a", 5000), model("b", 9000), recovery_s=recovery_s)
    load(sim, "a")
    begin = sim.clock()
    sim.begin("b")
    assert (sim.names(), sim.used_mb()) == ([], 5000 if recovery_s else 0)
    sim.settle()
    assert sim.loads[-1].begin - begin == pytest.approx(next_load_after_s)
    (entry,) = sim.ps()
    assert (entry.vram_mb < entry.size_mb) is (recovery_s > 5)


def test_s9_a_timer_that_ran_out_meanwhile_makes_the_model_leave_though_it_is_used_since():
    """As soon as it is idle, whatever keep_alive the new request brought."""
    sim = home(model("a", 10), model("b", 10), recovery_s=3)
    load(sim, "a")
    load(sim, "b", keep_alive=1)
    sim.unload("a")
    sim.advance(sim.clock() + 2)
    ticket = sim.begin("b", keep_alive=-1)
    sim.advance(sim.clock() + 10)
    assert (ticket.state, sim.names()) == ("running", ["b:latest"])
    sim.finish(ticket)
    sim.settle()
    assert sim.names() == []


def test_s9_memory_that_another_process_takes_meanwhile_ends_the_wait():
    """The server's difference wraps around below zero and counts as all of it."""
    sim = home(model("a", 1000), model("b", 8000), recovery_s=4)
    load(sim, "a")
    begin = sim.clock()
    sim.begin("b")
    sim.foreign(0, 50)
    sim.settle()
    assert sim.loads[-1].begin - begin == 0.25


def test_s9_a_load_begun_meanwhile_hides_the_memory_that_came_back():
    """What it takes makes up for what came back: the wait goes on for five seconds, and other unloads with it."""
    sim = home(model("a", 2000), model("b", 2000), recovery_s=0.1, load_s=0.1)
    load(sim, "a")
    sim.unload("a")
    begin = sim.clock()
    ticket = sim.begin("b")
    sim.advance(begin + 0.2)
    assert ticket.state == "running"
    sim.finish(ticket)
    sim.unload("b")
    sim.advance(begin + 4.9)
    assert sim.names() == ["b:latest"]
    sim.settle()
    assert [event.at - begin for event in sim.left("b")] == [5]


def test_s9_other_ends_wait_for_the_memory_too():
    """While one unload's memory is awaited a model that goes idle elsewhere does not leave yet."""
    sim = home(model("a", 10), model("b", 10), recovery_s=3)
    load(sim, "a")
    working = busy(sim, "b", keep_alive=0)
    sim.unload("a")
    begin = sim.clock()
    sim.finish(working)
    assert sim.names() == ["b:latest"]
    sim.settle()
    assert [event.at - begin for event in sim.left("b")] == [3]


def test_s10_free_is_the_lower_of_two_counts():
    """Another process counts as far as the driver reports it; a runner counts though the driver does not."""
    sim = home(model("a", 3000))
    load(sim, "a")
    assert sim.free_mb == [7000]
    sim.foreign(0, 2000)
    assert sim.free_mb == [5000]
    sim.foreign(0, 0)
    sim.cards[0].uses.clear()
    assert sim.free_mb == [7000]


def test_s11_two_names_of_one_blob_share_a_runner():
    """ps shows the name that loaded it, by the other name there is nothing to load."""
    sim = home(model("a", 10, blob="sha256-1"), model("copy:v2", 10, blob="sha256-1"))
    load(sim, "copy:v2")
    load(sim, "a")
    assert sim.names() == ["copy:v2"]
    assert len(sim.loads) == 1
    sim.unload("a")
    sim.settle()
    assert sim.names() == []


def test_s11_two_names_of_one_blob_with_other_options_push_each_other_out():
    """The Modelfile's num_ctx counts as sent."""
    sim = home(model("a", 10, blob="sha256-1"), model("a:long", 10, blob="sha256-1", params={"num_ctx": 8192}))
    load(sim, "a", num_ctx=4096)
    load(sim, "a:long")
    assert pushed_out(sim) == [("a:latest", "reload", "a:long")]


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        ("gemma3:4b", "gemma3:4b"),
        ("GEMMA3:4B", "gemma3:4b"),
        ("registry.ollama.ai/library/gemma3:4b", "gemma3:4b"),
        ("library/gemma3:4b", "gemma3:4b"),
        ("bge-m3", "bge-m3:latest"),
        ("bge-m3:latest", "bge-m3:latest"),
    ],
)
def test_s12_names(asked, shown):
    """Host, namespace and tag are filled in, upper and lower case are one; ps prints the shortest with its tag."""
    sim = small_home()
    load(sim, asked)
    assert sim.names() == [shown]


def test_s12_another_tag_is_another_model():
    """Unknown: 404."""
    ticket = small_home().begin("gemma3")
    assert (ticket.state, ticket.status, ticket.error) == ("failed", 404, "model 'gemma3' not found")


def test_s13_the_best_single_card_that_fits():
    """The one with the most free memory, though both together have more."""
    sim = home(model("a", 4000), model("b", 4000), model("c", 6000), cards=2)
    load(sim, "a")
    load(sim, "b")
    assert [sim.used_mb(0), sim.used_mb(1)] == [4000, 4000]
    load(sim, "c")  # above 80 % of either, below 80 % of both
    assert [sim.used_mb(0), sim.used_mb(1)] == [7000, 7000]


def test_s13_two_cards_do_not_hold_what_their_sum_suggests():
    """Above 80 % of the sum somebody goes."""
    sim = home(model("a", 4000), model("c", 13_000), cards=2)
    load(sim, "a")
    load(sim, "c")
    assert pushed_out(sim) == [("a:latest", "fit", "c:latest")]


def test_s14_the_first_model_may_spill_to_the_cpu():
    """size_vram below size."""
    sim = home(replace(model("big", 20_000), layers=40, kv_heads=1), total=10_000)
    load(sim, "big")
    (entry,) = sim.ps()
    assert (entry.size_mb, entry.vram_mb) == (20_000, 10_000)


def test_s14_num_gpu_0_takes_no_gpu_and_pushes_nobody_out():
    """size_vram 0, whatever is free."""
    sim = home(model("a", 9000), model("b", 9000))
    load(sim, "a")
    load(sim, "b", num_gpu=0)
    assert [(entry.name, entry.vram_mb) for entry in sim.ps()] == [("b:latest", 0), ("a:latest", 9000)]
    assert sim.evictions == []


def test_s14_an_explicit_part_skips_the_fit_check():
    """Half the layers beside a model that leaves room for just that; too much of it ends out of memory."""
    half = replace(model("half", 4000), layers=9)  # ten with the output layer
    sim = home(model("a", 7800), half)
    load(sim, "a", keep_alive=-1)
    load(sim, "half", num_gpu=5)
    assert sim.evictions == []
    assert sim.used_mb() == 9800
    sim.unload("half")
    sim.settle()
    load(sim, "half", num_gpu=9)
    assert (sim.ooms, pushed_out(sim)) == (1, [("a:latest", "oom", "half:latest")])


def test_s15_the_servers_own_overhead_setting_reserves_nothing():
    """There is no such setting in the fit test: 80 % of all that is free counts."""
    sim = home(model("a", 2000), model("b", 6400))
    load(sim, "a")
    load(sim, "b")
    assert sim.used_mb() == 8400


def test_s16_one_load_at_a_time_in_order():
    """Loads do not overlap, and their order is that of arrival."""
    sim = home(*(model(name, 10) for name in "abc"), load_s=2)
    tickets = [sim.begin(name) for name in "bca"]
    begin = sim.clock()
    sim.settle()
    assert [ticket.state for ticket in tickets] == ["running"] * 3
    assert [Load(one.model, one.begin - begin, one.end - begin, one.ok) for one in sim.loads] == [
        Load("b:latest", 0, 2, True),
        Load("c:latest", 2, 4, True),
        Load("a:latest", 4, 6, True),
    ]


def test_s16_loaded_models_go_round_the_queue():
    """During a load, and behind others that wait."""
    sim = home(*(model(name, 10) for name in "abc"), load_s=50)
    load(sim, "a")
    sim.begin("b")
    sim.begin("c")
    assert sim.begin("a").state == "running"


def test_s16_waiters_for_one_model_share_its_load():
    """One load for all of them."""
    sim = home(model("a", 10))
    tickets = [sim.begin("a") for _ in range(5)]
    sim.settle()
    assert [ticket.state for ticket in tickets] == ["running"] * 5
    assert len(sim.loads) == 1


def test_s16_a_full_queue_answers_503():
    """512 wait behind the one that loads."""
    sim = home(model("a", 10), model("b", 10))
    sim.begin("a")
    tickets = [sim.begin("b") for _ in range(513)]
    assert [ticket.state for ticket in tickets] == ["queued"] * 512 + ["failed"]
    assert (tickets[-1].status, tickets[-1].error) == (503, BUSY)


def test_s16_a_client_that_hangs_up_aborts_its_load():
    """The next in the queue for the same model has to load it from the start."""
    sim = home(model("a", 1000), load_s=4, recovery_s=1)
    first, second = sim.begin("a"), sim.begin("a")
    sim.advance(sim.clock() + 2)
    sim.cancel(first)
    sim.settle()
    assert (first.state, second.state) == ("cancelled", "running")
    assert [one.ok for one in sim.loads] == [False, True]
    assert sim.used_mb() == 1000


def test_s16_a_client_that_hangs_up_in_the_queue_loads_nothing():
    """Its place is skipped."""
    sim = home(model("a", 10), model("b", 10))
    sim.begin("a")
    gone = sim.begin("b")
    sim.cancel(gone)
    sim.settle()
    assert (gone.state, sim.names()) == ("cancelled", ["a:latest"])


def test_s16_who_waits_for_an_unload_and_goes_has_pushed_it_out_all_the_same():
    """The decision stands; nothing is loaded for it."""
    sim = home(model("a", 9000), model("b", 9000))
    load(sim, "a")
    gone = sim.begin("b")
    sim.cancel(gone)
    sim.settle()
    assert (sim.names(), pushed_out(sim)) == ([], [("a:latest", "fit", "b:latest")])


def test_s17_a_pinned_model_expires_in_the_year_2318():
    """292 years."""
    sim = home(model("a", 10))
    load(sim, "a", keep_alive=-1)
    (entry,) = sim.ps()
    assert (entry.expires_at - sim.clock()) / 86400 / 365.25 == pytest.approx(292.3, abs=0.1)
    sim.advance(sim.clock() + 10)
    assert sim.next_at is None


@pytest.mark.parametrize(
    ("name", "options", "predicted"),
    [
        ("gemma3:4b", {"num_ctx": 4096, "num_batch": 512}, 3864),
        ("gemma3:4b", {"num_ctx": 8192, "num_batch": 512}, 4544),
        ("gemma3:4b", {"num_ctx": 4096, "num_batch": 1024}, 3864 + 768),
        ("gemma3:4b", {"num_ctx": 4096, "num_batch": 2048}, 3864 + 2048),
        ("gemma3:4b", {"num_ctx": 4096}, 3864),  # automatic: 512 up to 4096 tokens
        ("gemma3:4b", {"num_ctx": 8192}, 4544),  # 1024 wants the model below 75 % and all below 80 % of 6392
        ("gemma3:4b", {"num_ctx": 5000}, 3184 + 170 * 5000 / 1024 + 768),
        ("bge-m3", {"num_batch": 2048}, 1157 + 384),
        ("qwen:4b", SMALL_BATCH, 3900),
    ],
)
def test_s18_the_prediction(name, options, predicted):
    """File, KV and batch surcharge, by the figures of the facts."""
    assert small_home().predict_mb(name, options) == predicted


@pytest.mark.parametrize(("num_ctx", "evicts"), [(4096, False), (8192, True)])
def test_s18_the_home_of_the_facts(num_ctx, evicts):
    """8 GB with bge-m3 and a reranker: at 8192 each load of gemma pushes bge-m3 out, at 4096 none does."""
    sim = small_home()
    load(sim, "bge-m3", keep_alive=-1)
    assert sim.free_mb == [5192]
    load(sim, "gemma3:4b", num_ctx=num_ctx, num_batch=512)
    assert [event.why for event in sim.left("bge-m3")] == (["fit"] if evicts else [])


def test_s18_a_test_at_boot_sees_nothing_of_it():
    """gemma first, bge-m3 second: both stay, also at 8192."""
    sim = small_home()
    load(sim, "gemma3:4b", num_ctx=8192, num_batch=512)
    load(sim, "bge-m3", keep_alive=-1)
    assert sim.evictions == []


def test_two_models_of_9_gb_replace_each_other():
    """On 16 GB the second pushes the first out."""
    sim = large_home()
    load(sim, "big-a:14b", num_batch=512)
    load(sim, "big-b:14b", num_batch=512)
    assert pushed_out(sim) == [("big-a:14b", "fit", "big-b:14b")]
    assert sim.used_mb() == 9000


def test_an_unload_by_request_is_no_eviction():
    """It is told apart from the server's own decisions."""
    sim = home(model("a", 10))
    load(sim, "a")
    sim.unload("A:latest")
    sim.settle()
    assert (sim.evictions, [event.why for event in sim.left("a")]) == ([], ["asked"])


def test_an_unload_of_a_busy_model_is_undone_by_the_next_keep_alive():
    """The last writer wins here too."""
    sim = home(model("a", 10))
    working = busy(sim, "a")
    sim.unload("a")
    load(sim, "a", keep_alive="5m")
    sim.finish(working)
    sim.settle(10)
    assert sim.names() == ["a:latest"]


def test_a_load_right_after_an_unload_does_not_wait_for_its_memory():
    """The server counts what is free now, and pushes out a model that could have stayed."""
    sim = small_home(settings=Settings(recovery_s=2))
    load(sim, "bge-m3", keep_alive=-1)
    load(sim, "gemma3:4b", num_batch=512)
    sim.unload("gemma3:4b")
    sim.begin("qwen:4b", options=SMALL_BATCH)
    sim.settle()
    assert pushed_out(sim) == [("bge-m3:latest", "fit", "qwen:4b")]


def test_a_restart_forgets_everything_and_breaks_every_connection():
    """Memory of other processes stays."""
    sim = small_home()
    working = busy(sim, "bge-m3")
    loading = sim.begin("gemma3:4b")
    waiting = sim.begin("qwen:4b")
    sim.advance(sim.clock() + 1)
    sim.restart()
    assert [(one.state, one.status) for one in (working, loading, waiting)] == [("failed", 0)] * 3
    assert (sim.names(), sim.used_mb(), sim.next_at) == ([], 1800, None)
    load(sim, "bge-m3")
    assert sim.names() == ["bge-m3:latest"]


def test_two_servers_share_a_card():
    """The one sees the other's models as memory of others."""
    card, clock = Card(10_000), VirtualClock()
    settings = Settings(auto_num_batch=512)
    one, two = (Sim("0.33.0", [card], [model(name, 4000)], clock, settings) for name in ("a", "b"))
    load(one, "a")
    assert two.free_mb == [6000]
    load(two, "b")
    assert card.used_mb == 8000
    one.restart()
    assert (card.used_mb, two.names()) == (4000, ["b:latest"])


@pytest.mark.parametrize(("version", "context"), [("0.33.0-rc2", 4096), ("0.11.0", 4096), ("0.9.6", None)])
def test_context_length_in_ps_by_version(version, context):
    """Before 0.11 the server does not say it."""
    sim = home(model("a", 10), version=version)
    load(sim, "a")
    assert [entry.context for entry in sim.ps()] == [context]


def test_ps_has_the_longest_remaining_first():
    """By expires_at."""
    sim = home(model("a", 10), model("b", 10), model("c", 10))
    load(sim, "a", keep_alive="1m")
    load(sim, "b", keep_alive=-1)
    load(sim, "c", keep_alive="1h")
    assert [entry.name for entry in sim.ps()] == ["b:latest", "c:latest", "a:latest"]


def test_the_events_of_one_load():
    """What tests read."""
    sim = home(model("a", 10), load_s=2)
    begin = sim.clock()
    load(sim, "a", keep_alive=5)
    sim.advance(begin + 60)
    assert sim.events == [
        Event(begin, "load_begin", "a:latest"),
        Event(begin + 2, "load_end", "a:latest"),
        Event(begin + 2, "finish", "a:latest"),
        Event(begin + 7, "expire", "a:latest", "keep_alive"),
        Event(begin + 7.5, "memory_back", "a:latest"),
    ]


def test_the_shipped_card():
    """TEI and the driver hold 1800 of 8192."""
    assert (small_card().free_mb, BGE.vram_mb) == (6392, 1200)
