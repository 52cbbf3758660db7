"""The how-to pages are followed as they are written: docs/howto-add-a-model.md, docs/howto-move-the-embedder.md,
docs/howto-paid-for-a-week.md, docs/howto-two-gpus.md, docs/howto-two-hosts.md and docs/howto-two-windows.md.

The numbers of docs/explanation.md are looked at here too. The four pages that go on from the tutorial share one house and one proxy, which is restarted once for all of them.
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from docs.follow_kit import ROOT, Reader, agree, blocks, yaml_of
from nvml.stub import build, environment
from ollama_sim.homelab import BGE, BIG_A, GEMMA, QUICK, QWEN, TEI_MB, small_card, small_house
from ollama_sim.loop import LoopThread
from ollama_sim.nvml_file import NvmlFile
from ollama_sim.scheduler import Sim
from ollama_sim.server import OllamaServer
from ollama_sim.tei import Tei
from ollama_sim.things import Card

from litellm_registry_hook import load_registry
from tests.state.valkey import Valkey
from tests.upstreams import Upstream, free_port

ADD, MOVE, PAID = "docs/howto-add-a-model.md", "docs/howto-move-the-embedder.md", "docs/howto-paid-for-a-week.md"
GPUS, HOSTS, WINDOWS = "docs/howto-two-gpus.md", "docs/howto-two-hosts.md", "docs/howto-two-windows.md"
ELSEWHERE = "::ffff:127.0.0.1"
ADMIN = "sk-howto-master-key-000001"
REGISTRY = "model-registry.yaml"
BY_FILE = "      probe_file: /var/lib/kimi/usage.json\n"
NOMIC = replace(
    BGE, name="nomic-embed-text", file_mb=262, vram_mb=600, layers=12, heads=12, kv_heads=12, width=768, dimensions=768
)
# What the tutorial has left behind.
LEFT = """\
version: 1
models:
  - id: gemma3:4b
    role: chat
    lifecycle: always-on
    metered: false
    litellm: {model: ollama_chat/gemma3:4b}
    endpoints: [{api_base: "http://127.0.0.1:11434"}]
    gpu_residency: {vram_mb: 3300}

  - id: bge-m3
    role: embedder
    lifecycle: always-on
    metered: false
    dimensions: 1024
    litellm: {model: ollama/bge-m3}
    endpoints: [{api_base: "http://127.0.0.1:11434"}]
    gpu_residency: {vram_mb: 1200, never_evict: true}

  - id: BAAI/bge-reranker-v2-m3
    role: reranker
    lifecycle: on-demand
    metered: false
    litellm: {model: huggingface/BAAI/bge-reranker-v2-m3}
    endpoints: [{api_base: "http://127.0.0.1:8080", health_url: "http://127.0.0.1:8080/health"}]
    gpu_residency: {vram_mb: 1700, never_evict: true}

  - id: gpt
    role: fallback
    lifecycle: always-on
    metered: true
    litellm: {model: openai/gpt-5.2, api_base: "https://api.openai.com/v1", api_key: os.environ/PAID_API_KEY}

routing:
  tiers:
    large: [gemma3:4b]
    small: [gemma3:4b]
    embed: [bge-m3]
    rerank: [BAAI/bge-reranker-v2-m3]
    paid: [gpt]
  aliases: {embedder: embed}
  metered_opt_in: []

gpu_residency_policy:
  never_evict_ids: [bge-m3, BAAI/bge-reranker-v2-m3]
  reserve_mb: 300
"""
CONFIG = """\
general_settings:
  master_key: os.environ/LITELLM_MASTER_KEY
  custom_auth: litellm_registry_hook.user_api_key_auth
