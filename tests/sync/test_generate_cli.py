"""The command: output, exit codes, and what is never printed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result
from sync_kit import CONFIGS, ROOT, SHIPPED

from litellm_registry_hook.cli.generate import generate

BEFORE = (CONFIGS / "gap" / "before.yaml").read_text()
MODEL = {"id": "m", "role": "chat", "lifecycle": "always-on", "metered": False, "litellm": {"model": "ollama_chat/m"}}
PLACE = {"endpoints": [{"api_base": "http://127.0.0.1:1"}]}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a registry of one model."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LITELLM_REGISTRY", raising=False)
    write_registry(tmp_path, {**MODEL, **PLACE})
    return tmp_path


def write_registry(folder: Path, *models: object) -> None:
    data = {"version": 1, "models": list(models), "routing": {"tiers": {"small": ["m"]}}}
    (folder / "model-registry.yaml").write_text(yaml.safe_dump(data, sort_keys=False))


def run(*args: str) -> Result:
    return CliRunner().invoke(generate, args)


CREATED = """\
# Config of the LiteLLM proxy. The entries marked managed_by: litellm-registry-hook are written by
# generate-litellm-config: change the registry and run it again. Everything else is yours.
model_list:
  - model_name: m
    litellm_params:
      model: ollama_chat/m
      api_base: "http://127.0.0.1:1"
    model_info:
      id: m@0
      managed_by: litellm-registry-hook
      mode: chat
      disable_background_health_check: true

litellm_settings:
  callbacks: [litellm_registry_hook.proxy_handler_instance]

general_settings:
  master_key: os.environ/LITELLM_MASTER_KEY
  health_check_skip_disabled_background_models: true
