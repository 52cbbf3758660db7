"""What a client may not say."""

from __future__ import annotations

import pytest

from litellm_registry_hook.core.refusal import Refusal
from litellm_registry_hook.core.sanitise import (
    DROPPED,
    FALLBACK_KEYS,
    RUNNER_OPTIONS,
    drop_levers,
    drop_runner_options,
    read_consent,
    read_wait,
    split_names,
    take_consent,
    take_fallbacks,
)

WORDS = [
    (True, True), ("true", True), ("TRUE", True), (" true ", True), ("1", True), (1, True),
    (False, False), ("false", False), ("False", False), ("0", False), (0, False), ("", False),
    ("yes", None), ("on", None), ("no", None), ("2", None), (2, None), (1.0, None), (None, None), ([], None), ({}, None),
    ("truе", None), (b"true", None),
]  # fmt: skip


@pytest.mark.parametrize(("value", "word"), WORDS)
def test_a_boolean_word(value, word):
    """true and 1 are yes, false, 0 and nothing are no; any other value is no word."""
    assert read_consent(value) is word


PLACES = {
    "allow_metered": lambda value: {"allow_metered": value},
    "metadata.allow_metered": lambda value: {"metadata": {"allow_metered": value}},
    "litellm_metadata.allow_metered": lambda value: {"litellm_metadata": {"allow_metered": value}},
    "extra_body.allow_metered": lambda value: {"extra_body": {"allow_metered": value}},
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("value", "consent"), [(True, True), ("1", True), (False, False), ("false", False)])
def test_consent_is_read_where_it_may_stand_and_taken_out(place, value, consent):
    """Each place alone suffices, and nothing of it is left for the upstream."""
    data = PLACES[place](value)
    left = {key: {} for key in data if key != "allow_metered"}

    assert (take_consent(data, None), data) == (consent, left)


def test_the_header_alone_suffices():
    """x-registry-allow-metered: true, without a word in the body."""
    assert take_consent({"model": "m"}, "true") is True


def test_any_yes_outweighs_a_no():
    """One of several words says yes: that is consent."""
    assert take_consent({"allow_metered": False, "metadata": {"allow_metered": "true"}}, "0") is True


def test_no_word_is_no_consent():
    """A body that says nothing allows nothing."""
    assert take_consent({"model": "m", "metadata": {"user": "x"}}, None) is False


@pytest.mark.parametrize("place", PLACES)
def test_what_is_no_boolean_word_is_named_with_its_place(place):
    """An unclear consent is a 400 that says where it stood, even beside a clear one."""
    assert take_consent(PLACES[place]("yes"), "true") == Refusal(
        "bad_consent", f"{place} must be true or false, not 'yes'", 400
    )


def test_an_unclear_header_is_bad_consent():
    """The header's value is judged like the body's."""
    assert take_consent({}, "maybe") == Refusal(
        "bad_consent", "header x-registry-allow-metered must be true or false, not 'maybe'", 400
    )


@pytest.mark.parametrize("odd", [None, "allow_metered", ["allow_metered"], 7])
def test_a_bucket_that_is_no_mapping_is_left_alone(odd):
    """metadata of another type is the host's business."""
    data = {"metadata": odd, "extra_body": odd}

    assert (take_consent(data, None), data) == (False, {"metadata": odd, "extra_body": odd})


@pytest.mark.parametrize(("header", "seconds"), [(None, 0.0), ("0", 0.0), ("2.5", 2.5), ("30", 30.0)])
def test_a_wait_in_seconds(header, seconds):
    """x-registry-wait is a number of seconds; unsent it is none."""
    assert read_wait(header) == seconds


@pytest.mark.parametrize("header", ["", "soon", "-1", "nan", "inf", "-inf"])
def test_a_wait_that_is_no_number_of_seconds(header):
    """Anything else is a 400 that quotes it."""
    assert read_wait(header) == Refusal(
        "bad_wait", f"header x-registry-wait must be a number of seconds, not {header!r}", 400
    )


