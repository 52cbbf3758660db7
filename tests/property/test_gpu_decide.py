"""Laws of the residency decision, over random registries, cards, loaded models and loads in flight."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from litellm_registry_hook.core.gpu.decide import decide
from litellm_registry_hook.core.gpu.facts import Claim, Loaded, ModelFile, Nvml, Shape, Snapshot, Usage
from litellm_registry_hook.core.gpu.names import full_name, slot_of
from litellm_registry_hook.core.gpu.verdict import Admit, No, Open, Resident, Swap, Want
from litellm_registry_hook.core.registry import Registry
from tests.gpu.world import A, B, NOW, TEI, claim, entry, loaded, nvml, registry, server, slot, tei

TOTAL = 12_000.0
IDS = ("a", "b", "c", "d", "e")
BARE = Shape(layers=0, heads=1, kv_heads=0, width=0)
# A law about one kind of verdict passes over the worlds that have another.
RARE = (HealthCheck.filter_too_much,)
sizes = st.integers(1, 60).map(lambda n: n * 100)


@dataclass(frozen=True)
class World:
    """One moment and one question."""

    known: Registry
    seen: Snapshot
    claims: tuple[Claim, ...]
    usage: Usage
    want: Want

    def decide(self, **more):
        """Ask."""
        return decide(self.known, self.seen, self.claims, self.usage, self.want, NOW, **more)

    def base_of(self, id):
        """The server of a model."""
        return self.known.by_id[id].places[0].api_base

    def model_at(self, slot_):
        """The registry's model of a runner; None for a foreign one."""
        for model in self.known.models:
            if model.on_ollama and slot_of(model, self.base_of(model.id)) == slot_:
                return model
        return None


@st.composite
def worlds(draw, gpus=("auto",), cards=1):
    """Up to five models on two servers, one reranker, some of them loaded, some in use, one perhaps being loaded."""
    ids = IDS[: draw(st.integers(2, 5))]
    models, entries, known_files = [], {A: [], B: []}, {A: {}, B: {}}
    groups = draw(st.booleans())
    busy, used, flying = {}, {}, []
    on_its_way = draw(st.sampled_from((None, None, None, *ids)))
    for id in ids:
        mb, base = draw(sizes), draw(st.sampled_from((A, A, B)))
        models.append(
            entry(
                id,
                mb,
                base=base,
                gpu=draw(st.sampled_from(gpus)),
                never_evict=draw(st.sampled_from((False, False, True))),
            )
        )
        full = full_name(id)
        known_files[base][full] = ModelFile(full, "", draw(sizes), "", BARE)
        here = slot(id, base)
        state = "flying" if id == on_its_way else draw(st.sampled_from(("away", "loaded", "loaded")))
        if state == "loaded":
            entries[base].append(
                Loaded(
                    full,
                    "",
                    float(mb),
                    mb * draw(st.sampled_from((1.0, 1.0, 1.0, 0.5))),
                    draw(st.sampled_from((NOW + 300, NOW + 300, None, NOW + 3, NOW - 1))),
                    draw(st.sampled_from((4096, 4096, 4096, None, 8192))),
                )
            )
        elif state == "flying":
            flying.append(claim(id, float(mb), base=base, left=draw(st.sampled_from((60.0, 0.0)))))
        if draw(st.sampled_from((False, False, True))):
            busy[here] = draw(st.integers(0, 2))
        if draw(st.booleans()):
            used[here] = NOW - draw(st.integers(1, 500))
    if draw(st.booleans()):
        entries[draw(st.sampled_from((A, B)))].append(loaded("foreign", float(draw(sizes)), left=40.0))
    if draw(st.booleans()):
        models.append(tei(draw(sizes), never_evict=draw(st.booleans())))
    policy = {
        "reserve_mb": draw(st.sampled_from((0, 300))),
        "co_residency_groups": [{"name": "g", "ids": list(ids[:2])}] if groups else [],
    }
    known = registry(*models, **policy)
    held = sum(one.vram_mb for some in entries.values() for one in some)
    free = [
        float(draw(st.integers(0, int(max(0.0, TOTAL - held)) if cards == 1 else int(TOTAL)))) for _ in range(cards)
    ]
    servers = {base: server(base, *entries[base], files=known_files[base]) for base in (A, B)}
    health = {TEI: draw(st.sampled_from(("up", "busy", "gone")))}
    there = {one.name for some in entries.values() for one in some}
    away = [id for id in ids if full_name(id) not in there]
    wanted = known.by_id[draw(st.sampled_from((*ids, *away * 3)))]
    return World(
        known,
        Snapshot(NOW, nvml(*free, total=TOTAL), servers, health),
        tuple(flying),
        Usage(busy, used),
        Want(wanted, slot_of(wanted, wanted.places[0].api_base)),
    )


