"""The command line as its users see it: exit code, stdout, stderr."""

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from litellm_registry_hook.cli.main import main
from litellm_registry_hook.cli.run import run

ROOT = Path(__file__).parents[2]
SHIPPED = str(ROOT / "model-registry.yaml")
BAD = ROOT / "tests/registries/bad"
GOOD = ROOT / "tests/registries/good"
Answer = tuple[int, str, str]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    """Run the command line in the project's folder, with the keys of the shipped file set."""
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("LITELLM_REGISTRY", raising=False)
    monkeypatch.setenv("KIMI_API_KEY", "x")
    monkeypatch.setenv("PAID_API_KEY", "x")

    def call(*arguments: str) -> Answer:
        code = main(arguments)
        out, err = capsys.readouterr()
        return code, out, err

    return call


def test_list_prints_a_table(cli) -> None:
    """list shows each model with its tiers, role, lifecycle, whether it is metered, and mode."""
    assert cli("list") == (
        0,
        "ID             TIERS   ROLE                          LIFECYCLE    METERED  MODE\n"
        "kimi           large   main-reasoning                quota-gated  -        chat\n"
        "local-small    small   chat                          always-on    -        chat\n"
        "bge-m3         embed   embedder, routing-classifier  always-on    -        embedding\n"
        "tei-reranker   rerank  reranker                      on-demand    -        rerank\n"
        "paid-fallback  large   fallback                      cost-gated   metered  chat\n",
        "",
    )


@pytest.mark.parametrize("arguments", [("--json", "list"), ("list", "--json"), ("--json", "list", "--json")])
def test_json_works_before_and_after_the_command(cli, arguments: tuple[str, ...]) -> None:
    """--json may stand on either side; stdout then is JSON."""
    code, out, err = cli(*arguments)

    assert (code, err) == (0, "")
    assert json.loads(out)[2] == {
        "id": "bge-m3",
        "tiers": ["embed"],
        "role": ["embedder", "routing-classifier"],
        "lifecycle": "always-on",
        "metered": False,
        "mode": "embedding",
    }


@pytest.mark.parametrize("before", [True, False])
def test_registry_works_before_and_after_the_command(cli, before: bool) -> None:
    """--registry may stand on either side, and outranks LITELLM_REGISTRY."""
    option = ("--registry", str(GOOD / "no-models-yet.yaml"))

    assert cli(*option, "--json", "list") if before else cli("--json", "list", *option) == (0, "[]\n", "")


def test_the_option_nearest_to_the_command_wins(cli) -> None:
    """With --registry on both sides, the command's own counts."""
    assert cli("--registry", "/nowhere", "list", "--json", "--registry", str(GOOD / "no-models-yet.yaml")) == (
        0,
        "[]\n",
        "",
    )


def test_resolve_prints_the_entry(cli) -> None:
    """resolve prints the entry of the first usable model as JSON."""
    code, out, err = cli("resolve", "--tier", "small")

    assert (code, err) == (0, "")
    assert json.loads(out) == {
        "id": "local-small",
        "tier": "small",
        "role": "chat",
        "lifecycle": "always-on",
        "metered": False,
        "litellm": {"model": "ollama_chat/gemma3:4b"},
        "endpoints": [{"api_base": "http://127.0.0.1:11434"}],
        "gpu_residency": {"vram_mb": 3300, "num_ctx": 4096},
    }


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ((), 1),
        (("--allow-metered",), 1),
        (("--opted-in", "bot"), 1),
        (("--allow-metered", "--opted-in", "other"), 1),
        (("--allow-metered", "--opted-in", "bot"), 0),
    ],
)
def test_resolve_of_a_metered_model_wants_both_consents(
    cli, tmp_path: Path, options: tuple[str, ...], code: int
) -> None:
    """Only --allow-metered together with an opted-in key reaches a metered model; else exit code 1 and the reasons."""
    path = tmp_path / "r.yaml"
    text = (
        Path(SHIPPED).read_text().replace("large: [kimi, paid-fallback]", "large: [paid-fallback]\n    other: [kimi]")
    )
    path.write_text(text.replace("metered_opt_in: []", "metered_opt_in: [bot]"))

    answer = cli("--registry", str(path), "resolve", "--tier", "large", *options)

    assert answer[0] == code
    assert answer[2].startswith("error: nothing in the tier `large` can be used:\n  paid-fallback: metered: ") is (
        code == 1
    )
    assert (answer[1] == "") is (code == 1)