"""


def without_state(printed: str) -> str:
    """An output without the notices on stderr that say where the state is, and that nobody uses it."""
    return "".join(
        line
        for line in printed.splitlines(keepends=True)
        if not line.startswith(("state: ", "warning: no running proxy uses this state"))
    )


@dataclass
class Page:
    """A page on the way through it.

    Attributes:
        reader: who follows it. name: of its file. at: the next block.

    """

    reader: Reader
    name: str
    at: int = 0
    edits: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.edits = yaml_of(self.name)

    def run(self, start: str, wanted: int | None = 0) -> str:
        """Run the next command block, which begins so, and hold what it prints against what the page shows."""
        found = blocks(self.name)
        text = self._command(start)
        printed = without_state(self.reader.run(text, wanted))
        if self.at < len(found) and found[self.at].language == "":
            agree(found[self.at].text, printed)
        return printed

    def serve(self, start: str) -> str:
        """Pass the next command block, which starts the proxy, and return it."""
        return self._command(start)

    def _command(self, start: str) -> str:
        found = blocks(self.name)
        while found[self.at].language != "sh":
            self.at += 1
        text = found[self.at].text
        self.at += 1
        assert text.startswith(start), (self.name, text)
        return text

    def says(self, text: str) -> str:
        """Return words that the page tells a reader to write, wherever they stand in it."""
        assert text in (ROOT / self.name).read_text(encoding="utf-8"), (self.name, text)
        return text

    def ended(self) -> None:
        """Assert that no command of the page is left."""
        assert [block.text for block in blocks(self.name)[self.at :] if block.language == "sh"] == []

    def outputs(self) -> list[str]:
        """Return the unmarked blocks of the page."""
        return [block.text for block in blocks(self.name) if block.language == ""]


@contextlib.contextmanager
def usage_server(asked: list[str | None], told: dict[str, object]) -> Iterator[str]:
    """An address that tells the usage of a subscription, to whoever brings a token."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.headers.get("Authorization"))
            body = json.dumps(told).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join(10)


def has_ipv6() -> bool:
    """Whether sockets of IPv6 can be made here, as ELSEWHERE needs one."""
    try:
        with socket.socket(socket.AF_INET6):
            return True
    except OSError:
        return False


def usage(five_hours: float, week: float) -> dict[str, object]:
    """What a subscription tells."""
    return {
        "five_hour": {"used_pct": five_hours, "resets_at": "2099-01-01T15:00:00Z"},
        "weekly": {"used_pct": week, "resets_at": "2099-01-05T00:00:00Z"},
    }


@pytest.mark.host
@pytest.mark.pays
def test_the_pages_that_go_on_from_the_tutorial(tmp_path: Path) -> None:
    """Paid for a week, a model more, another embedder, two windows: each command does and prints what its page says."""
    card = small_card()
    sim = Sim("0.33.0", [card], [GEMMA, BGE, QWEN, NOMIC], time.time, QUICK)
    asked: list[str | None] = []
    with (
        LoopThread("howtos") as thread,
        Tei(thread, card, TEI_MB) as tei,
        OllamaServer(sim, thread=thread) as ollama,
        Upstream("paid") as paid,
        Upstream("kimi") as kimi,
        usage_server(asked, usage(12, 41)) as usages,
    ):
        programs = tmp_path / "bin"
        programs.mkdir()
        (programs / "kimi-usage").write_text(f"#!/bin/sh\necho '{json.dumps(usage(12, 41))}'\n")
        (programs / "kimi-usage").chmod(0o755)
        (tmp_path / "usage.json").write_text(json.dumps(usage(12, 97)))
        env = environment(build(tmp_path), NvmlFile(tmp_path / "nvml.txt", [card]).path)
        env |= {"LITELLM_MASTER_KEY": ADMIN, "PAID_API_KEY": "x", "KIMI_API_KEY": "x", "USAGE_TOKEN": "of-the-usage"}
        here = {
            "http://127.0.0.1:11434": ollama.url,
            "http://127.0.0.1:8080": tei.url,
            "https://api.openai.com/v1": paid.openai_base,
            "https://api.kimi.com/coding/v1": kimi.openai_base,
            "https://usage.example": usages,
            "/var/lib/kimi": str(tmp_path),
            "127.0.0.1:4000": f"127.0.0.1:{free_port()}",
        }
        reader = Reader(tmp_path / "own", env, here)
        reader.env["PATH"] = f"{programs}:{reader.env['PATH']}"
        reader.write(REGISTRY, LEFT)
        reader.write("litellm-config.yaml", CONFIG)
        add, move, week, windows = (Page(reader, name) for name in (ADD, MOVE, PAID, WINDOWS))
        reader.run("generate-litellm-config")
        try:
            reader.serve("litellm-registry serve")
            pay_for_a_week(week)
            assert len(paid.generating_calls) == 2
            [of_tutorial] = [block.text for block in blocks("docs/tutorial.md") if block.text.startswith("KEY=")]
            reader.run(of_tutorial)
            before_the_restart(add, move, windows)
            reader.ctrl_c()
            starts = {page.serve("litellm-registry serve") for page in (add, move, windows)}
            [start] = starts
            reader.serve(start)
            add.run("curl -sSi")
            add.ended()
            assert {"bge-m3:latest", "qwen:4b"} <= set(ollama.look(lambda sim: sim.names()))
            after_the_move(move, ollama)
            both_windows(windows, kimi, asked)
        finally:
            reader.ctrl_c()


