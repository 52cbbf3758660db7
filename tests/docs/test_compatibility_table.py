"""noxfile.py, docs/compatibility.json, README.md's table, pyproject.toml's range and core/compatibility.py agree."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from litellm_registry_hook.core.compatibility import COMPROMISED, KNOWN, is_known

ROOT = Path(__file__).resolve().parents[2]


def loaded(path: str) -> ModuleType:
    """Load a file of the repository's that is no module of a package."""
    spec = importlib.util.spec_from_file_location(f"checked_{Path(path).stem}", ROOT / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def constant(name: str) -> tuple[str, ...]:
    """Read a tuple of strings out of noxfile.py, which only nox can import."""
    found = re.search(rf"^{name} = \((.*)\)$", (ROOT / "noxfile.py").read_text(), re.MULTILINE)
    return tuple(re.findall(r'"([^"]+)"', found[1]))


def results() -> list[dict[str, object]]:
    return json.loads((ROOT / "docs" / "compatibility.json").read_text())["results"]


def allowed() -> SpecifierSet:
    """The range of the extra `proxy`."""
    line = re.search(r'^    "(litellm\[proxy\][^"]*)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    return Requirement(line[1]).specifier


def test_the_results_are_those_of_the_noxfile():
    """There is one result for each release on each Python, and what is supported has passed on all of them."""
    pythons, supported, refused = constant("PYTHONS"), constant("SUPPORTED"), constant("REFUSED")

    assert sorted((one["litellm"], one["python"], one["result"]) for one in results()) == sorted(
        [(release, python, "passed") for release in supported for python in pythons]
        + [(release, python, "refuses") for release in refused for python in pythons]
    )
    assert [one for one in results() if one["failed"] or not one["passed"]] == []


def test_the_range_is_what_was_run():
    """pyproject.toml allows each supported release and no other that was run; no minor of the range went unchecked."""
    supported, refused = constant("SUPPORTED"), constant("REFUSED")
    minors = sorted(tuple(int(part) for part in release.split(".")[:2]) for release in supported)
    bounds = {one.operator: one.version for one in allowed() if one.operator in {">=", "<"}}

    assert [release for release in supported if release not in allowed()] == []
    assert [release for release in (*refused, *COMPROMISED) if release in allowed()] == []
    assert bounds == {">=": "{}.{}".format(*minors[0]), "<": f"{minors[-1][0]}.{minors[-1][1] + 1}"}
    # Between them nothing is published but what is compromised.
    between = {(major, minor) for major, low in minors[:1] for minor in range(low, minors[-1][1] + 1)} - set(minors)
    assert between == {(1, 107)}


def test_the_package_knows_what_was_run():
    """core/compatibility.py knows the minors that are supported, and constraints.txt pins one of these releases."""
    supported = constant("SUPPORTED")
    pinned = re.search(r"^litellm==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)

    assert sorted(KNOWN) == sorted(tuple(int(part) for part in release.split(".")[:2]) for release in supported)
    assert pinned[1] in supported
    assert [release for release in constant("REFUSED") if is_known(release)] == []


def test_the_pythons_are_those_of_the_classifiers():
    """noxfile.py runs on each Python that pyproject.toml names."""
    named = re.findall(r"Programming Language :: Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text())

    assert list(constant("PYTHONS")) == named


def test_the_readme_has_the_table_of_the_results():
    """README.md's table is the one that scripts/compatibility.py makes of the results."""
    script = loaded("scripts/compatibility.py")
    readme = (ROOT / "README.md").read_text()

    assert script.with_table(readme, results()) == readme
    assert readme.count(script.BEGIN) == readme.count(script.END) == 1


def test_the_page_names_what_the_readme_does():
    """Every release that is not supported has its reason on the page."""
    page = (ROOT / "docs" / "compatibility.md").read_text()

    assert [one for one in constant("REFUSED") if f"| {one.rpartition('.')[0]} |" not in page] == []
    assert [one for one in COMPROMISED if one not in page] == []


JUNIT = """<testsuites><testsuite tests="{tests}" failures="{failures}" errors="0" skipped="1"/></testsuites>"""


@pytest.mark.parametrize(
    ("release", "failures", "result", "code"),
    [
        ("1.108.7", 0, "passed", 0),
        ("1.108.7", 2, "failed", 1),
        ("1.105.7", 0, "refuses", 0),
        ("1.105.7", 1, "failed", 1),
    ],
)
def test_a_run_becomes_a_result_and_a_line_of_the_table(tmp_path, release, failures, result, code):
    """`record` counts pytest's report, keeps the other results, and writes both files."""
    for name in ("scripts", "docs"):
        (tmp_path / name).mkdir()
    (tmp_path / "scripts" / "compatibility.py").write_text((ROOT / "scripts" / "compatibility.py").read_text())
    kept = {
        "litellm": "1.99.0",
        "python": "3.9",
        "result": "not installable",
        "passed": 0,
        "failed": 0,
        "date": "2026-01-02",
    }
    old = {"litellm": release, "python": "3.12", "result": "failed", "passed": 1, "failed": 9, "date": "2026-01-02"}
    (tmp_path / "docs" / "compatibility.json").write_text(json.dumps({"results": [old, kept]}))
    (tmp_path / "README.md").write_text("a\n<!-- compatibility: begin -->\n<!-- compatibility: end -->\nb\n")
    (tmp_path / "junit.xml").write_text(JUNIT.format(tests=10, failures=failures))

    done = subprocess.run(
        [sys.executable, str(tmp_path / "scripts" / "compatibility.py"), "record", release, "3.12"]
        + ["--junit", str(tmp_path / "junit.xml")],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip

    [first, second] = json.loads((tmp_path / "docs" / "compatibility.json").read_text())["results"]
    word = {"passed": "works", "refuses": "refuses to start", "failed": "fails"}[result]
    today = second.pop("date")
    assert (done.returncode, done.stderr, first) == (code, "", kept)
    assert done.stdout == f"LiteLLM {release}, Python 3.12: {result} ({9 - failures} passed, {failures} failed)\n"
    assert second == {
        "litellm": release, "python": "3.12", "result": result, "passed": 9 - failures, "failed": failures,
    }  # fmt: skip
    assert (tmp_path / "README.md").read_text() == (
        "a\n<!-- compatibility: begin -->\n"
        "| LiteLLM | Python 3.9 | Python 3.12 | checked |\n|---|---|---|---|\n"
        "| 1.99.0 | does not install | not checked | 2026-01-02 |\n"
        f"| {release} | not checked | {word} | {today} |\n"
        "<!-- compatibility: end -->\nb\n"
    )


@pytest.mark.skipif(importlib.util.find_spec("nox") is None, reason="needs the extra `matrix`")
def test_nox_lists_every_session():
    """nox itself reads noxfile.py and has a session for each release on each Python."""
    listed = subprocess.run(
        [sys.executable, "-m", "nox", "--list", "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    releases = (*constant("REFUSED"), *constant("SUPPORTED"))
    assert sorted(one["session"] for one in json.loads(listed.stdout)) == sorted(
        f"matrix-{python}({release})" for python in constant("PYTHONS") for release in releases
    )
