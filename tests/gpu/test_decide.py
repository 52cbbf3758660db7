"""The verdicts of the residency gate, whole: what a request meets, with which numbers, and what it is told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from litellm_registry_hook.core.gpu.decide import decide
from litellm_registry_hook.core.gpu.facts import Claim, Loaded, ModelFile, Nvml, Usage
from litellm_registry_hook.core.gpu.names import full_name, slot_of
from litellm_registry_hook.core.gpu.verdict import Admit, Join, No, Open, Resident, Swap, Want
from tests.gpu.world import (
    A,
    AWAY,
    B,
    NOW,
    TEI,
    claim,
    entry,
    files,
    homelab,
    loaded,
    nvml,
    registry,
    server,
    slot,
    snapshot,
    tei,
    want,
)

UP = {TEI: "up"}
GONE = {TEI: "gone"}
IDLE = Usage()
ONE = {"gpus": {0: {"total_mb": 8192}}}
FAILED = Nvml("failed", "unknown", "Unknown Error")


def ask(known, seen, id, *, base=A, claims=(), usage=IDLE, **more):
    """Decide about a registry model now."""
    return decide(known, seen, claims, usage, want(known, id, base), NOW, **more)


def bge(**more):
    """bge-m3, pinned."""
    return loaded("bge-m3", 1200.0, left=None, **more)


def gemma(**more):
    """gemma3:4b with the registry's context."""
    return loaded("gemma3:4b", 3300.0, **{"context": 4096, **more})


def sums(needed, free, available, *, reserve=0, missing="0 never-evict not resident", promised=0):
    """Rule (a) as every sentence says it."""
    return f"{needed} MB needed, {free} MB free - {reserve} reserve - {missing} - {promised} loads in flight = {available} MB"


def no(reason, retry_after_s, needed, free, reserved=0.0, promised=0.0, *, transient=True):
    """A refusal for lack of room."""
    return No("gpu_no_headroom", reason, retry_after_s, transient, needed, free, reserved, promised)


class TestHomelab:
    """The shipped figures on a card of 8192 MB, in every order (the case this gate was built for)."""

    def test_chat_model_first(self):
        """With nothing loaded the never-evict set is reserved, and the chat model still fits."""
        verdict = ask(homelab(), snapshot(server(), free=8192.0, health=GONE), "local-small")

        numbers = sums(3300, 8192, 4992, reserve=300, missing="2900 never-evict not resident (bge-m3 1200, tei 1700)")
        assert verdict == Admit(3300.0, "GPU-0", f"local-small fits GPU-0 on localhost (NVML): {numbers}")

    def test_chat_model_last(self):
        """At num_ctx 4096 Ollama predicts 3864 MB of the 4154 MB it may take without eviction."""
        verdict = ask(homelab(), snapshot(server(A, bge()), free=5192.0, health=UP), "local-small")

        numbers = sums(3300, 5192, 4892, reserve=300)
        assert verdict == Admit(
            3300.0,
            "GPU-0",
            f"local-small fits GPU-0 on localhost (NVML): {numbers}; Ollama predicts 3864 MB of 80 % of 5192 MB, "
            "model 2 of 3, and holds never-evict bge-m3",
        )

    def test_chat_model_last_with_twice_the_context(self):
        """At num_ctx 8192 it would predict 4544 MB and push bge-m3 out at each load: never, on this card."""
        verdict = ask(homelab(num_ctx=8192), snapshot(server(A, bge()), free=5192.0, health=UP), "local-small")

        numbers = sums(3300, 8192, 4992, reserve=300, missing="2900 never-evict not resident (bge-m3 1200, tei 1700)")
        assert verdict == no(
            "loading local-small on GPU-0 on localhost (NVML) would make Ollama push out never-evict bge-m3: it "
            f"predicts 4544 MB, more than 80 % of the 5292 MB that it sees free ({numbers}), even with nothing but "
            "never-evict models loaded; lower its gpu_residency.num_ctx, set predict_mb if Ollama was seen to predict "
            "less, or keep fewer models never-evict",
            30.0,
            3300.0,
            8192.0,
            3200.0,
            transient=False,
        )

    def test_embedder_last(self):
        """bge-m3 comes back beside the chat model; its own place was never given away."""
        verdict = ask(homelab(), snapshot(server(A, gemma()), free=3192.0, health=UP), "bge-m3")

        assert verdict == Admit(
            1200.0,
            "GPU-0",
            f"bge-m3 fits GPU-0 on localhost (NVML): {sums(1200, 3192, 2892, reserve=300)}; Ollama predicts 1484 MB of "
            "80 % of 3192 MB, model 2 of 3, and holds local-small",
        )

    def test_embedder_over_an_idle_chat_model(self):
        """A never-evict model that does not fit any more swaps an idle evictable one out."""
        verdict = ask(homelab(), snapshot(server(A, gemma()), free=400.0, health=UP), "bge-m3")

        assert verdict == Swap(
            (slot("gemma3:4b"),),
            f"bge-m3 does not fit GPU-0 on localhost (NVML): {sums(1200, 400, 100, reserve=300)}; unload local-small "
            "3300 MB",
        )

    @pytest.mark.parametrize(
        ("health", "free", "available", "missing", "seen"),
        [
            (UP, 5292, 4992, "0 never-evict not resident", 5292),
            ({TEI: "busy"}, 5292, 4992, "0 never-evict not resident", 5292),
            ({}, 5292, 4992, "0 never-evict not resident", 5292),
            (GONE, 6992, 4992, "1700 never-evict not resident (tei 1700)", 6992),
        ],
    )
    def test_declared(self, health, free, available, missing, seen):
        """Without NVML: the declared total less what is loaded; a model server that may be there holds its memory."""
        verdict = ask(homelab(), snapshot(server(A, bge()), health=health), "local-small")

        numbers = sums(3300, free, available, reserve=300, missing=missing)
        assert verdict == Admit(
            3300.0,
            "",
            f"local-small fits its GPU on localhost (declared sizes): {numbers}; Ollama predicts 3864 MB of 80 % of "
            f"{seen} MB, model 2 of 3, and holds never-evict bge-m3",
        )

    def test_declared_with_foreign_memory(self):
        """foreign_mb is what others take of a declared card."""
        verdict = ask(homelab(foreign_mb=400), snapshot(server(A, bge()), health=UP), "local-small")

        assert verdict.reason.startswith(
            f"local-small fits its GPU on localhost (declared sizes): {sums(3300, 4892, 4592, reserve=300)}"
        )

    @pytest.mark.parametrize("health", [GONE, {}])
    def test_reranker_that_is_away_keeps_its_place(self, health):
        """A TEI server that is gone, or of which nothing is known, is still given its 1700 MB."""
        verdict = ask(homelab(), snapshot(server(A, bge()), free=5000.0, health=health), "local-small")

        numbers = sums(3300, 5000, 3000, reserve=300, missing="1700 never-evict not resident (tei 1700)")
        assert verdict == no(
            f"local-small does not fit GPU-0 on localhost (NVML): {numbers}; memory is in use by others than registry "
            "models: end other programs on that GPU",
            30.0,
            3300.0,
            5000.0,
            2000.0,
        )

    def test_never_evict_model_on_its_way_is_counted_once(self):
        """A never-evict load in flight on another server is promised, not missing as well."""
        known = registry(entry("new", 1000), entry("pin", 3000, base=B, never_evict=True))

        verdict = ask(known, snapshot(server(), server(B), free=5000.0), "new", claims=[claim("pin", 3000.0, base=B)])

        assert verdict == Admit(
            1000.0, "GPU-0", f"new fits GPU-0 on localhost (NVML): {sums(1000, 5000, 2000, promised=3000)}"
        )

    def test_never_evict_model_partly_on_the_cpu_misses_the_rest(self):
        """What a half-loaded never-evict model still needs stays reserved."""
        known = registry(entry("new", 1000, base=B), entry("pin", 3000, never_evict=True))
        half = loaded("pin", 3000.0, left=None, vram_mb=1000.0)

        verdict = ask(known, snapshot(server(A, half), server(B), free=5000.0), "new", base=B)

        numbers = sums(1000, 5000, 3000, missing="2000 never-evict not resident (pin 2000)")
        assert verdict == Admit(1000.0, "GPU-0", f"new fits GPU-0 on localhost (NVML): {numbers}")


