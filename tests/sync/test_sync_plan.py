"""What an entry holds, what differs, and which number an address has."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml
from sync_kit import SHIPPED, owned, registry, sync

from litellm_registry_hook.core.registry import Registry
from litellm_registry_hook.core.sync import same, wanted_entries


def one(**changes: Any) -> Registry:
    """A registry with one model."""
    model = {"id": "m", "role": "chat", "lifecycle": "always-on", "metered": False, "litellm": {"model": "openai/m"}}
    return registry(models=[{**model, **changes}])


def entry(**changes: Any) -> dict[str, Any]:
    """The entry of that one model."""
    return dict(wanted_entries(one(**changes), {})[0].content)


OLLAMA: dict[str, Any] = {"litellm": {"model": "ollama_chat/m"}, "endpoints": [{"api_base": "http://127.0.0.1:11434"}]}


def test_a_plain_entry() -> None:
    """litellm_params pass unchanged, model_info carries id, owner and mode; a free always-on model may be probed."""
    assert entry(litellm={"model": "openai/m", "api_key": "os.environ/K", "extra_body": {"a": [1, None]}}) == {
        "model_name": "m",
        "litellm_params": {"model": "openai/m", "api_key": "os.environ/K", "extra_body": {"a": [1, None]}},
        "model_info": {"id": "m@0", "managed_by": "litellm-registry-hook", "mode": "chat"},
    }


def test_timeout() -> None:
    """timeout_s becomes LiteLLM's timeout, a whole number where it is one."""
    assert entry(timeout_s=30)["litellm_params"]["timeout"] == 30
    assert isinstance(entry(timeout_s=30)["litellm_params"]["timeout"], int)
    assert entry(timeout_s=2.5)["litellm_params"]["timeout"] == 2.5


@pytest.mark.parametrize(
    ("residency", "expected"),
    [
        ({}, {"keep_alive": "5m", "num_ctx": 4096, "num_batch": 512}),
        ({"num_ctx": 8192, "keep_alive": "1h"}, {"keep_alive": "1h", "num_ctx": 8192, "num_batch": 512}),
        ({"never_evict": True, "keep_alive": "5m"}, {"keep_alive": -1, "num_ctx": 4096, "num_batch": 512}),
        ({"keep_alive": 90}, {"keep_alive": "90s", "num_ctx": 4096, "num_batch": 512}),
        ({"keep_alive": -1}, {"keep_alive": -1, "num_ctx": 4096, "num_batch": 512}),
        ({"keep_alive": "-1"}, {"keep_alive": -1, "num_ctx": 4096, "num_batch": 512}),
        ({"keep_alive": "0"}, {"keep_alive": "0s", "num_ctx": 4096, "num_batch": 512}),
        (
            {"options": {"num_batch": 256, "num_gpu": 20}},
            {"keep_alive": "5m", "num_ctx": 4096, "num_batch": 256, "num_gpu": 20},
        ),
    ],
)
def test_ollama_chat_options(residency: dict[str, Any], expected: dict[str, Any]) -> None:
    """A chat model on Ollama always sends keep_alive, num_ctx and num_batch: another value would reload it."""
    found = entry(**OLLAMA, gpu_residency={"vram_mb": 1, **residency})["litellm_params"]

    assert found == {"model": "ollama_chat/m", "api_base": "http://127.0.0.1:11434", **expected}


def test_ollama_embedding_options() -> None:
    """An embedding model sends keep_alive and num_batch, and num_ctx only where the registry gives one."""
    base = {**OLLAMA, "litellm": {"model": "ollama/m"}, "role": "embedder", "dimensions": 8}

    plain = entry(**base, gpu_residency={"vram_mb": 1})["litellm_params"]
    given = entry(**base, gpu_residency={"vram_mb": 1, "num_ctx": 512})["litellm_params"]

    assert {k: plain[k] for k in plain if k not in {"model", "api_base"}} == {"keep_alive": "5m", "num_batch": 512}
    assert {k: given[k] for k in given if k not in {"model", "api_base"}} == {
        "keep_alive": "5m",
        "num_ctx": 512,
        "num_batch": 512,
    }


def test_no_options_for_other_servers() -> None:
    """A TEI server gets no Ollama options."""
    found = wanted_entries(registry(), {})

    assert set({w.id: w for w in found}["tei-reranker@0"].content["litellm_params"]) == {"model", "api_base"}


