"""The help of the GPU commands."""

from __future__ import annotations

import subprocess

import pytest
from gpu_cli_kit import SCRIPT


@pytest.mark.parametrize(
    ("command", "example"),
    [
        ("warm", "litellm-registry warm --timeout 120"),
        ("calibrate", "litellm-registry calibrate --yes --write"),
        ("preload-check", "litellm-registry preload-check --id local-small --live"),
    ],
)
def test_it_fits_a_screen_and_has_an_example(command: str, example: str) -> None:
    """24 lines or a few more, with an example on a line of its own that names options the command has."""
    told = subprocess.run([SCRIPT, command, "--help"], capture_output=True, text=True, check=True).stdout
    lines = told.splitlines()

    assert f"    {example}" in lines
    assert len(lines) <= 30
    assert max(map(len, lines)) <= 80
    assert [word for word in example.split() if word.startswith("--") and f"  {word} " not in told] == []