class TestEviction:
    """Rule (b): what Ollama would do by itself."""

    def pinned(self, total=24_000.0):
        """8 GB pinned, 10 GB free; 9 GB asked for (ollama/ollama#9206)."""
        known = registry(entry("big", 9000), entry("pin", 8000, never_evict=True))
        on = server(A, loaded("pin", 8000.0, left=None), files=files(big=9000.0, pin=8000.0))
        return ask(known, snapshot(on, free=10_000.0, total=total), "big")

    def test_fits_in_free_but_not_in_eighty_percent(self):
        """Between 80 and 100 % of free Ollama evicts, so it is refused; others may yet give memory back."""
        assert self.pinned() == no(
            "loading big on GPU-0 on localhost (NVML) would make Ollama push out never-evict pin: it predicts 9000 MB, "
            f"more than 80 % of the 10000 MB that it sees free ({sums(9000, 10_000, 10_000)}); memory is in use by "
            "others than registry models: end other programs on that GPU",
            30.0,
            9000.0,
            10_000.0,
        )

    def test_never_on_a_smaller_card(self):
        """Where even the otherwise empty card is too small, waiting does not help."""
        verdict = self.pinned(total=18_000.0)

        assert (verdict.transient, verdict.retry_after_s) == (False, 30.0)

    def test_reserve_is_not_part_of_it(self):
        """Ollama knows nothing of our reserve: exactly 80 % of raw free is admitted, one MB more is not."""
        known = registry(entry("m", 4000), entry("pin", 1000, never_evict=True), reserve_mb=1000)

        def verdict(size):
            on = server(A, loaded("pin", 1000.0, left=None), files=files(m=size, pin=1000.0))
            return type(ask(known, snapshot(on, free=5000.0, total=6000.0), "m"))

        assert (verdict(4000.0), verdict(4001.0)) == (Admit, No)

    def test_no_never_evict_model_there(self):
        """An Ollama that holds nothing of the registry may do as it likes."""
        known = registry(entry("m", 4000), entry("pin", 1000, base=B, never_evict=True))
        pin = server(B, loaded("pin", 1000.0, left=None))

        verdict = ask(known, snapshot(server(A, files=files(m=9000.0)), pin, free=5000.0), "m")

        assert verdict == Admit(4000.0, "GPU-0", f"m fits GPU-0 on localhost (NVML): {sums(4000, 5000, 5000)}")

    def test_free_as_ollama_sees_it(self):
        """A driver that lags says 7000 free; Ollama also takes the total less its own runners: 8192 - 4000."""
        known = registry(entry("m", 3000), entry("pin", 4000, never_evict=True))
        on = server(A, loaded("pin", 4000.0, left=None), files=files(m=3400.0, pin=4000.0))

        verdict = ask(known, snapshot(on, free=7000.0), "m")

        assert verdict == no(
            "loading m on GPU-0 on localhost (NVML) would make Ollama push out never-evict pin: it predicts 3400 MB, "
            f"more than 80 % of the 4192 MB that it sees free ({sums(3000, 8192, 4192, missing='4000 never-evict not resident (pin 4000)')}), "
            "even with nothing but never-evict models loaded; lower its gpu_residency.num_ctx, set predict_mb if "
            "Ollama was seen to predict less, or keep fewer models never-evict",
            30.0,
            3000.0,
            8192.0,
            4000.0,
            transient=False,
        )

    def test_count(self):
        """At three loaded models Ollama unloads one even with memory to spare (ollama/ollama#13227)."""
        known = registry(entry("tiny", 100), entry("pin", 800, never_evict=True))
        on = server(A, loaded("pin", 800.0, left=None), loaded("x", 10.0, left=7.0), loaded("y", 10.0))

        verdict = ask(known, snapshot(on, free=20_000.0, total=24_000.0), "tiny")

        assert verdict == no(
            f"loading tiny would make Ollama at {A} push out a model, it holds never-evict pin: this would be model 4 "
            f"of at most 3 ({sums(100, 20_000, 20_000)}); never unloaded, as the registry does not know it: x:latest "
            "10 MB, y:latest 10 MB; add it, or `ollama stop` it",
            7.0,
            100.0,
            20_000.0,
        )

    @pytest.mark.parametrize(
        ("gpu", "free", "policy", "admitted"),
        [
            ("auto", (20_000.0,), {}, False),
            ("auto", (20_000.0,), {"max_loaded_models": 4}, True),
            ("auto", (20_000.0, 20_000.0), {}, True),
            (0, (20_000.0, 20_000.0), {}, False),
        ],
    )
    def test_limit_of_loaded_models(self, gpu, free, policy, admitted):
        """The policy's number, else three for each GPU that the server sees."""
        known = registry(entry("tiny", 100, gpu=gpu), entry("pin", 800, never_evict=True, gpu=gpu), **policy)
        on = server(A, loaded("pin", 800.0, left=None), loaded("x", 10.0), loaded("y", 10.0))

        verdict = ask(known, snapshot(on, nvml=nvml(*free, total=24_000.0)), "tiny")

        assert isinstance(verdict, Admit) is admitted

    def test_count_by_a_swap(self):
        """An idle evictable model goes for the count alone."""
        known = registry(entry("tiny", 100), entry("pin", 800, never_evict=True), entry("x"), entry("y"))
        on = server(A, loaded("pin", 800.0, left=None), loaded("x", 10.0), loaded("y", 10.0))
        used = Usage({}, {slot("x"): NOW - 1, slot("y"): NOW - 2})

        verdict = ask(known, snapshot(on, free=20_000.0, total=24_000.0), "tiny", usage=used)

        assert verdict.victims == (slot("y"),)