@pytest.mark.parametrize(
    ("changes", "disabled"),
    [
        ({}, False),
        ({"metered": True}, True),
        ({"lifecycle": "on-demand"}, True),
        ({"lifecycle": "quota-gated"}, True),
        (OLLAMA, True),
    ],
)
def test_health_probes(changes: dict[str, Any], disabled: bool) -> None:
    """No probe where it would cost money, use up quota, or load the model."""
    assert entry(**changes)["model_info"].get("disable_background_health_check", False) is disabled


def test_no_probe_through_another_provider_either() -> None:
    """A model spoken to as OpenAI at the address of an Ollama server is not probed either."""
    models = copy.deepcopy(SHIPPED["models"])
    models.append(
        {
            "id": "m",
            "role": "chat",
            "lifecycle": "always-on",
            "metered": False,
            "litellm": {"model": "openai/m", "api_base": "http://127.0.0.1:11434/v1"},
        }
    )

    found = {w.id: w.content for w in wanted_entries(registry(models=models), {})}

    assert found["m@0"]["model_info"]["disable_background_health_check"] is True


def bases(*urls: str) -> Registry:
    return one(endpoints=[{"api_base": url} for url in urls])


def numbers(text: str) -> list[tuple[str, str]]:
    return [(e["model_info"]["id"], e["litellm_params"]["api_base"]) for e in owned(text)]


def test_numbers_stay_when_endpoints_move() -> None:
    """Endpoints keep their numbers when others are put before them or taken away."""
    first = sync("", bases("http://a", "http://b")).text
    second = sync(first, bases("http://c", "http://b", "http://a")).text
    third = sync(second, bases("http://b")).text
    fourth = sync(third, bases("http://d", "http://b")).text

    assert numbers(first) == [("m@0", "http://a"), ("m@1", "http://b")]
    assert sorted(numbers(second)) == [("m@0", "http://a"), ("m@1", "http://b"), ("m@2", "http://c")]
    assert numbers(third) == [("m@1", "http://b")]
    assert sorted(numbers(fourth)) == [("m@0", "http://d"), ("m@1", "http://b")]


def test_a_changed_address_keeps_the_id() -> None:
    """A model whose only address changes keeps its deployment id."""
    assert numbers(sync(sync("", bases("http://a")).text, bases("http://z")).text) == [("m@0", "http://z")]


def test_new_entries_stand_in_registry_order() -> None:
    """A model that is new in the middle of the registry gets its entry behind that of the model before it."""
    models = copy.deepcopy(SHIPPED["models"])
    few = sync("", registry(models=[models[0], models[3]])).text

    assert [e["model_name"] for e in owned(sync(few).text)] == [m["id"] for m in models]


def test_every_difference_is_a_path() -> None:
    """The plan names what is missing, extra and changed by path, with both values."""
    text = sync("", one(litellm={"model": "openai/m", "rpm": 6, "nested": {"a": 1, "b": 2}})).text

    found = sync(text, one(litellm={"model": "openai/n", "tpm": 1, "nested": {"a": True, "b": 2}})).plan.differences

    assert [(d.path, d.kind, d.was, d.wanted) for d in found] == [
        ("model_list[m@0].litellm_params.model", "changed", "openai/m", "openai/n"),
        ("model_list[m@0].litellm_params.tpm", "missing", None, 1),
        ("model_list[m@0].litellm_params.nested.a", "changed", 1, True),
        ("model_list[m@0].litellm_params.rpm", "extra", 6, None),
    ]


def test_required_settings() -> None:
    """The callback, the health switch, and with our custom_auth two more are kept; a conflicting value is named."""
    text = yaml.safe_dump(
        {
            "litellm_settings": {"callbacks": "prometheus", "enable_post_custom_auth_checks": False},
            "general_settings": {"custom_auth": "litellm_registry_hook.user_api_key_auth"},
        }
    )

    done = sync(text, registry(models=[]))

    assert [(d.path, d.was, d.wanted) for d in done.plan.differences] == [
        ("litellm_settings.callbacks", "prometheus", ["prometheus", "litellm_registry_hook.proxy_handler_instance"]),
        ("general_settings.health_check_skip_disabled_background_models", None, True),
        ("general_settings.custom_auth_run_common_checks", None, True),
        ("litellm_settings.enable_post_custom_auth_checks", False, True),
    ]
    assert yaml.safe_load(done.text) == {
        "litellm_settings": {
            "callbacks": ["prometheus", "litellm_registry_hook.proxy_handler_instance"],
            "enable_post_custom_auth_checks": True,
        },
        "general_settings": {
            "custom_auth": "litellm_registry_hook.user_api_key_auth",
            "custom_auth_run_common_checks": True,
            "health_check_skip_disabled_background_models": True,
        },
    }


