"""docs/tutorial.md is followed as it is written: from running servers to a key that pays for one call, and back."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from docs.follow_kit import Reader, agree, blocks, yaml_of
from nvml.stub import build, environment
from ollama_sim.homelab import BGE, GEMMA, QUICK, TEI_MB, small_card
from ollama_sim.loop import LoopThread
from ollama_sim.nvml_file import NvmlFile
from ollama_sim.scheduler import Sim
from ollama_sim.server import OllamaServer
from ollama_sim.tei import Tei

from litellm_registry_hook import load_registry
from tests.upstreams import Upstream, free_port

PAGE = "docs/tutorial.md"
REGISTRY = "model-registry.yaml"


@pytest.fixture
def reader_and_paid(tmp_path: Path) -> Iterator[tuple[Reader, Upstream]]:
    """Somebody with the servers of the page: an 8 GB card, an Ollama with two models, a TEI, a paid API."""
    card = small_card()
    sim = Sim("0.33.0", [card], [GEMMA, BGE], time.time, QUICK)
    with (
        LoopThread("tutorial") as thread,
        Tei(thread, card, TEI_MB) as tei,
        OllamaServer(sim, thread=thread) as ollama,
        Upstream("paid") as paid,
    ):
        env = environment(build(tmp_path), NvmlFile(tmp_path / "nvml.txt", [card]).path)
        here = {
            "http://127.0.0.1:11434": ollama.url,
            "http://127.0.0.1:8080": tei.url,
            "https://api.openai.com/v1": paid.openai_base,
            "127.0.0.1:4000": f"127.0.0.1:{free_port()}",
        }
        one = Reader(tmp_path / "own", env, here)
        try:
            yield one, paid
        finally:
            one.ctrl_c()


@pytest.mark.host
@pytest.mark.pays
def test_the_tutorial_is_followed(reader_and_paid: tuple[Reader, Upstream]) -> None:
    """Each command of the page prints what it shows; one paid call reaches the paid API, and no other."""
    reader, paid = reader_and_paid
    entry, tiers, gpt, paid_tier, config = yaml_of(PAGE)
    seen = blocks(PAGE)
    after = {block.text: seen[number + 1] for number, block in enumerate(seen[:-1]) if block.language == "sh"}
    commands = [block.text for block in seen if block.language == "sh"]

    for command in commands:
        if command.startswith("litellm-registry validate"):
            written = reader.read()
            assert entry in written
            assert tiers in written
            reader.change("\nrouting:\n", f"\n{gpt}\nrouting:\n")
            reader.change(tiers, tiers + paid_tier)
        if command.startswith("generate-litellm-config"):
            reader.write("litellm-config.yaml", config)
        if command.endswith("litellm-registry serve\n"):
            reader.serve(command)
            reader.wait_for(lambda: "bge-m3:latest at http://127.0.0.1:11434 is loaded" in reader.printed)
            continue
        printed = reader.run(command)
        if after[command].language == "":
            agree(after[command].text, without_state(printed))

    assert "registry attached: 4 deployments of 4 models" in reader.printed
    assert [call.path for call in paid.generating_calls] == ["/v1/chat/completions"]
    registry = load_registry(reader.folder / REGISTRY)
    assert registry.routing.tiers["paid"] == ("gpt",)
    assert registry.routing.metered_opt_in == ()


def without_state(printed: str) -> str:
    """An output without the notice on stderr that says where the state is."""
    return "".join(line for line in printed.splitlines(keepends=True) if not line.startswith("state: "))
