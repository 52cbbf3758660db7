"""Laws of reading and resolving, over many files."""

import re
from datetime import datetime, timezone
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from litellm_registry_hook.core.parse import parse
from litellm_registry_hook.core.preload import preload_check
from litellm_registry_hook.core.resolve import NothingUsableError, resolve
from litellm_registry_hook.edges.registry_file import check_bytes, load_registry
from litellm_registry_hook.edges.yaml_plain import read_yaml

ROOT = Path(__file__).parents[2]
SHIPPED = (ROOT / "model-registry.yaml").read_text(encoding="utf-8")
SPICE = [
    "no", "010", "1:30", "3.10", "[", "]", "{", "}", "&a ", "*a", "<<: *a\n", "~", "null", "- ", "? ", ": ", "'", '"', "\t",
    "!!int ", "!x ", "|\n", ">\n", "%", "@", "0x1", "2026-01-01", "true", "-1", ".inf", ".nan", "=", "#", "---\n", "...\n",
    "\x00", "\ufeff", "\u2028", "é", "sk-0123456789abcdef", "9" * 5000,
]  # fmt: skip
WORDS = sorted(set(re.findall(r"[\w./-]+", SHIPPED)))


@st.composite
def broken_files(draw: st.DrawFn) -> str:
    """Return the shipped file with a few random cuts, insertions and swaps."""
    text = SHIPPED
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        cut = draw(st.sampled_from([0, 0, 1, 3, 12, 80]))
        put = draw(st.one_of(st.sampled_from(SPICE), st.sampled_from(WORDS), st.just(""), st.text(max_size=5)))
        text = text[:start] + put + text[start + cut :]
    return text


def is_sound(content: bytes) -> bool:
    """Check a file; say whether the answer has the right form: a registry iff there is no error."""
    registry, problems = check_bytes(content, {})
    errors = [problem for problem in problems if problem.severity == "error"]
    complete = all(problem.code and problem.message and problem.hint and problem.line >= 1 for problem in problems)
    return complete and (registry is None) == bool(errors)


@settings(max_examples=300, deadline=None)
@given(broken_files())
def test_a_broken_file_is_reported_and_never_raises(text: str) -> None:
    """Whatever happens to the shipped file, the answer is a registry or a list of problems with places."""
    assert is_sound(text.encode("utf-8", "surrogatepass"))


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_reported_and_never_raise(content: bytes) -> None:
    """Any bytes at all are a registry or a list of problems."""
    assert is_sound(content)


TREES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=8)
    | st.sampled_from(WORDS),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(WORDS) | st.text(max_size=4), inner, max_size=5)
    ),
    max_leaves=20,
)


@st.composite
def warped_trees(draw: st.DrawFn) -> object:
    """Return the shipped content with random values in random places."""
    tree = read_yaml(SHIPPED).value
    for _ in range(draw(st.integers(1, 5))):
        here = tree
        while True:
            keys = list(here) if isinstance(here, dict) else list(range(len(here)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if isinstance(here[key], (dict, list)) and draw(st.booleans()):
                here = here[key]
                continue
            here[key] = draw(TREES)
            break
    return tree


@settings(max_examples=300, deadline=None)
@given(warped_trees())
def test_any_content_is_judged_and_never_raises(tree: object) -> None:
    """Whatever stands where in the content, the answer is a registry or findings."""
    registry, findings = parse(tree)

    assert (registry is None) == any(finding.severity == "error" for finding in findings)


MODEL_IDS = ["kimi", "local-small", "bge-m3", "tei-reranker", "paid-fallback"]


@settings(max_examples=200, deadline=None)
@given(
    pool=st.lists(st.sampled_from(MODEL_IDS), min_size=1, unique=True),
    grants=st.lists(st.sampled_from(["bot", "other"]), unique=True),
    allow=st.booleans(),
    key=st.sampled_from([None, "", "bot", "nobody", "sk-x"]),
    up=st.sets(st.sampled_from(MODEL_IDS)),
)
def test_resolve_keeps_order_and_consent(
    pool: list[str], grants: list[str], allow: bool, key: str | None, up: set[str]
) -> None:
    """The answer is the first usable of the pool; metered never without both consents; each one passed over has a reason."""
    text = SHIPPED.replace("large: [kimi, paid-fallback]", f"large: {pool}").replace(
        "metered_opt_in: []", f"metered_opt_in: {grants}"
    )
    registry, _ = check_bytes(text.encode())
    assert registry is not None
    usable = [
        one
        for one in pool
        if one in up and (not registry.by_id[one].metered or (allow and key == "bot" and "bot" in grants))
    ]

    try:
        answer = resolve(
            registry,
            "large",
            now=datetime(2026, 1, 1, tzinfo=timezone.utc),
            allow_metered=allow,
            opted_in_key=key,
            probe_check=lambda model: model.id in up,
        ).id
    except NothingUsableError as refusal:
        answer = None
        assert [(one, bool(reason)) for one, reason in refusal.passed_over] == [(one, True) for one in pool]

    assert answer == (usable[0] if usable else None)


@settings(max_examples=200, deadline=None)
@given(
    headroom=st.floats(0, 20000),
    more=st.floats(0, 20000),
    model_id=st.sampled_from(MODEL_IDS),
    resident=st.sets(st.sampled_from(MODEL_IDS)),
)
def test_more_headroom_never_turns_a_yes_into_a_no(
    headroom: float, more: float, model_id: str, resident: set[str]
) -> None:
    """preload_check is monotonic in headroom, and does not depend on the order of residents."""
    registry = load_registry(ROOT / "model-registry.yaml")

    small = preload_check(registry, model_id, headroom, sorted(resident))
    large = preload_check(registry, model_id, headroom + more, sorted(resident))

    assert large[0] or not small[0]
    assert small == preload_check(registry, model_id, headroom, sorted(resident, reverse=True))
