"""`litellm-registry doctor` as its users see it."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from doctor_kit import ROOT, House

from litellm_registry_hook.cli.main import main
from litellm_registry_hook.core.doctor import CODES, RULES
from litellm_registry_hook.core.doctor_config import PASS_THROUGH_KEYS

CONFIGS = ROOT / "tests/configs"
NEW_KEY = "make a new one: python3 -c 'import secrets; print(\"sk-\" + secrets.token_urlsafe(32))'"
SECRETS = [
    "sk-in-the-params-123456",
    "sk-in-the-env-section-1234",
    "hunter2-in-a-header",
    "sk-weak",
    "pass-through-secret",
]


@pytest.fixture
def doctor(house: House, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    """Run the command in the house, with its environment and no provider key."""
    monkeypatch.chdir(house.folder)
    for name in (*PASS_THROUGH_KEYS, "LITELLM_REGISTRY", "STORE_MODEL_IN_DB"):
        monkeypatch.delenv(name, raising=False)
    for name, value in house.environ.items():
        monkeypatch.setenv(name, value)

    def call(*arguments: str) -> tuple[int, str, str]:
        code = main(("doctor", *arguments))
        return code, *capsys.readouterr()

    return call


def test_the_shipped_files_are_clean(
    doctor, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The shipped registry and config, byte for byte, with a strong admin key and no provider key: nothing."""
    for name in ("model-registry.yaml", "litellm-config.yaml"):
        shutil.copy(ROOT / name, Path.cwd() / name)

    assert doctor() == (0, "", "model-registry.yaml, litellm-config.yaml: nothing found\n")
    assert json.loads(doctor("--json")[1]) == {
        "registry": "model-registry.yaml", "config": "litellm-config.yaml", "ok": True, "findings": [],
    }  # fmt: skip


