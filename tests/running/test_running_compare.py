"""What counts as a difference between a running proxy and the registry, and what cannot be seen."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from litellm_registry_hook.core.registry import Registry
from litellm_registry_hook.core.running import Comparison, Gap, InForce, Running, compare
from litellm_registry_hook.core.sync import Difference, wanted_entries

REGISTRY = Registry.model_validate(
    {
        "version": 1,
        "models": [
            {
                "id": "kimi", "role": "chat", "lifecycle": "always-on", "metered": False, "timeout_s": 7,
                "litellm": {
                    "model": "openai/k", "api_base": "https://k.example/v1", "api_key": "os.environ/KIMI_API_KEY",
                    "extra_headers": {"X-Token": "abcdefghijkl"}, "max_tokens": 100,
                },
            },
            {
                "id": "small", "role": "chat", "lifecycle": "always-on", "metered": False,
                "litellm": {"model": "ollama_chat/s"}, "gpu_residency": {"vram_mb": 3000},
                "endpoints": [{"api_base": "http://127.0.0.1:1"}, {"api_base": "http://127.0.0.1:2"}],
            },
        ],
        "routing": {"tiers": {"large": ["kimi"], "small": ["small"]}},
    }
)  # fmt: skip
SAME = "aaaaaaaaaaaa"
IN_FORCE = InForce("", "/etc/model-registry.yaml", SAME, "2026-11-30T10:00:00+00:00")
RESTART = "restart the proxy"
UNSEEN = (
    "model_list[kimi@0].litellm_params.api_key",
    "model_list[kimi@0].litellm_params.extra_headers.X-Token",
)


def loaded() -> list[dict[str, Any]]:
    """The entries as LiteLLM shows them once loaded."""
    rows = [copy.deepcopy(dict(one.content)) for one in wanted_entries(REGISTRY, {})]
    for row in rows:
        row["litellm_params"].pop("api_key", None)
        row["litellm_params"] |= {"use_in_pass_through": False, "max_retries": None}
        row["model_info"] |= {"db_model": False, "input_cost_per_token": 1e-6, "supports_vision": None}
    rows[0]["litellm_params"]["timeout"] = 7.0
    rows[0]["litellm_params"]["extra_headers"] = {"X-Token": "abcd****ijkl"}
    return rows


def config(*more: dict[str, Any]) -> dict[str, Any]:
    return {"model_list": [*(dict(one.content) for one in wanted_entries(REGISTRY, {})), *more]}


def compared(rows: list[dict[str, Any]], *registries: InForce, configs: Any = None) -> Comparison:
    running = Running("http://p", tuple(rows), registries or (IN_FORCE,))
    return compare(REGISTRY, SAME, running, configs)


def test_what_litellm_makes_of_an_entry_is_no_difference() -> None:
    """Its own switches, prices, 7.0 for 7 and masked values are not told as differences; what is hidden is named."""
    assert compared(loaded()) == Comparison((), UNSEEN)
    assert compared(loaded(), configs=[config()]) == Comparison((), UNSEEN)


def test_a_changed_key_is_unseen_not_different() -> None:
    """Whatever LiteLLM shows of a secret is no ground for a difference."""
    rows = loaded()
    rows[0]["litellm_params"]["extra_headers"] = {"X-Token": "zzzz****zzzz"}
    rows[0]["litellm_params"]["api_key"] = "sk-a****"
    assert compared(rows) == Comparison((), UNSEEN)


def test_a_key_that_only_the_proxy_has_is_unseen() -> None:
    """A secret that left the registry may still be loaded there: it is named, and no difference."""
    rows = loaded()
    rows[0]["litellm_params"]["aws_access_key_id"] = "AKIA****"
    assert compared(rows) == Comparison((), (*UNSEEN, "model_list[kimi@0].litellm_params.aws_access_key_id"))


@pytest.mark.parametrize("told", [10**400, "nan", "7.0", "1e3"])
def test_values_that_are_no_number_alike_are_changed(told: Any) -> None:
    """A number beyond every float, and texts that only look like the same number, are differences and no bug."""
    rows = loaded()
    rows[0]["litellm_params"]["max_tokens"] = told
    [gap] = compared(rows).gaps
    assert (gap.code, gap.difference and gap.difference.was) == ("changed", told)


def test_changed_values() -> None:
    """An address, a mode, a number, a key too many and one too few are told with both values."""
    rows = loaded()
    rows[0]["litellm_params"] |= {"api_base": "https://other.example/v1", "max_tokens": 99, "temperature": 0.5}
    rows[1]["model_info"]["mode"] = "completion"
    del rows[2]["litellm_params"]["num_ctx"]
    small1, kimi = "model_list[small@1].litellm_params", "model_list[kimi@0].litellm_params"
    expected = [
        Difference(
            f"{kimi}.api_base", "changed", "https://other.example/v1", "https://k.example/v1",
            ("litellm_params", "api_base"),
        ),
        Difference(f"{kimi}.max_tokens", "changed", 99, 100, ("litellm_params", "max_tokens")),
        Difference(f"{kimi}.temperature", "extra", 0.5, None, ("litellm_params", "temperature")),
        Difference("model_list[small@0].model_info.mode", "changed", "completion", "chat", ("model_info", "mode")),
        Difference(f"{small1}.num_ctx", "missing", None, 4096, ("litellm_params", "num_ctx")),
    ]  # fmt: skip
    assert compared(rows).gaps == tuple(Gap("changed", one.path, RESTART, one) for one in expected)


def test_numbers_and_truth_are_different_things() -> None:
    """`true` is not 1: -1 and text that says the same number are alike."""
    rows = loaded()
    rows[0]["litellm_params"]["max_tokens"] = "100"
    assert compared(rows).gaps == ()
    rows[0]["litellm_params"]["max_tokens"] = True
    assert [gap.code for gap in compared(rows).gaps] == ["changed"]


def test_missing_and_too_many() -> None:
    """A deployment that is not loaded, one that is gone from the registry, one of the UI, one that no file lists."""
    rows = loaded()
    rows[2]["model_info"]["id"] = "old@3"
    rows[2]["model_name"] = "old"
    rows += [
        {"model_name": "ui", "litellm_params": {}, "model_info": {"id": "0123456789abcdef0123", "db_model": True}},
        {"model_name": "hand", "litellm_params": {}, "model_info": {"id": "ff", "db_model": False}},
        {"model_name": "kept", "litellm_params": {"model": "openai/x"}, "model_info": {"id": "fe", "db_model": False}},
        {"model_name": "x/one", "litellm_params": {}, "model_info": {"id": "fd", "db_model": False}},
    ]
    foreign = [{"model_name": name, "litellm_params": {"model": "openai/x"}} for name in ("kept", "x/*", "new")]
    found = compared(rows, configs=[config(*foreign[:1]), {"model_list": foreign[1:]}])
    assert {(gap.code, gap.message, gap.fix) for gap in found.gaps} == {
        ("not_loaded", "the proxy has no deployment small@1", RESTART),
        ("not_in_registry", "the proxy still has deployment old@3", RESTART),
        (
            "added_in_ui", "model 'ui' (0123456789abcdef) was added in the UI, to the proxy's database",
            "describe it in the registry and delete it in the UI, or set store_model_in_db: false",
        ),
        ("not_in_config", "the proxy still has model 'hand', which no config file here lists", RESTART),
        ("not_loaded", "the proxy has no model 'new'", RESTART),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("entry", "row", "gaps"),
    [
        ({"model": "openai/x"}, {"model": "openai/x"}, 0),
        ({"model": "openai/x"}, {"model": "openai/x", "api_base": "http://filled.in"}, 0),
        ({"model": "os.environ/M", "api_base": "os.environ/B"}, {"model": "openai/x", "api_base": "http://a"}, 0),
        ({"model": "openai/x", "base_url": "http://a"}, {"model": "openai/x", "api_base": "http://a"}, 0),
        ({"model": "openai/new"}, {"model": "openai/x"}, 1),
        ({"model": "openai/x", "api_base": "http://new"}, {"model": "openai/x", "api_base": "http://old"}, 1),
        ({"model": "openai/x", "api_base": "http://new"}, {"model": "openai/x"}, 1),
    ],
)
def test_an_edited_entry_of_others_is_told(entry: dict[str, Any], row: dict[str, Any], gaps: int) -> None:
    """A forgotten restart shows in the model and the address of an entry that the registry does not own."""
    rows = [*loaded(), {"model_name": "hand", "litellm_params": row, "model_info": {"id": "ff", "db_model": False}}]
    found = compared(rows, configs=[config({"model_name": "hand", "litellm_params": entry})])
    told = Gap("changed", "the proxy has model 'hand' otherwise than the config", RESTART)
    assert found.gaps == (told,) * gaps


def test_without_a_config_entries_of_others_are_not_judged() -> None:
    """Away from the config only what the registry owns, and the database's, is told; numbers are the proxy's."""
    rows = loaded()
    rows[1]["model_info"]["id"], rows[2]["model_info"]["id"] = "small@5", "small@2"
    rows.append({"model_name": "hand", "litellm_params": {}, "model_info": {"id": "ff", "db_model": False}})
    assert compared(rows) == Comparison((), UNSEEN)


def test_a_deployment_of_the_database_with_our_id() -> None:
    """An entry that was edited in the UI is told as such, with its values."""
    rows = loaded()
    rows[1]["model_info"]["db_model"] = True
    [gap] = compared(rows).gaps
    assert (gap.code, gap.message) == (
        "changed_in_ui", "deployment small@0 comes from the proxy's database, not from its config",
    )  # fmt: skip


def test_an_older_registry_in_one_worker() -> None:
    """A worker with another content is named, with its time."""
    old = InForce("w-2", "/etc/model-registry.yaml", "bbbbbbbbbbbb", "2026-11-29T10:00:00+00:00")
    [gap] = compared(loaded(), IN_FORCE, old).gaps
    assert (gap.code, gap.message) == (
        "registry_older",
        "worker w-2 has bbbbbbbbbbbb of /etc/model-registry.yaml in force, loaded 2026-11-29T10:00:00+00:00, and the "
        "file here is aaaaaaaaaaaa",
    )


def test_an_edit_that_the_proxy_refuses() -> None:
    """Its problems are told, not the digest alone."""
    broken = InForce("", "/etc/m.yaml", "bbbbbbbbbbbb", "", ("/etc/m.yaml:3: error: unknown_id: …",))
    [gap] = compared(loaded(), broken).gaps
    assert (gap.code, gap.message, gap.fix) == (
        "registry_refused",
        "the proxy refuses /etc/m.yaml as it stands and goes on with bbbbbbbbbbbb: /etc/m.yaml:3: error: unknown_id: …",
        "mend the file; it is read again at once",
    )


def test_a_setting_that_is_not_in_force() -> None:
    """What the plugin says of the proxy's own settings is told with the restart that mends it."""
    path = "general_settings.health_check_skip_disabled_background_models"
    running = Running("http://p", tuple(loaded()), (InForce("", "/etc/m.yaml", SAME),), settings_missing=(path,))
    [gap] = compare(REGISTRY, SAME, running).gaps
    assert (gap.code, gap.message, gap.fix) == (
        "setting_missing", f"{path} is not true in the proxy, and a gate relies on it", "restart the proxy",
    )  # fmt: skip


def test_a_proxy_without_the_plugin() -> None:
    """That tiers are unknown there is said, whatever else is so."""
    found = compare(REGISTRY, SAME, Running("http://p", tuple(loaded()), ()))
    assert [gap.code for gap in found.gaps] == ["plugin_missing"]
