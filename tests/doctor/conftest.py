"""One house a test."""

from pathlib import Path

import pytest
from doctor_kit import House


@pytest.fixture
def house(tmp_path: Path) -> House:
    """The shipped files in a folder of their own."""
    return House(tmp_path)