def test_findings_as_text(doctor, house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gravest come first, each with file, line, severity, code and place, and how to close it below."""
    monkeypatch.setenv("LITELLM_MASTER_KEY", "sk-1234")
    house.write(
        {"routing": {"mode": "observe", "metered_opt_in": ["agent:torgash"]}}, {"assistant_settings": {"a": "b"}}
    )
    house.add_entries({"model_name": "*", "litellm_params": {"model": "openai/*"}})

    assert doctor() == (
        1,
        f"""\
environment: high: master_key_weak: LITELLM_MASTER_KEY: the admin key can be guessed: it has 7 characters, fewer than 20; who has it can opt keys in
    {NEW_KEY}
model-registry.yaml:{line(house.registry_file, "  mode: observe")}: high: observe_mode: routing.mode: refusals are logged and not carried out; only metered models of the registry stay closed
    write enforce once the log says what you expect
litellm-config.yaml:{line(house.config_file, "assistant_settings:")}: medium: assistant_settings: assistant_settings: assistants call a provider outside the router
    remove this section: the gates refuse those routes
litellm-config.yaml:{line(house.config_file, "- model_name: '*'")}: medium: wildcard_entry: model_list[5]: '*' lets a caller name any model of a provider
    list the models that are meant, or give them a place in the registry
model-registry.yaml:{line(house.registry_file, "  - agent:torgash")}: low: alias_without_effect: routing.metered_opt_in[0]: the alias 'agent:torgash' opts nobody in: in LiteLLM's database anybody may take one
    pin the key: write token: sha256:<hex> beside its alias
""",
        "model-registry.yaml, litellm-config.yaml: 5 findings (2 high, 2 medium, 1 low)\n",
    )


def line(path: Path, text: str) -> int:
    """The number of the line that is this text."""
    return path.read_text().splitlines().index(text) + 1


def test_findings_as_json(doctor, house: House) -> None:
    """--json prints files, verdict and findings, on stdout alone."""
    house.write({"routing": {"master_key_metered": True}})

    code, out, err = doctor("--json")

    assert (code, err) == (1, "")
    assert json.loads(out) == {
        "registry": "model-registry.yaml",
        "config": "litellm-config.yaml",
        "ok": False,
        "findings": [
            {
                "code": "master_key_metered",
                "severity": "medium",
                "file": "model-registry.yaml",
                "path": "routing.master_key_metered",
                "message": "the admin key reaches every metered model, without a grant, a cap or an end",
                "fix": "write false and grant a virtual key",
                "line": line(house.registry_file, "  master_key_metered: true"),
            }
        ],
    }


@pytest.mark.parametrize(
    "path",
    sorted(one for one in (CONFIGS / "corpus").iterdir() if one.suffix in {".yaml", ".json"}),
    ids=lambda p: p.name,
)
def test_odd_configs_are_looked_into(doctor, path: Path) -> None:
    """Whatever a config looks like, the answer is findings of known codes, never a traceback."""
    code, out, err = doctor("--config", str(path), "--json")

    assert (code, err) == (1, "")
    found = json.loads(out)["findings"]
    assert {one["code"] for one in found} <= set(CODES)
    assert "callback_missing" in {one["code"] for one in found} or "proxy_handler_instance" in path.read_text(
        "utf-8-sig"
    )


@pytest.mark.parametrize("path", sorted((CONFIGS / "refused").glob("*.yaml")), ids=lambda path: path.name)
def test_configs_that_cannot_be_compared_are_an_error(doctor, path: Path) -> None:
    """A config that the generator refuses is exit code 2 and one line that names it."""
    code, out, err = doctor("--config", str(path))

    assert (code, out) == (2, "")
    assert err.startswith(f"error: {path}")
    assert err.count("\n") == 1


def test_files_that_are_not_there(doctor, house: House) -> None:
    """A missing registry or config is an error with its remedy."""
    house.config_file.unlink()
    assert doctor() == (
        2, "", "error: there is no LiteLLM config litellm-config.yaml; write one with: generate-litellm-config\n",
    )  # fmt: skip

    house.registry_file.unlink()
    code, out, err = doctor()
    assert (code, out) == (2, "")
    assert err.startswith("error: the registry model-registry.yaml is not valid, 1 problem:\n")


def test_no_secret_is_printed(doctor, house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys in config, environment and registry are in no finding, whatever the findings are about."""
    monkeypatch.setenv("OPENAI_API_KEY", SECRETS[0])
    monkeypatch.setenv("LITELLM_MASTER_KEY", SECRETS[3])
    end = {
        "path": "/x",
        "target": "https://u:pass-through-secret@x.example",
        "headers": {"Authorization": SECRETS[2]},
        "auth": False,
    }
    house.write(
        {},
        {
            "environment_variables": {"ANTHROPIC_API_KEY": SECRETS[1]},
            "general_settings": {"pass_through_endpoints": [end], "custom_auth": "a.b"},
        },
    )
    text = house.config_file.read_text().replace("os.environ/KIMI_API_KEY", SECRETS[0])
    house.config_file.write_text(text)
    house.add_entries(
        {"model_name": "*", "litellm_params": {"model": "x", "api_key": SECRETS[0], "use_in_pass_through": True}}
    )

    shown = [doctor(), doctor("--json")]

    assert [code for code, _, _ in shown] == [1, 1]
    assert [secret for secret in SECRETS if any(secret in out + err for _, out, err in shown)] == []


def test_every_code_is_documented() -> None:
    """docs/doctor.md has one section for each code, in the order of the alphabet, with its severity."""
    page = (ROOT / "docs/doctor.md").read_text()
    severities: dict[str, Any] = {rule.code: rule.severity for rule in RULES}

    sections = re.findall(r"^### `([a-z0-9_]+)` \((\w+)\)$", page, re.MULTILINE)

    assert sections == [(code, severities[code]) for code in sorted(CODES)]


def test_a_rule_reads_and_does_not_write(house: House) -> None:
    """Looking changes no file: neither the config with drift nor the registry."""
    house.config_file.write_text(house.config_file.read_text().replace("num_ctx: 4096", "num_ctx: 8192"))
    before = {path.name: path.read_bytes() for path in house.folder.iterdir()}

    assert [one.code for one in house.findings()] == ["drift"]
    assert {path.name: path.read_bytes() for path in house.folder.iterdir()} == before
