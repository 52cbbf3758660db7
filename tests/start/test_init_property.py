"""Whatever was seen and decided, the file loads and says what the proposal says."""

from __future__ import annotations

from typing import Any

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from litellm_registry_hook.core.gpu.facts import Gpu, Loaded, ModelFile, Nvml, Shape
from litellm_registry_hook.core.gpu.names import full_name
from litellm_registry_hook.core.registry import NAME_RE
from litellm_registry_hook.core.start.choices import Choices, answered
from litellm_registry_hook.core.start.draft import drafts_of
from litellm_registry_hook.core.start.found import Found, OllamaModel, OllamaSeen, OpenAiModel, OpenAiSeen, TeiSeen
from litellm_registry_hook.core.start.merge import merge
from litellm_registry_hook.core.start.name import LONGEST, TIERS, legal, unused
from litellm_registry_hook.core.start.own import is_own
from litellm_registry_hook.core.start.proposal import Left, Proposal, ProposedModel
from litellm_registry_hook.core.start.propose import propose
from litellm_registry_hook.core.start.questions import next_question
from litellm_registry_hook.edges.registry_file import check_bytes, report_line
from litellm_registry_hook.edges.start.render import document, render
from litellm_registry_hook.edges.yaml_plain import read_yaml

# What YAML 1.1 misreads, what ids may not have, what clashes with tiers and with each other.
NASTY = (
    "no", "yes", "on", "null", "~", "3.10", "1:30", "010", "1e3", "0x1F", "2026-01-01", "=", "<<", "- a", "# c", "a: b", "{x}",
    "large", "small", "embed", "rerank", "paid", "embedder", "embed-a", "a@1", "a@2", "a", "A", "my model", "模型", "a\u2028b",
    "\x85", "x" * 200, "hf.co/u/m:Q4", "gemma3:4b", "gemma3:270m", "gemma3", "gemma3:latest", "library/gemma3", "bge-m3",
    "./m.gguf", "/models/m.gguf", "a\nb", "'", '"', "\\", "*", "&a", "!x", "%", "@", "`", "whisper-1", "my-rerank", "x-embed",
)  # fmt: skip
names = st.one_of(st.sampled_from(NASTY), st.text(min_size=1, max_size=12).filter(lambda text: text.strip("/ ")))
bases = st.sampled_from(
    [
        "http://127.0.0.1:1",
        "http://127.0.0.1:2",
        "http://gpu-box:11434",
        "http://10.0.0.9:3",
        "https://models.example.com",
        "https://api.openai.com",
    ]
)
counts = st.one_of(st.none(), st.integers(1, 10**6))
shapes = st.one_of(
    st.none(),
    st.builds(
        Shape,
        st.integers(1, 200),
        st.integers(1, 128),
        st.integers(1, 128),
        st.integers(1, 20000),
        st.booleans(),
        counts,
    ),
)


@st.composite
def ollama_models(draw: Any) -> OllamaModel:
    name = draw(names)
    file = ModelFile(
        full_name(name),
        draw(st.sampled_from(["", "aa", "bb"])),
        draw(st.floats(0, 1e6)),
        shape=draw(shapes),
        remote=draw(st.booleans()),
    )
    abilities = draw(st.sampled_from([(), ("completion",), ("completion", "to\nols"), ("embedding",), ("image",)]))
    embedding = "embedding" in abilities or (not abilities and draw(st.booleans()))
    width = draw(counts) if embedding else None
    return OllamaModel(name, file, abilities, embedding, width, draw(st.floats(0, 1e14)), draw(counts))


@st.composite
def ollamas(draw: Any) -> OllamaSeen:
    models = tuple({one.file.name: one for one in draw(st.lists(ollama_models(), max_size=5))}.values())
    loaded = tuple(
        Loaded(one.file.name, "", draw(st.floats(0, 1e6)), draw(st.floats(0, 1e6)), None, draw(counts))
        for one in models
        if draw(st.booleans())
    )
    return OllamaSeen(draw(bases), draw(st.sampled_from([(), (0, 12, 6), (0, 33, 0)])), models, loaded)


teis = st.builds(TeiSeen, bases, names, st.sampled_from(["embedder", "reranker", "classifier", "unknown"]), counts)
openai_models = st.builds(OpenAiModel, names, counts, counts, st.floats(0, 1e14))
openais = st.builds(
    OpenAiSeen,
    bases.map(lambda base: f"{base}/v1"),
    st.lists(openai_models, max_size=4, unique_by=lambda one: one.name).map(tuple),
    st.sampled_from(["", "MY_KEY"]),
)
gpus = st.builds(
    Gpu,
    st.sampled_from(["GPU-1", "GPU-2"]),
    st.integers(0, 3),
    st.just("g"),
    st.floats(1, 1e6),
    st.just(0.0),
    st.sampled_from(["ok", "unknown", "unsupported"]),
)
drivers = st.one_of(
    st.just(Nvml()),
    st.builds(
        Nvml,
        st.just("ok"),
        st.just("ok"),
        st.just(""),
        st.lists(gpus, min_size=1, max_size=2, unique_by=lambda one: one.uuid).map(tuple),
    ),
)
founds = st.builds(
    Found,
    st.lists(ollamas(), max_size=3, unique_by=lambda one: one.base).map(tuple),
    st.lists(teis, max_size=2, unique_by=lambda one: one.base).map(tuple),
    st.lists(openais, max_size=2, unique_by=lambda one: one.base).map(tuple),
    drivers,
    st.booleans(),
    st.lists(st.builds(Left, names, names, names), max_size=2).map(tuple),
)


