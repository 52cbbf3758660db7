"""deploy/README.md: what can run without Docker and systemd is run, and the rest names the paths of the files."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
from pathlib import Path

import yaml
from deploy_kit import BIN, DEPLOY, HOST, compose, of_compose, of_unit, unit

from litellm_registry_hook import load_registry
from tests.host.proxy import ROOT

TEXT = (DEPLOY / "README.md").read_text()
BLOCKS = [
    re.sub(r"^  ", "", block, flags=re.MULTILINE) for block in re.findall(r"^ *```sh\n(.*?)^ *```$", TEXT, re.M | re.S)
]


def block(start: str) -> str:
    [found] = [one for one in BLOCKS if one.startswith(start)]
    return found


def test_the_folder_of_the_container(tmp_path: Path) -> None:
    """The first block makes a valid registry at the host's address, and keys that nobody else reads; a config follows."""
    shutil.copy(ROOT / "model-registry.yaml", tmp_path)
    (tmp_path / "deploy").mkdir()
    env = {"PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    subprocess.run(["sh", "-euc", block("mkdir")], cwd=tmp_path, env=env, check=True, capture_output=True)
    folder = tmp_path / "deploy/etc"
    names = ["--registry", str(folder / "model-registry.yaml"), "--config", str(folder / "litellm-config.yaml")]
    subprocess.run([BIN / "generate-litellm-config", *names], cwd=tmp_path, env=env, check=True, capture_output=True)

    registry = load_registry(folder / "model-registry.yaml")
    places = [place.api_base for model in registry.models for place in model.places]
    assert [base for base in places if "127.0.0.1" in base] == []
    assert sum(f"//{HOST}:" in base for base in places) == 3
    assert "127.0.0.1" not in (folder / "litellm-config.yaml").read_text()
    keys = folder / "litellm.env"
    assert re.fullmatch(r"LITELLM_MASTER_KEY=sk-[0-9a-f]{48}\n", keys.read_text())
    assert stat.S_IMODE(keys.stat().st_mode) == 0o600
    assert folder.name in (DEPLOY / ".gitignore").read_text()


def test_the_commands_name_what_the_files_name() -> None:
    """Paths, user, service and image of the blocks are those of unit and compose file; the shell reads every block."""
    for one in BLOCKS:
        assert subprocess.run(["sh", "-n", "-c", one], capture_output=True).returncode == 0
    service, layout = unit(), of_unit()
    install = block("sudo useradd")
    [user] = service["User"]
    assert f"--home-dir {layout.state} --shell /usr/sbin/nologin {user}\n" in install
    assert f"venv {Path(layout.command[0]).parents[1]}\n" in install
    assert service["EnvironmentFile"][0] in install
    assert f"install -d -m 755 {layout.config}\n" in install
    asks = block("sudo -u")
    assert f"-u {user} " in asks
    assert layout.command[0] in asks
    assert [f"{key}={layout.env[key]}" in asks for key in ("LITELLM_REGISTRY", "LITELLM_REGISTRY_STATE")] == [
        True,
        True,
    ]
    docker = block("docker compose")
    assert f"{compose()['image']} --config {of_compose().config}/litellm-config.yaml" in docker


def test_the_yaml_of_the_gpus_is_valid(tmp_path: Path) -> None:
    """The block for declared memory goes into the shipped registry as it stands."""
    [text] = re.findall(r"^  ```yaml\n(.*?)^  ```$", TEXT, re.M | re.S)
    registry = yaml.safe_load((ROOT / "model-registry.yaml").read_text())
    registry["gpu_residency_policy"] |= yaml.safe_load(text)["gpu_residency_policy"]
    (tmp_path / "r.yaml").write_text(yaml.safe_dump(registry))
    assert load_registry(tmp_path / "r.yaml").gpu_residency_policy.foreign_mb == 500


def test_its_links_exist() -> None:
    """Every link leads to a file."""
    links = re.findall(r"\]\(([^)#]+)", TEXT)
    assert [one for one in links if not (DEPLOY / one).exists()] == []