def test_an_unknown_tier_is_an_error(cli) -> None:
    """An unknown tier is exit code 2 and one line."""
    assert cli("--json", "resolve", "--tier", "larg") == (
        2,
        "",
        "error: the registry has no tier `larg`; did you mean `large`? tiers: large, small, embed, rerank\n",
    )


def test_probe_config_prints_one_or_all(cli) -> None:
    """probe-config prints the first probe, with --all the list."""
    code, out, _ = cli("probe-config", "--id", "local-small")
    all_code, all_out, _ = cli("probe-config", "--id", "local-small", "--all")

    assert (code, json.loads(out)) == (0, {"type": "always_on"})
    assert (all_code, json.loads(all_out)) == (
        0,
        [{"type": "always_on"}, {"type": "gpu_residency", "vram_mb": 3300, "never_evict_reserved_mb": 2900}],
    )


def test_probe_config_of_an_unknown_model_is_an_error(cli) -> None:
    """An unknown id is exit code 2."""
    assert cli("probe-config", "--id", "kimmi") == (
        2,
        "",
        "error: the registry has no model `kimmi`; did you mean `kimi`?\n",
    )


@pytest.mark.parametrize(
    ("headroom", "code", "reason"),
    [
        (
            "3300",
            0,
            "local-small fits: headroom 3300 MB, required 3300 MB, never-evict models not resident yet reserve 1700 MB "
            "(tei-reranker 1700)",
        ),
        (
            "3299",
            1,
            "local-small does not fit: headroom 3299 MB, required 3300 MB, never-evict models not resident yet reserve "
            "1700 MB (tei-reranker 1700)",
        ),
    ],
)
def test_preload_check_answers_yes_or_no(cli, headroom: str, code: int, reason: str) -> None:
    """preload-check prints ok and reason; no is exit code 1."""
    answer = cli("preload-check", "--id", "local-small", "--headroom-mb", headroom, "--resident", "bge-m3")

    assert (answer[0], json.loads(answer[1]), answer[2]) == (code, {"ok": code == 0, "reason": reason}, "")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "give --headroom-mb N (free memory in MB) or --live"),
        (
            ("--live", "--headroom-mb", "1"),
            "give --headroom-mb N or --live, not both: --live reads the free memory itself",
        ),
        (("--headroom-mb", "-1"), "Invalid value for '--headroom-mb': -1.0 is not in the range x>=0."),
    ],
)
def test_preload_check_wants_a_number(cli, options: tuple[str, ...], message: str) -> None:
    """Without usable numbers there is no answer, but an error that says what to give."""
    help_line = " (see `litellm-registry preload-check --help`)"

    assert cli("preload-check", "--id", "local-small", *options) == (2, "", f"error: {message}{help_line}\n")


def test_preload_check_knows_resident_ids(cli) -> None:
    """A misspelled --resident is an error, not silently nothing."""
    answer = cli("preload-check", "--id", "kimi", "--headroom-mb", "1", "--resident", "bge-m4")

    assert answer == (2, "", "error: the registry has no model `bge-m4`; did you mean `bge-m3`?\n")


def test_validate_of_a_good_file(cli) -> None:
    """A valid file is exit code 0, with the verdict on stderr."""
    assert cli("validate") == (0, "", "model-registry.yaml: valid, 0 errors, 0 warnings\n")


def test_validate_prints_every_problem(cli) -> None:
    """An invalid file is exit code 2, one line per problem on stdout."""
    code, out, err = cli("validate", str(BAD / "budget.yaml"))

    assert (code, err) == (2, f"{BAD}/budget.yaml: not valid, 6 errors, 0 warnings\n")
    assert out.replace(f"{BAD}/", "") == (BAD / "budget.txt").read_text()


@pytest.mark.parametrize(("strict", "code"), [((), 0), (("--strict",), 1)])
def test_validate_warnings_count_with_strict_only(
    cli, monkeypatch: pytest.MonkeyPatch, strict: tuple[str, ...], code: int
) -> None:
    """A warning is printed either way, and makes the exit code 1 with --strict."""
    monkeypatch.delenv("KIMI_API_KEY")

    assert cli("validate", *strict) == (
        code,
        "model-registry.yaml:14:99: warning: env_missing: models[0].litellm.api_key: the environment variable KIMI_API_KEY "
        "is not set (set it where the proxy runs)\n",
        "model-registry.yaml: valid, 0 errors, 1 warning\n",
    )


