"""Reading a config for an import: what is refused, where things stand, what is asked of LiteLLM's files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest

from litellm_registry_hook.cli.init_import import price_list, read_import
from litellm_registry_hook.core.start.proposal import Left
from litellm_registry_hook.errors import ConfigError
from tests.host.proxy import clean_env

ONE = "model_list:\n  - {model_name: a, litellm_params: {model: openai/a-up, api_base: 'http://10.0.0.1/v1', api_key: none}}\n"


def written(folder: Path, text: str, name: str = "litellm-config.yaml") -> str:
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1]\n", "{file}:1: the file must be a mapping (model_list:, litellm_settings:, …)"),
        ("model_list: {a: 1}\n", "{file}: model_list must be a list of entries (- model_name: …)"),
        ("a: [\n", "{file}:2: did not find expected node content"),
        (
            "a: 1\n---\nb: 2\n",
            "{file}:2: a second YAML document starts here; LiteLLM reads one document per file, so split the file",
        ),
    ],
)
def test_what_is_no_config_is_refused_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    """The message names the file, and the line where there is one."""
    file = written(tmp_path, text)

    with pytest.raises(ConfigError) as caught:
        read_import(file, catalogue={})

    assert str(caught.value) == message.format(file=file)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    """A config that is not there is no empty config."""
    file = str(tmp_path / "none.yaml")

    with pytest.raises(ConfigError) as caught:
        read_import(file, catalogue={})

    assert str(caught.value) == f"{file}: there is no such file"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"keep_foreign": ["b"]}, "--keep-foreign b: {file} has no model_name 'b'"),
        ({"free": ["b"]}, "--free b: {file} has no model_name 'b'"),
        ({"dimensions": ["b=3"]}, "--dimensions b: {file} has no model_name 'b'"),
        ({"dimensions": ["a"]}, "--dimensions a: write NAME=N, as in --dimensions embed=1024"),
        ({"dimensions": ["a=0"]}, "--dimensions a=0: write NAME=N, as in --dimensions embed=1024"),
    ],
)
def test_an_option_for_nothing_is_refused(tmp_path: Path, options: dict[str, list[str]], message: str) -> None:
    """A misspelled name would be an import that silently does something else."""
    file = written(tmp_path, ONE)

    with pytest.raises(click.UsageError) as caught:
        read_import(file, catalogue={}, **options)

    assert caught.value.message == message.format(file=file)


def test_a_name_that_an_included_file_has_too_stays_foreign(tmp_path: Path) -> None:
    """The generator edits one file: an entry of that name elsewhere would shadow the registry's."""
    more = ONE.replace("a-up", "b-up")
    written(tmp_path, "include: [further.yaml, gone.yaml]\n", "more.yaml")
    written(tmp_path, more, "further.yaml")

    proposal = read_import(written(tmp_path, ONE + "include: [more.yaml]\n"), catalogue={})

    assert proposal.models == ()
    assert [(one.what, one.why) for one in proposal.left] == [
        (
            "line 2: model_list[0] (a)",
            "an included file has entries of this name too, which the generator cannot replace; it stays as it is, and under "
            "routing.unlisted_models: metered a request for it needs the consent header and an opted-in key",
        ),
        ("include[0] (more.yaml)", "entries of included files are not imported: the generator edits this file only"),
    ]


def test_an_empty_config_makes_an_empty_registry(tmp_path: Path) -> None:
    """No entries, no models, nothing to say."""
    proposal = read_import(written(tmp_path, "# nothing yet\n"), catalogue={})

    assert (proposal.models, proposal.tiers, proposal.left) == ((), {}, ())


def test_lines_are_those_of_a_file_with_crlf_and_a_byte_order_mark(tmp_path: Path) -> None:
    """A file from another system has the same lines."""
    (tmp_path / "c.yaml").write_bytes(
        b"\xef\xbb\xbfmodel_list:\r\n\r\n  - model_name: 'w*'\r\n    litellm_params: {model: 'openai/*'}\r\n"
    )

    [left] = read_import(str(tmp_path / "c.yaml"), catalogue={}).left

    assert isinstance(left, Left)
    assert left.what == "line 3: model_list[0] (w*)"


def test_the_price_list_is_read_without_importing_litellm() -> None:
    """It is LiteLLM's own file, and importing LiteLLM takes seconds."""
    code = (
        "import sys; from litellm_registry_hook.cli.init_import import price_list; "
        "print(price_list()['text-embedding-3-small']['output_vector_size'], 'litellm' in sys.modules)"
    )

    done = subprocess.run([sys.executable, "-c", code], env=clean_env(), capture_output=True, text=True, check=True)

    assert done.stdout == "1536 False\n"


def test_the_price_list_has_the_keys_that_are_looked_at() -> None:
    """An upgrade of LiteLLM that renames them shows here, not in wrong modes."""
    prices = price_list()

    assert prices["rerank-v3.5"]["mode"] == "rerank"
    assert prices["gpt-4o"]["litellm_provider"] == "openai"
    assert prices["gpt-4o"]["max_input_tokens"] == 128000


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("{api_version: 2024-02-01}", "litellm_params.api_version is a date, and the registry takes text, numbers,"),
        ("{extra_body: {x: [.nan]}}", "litellm_params.extra_body.x is no finite number"),
        ("{extra_body: {x: !!set {a}}}", "litellm_params.extra_body.x is a set, and the registry takes text, numbers,"),
    ],
)
def test_what_yaml_reads_as_something_else_stays_foreign(tmp_path: Path, value: str, why: str) -> None:
    """An unquoted date and the like would make a registry that does not load: it is told with the remedy."""
    text = f"model_list:\n  - model_name: a\n    litellm_params: {{<<: {value}, model: openai/a, api_key: none}}\n"

    proposal = read_import(written(tmp_path, text), catalogue={})

    assert proposal.models == ()
    [left] = proposal.left
    assert (left.what, left.fix) == ("line 2: model_list[0] (a)", "put it in quotes and import again")
    assert left.why.startswith(why)


def test_a_config_that_contains_itself_is_refused(tmp_path: Path) -> None:
    """YAML can say that; no registry can."""
    entry = "&m {model_name: a, litellm_params: {model: openai/a, api_key: none, extra_body: *m}}"
    file = written(tmp_path, f"model_list: [{entry}]\n")

    with pytest.raises(ConfigError) as caught:
        read_import(file, catalogue={})

    assert str(caught.value) == f"{file}: an anchor in it contains itself, or it is nested too deeply"


def test_an_include_that_is_no_file_is_not_read(tmp_path: Path) -> None:
    """A device or a folder never ends, or is nothing to read."""
    proposal = read_import(written(tmp_path, ONE + "include: [/dev/zero, .]\n"), catalogue={})

    assert [model.id for model in proposal.models] == ["a"]
