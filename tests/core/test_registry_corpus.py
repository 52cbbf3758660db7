"""Files that load, and files with their whole report."""

from pathlib import Path

import pytest

from litellm_registry_hook import RegistryError, load_registry
from litellm_registry_hook.edges.registry_file import check_file, report_line

REGISTRIES = Path(__file__).parent.parent / "registries"
SHIPPED = Path(__file__).parents[2] / "model-registry.yaml"
GOOD = sorted(path for path in (REGISTRIES / "good").iterdir() if path.suffix in {".yaml", ".json"})
BAD = sorted(path for path in (REGISTRIES / "bad").iterdir() if path.suffix in {".yaml", ".json"})


def expected(path: Path) -> str:
    """Return the report that belongs to a bad file."""
    name = path.name + ".txt" if path.suffix == ".json" else path.stem + ".txt"
    return path.with_name(name).read_text(encoding="utf-8")


@pytest.mark.parametrize("path", [*GOOD, SHIPPED], ids=lambda path: path.name)
def test_a_good_file_loads_without_error_or_warning(path: Path) -> None:
    """Every legal combination of keys loads, and nothing is said about it."""
    registry, problems = check_file(path)

    assert problems == ()
    assert registry == load_registry(path)


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.name)
def test_a_bad_file_is_reported_whole(path: Path) -> None:
    """Each bad file gives exactly its expected report, and load_registry raises with all of its errors."""
    registry, problems = check_file(path)

    assert registry is None
    assert "".join(report_line(path.name, problem) + "\n" for problem in problems) == expected(path)
    with pytest.raises(RegistryError) as caught:
        load_registry(path)
    assert caught.value.problems == tuple(problem for problem in problems if problem.severity == "error")


def test_the_corpus_is_not_shrunk_by_accident() -> None:
    """There are at least 60 bad and 16 good files, and every report belongs to a file."""
    reports = {path.name for path in (REGISTRIES / "bad").glob("*.txt")}

    assert (len(BAD) >= 60, len(GOOD) >= 16) == (True, True)
    assert reports == {path.name + ".txt" if path.suffix == ".json" else path.stem + ".txt" for path in BAD}


def test_no_report_shows_a_secret() -> None:
    """What looks like an API key, and the password of a store, stay out of every report."""
    everything = "".join(expected(path) for path in BAD)

    assert (
        "sk-not" in everything,
        "sk-another" in everything,
        "sk-a-third" in everything,
        "secret@" in everything,
    ) == (
        False,
        False,
        False,
        False,
    )


def test_a_slip_in_one_model_does_not_hide_others() -> None:
    """A misspelled key, a missing section and an unknown id in a tier are reported in one go."""
    codes = [problem.code for problem in check_file(REGISTRIES / "bad" / "several-slips.yaml")[1]]

    assert codes == [
        "unknown_key",
        "quota_missing",
        "model_in_no_tier",
        "key_without_effect",
        "unknown_id",
        "empty_tier",
        "name_clash",
        "unknown_alias_target",
    ]


def test_a_missing_environment_variable_is_a_warning_only_where_an_environment_is_given() -> None:
    """With an environment, each os.environ/NAME that it lacks is a warning with its place; the file loads."""
    registry, problems = check_file(SHIPPED, {"KIMI_API_KEY": "x"})

    assert registry is not None
    assert [(problem.code, problem.severity, problem.path) for problem in problems] == [
        ("env_missing", "warning", "models[4].litellm.api_key")
    ]
    assert check_file(SHIPPED, {"KIMI_API_KEY": "x", "PAID_API_KEY": "y"})[1] == ()


def test_a_secret_in_the_file_is_a_warning_that_does_not_show_it(tmp_path: Path) -> None:
    """A literal API key under litellm is warned about without being printed."""
    path = tmp_path / "r.yaml"
    path.write_text(SHIPPED.read_text().replace("os.environ/PAID_API_KEY", "sk-0123456789abcdef0123456789"))

    lines = [report_line("r.yaml", problem) for problem in check_file(path)[1]]

    assert lines == [
        "r.yaml:59:47: warning: secret_in_file: models[4].litellm.api_key: `api_key` holds a secret, and this file is under "
        "version control (write os.environ/NAME)"
    ]


def test_a_grant_for_a_free_model_and_stale_readings_are_warnings(tmp_path: Path) -> None:
    """What is pointless but harmless is a warning."""
    path = tmp_path / "r.yaml"
    text = SHIPPED.read_text().replace("metered_opt_in: []", "metered_opt_in: [{key: bot, models: [kimi]}]")
    path.write_text(text.replace("quota:\n", "quota:\n      max_age_s: 30\n"))

    registry, problems = check_file(path)

    assert registry is not None
    assert [(problem.code, problem.path) for problem in problems] == [
        ("stale_readings", "models[0].quota.max_age_s"),
        ("grant_not_needed", "routing.metered_opt_in[0].models[0]"),
    ]


def test_a_tier_of_several_embedders_is_a_warning(tmp_path: Path) -> None:
    """Vectors of two models are not comparable even where they are equally long: the warning names the unused one."""
    path = tmp_path / "r.yaml"
    entry = '  - {id: other, role: embedder, lifecycle: always-on, metered: false, dimensions: 1024, litellm: {model: openai/e, api_base: "http://h:1/v1"}}\n'
    text = SHIPPED.read_text().replace("\nrouting:\n", f"{entry}\nrouting:\n")
    path.write_text(text.replace("embed: [bge-m3]", "embed: [bge-m3, other]"))

    lines = [report_line("r.yaml", problem) for problem in check_file(path)[1]]

    assert lines == [
        "r.yaml:67:12: warning: embedders_in_one_tier: routing.tiers.embed: the tier `embed` only uses `bge-m3`: vectors of "
        "`other` would not be comparable (give each embedding model a tier of its own, and move the alias when all is "
        "embedded anew)"
    ]


def test_a_tier_of_several_modes_is_a_warning(tmp_path: Path) -> None:
    """A tier that mixes chat and embedding models loads, with a warning that names each mode."""
    path = tmp_path / "r.yaml"
    path.write_text(SHIPPED.read_text().replace("small: [local-small]", "small: [local-small, bge-m3]"))

    lines = [report_line("r.yaml", problem) for problem in check_file(path)[1]]

    assert lines == [
        "r.yaml:65:12: warning: mixed_modes: routing.tiers.small: the models of the tier `small` are served in different modes: "
        "local-small chat, bge-m3 embedding (one tier per mode)"
    ]
