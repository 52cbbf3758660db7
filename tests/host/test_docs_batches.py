"""docs/batches.md is followed as it is written: a file, its batch, and a look at it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.host.proxy import OPTED, Proxy
from tests.upstreams import Upstream

pytestmark = [pytest.mark.host, pytest.mark.pays]
PAGE = (Path(__file__).resolve().parents[2] / "docs/batches.md").read_text(encoding="utf-8")
SH = re.findall(r"^```sh\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)


def test_the_page_is_followed(proxy: Proxy, ups: dict[str, Upstream], tmp_path: Path) -> None:
    """Its blocks in one shell make a file, upload it, create the batch and show it, with the provider's name inside."""
    path = f"{Path(sys.prefix) / 'bin'}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-ec", "".join(SH).replace("4000", str(proxy.port))],
        cwd=tmp_path, env={"PATH": path, "KEY": OPTED}, capture_output=True, text=True, timeout=90,
    )  # fmt: skip
    shown = json.loads(done.stdout)
    uploaded, created = ups["paid"].generating_calls

    assert (uploaded.path, created.path, shown["status"]) == ("/v1/files", "/v1/batches", "validating")
    lines = ups["paid"].batch_api.lines(created.json["input_file_id"])
    assert [(one["custom_id"], one["body"]["model"]) for one in lines] == [
        ("1", "paid-fallback-up"),
        ("2", "paid-fallback-up"),
    ]