def test_another_custom_auth_is_left_alone() -> None:
    """The settings for embedded keys are not touched for somebody else's custom_auth."""
    done = sync("general_settings: {custom_auth: mine.auth}\n", registry(models=[]))

    assert "common_checks" not in done.text


def test_a_callback_as_one_string_is_enough() -> None:
    """A config whose only callback is ours, written as a string, is left as it is."""
    done = sync("litellm_settings: {callbacks: litellm_registry_hook.proxy_handler_instance}\n", registry(models=[]))

    assert [d.path for d in done.plan.differences] == ["general_settings.health_check_skip_disabled_background_models"]


@pytest.mark.parametrize(
    ("left", "right"), [(1, True), (1, 1.0), ("1", 1), ([1], (2,)), ({"a": 1}, {"b": 1}), ([], {})]
)
def test_values_of_other_types_differ(left: Any, right: Any) -> None:
    """A value of another type is another value."""
    assert not same(left, right)


@pytest.mark.parametrize(
    "value",
    [
        "no",
        "1:30",
        "010",
        "3.10",
        "1e3",
        "",
        " x ",
        "a: b",
        "# x",
        "*x",
        "&x",
        "!x",
        "%x",
        "@x",
        "`x",
        "- x",
        "[x",
        "x]",
        "{x}",
        "x,y",
        "null",
        "~",
        "x:",
        "a\nb",
        "tab\t",
        '"',
        "'",
        "\\",
        "é🦙",
        "\x85\u2028\ufeff",
        "os.environ/KEY",
        "2026-01-01",
        "<<",
        "=",
        "x" * 3000,
        1e-05,
        1e16,
        1.5,
        float("inf"),
        -1,
        None,
        True,
        [],
        {},
        [1, [2, {"a": "b: c"}]],
        {"on": {"1": 2}, "a b": "c"},
    ],
)
@pytest.mark.parametrize("text", ["", "model_list: []\n", '{"x": 1}'])
def test_any_value_survives_the_file(value: Any, text: str) -> None:
    """Whatever YAML value a litellm_param has, the proxy reads the same from the file, in block, flow and JSON style."""
    done = sync(text, one(litellm={"model": "openai/m", "x": value}))

    assert owned(done.text)[0]["litellm_params"] == {"model": "openai/m", "x": value}
    assert type(owned(done.text)[0]["litellm_params"]["x"]) is type(value)


def test_an_anchor_in_an_entry_that_stays_is_no_obstacle() -> None:
    """An owned entry that says the right thing may set an anchor that others use."""
    text = """\
model_list:
  - model_name: m
    litellm_params: &params {model: openai/m}
    model_info: {id: m@0, managed_by: litellm-registry-hook, mode: chat}
  - model_name: other
    litellm_params: *params
"""

    done = sync(text, one())

    assert done.text.startswith(text)


def test_an_owned_entry_may_be_an_alias() -> None:
    """An item of the list that is only an alias of a stale owned entry is replaced; the anchor's place stays."""
    text = """\
x-old: &old {model_name: m, model_info: {id: m@0, managed_by: litellm-registry-hook}}
model_list:
  - *old # by alias
  - {model_name: other}
"""

    done = sync(text, one())

    assert done.removed == ("- *old",)
    assert done.text.startswith(text[: text.index("  - *old")])
    assert [e["model_info"]["id"] for e in owned(done.text)] == ["m@0"]


def test_a_thousand_models() -> None:
    """A thousand models are written, changed and taken out again in the order of the registry."""
    models = [
        {
            "id": f"m{n}",
            "role": "chat",
            "lifecycle": "always-on",
            "metered": False,
            "litellm": {"model": f"openai/m{n}"},
        }
        for n in range(1000)
    ]
    first = sync("model_list:\n  - {model_name: other}\n", registry(models=models)).text
    for model in models:
        model["timeout_s"] = 9
    second = sync(first, registry(models=models))

    assert [e["model_name"] for e in owned(second.text)] == [f"m{n}" for n in range(1000)]
    assert sync(second.text, registry(models=[])).text.startswith(
        "model_list:\n  - {model_name: other}\nlitellm_settings:"
    )
