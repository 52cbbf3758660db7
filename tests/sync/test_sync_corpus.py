"""Every shape of a config: foreign bytes stay, owned entries are as wanted, a second run changes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from sync_kit import CONFIGS, foreign, is_subsequence, owned, registry, sync, with_base, without

from litellm_registry_hook.core.sync import is_owned
from litellm_registry_hook.edges.config_file import read_config, sync_config
from litellm_registry_hook.errors import ConfigError

CORPUS = sorted(path for path in (CONFIGS / "corpus").iterdir() if path.suffix in {".yaml", ".json"})
REFUSED = sorted((CONFIGS / "refused").glob("*.yaml"))
IDS = ["kimi@0", "local-small@0", "bge-m3@0", "tei-reranker@0", "paid-fallback@0"]
# What these files hold must be taken out: an owned entry that differs or is nobody's, a setting that conflicts, a null.
REPLACING = {
    "30-owned-edited-by-hand.yaml",
    "32-owned-stale-and-twice.yaml",
    "36-conflicting-settings.yaml",
    "37-embedded-keys.yaml",
    "24-empty-list.json",
    "39-explicit-null-list.yaml",
}


def read(path: Path) -> str:
    return read_config(path).text


LIST_IS_MADE = {
    "07-no-model-list.yaml",
    "11-include-only.yaml",
    "25-empty-object.json",
    "26-empty.yaml",
    "27-only-comments.yaml",
    "39-explicit-null-list.yaml",
}

each = pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
each_in_lines = pytest.mark.parametrize(
    "path",
    [p for p in CORPUS if p.suffix != ".json" and p.name not in REPLACING | {"21-flow-one-line.yaml"}],
    ids=lambda path: path.name,
)
each_json = pytest.mark.parametrize("path", [p for p in CORPUS if p.suffix == ".json"], ids=lambda path: path.name)
# Where a list had to be made it stays behind, empty; a written null cannot come back.
each_with_list = pytest.mark.parametrize(
    "path",
    [p for p in CORPUS if p.name not in LIST_IS_MADE],
    ids=lambda path: path.name,
)


def test_the_corpus_is_large() -> None:
    """The corpus holds at least 35 configs, and a dozen that are refused."""
    assert len(CORPUS) >= 35
    assert len(REFUSED) >= 12


@each
def test_owned_entries_are_exactly_the_wanted_ones(path: Path) -> None:
    """After a run the parsed file holds each wanted entry once and every foreign entry as before."""
    before = read(path)

    after = sync(before).text

    assert sorted(IDS) == sorted(entry["model_info"]["id"] for entry in owned(after))
    assert foreign(before) == foreign(after)
    wanted = {entry["model_info"]["id"]: entry for entry in owned(sync("").text)}
    assert wanted == {entry["model_info"]["id"]: entry for entry in owned(after)}


@each
def test_foreign_bytes_stay(path: Path) -> None:
    """A run only adds text: taking the added pieces out again gives the original."""
    before = read(path)

    done = sync(before)

    if path.name in REPLACING:
        assert done.removed
        return
    assert done.removed == ()
    assert len(done.text) == len(before) + sum(map(len, done.added))
    assert is_subsequence(before, done.text)


@each_in_lines
def test_whole_lines_stay(path: Path) -> None:
    """Every line of a block style file stands in the result, unchanged and in order, but for a string that became a list."""
    before = read(path)

    lines = iter(sync(before).text.splitlines())

    lost = []
    for line in before.splitlines():
        if "callbacks" in line or line.rstrip().endswith(("[]", "{}", ":")) or "{" in line or "otel" in line:
            continue
        if line not in lines:
            lost.append(line)
    assert lost == []


@each
def test_second_run_changes_nothing(path: Path) -> None:
    """A run over its own result leaves every byte and finds no difference."""
    first = sync(read(path))

    second = sync(first.text)

    assert first.text == second.text
    assert second.plan.differences == ()
    assert not second.changed


@each
def test_both_parsers_give_the_same_bytes(path: Path) -> None:
    """The C parser and the Python parser lead to the same file."""
    text = read(path)

    assert sync(text, loader=yaml.SafeLoader).text == sync(text, loader=yaml.CSafeLoader).text


@each
def test_removing_a_model_takes_its_entry_back(path: Path) -> None:
    """Adding a model and removing it again gives the bytes that were there without it."""
    small = sync(read(path), without("bge-m3")).text
    full = sync(small).text

    assert sync(full, without("bge-m3")).text == small


@each_with_list
def test_removing_all_models_restores_the_file(path: Path) -> None:
    """With the settings in place, adding all models and removing them again restores every byte."""
    none = registry(models=[])
    settings_only = sync(read(path), none).text

    full = sync(settings_only).text

    assert len(owned(full)) == 5
    assert sync(full, none).text == settings_only


@each
def test_a_new_address_changes_one_entry_only(path: Path) -> None:
    """Another api_base keeps the deployment id, and only that entry's text changes."""
    before = sync(read(path))
    moved = with_base("local-small", "http://10.0.0.7:11434")

    after = sync(before.text, moved)

    assert [d.path for d in after.plan.differences] == ["model_list[local-small@0].litellm_params.api_base"]
    assert len(after.removed) == 1
    assert "local-small@0" in after.removed[0]
    assert before.text.replace(after.removed[0], after.added[0]) == after.text


@each_json
def test_json_stays_json(path: Path) -> None:
    """A file that was JSON is JSON afterwards."""
    text = sync(read(path)).text

    assert json.loads(text) == yaml.safe_load(text)


def test_crlf_stays_crlf() -> None:
    """Every line that is added to a file with CRLF line ends ends in CRLF."""
    text = sync((CONFIGS / "corpus" / "14-crlf.yaml").read_bytes().decode()).text

    assert text.count("\n") == text.count("\r\n")


def test_a_missing_final_line_end_stays_missing() -> None:
    """A file that does not end in a line end does not get one."""
    for name in ("12-no-final-newline.yaml", "13-list-last-no-final-newline.yaml", "16-bom-crlf-no-newline.yaml"):
        assert not sync(read(CONFIGS / "corpus" / name)).text.endswith("\n")


def test_equal_content_in_another_format_is_left_alone() -> None:
    """An owned entry that says the right thing keeps its quotes, order, line breaks and comments."""
    before = read(CONFIGS / "corpus" / "31-owned-other-format.yaml")

    after = sync(before)

    assert "kimi@0" not in " ".join(d.path for d in after.plan.differences)
    assert before.splitlines()[1:4] == after.text.splitlines()[1:4]


@pytest.mark.parametrize("path", REFUSED, ids=lambda path: path.name)
def test_refused_with_place_and_remedy(path: Path) -> None:
    """A config that cannot be edited without touching foreign bytes is refused, with line and remedy."""
    expected = path.with_suffix(".txt").read_text().strip().replace("FILE", str(path))

    with pytest.raises(ConfigError) as caught:
        sync_config(registry(), read_config(path))

    assert str(caught.value) == expected


def test_no_corpus_entry_is_owned_by_accident() -> None:
    """An entry that somebody else manages is foreign."""
    assert not is_owned({"model_info": {"managed_by": "somebody-else"}})
    assert not is_owned({"model_name": "x"})
    assert not is_owned(None)
