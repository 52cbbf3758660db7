"""What a wish makes of the list, what a removal leaves, and how limits are read: pure rules."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litellm_registry_hook.core.consent import Caller, grant_for
from litellm_registry_hook.core.opt_in import (
    KeyRef,
    ListEdit,
    OptInError,
    Terms,
    add,
    check_models,
    limits_of,
    remove,
)
from litellm_registry_hook.core.registry import OptIn, Registry

NOW = datetime(2026, 9, 1, 12, tzinfo=timezone.utc)
HEX, OLD = "ab" * 32, "cd" * 32
TOKEN, OLD_TOKEN = f"sha256:{HEX}", f"sha256:{OLD}"
BOT = KeyRef(HEX, "bot")
METERED = ("a", "b", "c")


def entries(*raw: Any) -> list[str | OptIn]:
    return [one if isinstance(one, str) else OptIn.model_validate(one) for one in raw]


@pytest.mark.parametrize(
    ("before", "terms", "edit"),
    [
        ([], Terms(("a",)), ListEdit(append=({"key": "bot", "token": TOKEN, "models": ["a"]},))),
        ([], Terms(), ListEdit(append=({"key": "bot", "token": TOKEN},))),
        (["bot"], Terms(("a",)), ListEdit(replace={0: {"key": "bot", "token": TOKEN}})),
        ([TOKEN], Terms(), ListEdit(replace={0: {"key": "bot", "token": TOKEN}})),
        ([{"key": "bot", "token": TOKEN, "models": ["a"]}], Terms(("a",)), ListEdit()),
        (
            ["x", {"key": "bot", "token": TOKEN, "models": ["a"], "note": "n"}],
            Terms(("b",), {"max_calls": 3}),
            ListEdit(replace={1: {"key": "bot", "token": TOKEN, "models": ["a", "b"], "max_calls": 3, "note": "n"}}),
        ),
        (
            [{"token": TOKEN, "models": ["a"], "max_calls": 3, "note": "n"}],
            Terms(None, {"max_calls": None, "note": None}),
            ListEdit(replace={0: {"key": "bot", "token": TOKEN}}),
        ),
        (
            [{"token": TOKEN, "expires": "2026-09-01T12:00:00Z", "models": ["a"], "max_calls": 3}],
            Terms(("b",)),
            ListEdit(replace={0: {"key": "bot", "token": TOKEN, "models": ["b"]}}),
        ),
        (
            [{"token": TOKEN, "models": ["a"]}, {"token": TOKEN, "models": ["b"]}],
            Terms(("b",), {"note": "n"}),
            ListEdit(replace={1: {"key": "bot", "token": TOKEN, "models": ["b"], "note": "n"}}),
        ),
        (
            [{"key": "bot", "token": OLD_TOKEN}],
            Terms(("a",)),
            ListEdit(append=({"key": "bot", "token": TOKEN, "models": ["a"]},)),
        ),
    ],
    ids=[
        "new", "new for all", "an alias is pinned and stays wide", "a token gets its alias", "the same again",
        "models are joined, the limit is set", "all models, limits go", "expired: anew", "the entry that overlaps",
        "a former key of the alias is another",
    ],
)  # fmt: skip
def test_adding(before: list[Any], terms: Terms, edit: ListEdit) -> None:
    """A wish becomes one entry a key: joined with what lives, written anew over what has ended."""
    assert add(entries(*before), BOT, terms, NOW) == edit


@pytest.mark.parametrize(
    ("key", "by_alias", "models", "edit", "left"),
    [
        (BOT, False, None, ListEdit(remove=(0, 2)), [(), ()]),
        (BOT, True, None, ListEdit(remove=(0, 1, 2)), [(), (), ()]),
        (KeyRef(alias="bot"), True, ("a",), ListEdit(replace={0: {"key": "bot", "models": ["b", "c"]}, 1: {"key": "bot", "token": OLD_TOKEN, "models": ["b"]}}, remove=(2,)), [("b", "c"), ("b",), ()]),
        (KeyRef("ef" * 32), False, None, ListEdit(), []),
        (KeyRef(OLD), False, ("c",), ListEdit(), []),
    ],
    ids=["by token", "by alias: former keys too", "some models", "nobody", "a model that it never had"],
)  # fmt: skip
def test_removing(key: KeyRef, by_alias: bool, models: Any, edit: ListEdit, left: list[Any]) -> None:
    """A removal takes entries or models; a grant for everything that loses one lists the others."""
    before = entries(
        "bot",
        {"key": "bot", "token": OLD_TOKEN, "models": ["a", "b"]},
        {"key": "bot", "token": TOKEN, "models": ["a"]},
        "other",
    )

    found, losers = remove(before, key, models, METERED, by_alias=by_alias)

    assert (found, [covered for _, covered in losers]) == (edit, left)


MODELS = st.none() | st.lists(st.sampled_from(METERED), min_size=1, unique=True).map(tuple)
ENTRY = st.one_of(
    st.sampled_from(["bot", "other", TOKEN, OLD_TOKEN]),
    st.builds(
        lambda key, token, models, expires: OptIn(key=key if token is None and key is None else key or "bot", token=token, models=models, expires=expires),
        st.sampled_from(["bot", "other"]), st.sampled_from([None, TOKEN, OLD_TOKEN]), MODELS, st.sampled_from([None, "2026-01-01", "2027-01-01"]),
    ),
)  # fmt: skip


def registry_with(grants: list[Any]) -> Registry:
    return Registry.model_validate(
        {
            "version": 1,
            "models": [
                {"id": one, "role": "chat", "lifecycle": "always-on", "metered": True, "litellm": {"model": f"openai/{one}"}}
                for one in METERED
            ],
            "routing": {"tiers": {}, "metered_opt_in": [one if isinstance(one, (str, OptIn)) else dict(one) for one in grants]},
        }
    )  # fmt: skip


def covered(grants: list[Any], token: str, alias: str) -> set[str]:
    registry = registry_with(grants)
    caller = Caller("embedded", token, alias)
    return {model for model in METERED if grant_for(registry, caller, model, NOW) is not None}


@given(st.lists(ENTRY, max_size=5), MODELS)
def test_after_adding_the_key_is_opted_in_and_others_keep_theirs(before: list[Any], models: Any) -> None:
    """Whatever the list was: after adding, the key has what it had and the models wished for, other keys what they had."""
    after = add(before, BOT, Terms(models), NOW).applied(before)

    had = covered(before, HEX, "bot")
    assert covered(after, HEX, "bot") == had | set(models or METERED)
    assert covered(after, OLD, "other") == covered(before, OLD, "other")
    assert add(registry_with(after).routing.metered_opt_in, BOT, Terms(models), NOW) == ListEdit()


@given(st.lists(ENTRY, max_size=5), MODELS)
def test_after_removing_the_key_is_opted_out(before: list[Any], models: Any) -> None:
    """Whatever the list was: after removing, the key has none of these models, and keeps the others that it had."""
    edit, _ = remove(before, BOT, models, METERED, by_alias=True)
    after = edit.applied(before)

    assert covered(after, HEX, "bot") == covered(before, HEX, "bot") - set(models or METERED)
    assert covered(after, OLD, "other") <= covered(before, OLD, "other")


@pytest.mark.parametrize(
    ("said", "limits"),
    [
        ((None, None, None), {}),
        (("7d", "20", " why "), {"expires": "2026-09-08T12:00:00Z", "max_calls": 20, "note": "why"}),
        (("2026-12-31T18:00:00+01:00", 5, None), {"expires": "2026-12-31T17:00:00Z", "max_calls": 5}),
        (("never", "unlimited", ""), {"expires": None, "max_calls": None, "note": None}),
    ],
)
def test_limits(said: tuple[Any, ...], limits: dict[str, Any]) -> None:
    """Limits are read as people write them; a word takes each away, and what is not said is not there."""
    assert limits_of(*said, NOW) == limits


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (("2026-08-01", None, None), "bad_expires"),
        (("soon", None, None), "bad_expires"),
        ((None, 0, None), "bad_max_calls"),
        ((None, "-1", None), "bad_max_calls"),
        ((None, "many", None), "bad_max_calls"),
        ((None, True, None), "bad_max_calls"),
    ],
)
def test_limits_that_mean_nothing(said: tuple[Any, ...], code: str) -> None:
    """A moment that has passed, or a number below one, is refused."""
    with pytest.raises(OptInError) as raised:
        limits_of(*said, NOW)
    assert raised.value.code == code


def test_models_must_be_metered_ones() -> None:
    """A misspelled model is refused with the nearest metered one, a free one for it needs no grant; a foreign one on demand."""
    registry = Registry.model_validate(
        {
            "version": 1,
            "models": [
                {"id": "paid-a", "role": "chat", "lifecycle": "always-on", "metered": True, "litellm": {"model": "openai/x"}},
                {"id": "free", "role": "chat", "lifecycle": "always-on", "metered": False, "litellm": {"model": "openai/y"}},
            ],
            "routing": {"tiers": {}},
        }
    )  # fmt: skip
    said = []
    for name in ("piad-a", "free"):
        with pytest.raises(OptInError) as raised:
            check_models(registry, ["paid-a", name])
        said.append((raised.value.code, str(raised.value)))

    assert said == [
        (
            "unknown_model",
            "the registry has no model 'piad-a'; did you mean `paid-a`? (for a model of the proxy alone say `foreign`)",
        ),
        ("model_not_metered", "free is not metered and needs no grant; metered models: paid-a"),
    ]
    check_models(registry, ["anything"], foreign=True)