class TestSwap:
    """Who is unloaded for whom."""

    def three(self, mb=3000, *, counts=None, used=None, new=A, may_swap=True, **policy):
        """2000, 3000 and 4000 MB loaded in the order of their last use, 1000 MB free of 12,000."""
        used = {"a": 10, "b": 20, "c": 30} if used is None else used
        on = [loaded("a", 2000.0), loaded("b", 3000.0), loaded("c", 4000.0)]
        known = registry(entry("a", 2000), entry("b", 3000), entry("c", 4000), entry("new", mb, base=new), **policy)
        usage = Usage(
            {slot(name): count for name, count in (counts or {}).items()},
            {slot(name): NOW - 1000 + moment for name, moment in used.items()},
        )
        known_files = files(a=2000.0, b=3000.0, c=4000.0, new=1.0)
        servers = [server(A, *on, files=known_files)] + ([server(B)] if new != A else [])
        return ask(
            known, snapshot(*servers, free=1000.0, total=12_000.0), "new", base=new, usage=usage, may_swap=may_swap
        )

    @pytest.mark.parametrize(
        ("mb", "more", "victims"),
        [
            (3000, {}, "a"),
            (3500, {}, "b"),
            (5500, {}, "ab"),
            # a is taken first, turns out not to be needed once c is there, and stays
            (4500, {"used": {"a": 10, "c": 20, "b": 30}}, "c"),
            (6500, {}, "ac"),
            (8500, {}, "abc"),
            (3000, {"counts": {"a": 1}}, "b"),
            (3000, {"used": {"a": 10, "b": 20}}, "c"),
            (3000, {"used": {}}, "a"),
            (3000, {"co_residency_groups": [{"name": "g", "ids": ["a", "b"]}]}, "c"),
            (8500, {"co_residency_groups": [{"name": "g", "ids": ["a", "b"]}]}, "cab"),
        ],
    )
    def test_victims(self, mb, more, victims):
        """Idle, least recently used through us first, never used before all, group members last, none too many."""
        assert self.three(mb, **more).victims == tuple(slot(name) for name in victims)

    def test_whole_answer(self):
        """The reason holds the numbers and whom it costs."""
        assert self.three(5500) == Swap(
            (slot("a"), slot("b")),
            f"new does not fit GPU-0 on localhost (NVML): {sums(5500, 1000, 1000)}; unload a 2000 MB, b 3000 MB",
        )

    def test_busy(self):
        """Models with requests in flight are never unloaded; the refusal names them."""
        assert self.three(3000, counts={"a": 1, "b": 1, "c": 3}) == no(
            f"new does not fit GPU-0 on localhost (NVML): {sums(3000, 1000, 1000)}; in use and not unloaded: a (1 in "
            "flight), b (1 in flight), c (3 in flight); wait for them",
            5.0,
            3000.0,
            1000.0,
        )

    def test_not_its_turn(self):
        """Where others wait before, nothing is unloaded for this one."""
        assert self.three(3000, may_swap=False) == no(
            f"new does not fit GPU-0 on localhost (NVML): {sums(3000, 1000, 1000)}; others wait before for the same room",
            5.0,
            3000.0,
            1000.0,
        )

    def test_one_that_leaves_anyway_goes_first(self):
        """A model past its expiry is on its way out: it is taken before one that was used longer ago."""
        known = registry(entry("a", 2000), entry("b", 2000), entry("new", 2500))
        on = server(A, loaded("a", 2000.0), loaded("b", 2000.0, left=-1.0), files=files(a=1.0, b=1.0, new=1.0))
        used = Usage({}, {slot("a"): NOW - 90, slot("b"): NOW - 5})

        assert ask(known, snapshot(on, free=1000.0), "new", usage=used).victims == (slot("b"),)

    def test_on_another_server_of_that_gpu(self):
        """Two Ollama servers share a card: the victim is unloaded where it is."""
        assert self.three(3000, new=B).victims == (slot("a"),)

    @pytest.mark.parametrize(
        ("new", "old", "swaps"),
        [(0, 0, True), (0, 1, False), ("auto", 1, True), (0, "auto", True), ("auto", "auto", True)],
    )
    def test_two_gpus(self, new, old, swaps):
        """A victim helps only where its memory can be what is missing."""
        known = registry(entry("new", 6000, gpu=new), entry("old", 5000, base=B, gpu=old))
        seen = snapshot(server(A), server(B, loaded("old", 5000.0)), nvml=nvml(3000.0, 3100.0))

        verdict = ask(known, seen, "new")

        assert (isinstance(verdict, Swap), isinstance(verdict, No)) == (swaps, not swaps)

    def test_memory_is_not_added_up_over_gpus(self):
        """Two cards with 3 GB free each do not hold a model of 5 GB, and where they might the fullest is not asked."""
        known = registry(entry("m", 5000))

        def verdict(*free):
            return ask(known, snapshot(server(A), nvml=nvml(*free)), "m")

        assert isinstance(verdict(3000.0, 3000.0), No)
        assert verdict(3000.0, 6000.0) == Admit(
            5000.0, "", f"m fits GPU-1 on localhost (NVML): {sums(5000, 6000, 6000)}"
        )

    def test_never_evict_is_no_victim(self):
        """A card full of never-evict models is full (llama-swap #1127)."""
        known = registry(entry("heavy", 5000), entry("pin", 4000, never_evict=True))
        on = server(A, loaded("pin", 4000.0, left=None), files=files(heavy=100.0, pin=4000.0))

        numbers = sums(5000, 8192, 4192, missing="4000 never-evict not resident (pin 4000)")
        assert ask(known, snapshot(on, free=4192.0), "heavy") == no(
            f"heavy does not fit GPU-0 on localhost (NVML): {numbers}, even with nothing but never-evict models loaded; "
            "take a smaller model, or keep fewer models never-evict",
            30.0,
            5000.0,
            8192.0,
            4000.0,
            transient=False,
        )

    def test_foreign_model_is_no_victim(self):
        """What the registry does not know is left alone; free memory comes from the GPU, not from /api/ps."""
        known = registry(entry("new", 12_000))
        on = server(A, loaded("old", 12_000.0, left=42.0))

        assert ask(known, snapshot(on, free=6000.0, total=96_000.0), "new") == no(
            f"new does not fit GPU-0 on localhost (NVML): {sums(12_000, 6000, 6000)}; never unloaded, as the registry "
            "does not know it: old:latest 12000 MB; add it, or `ollama stop` it",
            30.0,
            12_000.0,
            6000.0,
        )

    def test_model_of_a_stalling_server_is_no_victim(self):
        """A server that does not answer cannot be asked to unload."""
        known = registry(entry("new", 6000), entry("old", 5000, base=B))
        seen = snapshot(server(A), server(B, loaded("old", 5000.0), state="stalled"), free=3000.0)

        assert ask(known, seen, "new") == no(
            f"new does not fit GPU-0 on localhost (NVML): {sums(6000, 3000, 3000)}; not unloaded, as its server stalls or "
            "it is being loaded: old 5000 MB",
            30.0,
            6000.0,
            3000.0,
        )

    def test_embedder_and_chat_model_do_not_take_turns(self):
        """Both fit beside each other, so nobody is evicted, whoever asks (anything-llm#3443)."""
        known = registry(entry("chat", 6000), entry("embed", 1500, role="embedder", never_evict=True))
        names = files(chat=5000.0, embed=1500.0)
        embed, chat = loaded("embed", 1500.0, left=None), loaded("chat", 6000.0, context=4096)

        first = ask(known, snapshot(server(A, embed, files=names), free=6692.0), "chat")
        second = ask(known, snapshot(server(A, embed, chat, files=names), free=692.0), "embed")
        third = ask(known, snapshot(server(A, embed, chat, files=names), free=692.0), "chat")

        assert (type(first), second, third) == (Admit, Resident(None), Resident(NOW + 300))


