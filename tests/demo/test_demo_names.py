"""Names and durations as Ollama reads and writes them."""

from __future__ import annotations

import time

import pytest

from litellm_registry_hook.demo.keep_alive import FOREVER_S, go_seconds, keep_alive_seconds, rfc3339
from litellm_registry_hook.demo.ollama_names import key, shortest


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("gemma3", "gemma3:latest"),
        ("gemma3:4b", "gemma3:4b"),
        ("library/gemma3", "gemma3:latest"),
        ("registry.ollama.ai/library/gemma3:4b", "gemma3:4b"),
        ("someone/model", "someone/model:latest"),
        ("hf.co/u/m:Q4", "hf.co/u/m:Q4"),
        ("localhost:5000/u/m", "localhost:5000/u/m:latest"),
    ],
)
def test_shortest_form(given, shown):
    """/api/ps leaves out default parts but never the tag."""
    assert shortest(given) == shown


def test_names_compare_without_case():
    """Ollama finds a model whatever the case of its name."""
    assert key("Gemma3:4B") == key("library/gemma3:4b")


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        (0, 0.0),
        (300, 300.0),
        (1.5, 1.5),
        ("0", 0.0),
        ("5m", 300.0),
        ("1h30m", 5400.0),
        ("1.5h", 5400.0),
        ("250ms", 0.25),
        (-1, FOREVER_S),
        ("-1m", FOREVER_S),
    ],
)
def test_keep_alive_seconds(value, seconds):
    """A number is seconds, text is a Go duration, a negative one is for ever, none leaves it open."""
    assert keep_alive_seconds(value) == seconds


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("300", 'time: missing unit in duration "300"'),
        ("5 m", 'time: missing unit in duration "5 m"'),
        ("", 'time: invalid duration ""'),
        ("abc", 'time: invalid duration "abc"'),
        ("5d", 'time: unknown unit "d" in duration "5d"'),
    ],
)
def test_go_duration_errors(value, message):
    """What Go's ParseDuration refuses is refused in its words."""
    with pytest.raises(ValueError) as caught:
        go_seconds(value)

    assert str(caught.value) == message


def test_keep_alive_of_another_type_is_refused():
    """A list or a boolean is no keep_alive."""
    with pytest.raises(ValueError, match="invalid type for keep_alive: list"):
        keep_alive_seconds([5])
    with pytest.raises(ValueError, match="invalid type for keep_alive: bool"):
        keep_alive_seconds(True)


def test_forever_ends_in_2318(monkeypatch):
    """keep_alive -1 shows as an expires_at some 292 years ahead, with nanoseconds and the local offset."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    try:
        assert rfc3339(1_760_000_000.25 + FOREVER_S).startswith("2318-")
        assert rfc3339(0.5) == "1970-01-01T00:00:00.500000789Z"
    finally:
        monkeypatch.undo()
        time.tzset()
