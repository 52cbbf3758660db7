"""The settings that the gates rely on, and whether a config has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

HANDLER = "litellm_registry_hook.proxy_handler_instance"
CUSTOM_AUTH = "litellm_registry_hook.user_api_key_auth"
HEALTH_SWITCH = "health_check_skip_disabled_background_models"
AUTH_SWITCH = "custom_auth_run_common_checks"
GENERAL_SWITCHES = (HEALTH_SWITCH, AUTH_SWITCH)


@dataclass(frozen=True, slots=True)
class SettingEdit:
    """One setting that a config must have.

    Attributes:
        section: top-level key. key: key in it.
        action: `set` the key to the value, or `append` the value to the key's list.
        value: the value, or the list item.
        was: what stands there now; None where nothing does.

    """

    section: str
    key: str
    action: Literal["set", "append"]
    value: Any
    was: Any = None

    @property
    def path(self) -> str:
        """The dotted path of the setting."""
        return f"{self.section}.{self.key}"


def setting_edits(config: Mapping[str, Any]) -> tuple[SettingEdit, ...]:
    """Return what a parsed config lacks of the required settings, in the order to write them.

    - The callback is the gates.
    - Without health_check_skip_disabled_background_models GET /health, open to any key, calls every model, the
      per-model flag notwithstanding.
    - With our custom_auth LiteLLM checks neither routes nor models of a key unless both switches are on.
    """
    found: list[SettingEdit] = []
    litellm_settings, general_settings = _section(config, "litellm_settings"), _section(config, "general_settings")
    callbacks = litellm_settings.get("callbacks")
    if callbacks != HANDLER and not (isinstance(callbacks, list) and HANDLER in callbacks):
        found.append(SettingEdit("litellm_settings", "callbacks", "append", HANDLER, callbacks))
    wanted = [("general_settings", HEALTH_SWITCH)]
    if general_settings.get("custom_auth") == CUSTOM_AUTH:
        wanted.append(("general_settings", AUTH_SWITCH))
        wanted.append(("litellm_settings", "enable_post_custom_auth_checks"))
    for section, key in wanted:
        was = _section(config, section).get(key)
        if was is not True:
            found.append(SettingEdit(section, key, "set", True, was))
    return tuple(found)


def _section(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = config.get(name)
    return section if isinstance(section, Mapping) else {}
