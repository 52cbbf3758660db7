"""docs/doctor.md and docs/audit.md say what the commands do."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path

import pytest
from doctor_kit import ROOT, House

from litellm_registry_hook.core.audit import AuditRecord
from litellm_registry_hook.edges.store import audit as trail
from litellm_registry_hook.edges.store.database import Database

OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
SCRIPT = str(Path(sys.executable).parent / "litellm-registry")


def blocks(name: str) -> list[str]:
    """The blocks of a page."""
    return re.findall(r"^```\n(.*?)^```$", (ROOT / "docs" / name).read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("command", ["doctor", "audit"])
def test_the_synopsis_has_the_options_of_the_help(command: str) -> None:
    """The page's synopsis names each option of --help, and no other."""
    told = subprocess.run([SCRIPT, command, "--help"], capture_output=True, text=True, check=True).stdout
    listed = {one for line in told.splitlines() if line.startswith("  -") for one in OPTION.findall(line[:30])}

    assert set(OPTION.findall(blocks(f"{command}.md")[0])) == listed - {"--help"}


@pytest.mark.skipif(shutil.which("jq") is None, reason="needs jq")
def test_the_jq_line_of_the_page(house: House) -> None:
    """The page's sum gives calls and dollars a key."""
    database = Database(house.state_file)
    now = datetime.now(timezone.utc)
    for alias, cost in (("a", 0.25), ("a", 0.5), ("b", None)):
        request = f"req-{alias}-{cost}"
        trail.append(database, AuditRecord(now, "called", alias, model="paid-fallback", request_id=request))
        trail.append(database, AuditRecord(now, "cost", alias, model="paid-fallback", request_id=request, cost=cost))
    database.close()
    line = blocks("audit.md")[-1].replace("litellm-registry", SCRIPT, 1)
    environ = {**house.environ, "PATH": "/usr/bin:/bin", "LITELLM_REGISTRY": str(house.registry_file)}

    done = subprocess.run(line, shell=True, capture_output=True, text=True, check=True, env=environ)

    assert json.loads(done.stdout) == [{"a": [2, 0.75]}, {"b": [1, 0]}]
