"""docs/keys.md is followed as it is written: a proxy without a database, a key, its successor, and its end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
import yaml

from tests.host.proxy import free_port
from tests.host.shapes import registry_for
from tests.upstreams import Upstream

pytestmark = pytest.mark.host
ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/keys.md").read_text(encoding="utf-8")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SH = [text for language, text in FENCE.findall(PAGE) if language == "sh"]
YAML = [text for language, text in FENCE.findall(PAGE) if language == "yaml"]
PLAIN = [text for language, text in FENCE.findall(PAGE) if language == ""]
START_S = 150
MOMENT = r"20\d\d-\d\d-\d\d \d\d:\d\d UTC"


def same_but_for_what_varies(text: str) -> str:
    text = re.sub(r"^sk-.*$", "sk-…", text, flags=re.MULTILINE)
    return re.sub(MOMENT, "MOMENT", re.sub(r"(?<= )[0-9a-f]{8}(?= )", "TOKEN", text))


def test_the_page_is_followed(ups: dict[str, Upstream], tmp_path: Path) -> None:
    """Each block in its order does what the page says, with the output that it shows."""
    generate, serve, create, call, rotate, show, revoke = SH
    folder, port = tmp_path / "own", free_port()
    folder.mkdir()
    (folder / "model-registry.yaml").write_text(yaml.safe_dump(registry_for(ups), sort_keys=False))
    (folder / "litellm-config.yaml").write_text(YAML[0])
    kept = {name: os.environ[name] for name in ("LANG", "LD_LIBRARY_PATH") if name in os.environ}
    path = f"{Path(sys.prefix) / 'bin'}{os.pathsep}{os.environ['PATH']}"
    env = {**kept, "HOME": str(tmp_path), "PATH": path, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}

    def run(command: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["sh", "-c", command.replace("4000", str(port))],
            cwd=folder, env=env | more, capture_output=True, text=True, timeout=90,
        )  # fmt: skip

    made_config = run(generate)
    with (tmp_path / "log").open("w") as log:
        proxy = subprocess.Popen(
            ["sh", "-c", f"{serve.rstrip()} --port {port}"],
            cwd=folder, env=env, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    try:
        end = time.monotonic() + START_S
        while True:
            try:
                if httpx.get(f"http://127.0.0.1:{port}/health/liveliness", timeout=2).status_code == 200:
                    break
            except httpx.HTTPError:
                pass
            assert proxy.poll() is None and time.monotonic() < end, (tmp_path / "log").read_text()[-3000:]
            time.sleep(0.2)
        created = run(create)
        served = run(call, KEY=created.stdout.splitlines()[0])
        rotated = run(rotate)
        served_again = run(call, KEY=rotated.stdout.splitlines()[0])
        listed = run(show)
        revoked = run(revoke)
        time.sleep(2)
        refused = run(call, KEY=rotated.stdout.splitlines()[0])
    finally:
        os.killpg(proxy.pid, signal.SIGINT)
        try:
            proxy.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(proxy.pid, signal.SIGKILL)
            proxy.wait(20)

    assert made_config.returncode == 0, made_config.stderr
    settings = yaml.safe_load((folder / "litellm-config.yaml").read_text())
    assert settings["general_settings"]["custom_auth_run_common_checks"] is True
    assert settings["litellm_settings"]["enable_post_custom_auth_checks"] is True
    state = f"state: {tmp_path}/.local/state/litellm-registry-hook/state.sqlite\n"
    assert [done.stderr for done in (created, rotated, revoked)] == [state] * 3
    assert same_but_for_what_varies(created.stdout) == same_but_for_what_varies(PLAIN[0])
    assert same_but_for_what_varies(rotated.stdout) == same_but_for_what_varies(PLAIN[0])
    assert same_but_for_what_varies(listed.stdout) == same_but_for_what_varies(PLAIN[1])
    assert "answer from kimi" in served.stdout
    assert "answer from kimi" in served_again.stdout
    assert '"message":"this virtual key was revoked on ' in refused.stdout


@pytest.mark.parametrize("command", ["create", "list", "revoke", "rotate"])
def test_the_synopsis_is_the_help(command: str) -> None:
    """The options that the page names are those of the command."""
    [line] = [line for line in PLAIN[2].splitlines() if f" {command} " in line]
    told = subprocess.run(
        [Path(sys.executable).parent / "litellm-registry", "keys", command, "--help"], capture_output=True, text=True
    ).stdout

    options = set(re.findall(r"--[a-z]+", line))
    listed = {
        word for text in told.splitlines() if text.startswith("  -") for word in re.findall(r"--[a-z]+", text[:24])
    }
    assert listed - options <= {"--registry", "--json", "--help"}
    assert options <= listed