class TestLoadsInFlight:
    """One card of 16 GB, two models of 9 GB asked for at once (ollama/ollama#6637)."""

    def ask(self, id, **booking):
        """`one` is being loaded at server A."""
        known = registry(entry("one", 9000), entry("two", 9000, base=B), entry("three", 9000))
        seen = snapshot(server(A), server(B), free=16_000.0, total=16_000.0)
        return ask(known, seen, id, base=B if id == "two" else A, claims=[claim("one", 9000.0, **booking)])

    def test_same_model_joins(self):
        """Whoever wants the model that is being loaded waits for that load."""
        assert self.ask("one") == Join(claim("one", 9000.0))

    def test_other_server_of_that_gpu(self):
        """Its memory is promised."""
        assert self.ask("two") == no(
            f"two does not fit GPU-0 on localhost (NVML): {sums(9000, 16_000, 7000, promised=9000)}; wait for the loads "
            "in flight",
            16.0,
            9000.0,
            16_000.0,
            0.0,
            9000.0,
        )

    def test_same_server(self):
        """Ollama loads one model at a time, whether or not both fit."""
        assert self.ask("three") == no(
            f"three waits for a load in flight, one (9000 MB) on {A}, as Ollama loads one model at a time: "
            f"{sums(9000, 16_000, 7000, promised=9000)}; try again",
            16.0,
            9000.0,
            16_000.0,
            0.0,
            9000.0,
        )

    @pytest.mark.parametrize(("ago", "retry"), [(0.0, 20.0), (4.0, 16.0), (19.5, 1.0), (500.0, 1.0)])
    def test_retry_after(self, ago, retry):
        """An estimate from when the load began, never under a second."""
        assert self.ask("three", ago=ago).retry_after_s == retry

    @pytest.mark.parametrize(
        ("booking", "promised"), [({"left": 0.0}, 0.0), ({"gpu": "GPU-9"}, 0.0), ({"gpu": "0"}, 9000.0)]
    )
    def test_what_is_promised(self, booking, promised):
        """A lapsed booking is none; one on another GPU takes nothing here."""
        known = registry(entry("one", 9000), entry("two", 9000, base=B, gpu=0))
        seen = snapshot(server(A), server(B), free=16_000.0, total=16_000.0)

        verdict = ask(known, seen, "two", base=B, claims=[claim("one", 9000.0, **booking)])

        assert isinstance(verdict, Admit) is (promised == 0.0)

    def test_what_shows_already_is_not_promised_any_more(self):
        """A model that /api/ps lists is in the measurement, though its booking has not been dropped yet."""
        known = registry(entry("one", 9000), entry("two", 5000, base=B))
        seen = snapshot(server(A, loaded("one", 9000.0)), server(B), free=7000.0, total=16_000.0)

        verdict = ask(known, seen, "two", base=B, claims=[claim("one", 9000.0)])

        assert verdict == Admit(5000.0, "GPU-0", f"two fits GPU-0 on localhost (NVML): {sums(5000, 7000, 7000)}")

    def test_stall_during_a_load(self):
        """/api/ps stalls while a model is loaded: the load is named, not the stall; the same model still joins."""
        known = registry(entry("one", 9000), entry("three", 9000))
        seen = snapshot(server(A, state="stalled"), free=16_000.0)
        flying = claim("one", 9000.0)

        assert ask(known, seen, "one", claims=[flying]) == Join(flying)
        assert ask(known, seen, "three", claims=[flying]) == No(
            "gpu_no_headroom",
            f"three waits for a load in flight, one (9000 MB) on {A}, as Ollama loads one model at a time: 9000 MB "
            "needed; try again",
            16.0,
            needed_mb=9000.0,
            promised_mb=9000.0,
        )

    def test_other_context_does_not_join(self):
        """The same weights with another num_ctx are another load."""
        known = registry(entry("short", 3300, name="gemma3:4b"), entry("long", 4400, name="gemma3:4b", num_ctx=32_768))
        flying = Claim(slot("gemma3:4b"), "short", 3300.0, "", "w", NOW, NOW + 60)

        verdict = ask(known, snapshot(server(A), free=8000.0), "long", claims=[flying])

        assert (type(verdict), verdict.code, verdict.retry_after_s) == (No, "gpu_no_headroom", 20.0)

    def test_another_name_of_the_same_weights_joins(self):
        """Two names on one blob are one load."""
        both = {full_name(name): ModelFile(full_name(name), name, 3184.0, "blob") for name in ("one", "copy")}
        known = registry(entry("one", 3300), entry("copy", 3300))
        flying = claim("one", 3300.0)

        assert ask(known, snapshot(server(A, files=both), free=8000.0), "copy", claims=[flying]) == Join(flying)