@pytest.mark.parametrize("lever", sorted(DROPPED))
def test_a_lever_is_dropped_at_the_top_and_in_extra_body(lever):
    """Each lever goes, and only it."""
    data = {"model": "m", lever: "x", "extra_body": {lever: "x", "top_k": 1}}

    drop_levers(data)

    assert data == {"model": "m", "extra_body": {"top_k": 1}}


@pytest.mark.parametrize("key", ["model", "fallbacks", "allow_metered"])
def test_extra_body_cannot_name_another_model(key):
    """extra_body is merged over the upstream's body: model and fallbacks in it go."""
    data = {"model": "m", "extra_body": {key: "paid"}}

    drop_levers(data)

    assert data == {"model": "m", "extra_body": {}}


@pytest.mark.parametrize("key", ["headers", "extra_headers"])
def test_headers_cannot_bring_a_credential(key):
    """Authorization, API keys, Host and our own headers go from the headers a client adds, in any case."""
    data = {
        key: {
            "Authorization": "Bearer x", "API-Key": "x", "x-api-key": "x", "X-Goog-Api-Key": "x", "Host": "x",
            "X-Registry-Allow-Metered": "true", "X-Trace": "1",
        }
    }  # fmt: skip

    drop_levers(data)

    assert data == {key: {"X-Trace": "1"}}


def test_an_ordinary_body_is_not_changed():
    """What a chat needs stays."""
    data = {"model": "m", "messages": [], "temperature": 0, "tools": [{"type": "function"}], "metadata": {"a": 1}}
    before = dict(data)

    drop_levers(data)
    drop_runner_options(data)

    assert data == before


@pytest.mark.parametrize("option", sorted(RUNNER_OPTIONS))
def test_a_runner_option_is_the_registrys_word(option):
    """keep_alive and whatever reloads an Ollama model go, at the top and in extra_body."""
    data = {"model": "m", option: 1, "extra_body": {option: 1, "top_k": 1}}

    drop_runner_options(data)

    assert data == {"model": "m", "extra_body": {"top_k": 1}}


def known(name):
    return name in {"kimi", "large"}


@pytest.mark.parametrize("key", FALLBACK_KEYS)
def test_fallbacks_by_registry_name_are_kept_in_order(key):
    """A list of names, or one name, is taken out of the body and kept."""
    lists, one = {key: ["large", "kimi"]}, {key: "kimi"}

    assert (take_fallbacks(lists, known), lists, take_fallbacks(one, known), one) == (
        ("large", "kimi"),
        {},
        ("kimi",),
        {},
    )


@pytest.mark.parametrize("absent", [{}, {"fallbacks": None}, {"fallbacks": []}])
def test_no_fallbacks_are_none(absent):
    """Nothing named is nothing tried."""
    assert take_fallbacks(absent, known) == ()


@pytest.mark.parametrize("key", FALLBACK_KEYS)
@pytest.mark.parametrize(
    "entry", [{"model": "kimi"}, {"kimi": ["large"]}, "gpt-4o", "kimi@0", "", None, 7, ["kimi"], False]
)
def test_any_other_fallback_is_refused(key, entry):
    """Dicts, deployment ids, unknown names and odd values are a 400 that quotes them."""
    assert take_fallbacks({key: ["kimi", entry]}, known) == Refusal(
        "bad_fallbacks", f"{key} takes names of tiers, aliases or models of the registry, not {entry!r}", 400
    )


@pytest.mark.parametrize(
    ("model", "names"),
    [("kimi", ("kimi",)), ("a,b", ("a", "b")), ("a, b ", ("a", "b")), ("a,", ("a", "")), (" a", (" a",))],
)
def test_a_comma_list_is_split_as_litellm_does(model, names):
    """Names between commas, without the blanks around them; a single name is left as it is."""
    assert split_names(model) == names