def test_validate_as_json(cli) -> None:
    """With --json the report is one object and stderr is empty."""
    code, out, err = cli("validate", "--json", str(BAD / "version-2.yaml"))

    assert (code, err) == (2, "")
    assert json.loads(out) == {
        "file": str(BAD / "version-2.yaml"),
        "ok": False,
        "problems": [
            {
                "code": "bad_value",
                "path": "version",
                "message": "version 2 is not known",
                "hint": "write `version: 1`",
                "line": 1,
                "column": 10,
                "severity": "error",
            }
        ],
    }


def test_an_invalid_registry_stops_every_command(cli) -> None:
    """A command on an invalid file is exit code 2, with every problem on stderr."""
    path = BAD / "version-2.yaml"

    assert cli("--registry", str(path), "list") == (
        2,
        "",
        f"error: the registry {path} is not valid, 1 problem:\n{path}:1:10: bad_value: version: version 2 is not known "
        "(write `version: 1`)\n",
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nope",), "No such command 'nope'. (see `litellm-registry --help`)"),
        (("resolve",), "Missing option '--tier'. (see `litellm-registry resolve --help`)"),
    ],
)
def test_bad_usage_is_an_error(cli, arguments: tuple[str, ...], message: str) -> None:
    """Bad usage is exit code 2 and one line that says where help is."""
    code, out, err = cli(*arguments)

    assert (code, out, err.replace('"', "'")) == (2, "", f"error: {message}\n")


def test_help_lists_the_commands_without_importing_them() -> None:
    """--help costs no import of pydantic, yaml or LiteLLM."""
    code = (
        "import sys\nfrom litellm_registry_hook.cli.main import main\ncode = main(['--help'])\n"
        "print(code, [name for name in ('litellm', 'pydantic', 'yaml') if name in sys.modules])"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "0 []"
    commands = done.stdout.partition("Commands:\n")[2].partition("\n\n")[0].splitlines()
    assert [line.split()[0] for line in commands if line.startswith("  ") and not line.startswith("   ")] == [
        "init",
        "list",
        "resolve",
        "probe-config",
        "preload-check",
        "warm",
        "calibrate",
        "validate",
        "keys",
        "opt-in",
        "audit",
        "decisions",
        "explain",
        "status",
        "doctor",
        "serve",
        "completion",
    ]


def test_commands_do_not_import_litellm() -> None:
    """Answering from the registry never imports LiteLLM."""
    code = (
        "import sys\nfrom litellm_registry_hook.cli.main import main\ncode = main(['list', '--json'])\n"
        "print(code, 'litellm' in sys.modules, file=sys.stderr)"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)

    assert done.stderr == "0 False\n"


def test_the_module_runs_as_a_program() -> None:
    """python -m litellm_registry_hook is the same command line."""
    done = subprocess.run(
        [sys.executable, "-m", "litellm_registry_hook", "resolve", "--tier", "x"],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: the registry has no tier `x`; tiers: large, small, embed, rerank\n"


def test_a_bug_is_one_line_and_a_log_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unforeseen exception is exit code 2, one line, and a private log file with the traceback."""

    @click.command()
    def broken() -> None:
        raise KeyError("gone")

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    code = run(broken, "broken", [])

    (log,) = (tmp_path / "litellm-registry-hook").iterdir()
    assert code == 2
    assert capsys.readouterr().err == f"error: a bug in litellm-registry-hook: KeyError; details in {log}\n"
    assert "KeyError: 'gone'" in log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600


def test_ctrl_c_is_130(capsys: pytest.CaptureFixture[str]) -> None:
    """An interrupt ends with the shell's exit code for it, and no traceback."""

    @click.command()
    def interrupted() -> None:
        raise KeyboardInterrupt

    assert run(interrupted, "interrupted", []) == 130
    assert capsys.readouterr().out == ""


def test_a_closed_pipe_is_no_error() -> None:
    """A reader that stops reading ends the command quietly."""
    reader, writer = os.pipe()
    os.close(reader)

    done = subprocess.run(
        [sys.executable, "-m", "litellm_registry_hook", "list", "--json"],
        stdout=writer,
        stderr=subprocess.PIPE,
        cwd=ROOT,
    )
    os.close(writer)

    assert (done.returncode, done.stderr) == (0, b"")


def test_the_schema_command_prints_the_schema(cli) -> None:
    """The hidden schema command prints the file of the package."""
    assert cli("schema") == (0, (ROOT / "litellm_registry_hook/model-registry.schema.json").read_text(), "")
