"""docs/opt-in.md is followed as it is written: the demo, a proxy of one's own, a first paid call, and back to none."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from litellm_registry_hook.core.opt_in import STATUS
from tests.host.proxy import free_port

pytestmark = pytest.mark.host
ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/opt-in.md").read_text(encoding="utf-8")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SH = [text for language, text in FENCE.findall(PAGE) if language == "sh"]
YAML = [text for language, text in FENCE.findall(PAGE) if language == "yaml"]
PLAIN = [text for language, text in FENCE.findall(PAGE) if language == ""]
START_S = 150


def test_every_code_is_explained() -> None:
    """Each error code of opting in, and no other, stands in the page's table, with its status."""
    rows = re.findall(r"^\| (`[a-z_`, ]+`) \| (\d{3}) \|", PAGE, re.MULTILINE)
    told = {code: int(status) for codes, status in rows for code in re.findall(r"`(\w+)`", codes)}

    assert told == STATUS


class Terminals:
    """Three terminals of a reader: one environment, one home."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder = folder
        kept = {name: os.environ[name] for name in ("LANG", "LD_LIBRARY_PATH") if name in os.environ}
        path = f"{Path(sys.prefix) / 'bin'}{os.pathsep}{os.environ['PATH']}"
        self.env = {**kept, "HOME": str(home), "PATH": path, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        self.running: list[subprocess.Popen[str]] = []

    def start(self, command: str, log: Path, cwd: Path | None = None) -> subprocess.Popen[str]:
        """Run a command block that goes on."""
        with log.open("w") as out:
            process = subprocess.Popen(
                ["sh", "-c", command], cwd=cwd or self.folder, env=self.env, stdout=out, stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL, text=True, start_new_session=True,
            )  # fmt: skip
        self.running.append(process)
        return process

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        """Run a command block that ends."""
        return subprocess.run(
            ["sh", "-c", command], cwd=self.folder, env=self.env, capture_output=True, text=True, timeout=90
        )

    def close(self) -> None:
        """Ctrl-C in each."""
        for process in reversed(self.running):
            for signum in (signal.SIGINT, signal.SIGKILL):
                try:
                    os.killpg(process.pid, signum)
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    continue
                except ProcessLookupError:
                    pass
                break
            process.wait(20)


def wait_for(url: str, process: subprocess.Popen[str], log: Path) -> None:
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        assert process.poll() is None, log.read_text()[-3000:]
        try:
            if httpx.get(url, timeout=2).status_code == 200:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.2)
    raise AssertionError(log.read_text()[-3000:])


def soon(run, wanted: str) -> str:
    """Repeat a command until its output begins as wanted; two seconds is what the page promises."""
    end = time.monotonic() + 2.0
    while True:
        said = run()
        if said.startswith(wanted) or time.monotonic() > end:
            return said


def test_the_page_leads_to_a_paid_call_and_back(tmp_path: Path) -> None:
    """Each block in its order: nobody is opted in, one key pays for one call, and then nobody is opted in again."""
    demo, start, make_key, check, add, call, show, remove, trail, post, get, delete, keys = SH
    folder = tmp_path / "own"
    folder.mkdir()
    demo_port, port = free_port(), free_port()
    t = Terminals(folder, tmp_path)
    here = {"4001": str(port)}

    def block(text: str) -> str:
        for old, new in here.items():
            text = text.replace(old, new)
        return text

    try:
        first = t.start(f"{demo.strip()} --port {demo_port} --json", tmp_path / "demo.log", ROOT)
        wait_for(f"http://127.0.0.1:{demo_port}/health/liveliness", first, tmp_path / "demo.log")
        end = time.monotonic() + 30
        while not (found := re.search(r"^\{$.*^\}$", (tmp_path / "demo.log").read_text(), re.MULTILINE | re.DOTALL)):
            assert time.monotonic() < end, (tmp_path / "demo.log").read_text()
            time.sleep(0.1)
        [paid] = [one["api_base"] for one in json.loads(found[0])["models"] if one["id"] == "paid-fallback"]
        here["http://127.0.0.1:33207/v1"] = paid

        (folder / "model-registry.yaml").write_text(YAML[0])
        (folder / "litellm-config.yaml").write_text(YAML[1])
        exports = "\n".join(line for line in block(start).splitlines() if line.startswith("export "))
        own = t.run(f"{exports}\necho $PAID_API $LITELLM_MASTER_KEY").stdout.split()
        t.env |= {"PAID_API": own[0], "LITELLM_MASTER_KEY": own[1]}
        rest = "\n".join(line for line in block(start).splitlines() if not line.startswith("export "))
        second = t.start(rest, tmp_path / "own.log")
        wait_for(f"http://127.0.0.1:{port}/health/liveliness", second, tmp_path / "own.log")

        made = t.run(f'{make_key}\necho "$KEY"')
        t.env["KEY"] = made.stdout.strip()
        assert t.env["KEY"].startswith("sk-"), made.stderr
        assert "warning" not in made.stderr
        unchecked = t.run(check)
        before = t.run(block(call)).stdout
        added = t.run(add)
        entry = (folder / "model-registry.yaml").read_text()
        paid_for = soon(lambda: t.run(block(call)).stdout, "HTTP/1.1 200")
        listed = t.run(show)
        removed = t.run(remove)
        after = soon(lambda: t.run(block(call)).stdout, "HTTP/1.1 403")
        told = t.run(trail)
        over = [t.run(block(text)).stdout for text in (post, get, keys, delete, get)]
        counted = httpx.get(paid.removesuffix("/v1") + "/calls").json()
    finally:
        t.close()

    assert unchecked.returncode == 1
    assert re.sub(r"\([0-9a-f]{8}\)", "(8c6e7f0a)", unchecked.stdout) == PLAIN[0]
    assert (before.split()[1], code_in(before)) == ("403", "metered_key_not_opted_in")
    assert added.returncode == 0, added.stderr
    assert "warning" not in added.stderr
    shown = re.sub(r'sha256:[0-9a-f]{64}|"20[0-9TZ:-]+"', "", entry)
    assert re.sub(r'sha256:…|"20[0-9TZ:-]+"', "", YAML[2]) in shown
    assert paid_for.startswith("HTTP/1.1 200"), paid_for
    assert {"x-registry-tier: large", "x-registry-model: paid"} <= set(paid_for.splitlines())
    assert re.search(
        r"^nightly-report +\w{8} +paid +.* 1 of 20 +registry +month-end report +-$", listed.stdout, re.MULTILINE
    ), listed.stdout
    assert (removed.returncode, (folder / "model-registry.yaml").read_text()) == (0, YAML[0])
    assert (after.split()[1], code_in(after)) == ("403", "metered_key_not_opted_in")
    assert [word for word in ("granted", "called", "removed") if word not in told.stdout] == []
    granted, shown_grants, shown_keys, taken, none = (json.loads(one) for one in over)
    assert [one["key"] for one in granted["grants"]] == ["nightly-report"]
    assert shown_grants["grants"] == granted["grants"]
    assert [one["key"] for one in shown_keys["keys"]] == ["nightly-report"]
    assert (taken["grants"], none) == ([], {"grants": []})
    assert counted == {"calls": 1}


def code_in(answer: str) -> str:
    return str(json.loads(answer.splitlines()[-1])["error"]["code"])
