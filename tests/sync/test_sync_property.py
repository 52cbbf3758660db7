"""Laws of the generator over configs composed at random from many styles."""

from __future__ import annotations

import copy
import os

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sync_kit import SHIPPED, foreign, is_subsequence, owned, registry, sync

from litellm_registry_hook.core.registry import Registry

NAMES = st.from_regex(r"[a-z][a-z0-9-]{0,8}", fullmatch=True).map(lambda name: f"x-{name}")
COMMENTS = st.sampled_from(["", "  # a comment", " # [not, a, list]", "   #- nor an item"])
BETWEEN = st.lists(st.sampled_from(["", "  # between", "# at the margin", "        # deep"]), max_size=2)


@st.composite
def entries(draw: st.DrawFn, indent: str) -> list[str]:
    """The lines of one foreign entry of a block list."""
    name = draw(NAMES)
    quoted = draw(st.sampled_from([name, f'"{name}"', f"'{name}'"]))
    note = draw(COMMENTS)
    style = draw(st.sampled_from(["block", "braces", "own line", "text", "wide"]))
    if style == "braces":
        return [f"{indent}- {{model_name: {quoted}, litellm_params: {{model: openai/{name}}}}}{note}"]
    if style == "own line":
        return [
            f"{indent}-{note}",
            f"{indent}   model_name: {quoted}",
            f"{indent}   litellm_params: {{model: openai/{name}}}",
        ]
    if style == "text":
        return [
            f"{indent}- model_name: {quoted}",
            f"{indent}  litellm_params:{note}",
            f"{indent}    model: openai/{name}",
            f"{indent}    system: {draw(st.sampled_from(['|', '>-', '|+', '|-']))}",
            f"{indent}      some text",
            *draw(st.sampled_from([[], [""], [f"{indent}      more"]])),
        ]
    gap = "-   " if style == "wide" else "- "
    inner = indent + " " * len(gap)
    return [
        f"{indent}{gap}model_name: {quoted}{note}",
        *draw(st.sampled_from([[], [f"{inner}# inside"]])),
        f"{inner}litellm_params:",
        f"{inner}    model: openai/{name}{draw(COMMENTS)}",
    ]


@st.composite
def lists(draw: st.DrawFn) -> list[str]:
    """The lines of a model_list."""
    style = draw(st.sampled_from(["block", "flow", "empty", "null", "missing"]))
    if style == "missing":
        return []
    if style == "empty":
        return [f"model_list: []{draw(COMMENTS)}"]
    if style == "null":
        return [f"model_list:{draw(COMMENTS)}", *draw(BETWEEN)]
    if style == "flow":
        names = draw(st.lists(NAMES, min_size=1, max_size=3))
        lead = draw(st.sampled_from(["  ", "      "]))
        lines = ["model_list: ["]
        for number, name in enumerate(names):
            comma = "," if number + 1 < len(names) or draw(st.booleans()) else ""
            lines.append(
                f"{lead}{{model_name: {name}, litellm_params: {{model: openai/{name}}}}}{comma}{draw(COMMENTS)}"
            )
        return [*lines, f"{draw(st.sampled_from(['', '  ']))}]"] if lead else lines
    indent = draw(st.sampled_from(["", "  ", "     "]))
    lines = [f"model_list:{draw(COMMENTS)}"]
    for _ in range(draw(st.integers(1, 3))):
        lines += draw(BETWEEN)
        lines += draw(entries(indent))
    return lines


SECTIONS = st.sampled_from(
    [
        [],
        ["litellm_settings:"],
        ["litellm_settings: {}   # none"],
        ["litellm_settings:", "  drop_params: true", "  # callbacks: otel"],
        ["litellm_settings:", "  callbacks: prometheus # one", "  cache: false"],
        ["litellm_settings:", "    callbacks:", "    - prometheus", "    # and", "    - otel"],
        ["litellm_settings: {callbacks: [a, b], drop_params: true}"],
        ["litellm_settings:", "  callbacks: [", "    a, # first", "    b  # second", "  ]"],
        ["litellm_settings:", "  callbacks:", "  drop_params: true"],
        ["litellm_settings:", "  callbacks: [litellm_registry_hook.proxy_handler_instance]"],
    ]
)
GENERAL = st.sampled_from(
    [
        [],
        ["general_settings:   # nothing"],
        ["general_settings: {master_key: os.environ/M}"],
        ["general_settings:", "  master_key: os.environ/M", "", "  # database_url: x"],
        ["general_settings:", "  health_check_skip_disabled_background_models: true"],
    ]
)