def pay_for_a_week(page: Page) -> None:
    """docs/howto-paid-for-a-week.md."""
    page.run('KEY="$(litellm-registry keys create')
    page.run("litellm-registry opt-in add")
    call = blocks(page.name)[page.at + 1].text
    page.run("sleep 2")
    assert call.startswith("sleep 2")
    call = call.removeprefix("sleep 2\n")
    assert page.reader.run(call).startswith("HTTP/1.1 200")
    agree(page.outputs()[2], page.reader.run(call))
    page.run("litellm-registry opt-in list")
    page.run("litellm-registry opt-in remove", 1)
    page.ended()


def before_the_restart(add: Page, move: Page, windows: Page) -> None:
    """The edits of three pages, each up to its restart."""
    reader = add.reader
    entry, tier = add.edits
    reader.change("\nrouting:\n", f"\n{entry}\nrouting:\n")
    reader.change("    small: [gemma3:4b]\n", tier)
    add.run("litellm-registry calibrate")
    add.run("litellm-registry validate")
    add.run("generate-litellm-config --check --running", 1)

    [entry] = move.edits
    reader.change("\nrouting:\n", f"\n{entry}\nrouting:\n")
    reader.change("    embed: [bge-m3]\n", "    embed: [bge-m3, nomic-embed-text]\n")
    agree(move.outputs()[0], reader.run("litellm-registry validate", 2))
    reader.change(
        "    embed: [bge-m3, nomic-embed-text]\n",
        f"    embed: [bge-m3]\n    {move.says('embed-nomic: [nomic-embed-text]')}\n",
    )
    move.run("litellm-registry validate")

    entry, _ = windows.edits
    reader.change("\nrouting:\n", f"\n{entry}\nrouting:\n")
    reader.change("    large: [gemma3:4b]\n", f"    {windows.says('large: [kimi, gemma3:4b]')}\n")
    windows.run("litellm-registry validate")
    # The running proxy asks the new probe as well; one that is stopped before it has written the reading down leaves
    # its successor to wait for a whole interval.
    reader.wait_for(lambda: "41 %" in reader.run("litellm-registry status"), 30)