@st.composite
def decided(draw: Any) -> tuple[Found, Choices]:
    """What was seen, and every question answered somehow."""
    found = draw(founds)
    choices = Choices(num_ctx=draw(counts), reserve_mb=draw(st.integers(0, 5000)))
    ids = [draft.id for draft in drafts_of(found, choices)[0]]
    if ids and draw(st.booleans()):
        choices = Choices(
            free=frozenset({draw(st.sampled_from(ids))}),
            sizes={draw(st.sampled_from(ids)): draw(st.integers(1, 10**6))},
        )
    for _ in range(40):
        question = next_question(found, choices)
        if question is None:
            return found, choices
        answers = {
            "free": st.sampled_from(["yes", "no"]),
            "gpu_mb": st.sampled_from(["", "0", "8192", "200000"]),
            "dimensions": st.sampled_from(["", "384"]),
            "embedder": st.sampled_from(question.options or ("",)),
            "never_evict": st.lists(st.sampled_from(question.options or ("",)), max_size=3).map(",".join),
        }
        choices = answered(choices, question, draw(st.one_of(st.just(question.safe), answers[question.kind])))
    raise AssertionError("the questions do not end")


def loads(proposal: Proposal) -> None:
    """The text of a proposal loads and says the same."""
    text = render(proposal)
    registry, problems = check_bytes(text.encode())
    assert registry is not None, [report_line("r", one) for one in problems] + [text]
    assert read_yaml(text).value == document(proposal) == yaml.safe_load(text)


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(decided())
def test_what_is_proposed_loads_and_says_the_same(case: tuple[Found, Choices]) -> None:
    """Any servers, any models, any answers: a valid registry, no open door, one embedding model a pool, all that stays fits."""
    found, choices = case
    proposal = propose(found, choices)
    loads(proposal)
    entries = {model.id: model.entry for model in proposal.models}
    assert len(entries) == len(proposal.models)
    drafts = {draft.id: draft for draft in drafts_of(found, choices)[0]}
    for one, entry in entries.items():
        free = one in choices.free or (
            all(is_own(base) or base in choices.free for base in drafts[one].bases) and not drafts[one].cloud
        )
        assert entry["metered"] is not free, one
        assert any(one in ids for ids in proposal.tiers.values()), one
    for ids in proposal.tiers.values():
        assert ids
        assert len(ids) == 1 or not any(entries[one]["role"] == "embedder" for one in ids)
        assert len({entries[one]["metered"] for one in ids}) == 1


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(decided(), st.data())
def test_what_is_merged_loads_and_says_the_same(case: tuple[Found, Choices], data: st.DataObject) -> None:
    """An imported config whose entries are the found ones under other names, and others: still one valid registry."""
    found, choices = case
    discovered = propose(found, choices)
    taken: list[str] = []
    models = []
    for model in discovered.models:
        if not data.draw(st.booleans()):
            continue
        name = unused(data.draw(names), [*taken, "group"])
        taken.append(name)
        kept = ("role", "lifecycle", "metered", "opt_in_required", "dimensions", "litellm", "endpoints")
        entry = {"id": name, **{key: model.entry[key] for key in kept if key in model.entry}}
        entry["endpoints"] = [{key: value for key, value in one.items() if key != "gpu"} for one in entry["endpoints"]]
        if entry["litellm"]["model"].startswith("ollama") and data.draw(st.booleans()):
            entry["litellm"] = {**entry["litellm"], "num_ctx": 8192, "keep_alive": "10m", "num_gpu": 1}
        models.append(ProposedModel(entry, ("from the config",), {"litellm.model": "was there"}))
    free = [one.id for one in models if one.entry["role"] == "chat"]
    imported = Proposal(tuple(models), {"group": tuple(free)} if free else {}, routing={"unlisted_models": "metered"})
    merged = merge(discovered, imported)
    loads(merged)
    assert [one.id for one in merged.models][: len(models)] == taken
    assert {"group": tuple(free)}.items() <= dict(merged.tiers).items() if free else True


@given(names, st.lists(names, max_size=5))
def test_ids_are_legal_and_new(name: str, others: list[str]) -> None:
    """Any name becomes an id that the registry takes, no tier's and nobody else's."""
    taken = {*TIERS, *map(legal, others)}
    made = unused(name, taken)
    assert NAME_RE.match(made) and made not in taken and len(made) <= LONGEST


@given(
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.text(), st.sampled_from(NASTY)),
        lambda inner: st.one_of(
            st.lists(inner, max_size=4), st.dictionaries(st.sampled_from(NASTY), inner, max_size=4)
        ),
        max_leaves=12,
    ),
    st.text(),
)
def test_any_value_is_written_so_that_it_is_read_back(value: Any, note: str) -> None:
    """YAML 1.1 surprises are quoted, and no comment breaks its line."""
    entry = {"id": "a", "x": value, "y": {"z": value}}
    proposal = Proposal(
        (ProposedModel(entry, (note,), {"x": note, "y.z": note}),), notes=(note,), left=(Left(note, note, note),)
    )
    assert yaml.safe_load(render(proposal)) == document(proposal)
