"""The Dockerfile's install step, run as it stands on a venv that is like LiteLLM's image: LiteLLM in it, no pip, no NVML."""

from __future__ import annotations

import base64
import ensurepip
import hashlib
import importlib.metadata
import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest
from deploy_kit import instructions, last

from tests.host.proxy import ROOT

# What is here because of us, and not in LiteLLM's image.
OURS = re.compile(r"(?i)^(_*litellm_registry_hook|pynvml|nvidia_ml_py|example\.|pip$|pip-|__pycache__|others\.pth)")
DEBIAN = Path("/usr/share/python-wheels")


def bundled_pip() -> Path | None:
    places = (Path(ensurepip.__file__).parent / "_bundled", DEBIAN)
    return next((one for place in places for one in sorted(place.glob("pip-*.whl"))), None)


pytestmark = [
    pytest.mark.host,
    pytest.mark.skipif(bundled_pip() is None, reason="this Python carries no wheel of pip"),
]


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the first stage makes: the plugin's wheel, and the driver's."""
    folder = tmp_path_factory.mktemp("wheels")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    driver = importlib.metadata.distribution("nvidia-ml-py")
    assert driver.files is not None
    name = f"nvidia_ml_py-{driver.version}"
    rows = []
    with zipfile.ZipFile(folder / f"{name}-py3-none-any.whl", "w") as wheel:
        for file in driver.files:
            if file.suffix in {".pyc"} or file.name in {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"}:
                continue
            raw = Path(str(driver.locate_file(file))).read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(raw).digest()).decode().rstrip("=")
            rows.append(f"{file},sha256={digest},{len(raw)}")
            wheel.writestr(str(file), raw)
        rows.append(f"{name}.dist-info/RECORD,,")
        wheel.writestr(f"{name}.dist-info/RECORD", "\n".join(rows) + "\n")
    return folder


class Image:
    """A venv as LiteLLM's image has it, and the folder that stands for its /tmp."""

    def __init__(self, folder: Path, wheels: list[Path]) -> None:
        self.tmp = folder / "tmp"
        (self.tmp / "wheels").mkdir(parents=True)
        (self.tmp / "pip").mkdir()
        for wheel in wheels:
            (self.tmp / "wheels" / wheel.name).symlink_to(wheel)
        pip = bundled_pip()
        assert pip is not None
        (self.tmp / "pip" / pip.name).symlink_to(pip)
        venv.create(folder / "venv", with_pip=False)
        self.bin = folder / "venv" / "bin"
        [self.site] = (folder / "venv" / "lib").glob("python*/site-packages")
        # Each package of ours by a link: what pip would move, it would move here and not in this venv.
        for one in Path(sysconfig.get_path("purelib")).iterdir():
            if not OURS.match(one.name):
                (self.site / one.name).symlink_to(one)

    def run_step(self, version: str) -> subprocess.CompletedProcess[str]:
        """Run the RUN instruction that installs, by the shell that the Dockerfile names."""
        [step] = [
            text for name, text in instructions() if name == "RUN" and "/tmp/wheels" in text and "--no-index" in text
        ]
        shell = [word.strip('" ') for word in last("SHELL").strip("[]").split(",")]
        env = {"PATH": f"{self.bin}:/usr/bin:/bin", "LITELLM_VERSION": version, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        words = [*shell, step.replace("/tmp/", f"{self.tmp}/")]
        return subprocess.run(words, env=env, capture_output=True, text=True, timeout=300)

    def has_plugin(self) -> bool:
        return (self.bin / "litellm-registry").exists()


VERSION = importlib.metadata.version("litellm")


def test_it_is_installed_and_nothing_moves(tmp_path: Path, wheels: Path) -> None:
    """Plugin and driver are added; every other package stays, LiteLLM above all; the step cleans up."""
    image = Image(tmp_path, list(wheels.iterdir()))
    before = {one.name: one.readlink() for one in image.site.iterdir() if one.is_symlink()}
    done = image.run_step(VERSION)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {one.name: one.readlink() for one in image.site.iterdir() if one.is_symlink()} == before
    added = {one.name for one in image.site.glob("*.dist-info") if not one.is_symlink()}
    assert {name.partition("-")[0] for name in added} == {"litellm_registry_hook", "nvidia_ml_py"}
    assert list(image.tmp.iterdir()) == []


def test_another_litellm_ends_the_build(tmp_path: Path, wheels: Path) -> None:
    """An image whose LiteLLM is not the version of the tag is refused before anything is installed."""
    image = Image(tmp_path, list(wheels.iterdir()))
    done = image.run_step("1.104.0")
    assert (done.returncode, done.stderr) == (1, "this is not LiteLLM 1.104.0\n")
    assert not image.has_plugin()


def test_what_the_image_lacks_ends_the_build(tmp_path: Path, wheels: Path) -> None:
    """Nothing comes from an index: without the driver's wheel the step fails and names it."""
    image = Image(tmp_path, [one for one in wheels.iterdir() if one.name.startswith("litellm")])
    done = image.run_step(VERSION)
    assert done.returncode != 0
    assert "nvidia-ml-py" in done.stderr
    assert not image.has_plugin()


def test_the_first_stage_has_what_the_wheel_is_made_of() -> None:
    """The files that it copies exist, and the ignore file lets them through."""
    copied = [
        words for name, text in instructions() if name == "COPY" and "--from" not in text for words in text.split()[:-1]
    ]
    allowed = [
        line[1:] for line in (ROOT / "deploy/Dockerfile.dockerignore").read_text().splitlines() if line[:1] == "!"
    ]
    assert sorted(copied) == sorted(allowed)
    assert [name for name in copied if not (ROOT / name).exists()] == []


def test_the_versions_agree() -> None:
    """One version of LiteLLM in Dockerfile, compose file, and the constraints that the tests run on."""
    import yaml

    service = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text())["services"]["litellm"]
    pinned = re.search(r"^litellm==(.*)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert pinned is not None
    versions = {
        next(text for name, text in instructions() if name == "ARG").partition("=")[2],
        service["build"]["args"]["LITELLM_VERSION"],
        service["image"].partition(":")[2],
        pinned[1],
    }
    assert versions == {pinned[1]}
