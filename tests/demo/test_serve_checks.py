"""What `litellm-registry serve` refuses before anything is started, and what it warns of."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path

import pytest
from upstreams import free_port

from litellm_registry_hook.cli.main import generate_main, main
from litellm_registry_hook.cli.serve import NEW_KEY, master_key_problem
from litellm_registry_hook.demo import proxy

SHIPPED = Path(__file__).parents[2] / "model-registry.yaml"
STRONG = "sk-correct-horse-battery-staple"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working directory with the shipped registry and no variables that steer us."""
    shutil.copy(SHIPPED, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LITELLM_REGISTRY", raising=False)
    monkeypatch.delenv("LITELLM_MASTER_KEY", raising=False)
    return tmp_path


def refusal(capsys, *arguments) -> tuple[int, str]:
    capsys.readouterr()
    code = main(["serve", *arguments])
    out, err = capsys.readouterr()
    assert out == ""
    return code, err


@pytest.mark.parametrize("demo", [(), ("--demo",)])
def test_an_invalid_registry_is_listed_and_nothing_starts(folder, capsys, demo):
    """Every problem of the registry is printed, exit 2."""
    (folder / "model-registry.yaml").write_text("version: 1\nmodels: []\nroutings: {}\n")

    code, err = refusal(capsys, *demo)

    assert code == 2
    assert err.startswith("error: the registry model-registry.yaml is not valid, ")
    assert "routings" in err
    assert "routing" in err


def test_a_missing_config(folder, capsys):
    """Without a config the message names the command that writes one."""
    assert refusal(capsys, "--config", "nope.yaml") == (
        2,
        "error: there is no LiteLLM config nope.yaml; write one with: generate-litellm-config\n",
    )


def test_a_missing_and_a_weak_admin_key(folder, capsys, monkeypatch):
    """No admin key, or that of every tutorial, is refused with a command that makes one."""
    generate_main([])

    missing = refusal(capsys)
    monkeypatch.setenv("LITELLM_MASTER_KEY", "sk-1234")
    weak = refusal(capsys)

    assert missing == (
        2,
        f"error: LITELLM_MASTER_KEY is not set, and without an admin key everybody is admin; make one: {NEW_KEY}\n",
    )
    assert weak == (
        2,
        f"error: LITELLM_MASTER_KEY is too weak: it has 7 characters, fewer than 20; make one: {NEW_KEY}\n",
    )


@pytest.mark.parametrize(
    ("settings", "environ", "problem"),
    [
        ({"master_key": STRONG}, {}, ""),
        ({"master_key": "os.environ/MY_KEY"}, {"MY_KEY": STRONG}, ""),
        ({"master_key": "os.environ/MY_KEY"}, {}, "MY_KEY is not set, "),
        ({"master_key": "sk-1234"}, {}, "general_settings.master_key in c.yaml is too weak: "),
        ({}, {"LITELLM_MASTER_KEY": STRONG}, ""),
        ({"custom_auth": "my.auth"}, {}, ""),
        ({"custom_auth": "litellm_registry_hook.user_api_key_auth"}, {}, "LITELLM_MASTER_KEY is not set, "),
    ],
)
def test_where_the_admin_key_comes_from(settings, environ, problem):
    """The config's own key, the variable it names, or LITELLM_MASTER_KEY; a foreign custom_auth does without."""
    found = master_key_problem({"general_settings": settings}, environ, "c.yaml")

    assert found.startswith(problem)
    assert bool(found) == bool(problem)


@pytest.mark.parametrize("demo", [(), ("--demo",)])
def test_a_port_in_use(folder, capsys, monkeypatch, demo):
    """A port that something listens on is refused: LiteLLM itself would silently take another one."""
    generate_main([])
    monkeypatch.setenv("LITELLM_MASTER_KEY", STRONG)
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]

        code, err = refusal(capsys, "--port", str(port), *demo)

    assert (code, err) == (
        2,
        f"error: port {port} on 127.0.0.1 cannot be used (Address already in use); "
        "stop what listens there or give --port (make run PORT=…)\n",
    )


def test_options_without_effect(folder, capsys):
    """--config with --demo, and --json without it, are usage errors."""
    assert refusal(capsys, "--demo", "--config", "c.yaml") == (
        2,
        "error: --config has no effect with --demo, which writes a config of its own. "
        "(see `litellm-registry serve --help`)\n",
    )
    code, err = refusal(capsys, "--json")
    assert code == 2
    assert err.startswith("error: --json has no effect without --demo")


def test_without_litellm_one_line_says_what_to_install(folder, capsys, monkeypatch):
    """Where LiteLLM is not installed the answer is the pip command."""
    monkeypatch.setattr(proxy.importlib.util, "find_spec", lambda name: None)

    assert refusal(capsys, "--port", str(free_port())) == (
        2,
        "error: LiteLLM is not installed; install it with: pip install 'litellm-registry-hook[proxy]'\n",
    )


def test_a_litellm_that_is_too_old_is_named_before_it_is_imported(folder, capsys, monkeypatch):
    """A release without what the gates stand on: exit 2 at once, with those that are known to work."""
    old = folder / "old"
    (old / "litellm").mkdir(parents=True)
    (old / "litellm/__init__.py").write_text("raise RuntimeError('imported')\n")
    (old / "litellm-1.104.8.dist-info").mkdir()
    (old / "litellm-1.104.8.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: litellm\nVersion: 1.104.8\n")
    monkeypatch.syspath_prepend(old)

    assert refusal(capsys) == (
        2,
        "error: LiteLLM 1.104.8 lacks what the registry's gates stand on, and its proxy would not start; install one that "
        "is known to work (1.106.x and 1.108.x); see docs/compatibility.md\n",
    )