@st.composite
def configs(draw: st.DrawFn) -> str:
    """A whole config."""
    sections = [
        draw(lists()),
        draw(SECTIONS),
        draw(GENERAL),
        draw(st.sampled_from([[], ["router_settings: {num_retries: 1}"]])),
    ]
    lines: list[str] = draw(st.sampled_from([[], ["# head", ""], ["---"]]))[:]
    for section in draw(st.permutations(sections)):
        lines += section
        lines += draw(st.sampled_from([[], [""], ["", "# next"]]))
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    text = newline.join(lines)
    return (
        text + newline
        if draw(st.booleans()) or text.rstrip(" ").endswith(("text", "more", "")) and "system:" in text
        else text
    )


@st.composite
def registries(draw: st.DrawFn) -> Registry:
    """The shipped registry with some of its models, in any order, at one to three addresses each."""
    models = draw(st.permutations(copy.deepcopy(SHIPPED["models"])))[: draw(st.integers(0, 5))]
    for model in models:
        if "endpoints" in model:
            ports = draw(st.lists(st.integers(1, 9), min_size=1, max_size=3, unique=True))
            model["endpoints"] = [{"api_base": f"http://127.0.0.1:{port}"} for port in ports]
    return registry(models=models)


# GENERATOR_EXAMPLES=2000 for a long search.
EXAMPLES = int(os.environ.get("GENERATOR_EXAMPLES", "40"))
COMMON = settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=EXAMPLES == 40
)


@COMMON
@given(text=configs(), first=registries())
def test_sync_only_adds_and_is_idempotent(text: str, first: Registry) -> None:
    """A first run only adds text, and a second one changes nothing."""
    done = sync(text, first)

    assert done.removed == ()
    assert is_subsequence(text, done.text)
    assert len(done.text) == len(text) + sum(map(len, done.added))
    assert sync(done.text, first).text == done.text
    assert foreign(text) == foreign(done.text)


@COMMON
@given(text=configs(), first=registries(), second=registries())
def test_sync_follows_the_registry(text: str, first: Registry, second: Registry) -> None:
    """Whatever was generated before, the owned entries are those of the registry at hand and foreign ones stay."""
    before = sync(text, first).text

    after = sync(before, second)

    assert not sync(after.text, second).changed
    assert {(e["model_name"], e["litellm_params"].get("api_base")) for e in owned(after.text)} == {
        (m.id, place.api_base if place else None) for m in second.models for place in (m.places or (None,))
    }
    ids = [e["model_info"]["id"] for e in owned(after.text)]
    assert len(ids) == len(set(ids))
    assert foreign(text) == foreign(after.text)


@COMMON
@given(text=configs(), first=registries(), second=registries())
def test_numbers_stay_with_their_address(text: str, first: Registry, second: Registry) -> None:
    """An api_base that both registries have keeps its deployment id."""

    def by_base(config: str) -> dict[tuple[str, str], str]:
        return {(e["model_name"], e["litellm_params"].get("api_base")): e["model_info"]["id"] for e in owned(config)}

    before = sync(text, first).text
    was, now = by_base(before), by_base(sync(before, second).text)

    assert {key: was[key] for key in was.keys() & now.keys()} == {key: now[key] for key in was.keys() & now.keys()}


@COMMON
@given(text=configs(), first=registries())
def test_taking_everything_back_restores_the_bytes(text: str, first: Registry) -> None:
    """Removing every model takes exactly the added entries out again."""
    none = registry(models=[])
    start = sync(text, none).text
    if "model_list" not in (yaml.safe_load(start) or {}):
        start = sync(sync(start, first).text, none).text

    assert sync(sync(start, first).text, none).text == start


@COMMON
@given(text=configs(), reg=registries(), name=st.sampled_from(["kimi", "bge-m3", "large", "embedder"]), data=st.data())
def test_adoption_touches_shadows_only(text: str, reg: Registry, name: str, data: st.DataObject) -> None:
    """Adoption takes out the entries that carry a name of the registry; every other foreign entry stays as it is."""
    found = [entry["model_name"] for entry in foreign(text)]
    if found:
        chosen = data.draw(st.sampled_from(found))
        text = text.replace(f"model_name: {chosen}", f"model_name: {name}")
    known = {*reg.by_id, *reg.routing.tiers, *reg.routing.aliases}

    done = sync(text, reg, adopt=True)

    assert [e for e in foreign(text) if e["model_name"] not in known] == foreign(done.text)
    assert len(owned(done.text)) == sum(max(len(m.places), 1) for m in reg.models)
    assert not sync(done.text, reg, adopt=True).changed