anywhere = st.one_of(worlds(), worlds(gpus=("auto", 0, 1), cards=2))


def unloaded(world, victims, gpu=0):
    """The same world once these runners are gone and their memory is back on one GPU."""
    back, servers = 0.0, {}
    for base, one in world.seen.servers.items():
        gone = [entry_ for entry_ in one.loaded if (base, entry_.name) in victims]
        back += sum(entry_.vram_mb for entry_ in gone)
        servers[base] = replace(one, loaded=tuple(entry_ for entry_ in one.loaded if entry_ not in gone))
    cards = list(world.seen.nvml.gpus)
    cards[gpu] = replace(cards[gpu], free_mb=min(cards[gpu].total_mb, cards[gpu].free_mb + back))
    driver = replace(world.seen.nvml, gpus=tuple(cards))
    return replace(world, seen=replace(world.seen, nvml=driver, servers=servers))


@settings(max_examples=100, deadline=None, suppress_health_check=RARE)
@given(anywhere)
def test_victims_are_ours_idle_and_evictable(world):
    """No victim is never-evict (but for the wanted one itself), foreign, or in use; each is loaded, and once."""
    verdict = world.decide()
    event(type(verdict).__name__)
    assume(isinstance(verdict, Swap))

    there = {(base, one.name) for base, server_ in world.seen.servers.items() for one in server_.loaded}
    assert len(set(verdict.victims)) == len(verdict.victims) > 0
    for victim in verdict.victims:
        model = world.model_at(victim)
        assert victim in there
        assert model is not None
        assert not model.never_evict or victim == world.want.slot
        assert not world.usage.busy.get(victim)


@settings(max_examples=100, deadline=None, suppress_health_check=RARE)
@given(worlds())
def test_a_swap_is_enough_and_not_too_much(world):
    """After the unloads the same question is admitted; with any victim left in place it is not."""
    verdict = world.decide()
    assume(isinstance(verdict, Swap))

    after = unloaded(world, verdict.victims).decide()
    assert isinstance(after, Admit), after
    for kept in verdict.victims:
        if kept != world.want.slot:
            rest = tuple(one for one in verdict.victims if one != kept)
            assert not isinstance(unloaded(world, rest).decide(), Admit)


@settings(max_examples=60, deadline=None, suppress_health_check=RARE)
@given(worlds(gpus=("auto", 0, 1), cards=2))
def test_a_swap_on_two_gpus_is_enough_on_one_of_them(world):
    """Where the victims' memory comes back on one GPU, the load is admitted, for at least one of the two."""
    verdict = world.decide()
    assume(isinstance(verdict, Swap))
    pinned = {victim: world.model_at(victim).places[0].gpu for victim in verdict.victims}
    assume(len(set(pinned.values())) == 1)

    gpus = [0, 1] if "auto" in pinned.values() else [int(next(iter(pinned.values())))]
    assert any(isinstance(unloaded(world, verdict.victims, gpu).decide(), Admit) for gpu in gpus)


def rules(world):
    """Both rules of the specification, written down a second time for one GPU with NVML; own memory counted back."""
    model, base = world.want.model, world.want.slot.api_base
    own = [one for one in world.seen.servers[base].loaded if one.name == world.want.slot.name]
    free = min(TOTAL, world.seen.nvml.gpus[0].free_mb + sum(one.vram_mb for one in own))
    live = [one for one in world.claims if one.until > NOW]
    missing = 0.0
    for other in world.known.models:
        if not other.never_evict or other.id == model.id:
            continue
        size = other.gpu_residency.vram_mb
        if not other.on_ollama:
            missing += size if world.seen.health[TEI] == "gone" else 0
            continue
        its = slot_of(other, world.base_of(other.id))
        there = [one for one in world.seen.servers[its.api_base].loaded if one.name == its.name]
        if not there and all(one.slot != its for one in live):
            missing += size
    promised = sum(one.mb for one in live)
    physical = model.gpu_residency.vram_mb <= free - world.known.gpu_residency_policy.reserve_mb - missing - promised
    beside = [one for one in world.seen.servers[base].loaded if one not in own]
    ours = [world.model_at((base, one.name)) for one in beside]
    if not any(one is not None and one.never_evict for one in ours):
        return physical, True
    predicted = world.seen.servers[base].files[world.want.slot.name].size_mb
    seen = min(free, TOTAL - sum(one.vram_mb for one in beside))
    return physical, predicted <= 0.8 * seen and len(beside) + 1 <= 3


