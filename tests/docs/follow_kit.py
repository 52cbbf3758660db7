"""A reader of docs/: runs the blocks of a page in its order, in one folder, with stand-ins for its addresses.

reader = Reader(folder, env, {"http://127.0.0.1:11434": house.ollama.url})
reader.follow(page)          # every sh block, and the output that the page shows after it
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
START_S = 180
# What differs from day to day, and stands for itself.
VARIES = (
    (r"\b20\d\d-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?([+-]\d{4}|Z| UTC)?", "MOMENT"),
    (r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "UUID"),
    (r"\bsha256:[0-9a-f]{8,64}", "sha256:HASH"),
    (r"\b(?=[0-9a-f]*\d)[0-9a-f]{8}\b", "HASH"),
    (r"\bsk-[\w-]{20,}", "KEY"),
    (r"[ ─]+", " "),
    (r" +(?=\n|$)", ""),
)


@dataclass(frozen=True)
class Block:
    """One block of a page.

    Attributes:
        language: sh, yaml, or nothing for output and synopses.
        text: without its fence.

    """

    language: str
    text: str


def blocks(name: str) -> list[Block]:
    """Return the blocks of a page in their order."""
    return [Block(*found) for found in FENCE.findall((ROOT / name).read_text(encoding="utf-8"))]


def yaml_of(name: str) -> list[str]:
    """Return the yaml blocks of a page."""
    return [block.text for block in blocks(name) if block.language == "yaml"]


def agree(shown: str, printed: str) -> None:
    """Assert that a command printed what its page shows; `…` stands for anything in its line, alone for any lines."""
    lines = _settled(shown).rstrip("\n").split("\n")
    parts = [r"(?:.*\n)*?" if line == "…" else ".*".join(map(re.escape, line.split("…"))) + r"\n" for line in lines]
    found = _settled(printed).rstrip("\n") + "\n"
    if lines[-1] == "…":
        parts[-1] = r"(?:.*\n)*"
    assert re.fullmatch("".join(parts), found), f"the page shows\n{_settled(shown)}\nand it printed\n{found}"


def _settled(text: str) -> str:
    text = text.replace("\r\n", "\n")
    for pattern, word in VARIES:
        text = re.sub(pattern, word, text)
    return text


class Reader:
    """Somebody who does what a page says.

    Attributes:
        folder: where commands run. env: their environment.
        here: what stands for an address or word of the pages.
        log: what the proxy printed.

    """

    def __init__(self, folder: Path, env: Mapping[str, str], here: Mapping[str, str]) -> None:
        folder.mkdir(exist_ok=True)
        self.folder, self.here = folder, dict(here)
        kept = {name: os.environ[name] for name in ("LANG", "LD_LIBRARY_PATH") if name in os.environ}
        path = f"{Path(sys.prefix) / 'bin'}{os.pathsep}{os.environ['PATH']}"
        own = {"PATH": path, "HOME": str(folder.parent), "LOGNAME": "anna", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        self.env = {**kept, **own, **env}
        self.log = folder.parent / "proxy.log"
        self.proxy: subprocess.Popen[bytes] | None = None

    def local(self, text: str) -> str:
        """Return a text of a page with the stand-ins for its addresses."""
        for there, here in self.here.items():
            text = text.replace(there, here)
        return text

    def paged(self, text: str) -> str:
        """Return an output as the page would show it."""
        for there, here in self.here.items():
            text = text.replace(here, there)
        return text

    def write(self, name: str, text: str) -> None:
        """Write a file of the folder."""
        (self.folder / name).write_text(self.local(text))

    def read(self, name: str = "model-registry.yaml") -> str:
        """Return a file of the folder, as the page would show it."""
        return self.paged((self.folder / name).read_text())

    def change(self, old: str, new: str, name: str = "model-registry.yaml") -> None:
        """Edit a file of the folder: one place of it."""
        text = (self.folder / name).read_text()
        assert text.count(self.local(old)) == 1, (old, text)
        (self.folder / name).write_text(text.replace(self.local(old), self.local(new)))

    def run(self, command: str, wanted: int | None = 0) -> str:
        """Run a block; what it exports stays, as in one terminal. Return what the terminal shows."""
        names = re.findall(r"^(?:export )?([A-Z_]+)=", command, re.MULTILINE)
        told = self.folder.parent / "exported"
        tell = "".join(f'\nprintf "%s=%s\\n" {name} "${name}" >&3' for name in names)
        script = f'exec 3>"$TOLD"\n{self.local(command.rstrip())}\ncode=$?{tell}\nexit $code'
        done = subprocess.run(
            ["sh", "-c", script], cwd=self.folder, env={**self.env, "TOLD": str(told)}, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120,
        )  # fmt: skip
        self.env |= dict(line.split("=", 1) for line in told.read_text().splitlines())
        if wanted is not None:
            assert done.returncode == wanted, (command, done.returncode, done.stdout)
        return self.paged(done.stdout).replace("\r\n", "\n")

    def serve(self, command: str) -> None:
        """Run a block that ends in a proxy, on the port that stands for 4000, and wait until it answers."""
        *before, last = command.rstrip().splitlines()
        if before:
            self.run("\n".join(before))
        port = self.here["127.0.0.1:4000"].rpartition(":")[2]
        with self.log.open("wb") as out:
            self.proxy = subprocess.Popen(
                ["sh", "-c", f"exec {self.local(last)} --port {port}"], cwd=self.folder, env=self.env, stdout=out,
                stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        # As a reader waits: without a request.
        self.wait_for(lambda: "registry attached" in self.printed)
        self.wait_for(lambda: httpx.get(f"http://127.0.0.1:{port}/health/liveliness", timeout=2).status_code == 200)

    @property
    def printed(self) -> str:
        """What the proxy printed so far."""
        return self.paged(self.log.read_text(errors="replace"))

    def wait_for(self, what: Callable[[], bool], seconds: float = START_S) -> None:
        """Wait until something holds while the proxy runs."""
        end = time.monotonic() + seconds
        while True:
            assert self.proxy is not None
            assert self.proxy.poll() is None, self.printed[-4000:]
            assert time.monotonic() < end, self.printed[-4000:]
            try:
                if what():
                    return
            except httpx.HTTPError:
                pass
            time.sleep(0.1)

    def ctrl_c(self) -> None:
        """Press Ctrl-C where the proxy runs."""
        if self.proxy is None:
            return
        process, self.proxy = self.proxy, None
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