class TestLoadedOtherwise:
    """The model is there, but not as the registry says, or not for long."""

    def ask(self, own, free=3800.0, *, policy=None, **more):
        """The chat model as it is, beside a pinned one."""
        known = registry(entry("chat", 3300, name="gemma3:4b"), entry("pin", 1000, never_evict=True), **(policy or {}))
        on = server(A, own, loaded("pin", 1000.0, left=None))
        return ask(known, snapshot(on, free=free), "chat", **more)

    @pytest.mark.parametrize("left", [15.0, 5.0, -1.0])
    def test_about_to_leave(self, left):
        """It is loaded again, and its own memory counts as free."""
        assert self.ask(gemma(left=left), 1800.0) == Admit(
            3300.0,
            "GPU-0",
            f"chat fits GPU-0 on localhost (NVML): {sums(3300, 5100, 5100)}; Ollama predicts 3864 MB of 80 % of 5100 MB, "
            "model 2 of 3, and holds never-evict pin",
        )

    def test_about_to_leave_where_it_could_not_come_back(self):
        """If it left just before the call, its load would push the pinned model out: not used any more."""
        verdict = self.ask(gemma(left=5.0), 100.0)

        assert (type(verdict), verdict.free_mb, verdict.transient) == (No, 3400.0, True)

    def test_other_context(self):
        """Two clients with two contexts are no reload war: the registry's is loaded once the runner is idle (ollama#8903)."""
        assert self.ask(gemma(context=32_768)) == Swap(
            (slot("gemma3:4b"),),
            f"chat has to be reloaded (it is loaded with num_ctx 32768): {sums(3300, 7100, 7100)}; unload chat 3300 MB",
        )

    def test_other_context_in_use(self):
        """It is not pulled away from under a request."""
        assert self.ask(gemma(context=32_768), usage=Usage({slot("gemma3:4b"): 2})) == no(
            "chat has to be reloaded (it is loaded with num_ctx 32768), which waits for 2 request(s) that use it: "
            f"{sums(3300, 7100, 7100)}",
            5.0,
            3300.0,
            7100.0,
        )

    def test_other_context_not_its_turn(self):
        """A reload is a swap as well."""
        assert self.ask(gemma(context=32_768), may_swap=False) == no(
            f"chat has to be reloaded (it is loaded with num_ctx 32768): {sums(3300, 7100, 7100)}; others wait before for "
            "the same room",
            5.0,
            3300.0,
            7100.0,
        )

    def test_partly_on_the_cpu(self):
        """It is unloaded, so that it can be loaded whole."""
        assert self.ask(gemma(vram_mb=1650.0)) == Swap(
            (slot("gemma3:4b"),),
            f"chat has to be reloaded (only 1650 of its 3300 MB are on the GPU): {sums(3300, 5450, 5450)}; unload chat "
            "1650 MB",
        )

    def test_partly_on_the_cpu_without_room(self):
        """Where it would not become whole it stays as it is: no unload for nothing, and the size it shows counts."""
        bigger = Loaded(full_name("gemma3:4b"), "", 5000.0, 3000.0, NOW + 300, 4096)

        assert self.ask(bigger, 1900.0) == no(
            f"chat does not fit GPU-0 on localhost (NVML): {sums(5000, 4900, 4900)}; memory is in use by others than "
            "registry models: end other programs on that GPU",
            30.0,
            5000.0,
            4900.0,
        )

    def test_partly_on_the_cpu_is_allowed(self):
        """With partial_offload warn it is used as it is."""
        assert self.ask(gemma(vram_mb=1650.0), policy={"partial_offload": "warn"}) == Resident(NOW + 300)

    def test_runner_of_a_never_evict_model(self):
        """Two entries on the same weights with two contexts cannot both be had, and never-evict wins."""
        known = registry(
            entry("chat", 3300, name="gemma3:4b", num_ctx=8192), entry("pin", 3300, name="gemma3:4b", never_evict=True)
        )

        assert ask(known, snapshot(server(A, gemma(left=None)), free=4000.0), "chat") == no(
            "chat has to be reloaded (it is loaded with num_ctx 4096), but never-evict pin uses that runner; give both "
            "the same num_ctx, or the model weights of its own",
            30.0,
            3300.0,
            7300.0,
            transient=False,
        )

    def test_never_evict_model_itself(self):
        """A never-evict model that somebody loaded with another context is reloaded, for itself, once nobody uses it."""
        known = registry(entry("pin", 3300, name="gemma3:4b", never_evict=True))

        assert ask(known, snapshot(server(A, gemma(left=None, context=2048)), free=4000.0), "pin") == Swap(
            (slot("gemma3:4b"),),
            f"pin has to be reloaded (it is loaded with num_ctx 2048): {sums(3300, 7300, 7300)}; unload pin 3300 MB",
        )


