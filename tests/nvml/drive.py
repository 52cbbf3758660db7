"""Run as a program of its own: drives the real pynvml through Driver, step by step from stdin, and prints what it saw.

Input, JSON: a list of steps `["write", text]`, `["remove"]`, `["read", now]`, `["processes", uuid]`, `["shutdown"]`,
`["break"]` (pynvml cannot be imported). Output, JSON: `{"reads": [...], "logs": [...], "processes": [...]}`.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import sys
from pathlib import Path

from litellm_registry_hook.edges.gpu.nvml import Driver


def main() -> None:
    logs: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            logs.append(f"{record.levelname} {record.getMessage()}")

    logger = logging.getLogger("litellm_registry_hook")
    logger.addHandler(Keep())
    logger.setLevel(logging.INFO)
    logger.propagate = False
    assert "pynvml" not in sys.modules, "the import must be lazy"
    file = Path(os.environ.get("NVML_STUB_FILE", "/nowhere"))
    driver = Driver()
    out = {"reads": [], "logs": logs, "processes": []}
    for what, *rest in json.load(sys.stdin):
        if what == "write":
            fresh = file.with_suffix(".new")
            fresh.write_text(rest[0])
            os.replace(fresh, file)
        elif what == "remove":
            file.unlink()
        elif what == "read":
            out["reads"].append(dataclasses.asdict(driver.read(rest[0])))
        elif what == "processes":
            out["processes"].append(driver.processes(rest[0]))
        elif what == "shutdown":
            sys.modules["pynvml"].nvmlShutdown()
        elif what == "break":
            sys.modules["pynvml"] = None
    json.dump(out, sys.stdout)


main()
