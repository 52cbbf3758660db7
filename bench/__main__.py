"""`python -m bench`: measure, print a table, write JSON.

Sections run in one order whatever the command line says; one that fails says why and the rest goes on.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import sys
import time
import traceback
from datetime import datetime, timezone
from pathlib import Path

from bench import pin
from bench.registries import ROOT
from bench.rows import Result, Section, table

# In the order in which they run: the cheap and quiet ones first.
MODULES = ("decision", "hooks", "registry_load", "cli_start", "plugin_cost", "memory", "serve_gain")
DRY = "ae"


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--quick", action="store_true", help="fewer pairs, about 90 s; the spread says how little that proves"
    )
    parser.add_argument(
        "--dry", action="store_true", help="tiny counts, only the sections a and e: shows that the bench itself works"
    )
    parser.add_argument("--only", default="", metavar="LETTERS", help="sections to run, such as ace")
    parser.add_argument("--out", type=Path, help="file for the JSON; bench/results/<time>.json if not given")
    parser.add_argument("--json", action="store_true", help="print the JSON instead of the table")
    return parser.parse_args(argv)


def load_sections() -> list[Section]:
    return [importlib.import_module(f"bench.{name}").SECTION for name in MODULES]


def measure(section: Section, options: argparse.Namespace) -> Result:
    """Run one section; whatever it raises becomes its note."""
    result = Result(section)
    print(f"{section.key}. {section.title} …", file=sys.stderr, flush=True)
    start = time.perf_counter()
    try:
        section.run(options, result.put)
    except KeyboardInterrupt:
        result.failed = "interrupted"
        raise
    except Exception as error:  # noqa: BLE001  one section's failure is no other's
        traceback.print_exc()
        result.failed = f"failed: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
    result.seconds = time.perf_counter() - start
    return result


def setting() -> dict[str, object]:
    """Say on what the figures were taken."""
    from importlib.metadata import PackageNotFoundError, version

    def of(name: str) -> str | None:
        try:
            return version(name)
        except PackageNotFoundError:
            return None

    names = (
        "litellm-registry-hook",
        "litellm",
        "uvicorn",
        "granian",
        "uvloop",
        "opentelemetry-sdk",
        "PyYAML",
        "pydantic",
    )
    return {
        "at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "load_average_before": [round(one, 2) for one in os.getloadavg()],
        "cores": pin.cores()[2],
        "versions": {name: of(name) for name in names},
    }


def main(argv: list[str] | None = None) -> int:
    options = parse(argv)
    options.proxy_cores, options.load_cores, sentence = pin.cores()
    pin.pin_self(options.load_cores)
    wanted = options.only or (DRY if options.dry else "")
    about = setting()
    results = []
    try:
        for section in load_sections():
            if wanted and section.key not in wanted:
                results.append(Result(section, failed="not run"))
                continue
            results.append(measure(section, options))
    finally:
        from bench.proxies import stop_all

        stop_all()
    results.sort(key=lambda result: result.section.key)
    report = {
        **about, "load_average_after": [round(one, 2) for one in os.getloadavg()],
        "kind": "dry" if options.dry else ("quick" if options.quick else "full"),
        "rows": [row for result in results for row in result.rows()],
    }  # fmt: skip
    out = options.out or ROOT / "bench" / "results" / f"{datetime.now(timezone.utc):%Y%m%dT%H%M%SZ}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    if options.json:
        print(json.dumps(report, indent=1))
        return 0
    print(table(results))
    load = about["load_average_before"][0]
    print(
        f"\n{sentence}; LiteLLM {about['versions']['litellm']}, Python {about['python']}; load average before: {load}"
    )
    if load > 0.7:
        print("Something else was running: the absolute numbers are pessimistic, ratios of pairs less so.")
    print(f"JSON: {out}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
