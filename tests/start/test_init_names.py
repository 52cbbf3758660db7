"""Ids that are taken get an ending and stay within their length."""

from __future__ import annotations

import pytest

from litellm_registry_hook.core.registry import NAME_RE
from litellm_registry_hook.core.start.name import unused

LONG = "x" * 128


@pytest.mark.parametrize(
    ("name", "taken", "hints", "made"),
    [
        ("gemma3:4b", set(), (), "gemma3:4b"),
        ("gemma3:4b", {"gemma3:4b"}, ("gpu-box",), "gemma3:4b-gpu-box"),
        ("gemma3:4b", {"gemma3:4b", "gemma3:4b-gpu-box"}, ("gpu-box",), "gemma3:4b-2"),
        (LONG, {LONG}, (), "x" * 126 + "-2"),
        (LONG, {LONG}, ("h" * 200,), "x" * 64 + "-" + "h" * 63),
        ("a@1", set(), (), "a-1"),
        ("::", set(), (), "model"),
    ],
)
def test_an_id_that_is_new(name: str, taken: set[str], hints: tuple[str, ...], made: str) -> None:
    """The name, else with its server's, else with a number; never longer than an id may be."""
    assert unused(name, taken, hints) == made
    assert NAME_RE.match(made)
