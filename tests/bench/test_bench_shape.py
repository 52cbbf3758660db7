"""The benchmark itself: it runs, and it reports every figure it promises. What the figures are is no test's business."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SECTIONS = ("decision", "hooks", "plugin_cost", "serve_gain", "registry_load", "cli_start", "memory")
MEASURED = {"a", "e"}


def promised() -> list[tuple[str, str]]:
    """Every section's letter and figure names, read from the modules without running one."""
    code = (
        f"import sys, json; sys.path.insert(0, {str(ROOT)!r}); import importlib\n"
        f"found = [importlib.import_module('bench.' + name).SECTION for name in {SECTIONS!r}]\n"
        "assert 'litellm' not in sys.modules, 'listing the figures imports LiteLLM'\n"
        "print(json.dumps([[one.key, figure.name] for one in found for figure in one.figures]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return [(key, name) for key, name in json.loads(done.stdout)]


def test_a_dry_run_reports_every_promised_figure(tmp_path: Path) -> None:
    """`python -m bench --dry` ends with 0, prints a line a figure and writes the same rows as JSON, a and e measured."""
    out = tmp_path / "bench.json"

    done = subprocess.run(
        [sys.executable, "-m", "bench", "--dry", "--out", str(out)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    report = json.loads(out.read_text())
    assert [(row["section"], row["figure"]) for row in report["rows"]] == promised()
    assert {frozenset(row) for row in report["rows"]} == {
        frozenset({"section", "figure", "value", "unit", "target", "met", "note"})
    }
    measured = {row["section"] for row in report["rows"] if isinstance(row["value"], float)}
    assert measured == MEASURED
    assert {row["note"] for row in report["rows"] if row["section"] not in MEASURED} == {"not run"}
    lines = [line.strip() for line in done.stdout.splitlines()]
    assert [row["figure"] for row in report["rows"] if not any(line.startswith(row["figure"]) for line in lines)] == []


def test_a_section_that_fails_leaves_the_others_alone(tmp_path: Path) -> None:
    """Without a usable `litellm-registry` section f says why it failed, and e is measured all the same."""
    out = tmp_path / "bench.json"
    code = (
        "import sys; from bench import cli_start, __main__ as bench\n"
        "cli_start.COMMANDS['--version'] = ('no-such-command',)\n"
        f"sys.exit(bench.main(['--dry', '--only', 'ef', '--json', '--out', {str(out)!r}]))"
    )

    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report == json.loads(out.read_text())
    rows = {row["figure"]: row for row in report["rows"]}
    assert rows["litellm-registry --version"]["value"] is None
    assert rows["litellm-registry --version"]["note"].startswith("failed: RuntimeError: ")
    assert rows["load and validate, 1,000 models"]["value"] > 0
