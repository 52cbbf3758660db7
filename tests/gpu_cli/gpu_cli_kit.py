"""Shared by the tests of the GPU commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml
from nvml import stub
from ollama_sim.homelab import House

SCRIPT = str(Path(sys.executable).parent / "litellm-registry")
TEXT = """\
version: 1
models:
  # the chat model
  - id: small
    role: chat
    lifecycle: always-on
    metered: false
    litellm: {{model: ollama_chat/gemma3:4b}}
    endpoints: [{{api_base: "{ollama}"}}]
    gpu_residency: {{vram_mb: 3300, num_ctx: 4096}}  # measured in spring
  - id: bge
    role: embedder
    lifecycle: always-on
    metered: false
    dimensions: 1024
    litellm: {{model: ollama/bge-m3}}
    endpoints: [{{api_base: "{ollama}"}}]
    gpu_residency: {{vram_mb: 1200, never_evict: true}}
  - id: reranker
    role: reranker
    lifecycle: on-demand
    metered: false
    litellm: {{model: huggingface/BAAI/bge-reranker-v2-m3}}
    endpoints: [{{api_base: "{tei}", health_url: "{tei}/health"}}]
    gpu_residency: {{vram_mb: 1700, never_evict: true}}
  # not measured yet
  - id: coder
    role: chat
    lifecycle: on-demand
    metered: false
    litellm: {{model: "ollama_chat/qwen:4b"}}
    endpoints: [{{api_base: "{ollama}"}}]
routing:
  tiers: {{chat: [small, coder], embed: [bge], rerank: [reranker]}}
gpu_residency_policy:
  never_evict_ids: [bge, reranker]
  baseline: {{measured_mb: 6200, total_mb: 8192}}
  reserve_mb: 300
"""


class Home:
    """A house and a folder with its registry.

    Attributes:
        house: the servers. folder, file, environ: for the command line.

    """

    def __init__(self, folder: Path, house: House, library: Path) -> None:
        self.house, self.folder, self.library = house, folder, library
        self.file = folder / "model-registry.yaml"
        assert house.tei is not None
        self.file.write_text(TEXT.format(ollama=house.ollama.url, tei=house.tei.url))
        self.environ = {
            "PATH": os.environ["PATH"], "HOME": str(folder), "TMPDIR": str(folder), "PYTHONDONTWRITEBYTECODE": "1",
            "LITELLM_REGISTRY_STATE": f"sqlite:///{folder}/state.sqlite",
            **stub.environment(library, house.nvml.path),
        }  # fmt: skip

    def change(self, old: str, new: str) -> None:
        """Change the registry's text."""
        text = self.file.read_text()
        assert old in text
        self.file.write_text(text.replace(old, new))

    def edit(self, change: Any) -> None:
        """Change the registry's content."""
        data = yaml.safe_load(self.file.read_text())
        change(data)
        self.file.write_text(yaml.safe_dump(data, sort_keys=False))

    def run(self, *arguments: str, **environ: str) -> tuple[int, str, str]:
        """Run `litellm-registry` without a terminal: exit code, stdout, stderr."""
        done = subprocess.run(
            [SCRIPT, *arguments], cwd=self.folder, env={**self.environ, **environ}, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    def ask(self, *arguments: str, **environ: str) -> tuple[int, Any]:
        """Run it with --json: exit code and the answer."""
        code, out, err = self.run(*arguments, "--json", **environ)
        assert out, err
        return code, json.loads(out)

    def load(self, name: str, keep_alive: Any = "5m") -> None:
        """Have Ollama load a model for somebody else, who does not use it any more."""
        options = {"num_ctx": 4096, "num_batch": 512} if name != "bge-m3" else {"num_batch": 512}
        ticket = self.house.ollama.do(lambda sim: sim.begin(name, keep_alive=keep_alive, options=options))
        self.house.ollama.wait(lambda _sim: ticket.state == "running")
        self.house.ollama.do(lambda sim: sim.finish(ticket))

    def loaded(self) -> list[str]:
        """Names of what Ollama holds."""
        return sorted(self.house.ollama.look(lambda sim: sim.names()))

    def used_models(self) -> list[tuple[str, Any]]:
        """Every call that used, loaded or unloaded a model: its model and keep_alive."""
        return [(call.model, call.keep_alive) for call in self.house.ollama.calls if call.uses]
