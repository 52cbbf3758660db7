"""docs/refusals.md and the code say the same."""

from __future__ import annotations

import re
from pathlib import Path

from litellm_registry_hook.core.refusal import STATUS

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(r"^\| `(\w+)` \| (\d{3}) \| (.+) \| (.+) \|$", re.MULTILINE)


def test_every_code_is_documented_with_its_status():
    """The table has each code of the package once, in its order, with its status, a meaning and a fix."""
    rows = ROW.findall((ROOT / "docs" / "refusals.md").read_text())

    assert [(code, int(status)) for code, status, _, _ in rows] == list(STATUS.items())


def test_every_code_in_the_package_is_a_known_one():
    """No refusal or skip is made with a code that the table of statuses lacks."""
    made = re.compile(r"""(?:\brefuse\(|\bRefusal\(|\bSkip\(\s*[^,]+,)\s*"(\w+)\"""")
    folder = ROOT / "litellm_registry_hook"
    found = {
        code
        for part in ("core", "adapter")
        for path in (folder / part).glob("*.py")
        for code in made.findall(path.read_text())
    }

    assert found - STATUS.keys() == set()
    assert {"unknown_model", "gate_failed", "metered_consent_missing"} <= found
