"""Keeps docs/compatibility.json, the results of `make matrix`, and the table that README.md shows of it.

python scripts/compatibility.py record 1.108.7 3.11 --junit FILE    # noxfile.py does this
python scripts/compatibility.py table                               # write README.md's table anew
"""

from __future__ import annotations

import argparse
import json
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from litellm_registry_hook.core.compatibility import is_known

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "compatibility.json"
README = ROOT / "README.md"
BEGIN, END = "<!-- compatibility: begin -->", "<!-- compatibility: end -->"
WORDS = {
    "passed": "works",
    "refuses": "refuses to start",
    "failed": "fails",
    "not installable": "does not install",
}


def counted(junit: Path) -> tuple[int, int]:
    """Return (passed, failed) of a pytest run; an error counts as failed."""
    suites = ElementTree.parse(junit).getroot().iter("testsuite")
    totals = [0, 0]
    for suite in suites:
        bad = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        totals[0] += int(suite.get("tests", 0)) - bad - int(suite.get("skipped", 0))
        totals[1] += bad
    return totals[0], totals[1]


def row(litellm: str, python: str, passed: int, failed: int, *, installs: bool = True) -> dict[str, Any]:
    """Make one result. A release that is not supported passes by refusing to start."""
    good = "passed" if is_known(litellm) else "refuses"
    result = "not installable" if not installs else good if passed and not failed else "failed"
    date = datetime.now(timezone.utc).date().isoformat()
    return {"litellm": litellm, "python": python, "result": result, "passed": passed, "failed": failed, "date": date}


def order(one: dict[str, Any]) -> tuple[list[int], list[int]]:
    return [int(part) for part in one["litellm"].split(".")], [int(part) for part in one["python"].split(".")]


def read() -> list[dict[str, Any]]:
    return json.loads(RESULTS.read_text())["results"] if RESULTS.exists() else []


def rendered(results: list[dict[str, Any]]) -> str:
    """The table: a line a release of LiteLLM, a column a Python."""
    pythons = list(dict.fromkeys(one["python"] for one in sorted(results, key=lambda one: order(one)[1])))
    lines = [
        "| LiteLLM | " + " | ".join(f"Python {one}" for one in pythons) + " | checked |",
        "|---" * (len(pythons) + 2) + "|",
    ]
    for release in dict.fromkeys(one["litellm"] for one in sorted(results, key=order)):
        of = {one["python"]: one for one in results if one["litellm"] == release}
        cells = [WORDS[of[python]["result"]] if python in of else "not checked" for python in pythons]
        lines.append(f"| {release} | {' | '.join(cells)} | {max(one['date'] for one in of.values())} |")
    return "\n".join(lines)


def with_table(readme: str, results: list[dict[str, Any]]) -> str:
    """Put the table between README.md's two marks."""
    before, _, rest = readme.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{rendered(results)}\n{END}{after}"


def write(results: list[dict[str, Any]]) -> None:
    lines = ",\n".join(f"  {json.dumps(one)}" for one in sorted(results, key=order))
    RESULTS.write_text(f'{{"results": [\n{lines}\n]}}\n')
    README.write_text(with_table(README.read_text(), results))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("table")
    record = commands.add_parser("record")
    record.add_argument("litellm")
    record.add_argument("python")
    record.add_argument("--junit", type=Path)
    record.add_argument("--not-installable", action="store_true")
    asked = parser.parse_args()
    if asked.command == "table":
        write(read())
        return 0
    passed, failed = (0, 0) if asked.not_installable else counted(asked.junit)
    new = row(asked.litellm, asked.python, passed, failed, installs=not asked.not_installable)
    others = [one for one in read() if (one["litellm"], one["python"]) != (asked.litellm, asked.python)]
    write([*others, new])
    print(f"LiteLLM {new['litellm']}, Python {new['python']}: {new['result']} ({passed} passed, {failed} failed)")
    return int(new["result"] == "failed")


if __name__ == "__main__":
    sys.exit(main())
