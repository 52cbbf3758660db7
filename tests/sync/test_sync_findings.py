"""Warnings: shadowed names and side doors."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from sync_kit import ROOT, registry, sync

from litellm_registry_hook.core.sync_findings import CODES
from litellm_registry_hook.edges.config_file import read_config, sync_config


def codes(text: str) -> list[tuple[str, str]]:
    return [(w.code, w.path) for w in sync(text).warnings]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("model_list: [{model_name: kimi, litellm_params: {model: openai/x}}]", ("shadowed_entry", "model_list[0]")),
        ("model_list: [{model_name: large, litellm_params: {model: openai/x}}]", ("shadowed_entry", "model_list[0]")),
        ("model_list: [{model_name: embedder}]", ("shadowed_entry", "model_list[0]")),
        ("model_list: [1, {model_name: x, model_info: {id: kimi}}]", ("shadowed_entry", "model_list[1]")),
        ("model_list: [{model_name: x, model_info: {id: kimi@3}}]", ("shadowed_entry", "model_list[0]")),
        ("model_list: [{model_name: 'openai/*'}]", ("wildcard_entry", "model_list[0]")),
        ("model_list: [{model_name: '*'}]", ("wildcard_entry", "model_list[0]")),
        (
            "router_settings: {model_group_alias: {cheap: paid-fallback}}",
            ("model_group_alias", "router_settings.model_group_alias.cheap"),
        ),
        (
            "router_settings: {model_group_alias: {large: {model: x, hidden: true}}}",
            ("model_group_alias", "router_settings.model_group_alias.large"),
        ),
        ("general_settings: {store_model_in_db: true}", ("models_in_db", "general_settings.store_model_in_db")),
        (
            "general_settings: {pass_through_endpoints: [{path: /x}]}",
            ("pass_through_endpoints", "general_settings.pass_through_endpoints"),
        ),
        ("assistant_settings: {custom_llm_provider: openai}", ("assistant_settings", "assistant_settings")),
        ("router_settings: {fallbacks: [{x: [paid-fallback]}]}", ("metered_fallback", "router_settings.fallbacks")),
        (
            "litellm_settings: {default_fallbacks: [paid-fallback]}",
            ("metered_fallback", "litellm_settings.default_fallbacks"),
        ),
        (
            "router_settings: {routing_strategy: usage-based-routing-v2}",
            ("usage_based_routing", "router_settings.routing_strategy"),
        ),
    ],
)
def test_each_finding(text: str, expected: tuple[str, str]) -> None:
    """Each side door gives its one warning, with the place."""
    assert codes(text) == [expected]


@pytest.mark.parametrize(
    "text",
    [
        "model_list: [{model_name: other, model_info: {id: other@0}}, null, {model_name: 5}]",
        "router_settings: {model_group_alias: {a: b}, fallbacks: [{paid-fallback: [x]}], routing_strategy: simple-shuffle}",
        "general_settings: {store_model_in_db: false, pass_through_endpoints: []}",
    ],
)
def test_harmless_settings_give_no_warning(text: str) -> None:
    """What opens nothing is not warned about."""
    assert codes(text) == []


def test_included_files_are_looked_into(tmp_path: Path) -> None:
    """Shadows, side doors and lost settings in an included file are named; a file that is not there, too."""
    (tmp_path / "more.yaml").write_text(
        "include: [deeper.yaml]\nmodel_list: [{model_name: large}]\nlitellm_settings: {drop_params: true}\n"
    )
    (tmp_path / "deeper.yaml").write_text("include: [more.yaml, gone.yaml]\nassistant_settings: {x: 1}\n")
    config = tmp_path / "config.yaml"
    config.write_text("include: [more.yaml]\n")

    done = sync_config(registry(), read_config(config))

    assert [(w.code, w.path) for w in done.warnings] == [
        ("shadowed_entry", "more.yaml: model_list[0]"),
        ("included_settings", "more.yaml: litellm_settings"),
        ("assistant_settings", "deeper.yaml: assistant_settings"),
        ("included_unreadable", "include"),
    ]
    assert done.warnings[3].message == "gone.yaml was not looked into: there is no such file"


def test_adopt_replaces_by_id_and_removes_tiers() -> None:
    """Adoption puts the registry's entry in the place of the first foreign one of an id and removes the others."""
    text = """\
model_list:
  - {model_name: before, litellm_params: {model: openai/b}}
  - {model_name: kimi, litellm_params: {model: openai/one}}   # one
  # between
  - {model_name: kimi, litellm_params: {model: openai/two}}   # two
  - {model_name: large, litellm_params: {model: openai/three}}
  - {model_name: after, litellm_params: {model: openai/a}}
"""

    done = sync(text, adopt=True)

    names = [e["model_name"] for e in yaml.safe_load(done.text)["model_list"]]
    assert names == ["before", "kimi", "local-small", "bge-m3", "tei-reranker", "paid-fallback", "after"]
    assert "  # between\n" in done.text
    assert not sync(done.text, adopt=True).changed
    assert done.warnings == ()


def test_codes_are_documented() -> None:
    """The documented codes are exactly those that exist, in both lists once."""
    page = (ROOT / "docs" / "generate.md").read_text()
    table = page[page.index("## Warnings") :]

    assert re.findall(r"^\| `([a-z_]+)` \|", table, re.MULTILINE) == sorted(CODES)
    assert len(CODES) == len(set(CODES))
