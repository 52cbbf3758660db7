"""The settings that the gates rely on, read from a running proxy."""

from __future__ import annotations

from typing import Any

import litellm
import pytest
from litellm.proxy import proxy_server

from litellm_registry_hook.adapter.host_keys import settings_in_force
from litellm_registry_hook.core.sync_settings import AUTH_SWITCH, CUSTOM_AUTH, HEALTH_SWITCH, setting_edits

OURS = {"custom_auth": CUSTOM_AUTH}


@pytest.mark.parametrize(
    ("general", "checks", "missing"),
    [
        ({}, False, [f"general_settings.{HEALTH_SWITCH}"]),
        ({HEALTH_SWITCH: True}, False, []),
        ({HEALTH_SWITCH: "true"}, False, [f"general_settings.{HEALTH_SWITCH}"]),
        (
            OURS,
            False,
            [
                f"general_settings.{HEALTH_SWITCH}",
                f"general_settings.{AUTH_SWITCH}",
                "litellm_settings.enable_post_custom_auth_checks",
            ],
        ),
        (OURS | {HEALTH_SWITCH: True, AUTH_SWITCH: True}, True, []),
    ],
)
def test_what_is_missing_in_a_running_proxy(
    general: dict[str, Any], checks: bool, missing: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """LiteLLM keeps general_settings as a dict, and of litellm_settings each key as an attribute of its package."""
    monkeypatch.setattr(proxy_server, "general_settings", general)
    monkeypatch.setattr(litellm, "enable_post_custom_auth_checks", checks, raising=False)

    assert [edit.path for edit in setting_edits(settings_in_force())] == missing
