"""Sizes written into a registry: in its own style, every other byte as it was."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from litellm_registry_hook.edges.registry_edit_sizes import edit_sizes, edited_sizes
from litellm_registry_hook.errors import ConfigError

CASES = {
    "flow": (
        "models:\n  - id: a  # one\n    gpu_residency: {vram_mb: 3300, num_ctx: 4096}  # spring\nrouting: {}\n",
        "models:\n  - id: a  # one\n    gpu_residency: {vram_mb: 3412, num_ctx: 4096}  # spring\nrouting: {}\n",
    ),
    "block": (
        "models:\n- id: a\n  gpu_residency:\n    # by hand\n    vram_mb:   3300   # MB\n    never_evict: true\n",
        "models:\n- id: a\n  gpu_residency:\n    # by hand\n    vram_mb:   3412   # MB\n    never_evict: true\n",
    ),
    "a size that init has estimated": (
        "models:\n- id: a\n  gpu_residency:\n    vram_mb: 3300  # estimated: run litellm-registry calibrate\n    num_ctx: 1  # estimated: x\n",
        "models:\n- id: a\n  gpu_residency:\n    vram_mb: 3412  # measured by litellm-registry calibrate\n    num_ctx: 1  # estimated: x\n",
    ),
    "none yet": (
        "models:\n  - id: a\n    role: chat\n\n  # the next\n  - id: b\n",
        "models:\n  - id: a\n    role: chat\n    gpu_residency: {vram_mb: 3412}\n\n  # the next\n  - id: b\n",
    ),
    "none yet, in braces": (
        "models: [{id: a, role: chat}]\n", "models: [{id: a, role: chat, gpu_residency: {vram_mb: 3412}}]\n",
    ),
    "JSON": (
        '{"models": [{"id": "a", "gpu_residency": {"vram_mb": 3300}}]}\n',
        '{"models": [{"id": "a", "gpu_residency": {"vram_mb": 3412}}]}\n',
    ),
    "CRLF, no line end": (
        "models:\r\n  - id: a\r\n    role: chat", "models:\r\n  - id: a\r\n    role: chat\r\n    gpu_residency: {vram_mb: 3412}",
    ),
    "BOM": ("\ufeffmodels: [{id: a, gpu_residency: {vram_mb: 1}}]\n", "\ufeffmodels: [{id: a, gpu_residency: {vram_mb: 3412}}]\n"),
    "anchor that nobody uses": (
        "models:\n  - id: a\n    gpu_residency: {vram_mb: &mb 3300}\n", "models:\n  - id: a\n    gpu_residency: {vram_mb: &mb 3412}\n",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_only_the_size_changes(name: str) -> None:
    """The number is replaced or added where it belongs; comments, order, line ends and blanks stay."""
    before, after = CASES[name]

    assert edited_sizes(before.encode(), {0: 3412}, "r.yaml").decode() == after


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "models:\n  - id: a\n    gpu_residency: &size {vram_mb: 3300}\n  - id: b\n    gpu_residency: *size\n",
            "r.yaml:5: models[0].gpu_residency is used here a second time (*size): write it out so that it is used once",
        ),
        (
            "x: &x {gpu_residency: {vram_mb: 3300}}\nmodels:\n  - id: a\n    <<: *x\n",
            "r.yaml:3: models[0].gpu_residency cannot be edited here: write `gpu_residency: {vram_mb: 3412}`",
        ),
    ],
)
def test_what_is_shared_is_refused(text: str, said: str) -> None:
    """A size that other models use as well is not changed behind their backs; the message says what to write."""
    with pytest.raises(ConfigError) as caught:
        edited_sizes(text.encode(), {0: 3412}, "r.yaml")

    assert str(caught.value) == said


def test_a_file_is_checked_before_it_is_in_force(tmp_path: Path) -> None:
    """Sizes that the registry's own rules refuse are not written; others are, by id; unknown ids are left out."""
    file = tmp_path / "model-registry.yaml"
    text = (Path(__file__).parents[2] / "model-registry.yaml").read_text()
    file.write_text(text)

    done = edit_sizes(file, {"local-small": 3412, "gone": 5})
    assert done.changed
    assert file.read_text() == text.replace("vram_mb: 3300", "vram_mb: 3412")
    assert not edit_sizes(file, {"local-small": 3412}).changed

    with pytest.raises(ConfigError, match="nothing was written, for afterwards"):
        edit_sizes(file, {"local-small": 0})
    assert yaml.safe_load(file.read_text())["models"][1]["gpu_residency"]["vram_mb"] == 3412