class TestPartialOffload:
    """Another program leaves too little, so that Ollama would use the CPU (comfyui-ollama#112)."""

    def ask(self, policy, *more, on=(), rest=4000.0):
        """A model of 6000 MB, 4000 MB free on a large card."""
        known = registry(entry("m", 6000), *more, partial_offload=policy)
        return ask(known, snapshot(server(A, *on), free=rest, total=24_000.0), "m")

    @pytest.mark.parametrize("policy", ["allow", "warn"])
    def test_allowed(self, policy):
        """Alone on that Ollama it may spill, and books what there is."""
        assert self.ask(policy) == Admit(
            4000.0,
            "GPU-0",
            f"m does not fit GPU-0 on localhost (NVML): {sums(6000, 4000, 4000)}; the rest goes to the CPU, "
            "partial_offload allows it",
        )

    @pytest.mark.parametrize(
        ("policy", "more", "on"),
        [
            ("refuse", (), ()),
            ("allow", (), (loaded("x", 10.0),)),
            ("allow", (entry("pin", 10, base=B, never_evict=True),), ()),
            ("allow", (tei(10),), ()),
        ],
    )
    def test_not_where_ollama_could_evict(self, policy, more, on):
        """Refused, or not alone, or beside the never-evict set: other programs are to blame."""
        verdict = self.ask(policy, *more, on=on)

        assert (type(verdict), verdict.code, verdict.transient) == (No, "gpu_no_headroom", True)
        assert verdict.reason.endswith(
            "memory is in use by others than registry models: end other programs on that GPU"
        )


