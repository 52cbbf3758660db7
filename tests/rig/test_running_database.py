"""A model added in the UI, on a real PostgreSQL: `generate-litellm-config --check --running` finds it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from tests.host.proxy import MASTER, ROOT, Proxy

pytestmark = pytest.mark.rig
GENERATE = Path(sys.executable).parent / "generate-litellm-config"


def check(proxy: Proxy, **env: str) -> tuple[int, list[str], str]:
    words = [GENERATE, "--check", "--running", proxy.url]
    whole = {**proxy.env, **env}
    done = subprocess.run(words, cwd=proxy.folder, env=whole, capture_output=True, text=True, timeout=60)
    lines = [line.replace(f"{proxy.url}: ", "") for line in done.stdout.splitlines()]
    return done.returncode, [line for line in lines if not line.startswith("not compared")], done.stderr


def test_a_model_of_the_ui_and_a_virtual_key(database: Mapping[str, str], tmp_path: Path) -> None:
    """Up to date; then a model by POST /model/new is told; a virtual key, which sees its models only, is refused."""
    (tmp_path / "model-registry.yaml").write_text((ROOT / "model-registry.yaml").read_text())
    env = {**database, "KIMI_API_KEY": "dummy", "PAID_API_KEY": "dummy"}
    config = tmp_path / "litellm-config.yaml"
    subprocess.run([GENERATE], cwd=tmp_path, env={"PATH": "/bin"}, check=True, capture_output=True)
    whole = yaml.safe_load(config.read_text())
    whole["general_settings"]["store_model_in_db"] = True
    config.write_text(yaml.safe_dump(whole))
    with Proxy(tmp_path, env=env) as proxy:
        code, lines, err = check(proxy)
        assert (code, lines[0]) == (0, "litellm-config.yaml: up to date"), (lines, err)
        assert lines[1].startswith("up to date: 5 deployments, registry ")
        assert "models_in_db" in err

        added = {"model_name": "from-the-ui", "litellm_params": {"model": "openai/x", "api_base": "http://127.0.0.1:9"}}
        made = proxy.post("/model/new", added, key=MASTER)
        assert made.status_code == 200, made.text
        code, lines, err = check(proxy)
        assert (code, len(lines), lines[-1]) == (1, 3, "1 thing not as the registry says")
        assert lines[1].startswith("added_in_ui: model 'from-the-ui' (")

        key = proxy.post("/key/generate", {"models": ["kimi"]}, key=MASTER).json()["key"]
        code, lines, err = check(proxy, LITELLM_MASTER_KEY=key)
        assert (code, lines) == (2, [])
        assert "is no proxy admin's" in err or "refuses the key" in err, err