"""


def test_a_missing_config_is_made(folder: Path) -> None:
    """A first run makes the file, says what it did in one line, and a second run has nothing to do."""
    first, second = run(), run()

    assert (first.exit_code, first.stdout, first.stderr) == (
        0,
        "litellm-config.yaml: created: added m@0; settings litellm_settings.callbacks, "
        "general_settings.health_check_skip_disabled_background_models; restart the proxy to load it\n",
        "",
    )
    assert (folder / "litellm-config.yaml").read_text() == CREATED
    assert (second.exit_code, second.stdout, second.stderr) == (
        0,
        "litellm-config.yaml: up to date, nothing written\n",
        "",
    )
    assert sorted(path.name for path in folder.iterdir()) == ["litellm-config.yaml", "model-registry.yaml"]


def test_check_prints_each_difference(folder: Path) -> None:
    """--check names every difference by path with both values, writes nothing and exits 1; 0 once it is clean."""
    run()
    config = folder / "litellm-config.yaml"
    clean = run("--check")
    config.write_text(
        config.read_text().replace("127.0.0.1:1", "127.0.0.1:2").replace("mode: chat", "mode: embedding\n      x: 1")
    )
    before = config.read_bytes()

    found = run("--check")

    assert (clean.exit_code, clean.output) == (0, "litellm-config.yaml: up to date\n")
    assert found.exit_code == 1
    assert found.output == (
        'model_list[m@0].litellm_params.api_base: "http://127.0.0.1:2" -> "http://127.0.0.1:1"\n'
        'model_list[m@0].model_info.mode: "embedding" -> "chat"\n'
        "model_list[m@0].model_info.x: 1 -> (none)\n"
        "litellm-config.yaml: changed m@0\n"
    )
    assert config.read_bytes() == before


def test_check_of_a_missing_file(folder: Path) -> None:
    """--check of a file that is not there exits 1 and makes nothing."""
    found = run("--check")

    assert found.exit_code == 1
    assert found.output.splitlines()[-1].startswith("litellm-config.yaml: new file; added m@0; settings ")
    assert not (folder / "litellm-config.yaml").exists()


def test_diff(folder: Path) -> None:
    """--diff prints a unified diff, writes nothing and exits 1; without differences it prints nothing and exits 0."""
    run()
    config = folder / "litellm-config.yaml"
    none = run("--diff")
    config.write_text(config.read_text().replace("127.0.0.1:1", "127.0.0.1:2"))

    found = run("--diff")

    assert (none.exit_code, none.output) == (0, "")
    assert found.exit_code == 1
    assert found.output == (
        "--- litellm-config.yaml\n"
        "+++ litellm-config.yaml (generated)\n"
        "@@ -4,7 +4,7 @@\n"
        "   - model_name: m\n"
        "     litellm_params:\n"
        "       model: ollama_chat/m\n"
        '-      api_base: "http://127.0.0.1:2"\n'
        '+      api_base: "http://127.0.0.1:1"\n'
        "     model_info:\n"
        "       id: m@0\n"
        "       managed_by: litellm-registry-hook\n"
    )


def test_removed_model_and_changed_setting_are_named(folder: Path) -> None:
    """The one line of a plain run names removed entries and settings with the value they had."""
    run()
    config = folder / "litellm-config.yaml"
    config.write_text(config.read_text().replace("background_models: true", "background_models: false"))
    write_registry(folder, {**MODEL, **PLACE, "id": "m2"}, {**MODEL, **PLACE})
    run()
    config.write_text(config.read_text().replace("background_models: true", "background_models: false"))
    write_registry(folder, {**MODEL, **PLACE})

    done = run()

    assert done.output == (
        "litellm-config.yaml: written: removed m2@0; settings "
        "general_settings.health_check_skip_disabled_background_models (was false); restart the proxy to load it\n"
    )
    assert config.read_text() == CREATED


def test_the_gap_is_closed(folder: Path) -> None:
    """With the shipped registry a plain run and --check only warn about the old entries; --adopt replaces them."""
    (folder / "model-registry.yaml").write_text((ROOT / "model-registry.yaml").read_text())
    config = folder / "litellm-config.yaml"
    config.write_text(BEFORE)
    shadow = (
        "warning: litellm-config.yaml: shadowed_entry: model_list[{}]: this entry is not ours and carries '{}', "
        "a name of the registry ({}) (run generate-litellm-config --adopt to replace it, or rename it)\n"
    )
    both = shadow.format(0, "kimi", "model id") + shadow.format(1, "embedder", "alias")

    plain, check, adopt = run(), run("--check"), run("--adopt")

    assert (plain.exit_code, plain.stderr) == (0, both)
    assert (check.exit_code, check.stdout, check.stderr) == (0, "litellm-config.yaml: up to date\n", both)
    assert adopt.exit_code == 0
    assert adopt.stdout == "litellm-config.yaml: written: adopted kimi, embedder; restart the proxy to load it\n"
    assert adopt.stderr.startswith(
        "warning: litellm-config.yaml: vectors_not_comparable: model_list[1]: 'embedder' was "
    )
    assert "nomic" not in config.read_text()
    assert [m["model_name"] for m in yaml.safe_load(config.read_text())["model_list"]] == [
        m["id"] for m in SHIPPED["models"]
    ]


SECRETS = {
    "api_key": "sk-11111111aaaa",
    "aws_secret_access_key": "topsecret1",
    "password": 12345678,
    "extra_headers": {"X-Thing": "headervalue"},
    "vertex_credentials": {"private": "pem-block"},
    "api_base": "https://user:hunter2@host.example/v1?api_token=inquery&x=1",
    "organization": "plain sk-22222222bbbb text",
}
HIDDEN = [
    "sk-1111",
    "topsecret",
    "12345678",
    "headervalue",
    "pem-block",
    "hunter2",
    "inquery",
    "sk-2222",
    "sk-3333",
    "oldkey",
]


@pytest.mark.parametrize("args", [["--check"], ["--diff"], ["--check", "--json"], ["--diff", "--json"], ["--json"], []])
def test_secrets_are_never_printed(folder: Path, args: list[str]) -> None:
    """No output shows a secret, whether it is added, changed, removed, foreign, or in a comment."""
    write_registry(folder, {**MODEL, "litellm": {"model": "openai/m", **SECRETS, "max_tokens": 77}})
    (folder / "litellm-config.yaml").write_text(
        """\
model_list:
  - {model_name: old, litellm_params: {api_key: sk-33333333cccc}, model_info: {managed_by: litellm-registry-hook, id: old@0}}
  # api_key: oldkey-in-comment
  - model_name: small
    litellm_params: {model: openai/x, api_key: oldkey-foreign, api_base: "http://a:hunter2@h"}
  - model_name: m
    litellm_params: {model: openai/m, api_key: oldkey-changed}
    model_info: {managed_by: litellm-registry-hook, id: m@0}