class TestUnknown:
    """Not known is never zero and never plenty."""

    def ask(self, seen, *more, allow=False, **policy):
        """A model of 3000 MB."""
        return ask(registry(entry("m", 3000), *more, allow=allow, **policy), seen, "m")

    def unknown(self, why):
        """The refusal."""
        return No(
            "gpu_state_unknown",
            f"m (3000 MB) is not loaded, the state of its GPU is not known: {why}; mend that, or set "
            "routing.on_unknown.vram: allow",
            10.0,
            needed_mb=3000.0,
        )

    @pytest.mark.parametrize(
        ("seen", "why"),
        [
            (snapshot(server(state="stalled", reason="no answer within 3 s"), free=8000.0), f"Ollama at {A} answers too late (no answer within 3 s)"),
            (snapshot(free=8000.0), f"Ollama at {A} has not been read yet"),
            (snapshot(server(read_at=0.0), free=8000.0), f"Ollama at {A} has not been read yet"),
            (snapshot(server(), free=8000.0, at=NOW - 31), "the last reading is 31 s old"),
            (snapshot(server(), nvml=FAILED), "NVML worked and now fails: Unknown Error"),
            (
                snapshot(server()),
                "NVML does not work here (NVML has not been asked yet) and no size is declared; declare "
                "gpu_residency_policy.gpus or baseline.total_mb",
            ),
        ],
    )  # fmt: skip
    def test_refused(self, seen, why):
        """Each doubt has its sentence."""
        assert self.ask(seen) == self.unknown(why)

    def test_declared_gpu_with_an_unread_neighbour(self):
        """In declared mode free is what nobody holds: an Ollama that was never read may hold anything."""
        verdict = self.ask(snapshot(server()), entry("n", 10, base=B), **ONE)

        assert verdict == self.unknown(f"Ollama at {B}, on the same GPU, has not been read yet")

    def test_declared_gpu_without_that_neighbour(self):
        """One that is gone, on another GPU or on another machine holds nothing here."""
        neighbours = [entry("n", 10, base=B), entry("o", 10, base=AWAY)]

        verdict = self.ask(snapshot(server(), server(B, state="gone")), *neighbours, **ONE)

        assert verdict == Admit(3000.0, "", f"m fits its GPU on localhost (declared sizes): {sums(3000, 8192, 8192)}")

    @pytest.mark.parametrize(
        "seen",
        [
            snapshot(server(state="stalled"), free=8000.0),
            snapshot(free=8000.0),
            snapshot(server(), free=8000.0, at=NOW - 99),
        ],
    )
    def test_allowed_by_the_numbers_there_are(self, seen):
        """on_unknown.vram: allow goes by the last numbers."""
        assert self.ask(seen, allow=True) == Admit(
            3000.0, "GPU-0", f"m fits GPU-0 on localhost (NVML): {sums(3000, 8000, 8000)}"
        )

    def test_allowed_by_the_declared_size(self):
        """Where a size is declared it stands in for NVML, and still refuses."""
        seen = snapshot(server(A, loaded("x", 6000.0, left=None)), nvml=FAILED)

        assert self.ask(seen, allow=True, **ONE) == no(
            f"m does not fit its GPU on localhost (declared sizes): {sums(3000, 2192, 2192)}; never unloaded, as the "
            "registry does not know it: x:latest 6000 MB; add it, or `ollama stop` it",
            30.0,
            3000.0,
            2192.0,
        )

    def test_allowed_without_numbers(self):
        """Where nothing is declared either, the operator has said to try."""
        assert self.ask(snapshot(server(), nvml=FAILED), allow=True) == Admit(
            3000.0,
            "",
            f"m fits its GPU on localhost (on_unknown.vram is allow): {sums(3000, 'unknown', 'unknown')}",
        )

    def test_allowed_but_one_too_many(self):
        """The count is known without a GPU."""
        pin = entry("pin", 10, never_evict=True)
        on = server(A, loaded("pin", 10.0, left=None), loaded("x", 1.0), loaded("y", 1.0, left=None))

        verdict = self.ask(snapshot(on, nvml=FAILED), pin, allow=True)

        assert verdict == no(
            f"loading m would make Ollama at {A} push out a model, it holds never-evict pin: this would be model 4 of at "
            f"most 3 ({sums(3000, 'unknown', 'unknown')}); never unloaded, as the registry does not know it: x:latest 1 "
            "MB, y:latest 1 MB; add it, or `ollama stop` it",
            30.0,
            3000.0,
            None,
        )

    def test_gone(self):
        """A server that refuses connections is not a matter of memory."""
        seen = snapshot(server(A, gemma(), state="gone", reason="connection refused"), free=8000.0)

        assert self.ask(seen) == No(
            "model_unavailable",
            f"m is not available: Ollama at {A} does not answer (connection refused); start it",
            10.0,
        )

    @pytest.mark.parametrize("allow", [False, True])
    def test_size_not_known(self, allow):
        """A model without a size is served only when it is resident, whatever on_unknown says."""
        known = registry(entry("m"), allow=allow)
        seen = snapshot(server(A, loaded("there", 10.0)), free=8000.0)

        def verdict(one):
            return decide(known, seen, (), IDLE, one, NOW)

        fix = "so its size is not known: add gpu_residency.vram_mb, or load it by hand"
        assert verdict(want(known, "m")) == No(
            "gpu_no_headroom", f"m has no gpu_residency in the registry, {fix}", 30.0, transient=False
        )
        assert verdict(Want(None, slot("x"))) == No(
            "gpu_no_headroom", f"x:latest is not in the registry, {fix}", 30.0, transient=False
        )
        assert verdict(Want(None, slot("there"))) == Resident(NOW + 300)


class TestOpen:
    """What takes no memory of a GPU of ours."""

    @pytest.mark.parametrize("seen", [snapshot(), snapshot(server(state="gone")), snapshot(server(), free=0.0)])
    def test_no_gpu(self, seen):
        """`gpu: none` is open whatever was read."""
        assert ask(registry(entry("m", 3000, gpu="none")), seen, "m") == Open()

    @pytest.mark.parametrize(
        ("name", "remote", "open_"),
        [
            ("gpt-oss:120b-cloud", None, True),
            ("kimi:cloud", None, True),
            ("renamed", True, True),
            ("my-cloud", None, False),
            ("mine:cloud", False, False),
        ],
    )
    def test_cloud_models(self, name, remote, open_):
        """A cloud model of Ollama, by /api/tags or, before it is pulled, by its tag."""
        full = full_name(name)
        known_files = {} if remote is None else {full: ModelFile(full, remote=remote)}

        verdict = decide(
            registry(), snapshot(server(files=known_files), free=0.0), (), IDLE, Want(None, slot(name)), NOW
        )

        assert (verdict == Open()) is open_

    def test_other_providers(self):
        """A model server that is not Ollama loads nothing on demand; behind Ollama's OpenAI door it is Ollama."""
        through = {**entry("m", 3000), "litellm": {"model": "openai/gemma3:4b"}}
        through["endpoints"] = [{"api_base": f"{A}/v1"}]
        alone, beside = registry(through, tei()), registry(through, entry("n", 1))
        seen = snapshot(server(B), free=100.0)

        def verdict(known, id):
            model = known.by_id[id]
            return decide(known, seen, (), IDLE, Want(model, slot_of(model, model.places[0].api_base)), NOW)

        assert verdict(alone, "m") == Open()
        assert verdict(alone, "tei") == Open()
        assert (type(verdict(beside, "m")), verdict(beside, "m").code) == (No, "gpu_state_unknown")