def after_the_move(page: Page, ollama: OllamaServer) -> None:
    """docs/howto-move-the-embedder.md, from the restart on."""
    reader = page.reader
    page.run("for name in")
    reader.change("  aliases: {embedder: embed}\n", f"  {page.says('aliases: {embedder: embed-nomic}')}\n")
    page.run("litellm-registry explain")
    told = page.run("litellm-registry decisions")
    assert [line.split()[3] for line in told.splitlines()[1:]] == ["embedder"]

    start = next(entry for entry in LEFT.split("\n\n") if "id: bge-m3" in entry)
    reader.change(f"{start}\n\n", "")
    reader.change("    embed: [bge-m3]\n", "")
    reader.change("{vram_mb: 600}", "{vram_mb: 600, never_evict: true}")
    reader.change("[bge-m3, BAAI/bge-reranker-v2-m3]", "[BAAI/bge-reranker-v2-m3, nomic-embed-text]")
    page.run("litellm-registry validate")
    assert "bge-m3:latest" in ollama.look(lambda sim: sim.names())
    page.run("curl -sS http://127.0.0.1:11434/api/generate")
    ollama.wait(lambda sim: "bge-m3:latest" not in sim.names())
    page.ended()


def both_windows(page: Page, kimi: Upstream, asked: list[str | None]) -> None:
    """docs/howto-two-windows.md, from the restart on: a command, then a file that says full, then an address."""
    reader = page.reader
    probe = '      probe_command: "kimi-usage --json"\n'
    by_file, by_url = BY_FILE, page.edits[1]
    page.says(by_file.strip())
    page.run("litellm-registry status")
    reader.change(probe, by_file)
    reader.wait_for(lambda: "97 %" in reader.run("litellm-registry status"), 20)
    page.run("litellm-registry explain")
    assert asked == []
    reader.change(by_file, by_url)
    reader.wait_for(lambda: "41 %" in reader.run("litellm-registry status"), 20)
    assert set(asked) == {"Bearer of-the-usage"}

    kimi.fail(429, headers={"Retry-After": "7200"}, times=1)
    [again] = [block.text for block in blocks(page.name) if block.text.startswith("curl -sSi")]
    assert "x-registry-skipped: kimi=model_unavailable\n" in reader.run(again)
    page.run("curl -sSi")
    assert len(kimi.generating_calls) == 1
    page.run("curl -sS -X POST")
    assert "x-registry-model: kimi" in reader.run(again)
    page.ended()


def test_two_gpus(tmp_path: Path) -> None:
    """Each Ollama is counted on its own card, as docs/howto-two-gpus.md shows."""
    small, large = Card(8192, "GTX 1070", "GPU-5f0c1070"), Card(16384, "RTX 4080", "GPU-9a1d4080")
    with (
        LoopThread("two-gpus") as thread,
        OllamaServer(Sim("0.33.0", [small], [GEMMA, BGE], time.time, QUICK), thread=thread) as first,
        OllamaServer(Sim("0.33.0", [large], [BIG_A], time.time, QUICK), thread=thread) as second,
    ):
        env = environment(build(tmp_path), NvmlFile(tmp_path / "nvml.txt", [small, large]).path)
        here = {"http://127.0.0.1:11434": first.url, "http://127.0.0.1:11435": second.url}
        page = Page(Reader(tmp_path / "own", env, here), GPUS)
        page.reader.write(REGISTRY, page.edits[0])
        page.run("litellm-registry validate")
        page.run("litellm-registry preload-check")
        page.ended()
        assert (first.look(lambda sim: sim.names()), second.look(lambda sim: sim.names())) == (["bge-m3:latest"], [])


