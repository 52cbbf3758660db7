"""A real PostgreSQL with LiteLLM's own schema, for all tests of this folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.host.proxy import ROOT, free_port

RIG = ROOT.parent / "shared" / "rigs" / "litellm-db" / "setup.sh"


@pytest.fixture(scope="session")
def database() -> Iterator[Mapping[str, str]]:
    """Start the database; yields the environment of a proxy on it."""
    # Everybody may walk in: PostgreSQL runs as nobody.
    folder = Path(tempfile.mkdtemp(prefix="registry-db-"))
    folder.chmod(0o711)
    subprocess.run(["bash", str(RIG), str(folder), sys.executable, str(free_port())], check=True)
    try:
        printed = subprocess.run(
            ["bash", "-c", f". {folder}/env.sh; env -0"],
            check=True,
            capture_output=True,
            text=True,
            env={"PATH": os.environ["PATH"]},
        ).stdout
        yield dict(line.split("=", 1) for line in printed.split("\0") if "=" in line)
    finally:
        subprocess.run([str(folder / "stop.sh")], check=False)
        shutil.rmtree(folder, ignore_errors=True)