def test_a_model_off_the_gpu_still_counts():
    """num_gpu 0 needs no memory of the card, but it is one more loaded model."""
    known = registry(entry("cpu", 3000, options={"num_gpu": 0}), entry("pin", 10, never_evict=True))
    pin = loaded("pin", 10.0, left=None)

    def verdict(*others):
        return ask(known, snapshot(server(A, pin, *others), free=50.0), "cpu")

    assert isinstance(verdict(), Admit)
    assert isinstance(verdict(loaded("x", 1.0), loaded("y", 1.0)), No)


def test_one_server_by_two_names_is_counted_once():
    """localhost and 127.0.0.1 in one registry are one Ollama: its models are not subtracted twice."""
    other = "http://localhost:11434"
    known = registry(entry("m", 4000), entry("n", 4000, base=other), **ONE)
    there = server(A, loaded("n", 4000.0))

    verdict = ask(known, snapshot(there, replace(there, api_base=other)), "m")

    assert verdict == ask(known, snapshot(there), "m")
    assert "4192 MB" in verdict.reason


class TestEdges:
    """Numbers that lag, overlap or belong elsewhere."""

    def test_ollama_will_not_see_what_is_promised(self):
        """A load in flight on another server takes its memory before Ollama looks at this one."""
        known = registry(entry("m", 3000), entry("pin", 1000, never_evict=True), entry("other", 2000, base=B))
        on = server(A, loaded("pin", 1000.0, left=None), files=files(m=3200.0, pin=1000.0))
        seen = snapshot(on, server(B), free=5500.0)

        def verdict(*claims):
            return ask(known, seen, "m", claims=claims)

        assert isinstance(verdict(), Admit)
        assert "more than 80 % of the 3500 MB that it sees free" in verdict(claim("other", 2000.0, base=B)).reason

    def test_memory_that_comes_back_is_not_more_than_the_card(self):
        """A driver that lags behind an unload already counted is not believed twice."""
        known = registry(entry("m", 9000), entry("old", 5000))

        verdict = ask(known, snapshot(server(A, loaded("old", 5000.0)), free=6000.0), "m")

        assert (type(verdict), verdict.transient) == (No, False)

    @pytest.mark.parametrize(("free", "admitted"), [((9000.0, 2000.0), True), ((9000.0, 11_500.0), False)])
    def test_own_runners_on_two_gpus(self, free, admitted):
        """What the other card does not account for is on this one, even if the driver does not show it yet."""
        known = registry(entry("m", 6000), entry("pin", 9000, never_evict=True))
        on = server(A, loaded("pin", 9000.0, left=None), files=files(m=6000.0, pin=9000.0))

        verdict = ask(known, snapshot(on, nvml=nvml(*free, total=12_000.0)), "m")

        assert isinstance(verdict, Admit) is admitted

    def test_a_booking_smaller_than_what_shows(self):
        """It promises nothing, and gives nothing back."""
        known = registry(entry("one", 1000), entry("two", 5000, base=B))
        seen = snapshot(server(A, loaded("one", 3000.0)), server(B), free=5000.0)

        verdict = ask(known, seen, "two", base=B, claims=[claim("one", 1000.0)])

        assert verdict == Admit(5000.0, "GPU-0", f"two fits GPU-0 on localhost (NVML): {sums(5000, 5000, 5000)}")

    def test_a_model_that_is_being_loaded_again_is_no_victim(self):
        """A runner with a load in flight is not idle."""
        known = registry(entry("new", 6000), entry("old", 5000, base=B))
        seen = snapshot(server(A), server(B, loaded("old", 5000.0)), free=3000.0)

        verdict = ask(known, seen, "new", claims=[claim("old", 5000.0, base=B)])

        assert (type(verdict), verdict.transient) == (No, True)
        assert verdict.reason.endswith("not unloaded, as its server stalls or it is being loaded: old 5000 MB")

    def test_one_request_noted_under_every_name(self):
        """Two names of one runner are one runner: its requests are counted once, and either name holds it."""
        both = {full_name(one): ModelFile(full_name(one), one, 5000.0, "blob", None) for one in ("old", "copy")}
        known = registry(entry("new", 6000), entry("old", 5000), entry("copy", 5000))
        seen = snapshot(server(A, loaded("old", 5000.0), files={**both, **files(new=1.0)}), free=3000.0)

        def verdict(*names):
            return ask(known, seen, "new", usage=Usage({slot(name): 2 for name in names}))

        assert verdict().victims == (slot("old"),)
        assert "old (2 in flight)" in verdict("copy").reason
        assert "old (2 in flight)" in verdict("old", "copy").reason

    def test_a_victim_for_the_count_may_be_on_another_gpu(self):
        """The limit is the server's, not the card's."""
        known = registry(
            entry("tiny", 100, gpu=0),
            entry("pin", 800, gpu=0, never_evict=True),
            entry("far", 10, gpu=1),
            entry("x", gpu=1),
        )
        on = server(A, loaded("pin", 800.0, left=None), loaded("far", 10.0), loaded("x", 10.0))
        used = Usage({}, {slot("x"): NOW - 1, slot("far"): NOW - 2})

        verdict = ask(known, snapshot(on, nvml=nvml(7000.0, 7000.0)), "tiny", usage=used)

        assert verdict.victims == (slot("far"),)