@settings(max_examples=60, deadline=None, suppress_health_check=RARE)
@given(worlds())
def test_what_is_admitted_keeps_both_rules(world):
    """An admitted load fits beside everything reserved and promised, and makes Ollama evict no never-evict model."""
    assume(isinstance(world.decide(), Admit))

    assert rules(world) == (True, True)


@settings(max_examples=60, deadline=None, suppress_health_check=RARE)
@given(worlds(), sizes)
def test_more_free_memory_never_hurts(world, more):
    """What is admitted, resident or open stays so with more free memory on its GPU."""
    before = world.decide()
    assume(isinstance(before, Admit | Resident | Open))

    card = world.seen.nvml.gpus[0]
    driver = replace(world.seen.nvml, gpus=(replace(card, free_mb=min(TOTAL, card.free_mb + more)),))
    after = replace(world, seen=replace(world.seen, nvml=driver)).decide()

    assert type(after) is type(before)


def doubtful(world, doubt):
    """The same world where something is not known."""
    seen, base = world.seen, world.want.slot.api_base
    if doubt == "nvml":
        return replace(world, seen=replace(seen, nvml=Nvml("failed", "unknown", "Unknown Error", seen.nvml.gpus)))
    if doubt == "gpu":
        lost = tuple(replace(gpu, state="unknown", code="gpu_lost") for gpu in seen.nvml.gpus)
        return replace(world, seen=replace(seen, nvml=replace(seen.nvml, gpus=lost)))
    if doubt == "undeclared":
        return replace(world, seen=replace(seen, nvml=Nvml()))
    if doubt == "unread":
        return replace(world, seen=replace(seen, servers={k: v for k, v in seen.servers.items() if k != base}))
    if doubt == "old":
        return replace(world, seen=replace(seen, at=NOW - 60))
    return replace(world, seen=replace(seen, servers={**seen.servers, base: replace(seen.servers[base], state=doubt)}))


@settings(max_examples=200, deadline=None)
@given(anywhere, st.sampled_from(("nvml", "gpu", "undeclared", "unread", "old", "stalled", "gone")))
def test_unknown_never_admits(world, doubt):
    """With on_unknown.vram refuse nothing is loaded or unloaded on what is not known, and the refusal says when to retry."""
    verdict = doubtful(world, doubt).decide()
    event(f"{doubt} {type(verdict).__name__}")

    assert not isinstance(verdict, Admit | Swap | Open)
    if isinstance(verdict, No):
        assert verdict.retry_after_s >= 1
        assert verdict.transient


@settings(max_examples=150, deadline=None)
@given(anywhere)
def test_whose_turn_it_is(world):
    """Out of turn nothing is unloaded, and nothing else changes; a refusal always says why, when and with which numbers."""
    mine, later = world.decide(), world.decide(may_swap=False)

    if isinstance(mine, Swap):
        assert isinstance(later, No)
        assert later.transient
    else:
        assert later == mine
    if isinstance(later, No):
        assert later.code == "gpu_no_headroom"
        assert later.retry_after_s >= 1
        assert None not in (later.needed_mb, later.free_mb, later.reserved_mb, later.promised_mb)
        assert world.want.model.id in later.reason
        assert f"{later.needed_mb:.0f} MB needed, {later.free_mb:.0f} MB free" in later.reason


@settings(max_examples=150, deadline=None, suppress_health_check=RARE)
@given(worlds())
def test_a_refusal_is_for_good_only_where_the_bare_card_refuses(world):
    """Where the card with only the never-evict set on it would take the model, waiting is said to help."""
    verdict = world.decide()
    assume(isinstance(verdict, No))
    stays = [model for model in world.known.models if model.never_evict and model.id != world.want.model.id]
    servers = {
        base: replace(
            one,
            loaded=tuple(
                loaded(model.id, float(model.gpu_residency.vram_mb), left=None)
                for model in stays
                if model.on_ollama and world.base_of(model.id) == base
            ),
        )
        for base, one in world.seen.servers.items()
    }
    free = TOTAL - sum(model.gpu_residency.vram_mb for model in stays)
    health = {TEI: "up" if any(model.id == "tei" for model in stays) else "gone"}
    bare = Snapshot(NOW, nvml(free, total=TOTAL), servers, health)

    after = replace(world, seen=bare, claims=(), usage=Usage()).decide()

    # Not the other way round: while a never-evict model is missing, Ollama has nobody to push out for this one.
    assert verdict.transient or not isinstance(after, Admit)