"""
    )

    found = run(*args)

    assert found.exit_code == (1 if {"--check", "--diff"} & set(args) else 0)
    assert [secret for secret in HIDDEN if secret in found.output] == []
    if args and args != ["--json"]:
        assert "77" in found.output


def test_environment_names_are_shown_and_a_new_secret_is_visible_as_new(folder: Path) -> None:
    """A diff shows os.environ names, and that a secret changes without showing it."""
    write_registry(
        folder, {**MODEL, "litellm": {"model": "openai/m", "api_key": "os.environ/MY_KEY", "token": "first"}}
    )
    run()
    write_registry(
        folder, {**MODEL, "litellm": {"model": "openai/m", "api_key": "os.environ/MY_KEY", "token": "second"}}
    )

    diff, check = run("--diff"), run("--check")

    assert "       api_key: os.environ/MY_KEY\n-      token: ***\n+      token: *** (new)\n" in diff.output
    assert check.output == (
        'model_list[m@0].litellm_params.token: "***" -> "***" (the values differ; secrets are not shown)\n'
        "litellm-config.yaml: changed m@0\n"
    )


def test_json(folder: Path) -> None:
    """--json prints one object with every difference and warning."""
    write_registry(folder, {**MODEL, **PLACE})
    run()
    config = folder / "litellm-config.yaml"
    config.write_text(config.read_text().replace("mode: chat", "mode: x") + "assistant_settings: {a: 1}\n")

    found = run("--check", "--json")

    assert found.exit_code == 1
    assert json.loads(found.stdout) == {
        "config": "litellm-config.yaml",
        "changed": True,
        "written": False,
        "differences": [{"path": "model_list[m@0].model_info.mode", "kind": "changed", "was": "x", "wanted": "chat"}],
        "warnings": [
            {
                "code": "assistant_settings",
                "path": "assistant_settings",
                "message": "assistants call a provider outside the router",
                "hint": "remove this section: the gates refuse those routes",
            }
        ],
    }


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a: [\n", "litellm-config.yaml:2: "),
        (b"a: 1\n  b: 2\n", "litellm-config.yaml:2: mapping values are not allowed in this context"),
        (b"\xff\xfe", "litellm-config.yaml:1: not UTF-8: save the file as UTF-8"),
        (b"a: \x00\n", "litellm-config.yaml:1: a character that YAML does not allow"),
        (b"[" * 5000, "litellm-config.yaml"),
        (b"a: 2026-13-45\n", "litellm-config.yaml: month must be in 1..12"),
    ],
)
def test_a_broken_config_is_an_error_with_its_line(folder: Path, content: bytes, message: str) -> None:
    """A config that is not YAML is an error with file and line, exit 2, and stays as it is."""
    (folder / "litellm-config.yaml").write_bytes(content)

    found = run()

    assert found.exit_code == 2
    assert found.stdout == ""
    assert found.stderr.startswith(f"error: {message}")
    assert "Traceback" not in found.stderr
    assert (folder / "litellm-config.yaml").read_bytes() == content


def test_a_broken_registry_is_an_error(folder: Path) -> None:
    """A registry that is not valid is an error, exit 2, and the config stays as it is."""
    (folder / "model-registry.yaml").write_text("version: 1\n")

    found = run()

    assert (found.exit_code, found.stdout) == (2, "")
    assert found.stderr.startswith("error: ")
    assert not (folder / "litellm-config.yaml").exists()


def test_files_can_be_named(folder: Path) -> None:
    """--registry and --config name other files."""
    os.rename("model-registry.yaml", "other.yaml")

    found = run("--registry", "other.yaml", "--config", "sub.yaml")

    assert found.exit_code == 0
    assert (folder / "sub.yaml").read_text() == CREATED


def test_the_folder_must_exist(folder: Path) -> None:
    """A config in a folder that does not exist is an error, exit 2."""
    found = run("--config", "no/such/config.yaml")

    assert (found.exit_code, found.stderr) == (
        2,
        "error: no/such/config.yaml: cannot be written: No such file or directory\n",
    )


def test_bad_usage_is_exit_2(folder: Path) -> None:
    """An unknown option is exit 2."""
    assert run("--nonsense").exit_code == 2


def test_importing_the_command_does_not_import_litellm() -> None:
    """The command starts without LiteLLM, whose import takes seconds."""
    code = (
        "import sys, litellm_registry_hook.cli.generate; sys.exit('litellm' in sys.modules or 'asyncio' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False, cwd=ROOT).returncode == 0