@pytest.mark.host
def test_two_hosts(tmp_path: Path) -> None:
    """A state on a real server, a card that is declared, and a key of one host on the other: docs/howto-two-hosts.md."""
    if not has_ipv6():
        pytest.skip("this machine has no IPv6 to name 127.0.0.1 as another one")
    card = Card(8192, "GTX 1070", "GPU-5f0c1070")
    sim = Sim("0.33.0", [card], [GEMMA, BGE], time.time, QUICK)
    with LoopThread("two-hosts") as thread, OllamaServer(sim, thread=thread) as ollama, Valkey(tmp_path) as valkey:
        port = free_port()
        here = {
            "redis://:PASSWORD@10.0.0.5:6379/0": valkey.url,
            # 127.0.0.1 in IPv6's words: the same server, and no loopback name.
            "10.0.0.5:11434": f"[{ELSEWHERE}]:{ollama.port}",
            "10.0.0.5": ELSEWHERE,
            "127.0.0.1:4000": f"127.0.0.1:{port}",
            "10.0.0.6:4000": f"127.0.0.1:{port}",
            "--host 10.0.0.6": "--host 127.0.0.1",
        }
        reader = Reader(tmp_path / "own", {"LITELLM_MASTER_KEY": ADMIN}, here)
        page = Page(reader, HOSTS)
        reader.write(REGISTRY, page.edits[0])
        reader.write("litellm-config.yaml", CONFIG)
        page.run("export LITELLM_REGISTRY_STATE=")
        page.run("litellm-registry preload-check", 1)
        reader.change("gpu_residency_policy:\n  reserve_mb: 300\n", page.edits[1])
        page.run("litellm-registry warm")
        try:
            reader.serve(page.serve("generate-litellm-config"))
            page.run('KEY="$(litellm-registry keys create')
            page.ended()
            shown = reader.run("litellm-registry status")
        finally:
            reader.ctrl_c()

    assert "workers   1\n" in shown
    assert " 8192 MB (declared)\n" in shown


@pytest.mark.parametrize("probe", ["", BY_FILE, yaml_of(WINDOWS)[1]])
def test_each_way_to_read_a_quota_is_a_valid_registry(probe: str, tmp_path: Path) -> None:
    """The command, the file and the address of docs/howto-two-windows.md load in the registry that the page goes on from."""
    text = LEFT.replace("\nrouting:\n", f"\n{yaml_of(WINDOWS)[0]}\nrouting:\n")
    text = text.replace("    large: [gemma3:4b]\n", "    large: [kimi, gemma3:4b]\n")
    if probe:
        text = text.replace('      probe_command: "kimi-usage --json"\n', probe)
    file = tmp_path / REGISTRY
    file.write_text(text)
    quota = load_registry(file).by_id["kimi"].quota

    assert quota is not None
    assert [window.name for window in quota.windows] == ["5h", "weekly"]
    assert (quota.probe_command is None, quota.probe_file is None, quota.probe_url is None).count(False) == 1


def test_the_numbers_of_the_explanation(tmp_path: Path) -> None:
    """With num_ctx 4096 the shipped chat model loads beside the embedder; with 8192 Ollama would evict it, and we refuse."""
    text = (ROOT / "docs/explanation.md").read_text()
    [shown] = [found for found in blocks("docs/explanation.md") if found.text.startswith("loading local-small")]
    shipped = (ROOT / REGISTRY).read_text()
    with small_house(tmp_path) as house:
        assert house.tei is not None
        env = environment(build(tmp_path), house.nvml.path)
        here = {"http://127.0.0.1:11434": house.ollama.url, "http://127.0.0.1:8080": house.tei.url}
        reader = Reader(tmp_path / "own", env, here)
        reader.write(REGISTRY, shipped)
        reader.run("litellm-registry warm")
        ask = "litellm-registry preload-check --id local-small --live"
        small = json.loads(reader.run(ask))
        reader.change("num_ctx: 4096", "num_ctx: 8192")
        large = json.loads(reader.run(ask, 1))
        assert house.card.free_mb == 5192
        load = {"model": "gemma3:4b", "options": {"num_ctx": 8192, "num_batch": 512}}
        httpx.post(f"{house.ollama.url}/api/generate", json=load, timeout=20).raise_for_status()
        loaded = house.ollama.look(lambda sim: sim.names())

    assert "Ollama predicts 3864 MB of 80 % of 5192 MB" in small["reason"]
    agree(shown.text, large["reason"])
    assert loaded == ["gemma3:4b"]
    for context, predicted in (("4096", 3864), ("8192", 4544)):
        assert re.search(rf"^\| {context} \| [a-z ]*3300 MB \| {predicted} MB \| 4153 MB \|", text, re.MULTILINE)
    assert int(5192 * 0.8) == 4153
    assert 8192 - 1700 - 1200 - 100 == 5192
    assert "1792 MB would be free" in text
