"""The error tree.

RegistryHookError
├── RegistryError          the registry file, or what was asked of it, is wrong: carries every problem
├── ConfigError            a LiteLLM config cannot be read or edited
├── StateError             the state cannot be read or written
└── HostError              the LiteLLM at hand lacks something that the gates stand on
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from litellm_registry_hook.core.problems import Problem


class RegistryHookError(Exception):
    """Base of every error that this package raises on purpose; its text is meant for people."""


class RegistryError(RegistryHookError):
    """Say what is missing or wrong in a registry.

    Attributes:
        problems: every problem found, in file order; empty where one sentence says it all.

    """

    def __init__(self, message: str, problems: Sequence[Problem] = ()) -> None:
        super().__init__(message)
        self.problems: tuple[Problem, ...] = tuple(problems)


class ConfigError(RegistryHookError):
    """Say why a LiteLLM config cannot be read or edited."""


class StateError(RegistryHookError):
    """Say why the state cannot be read or written: no metered calls without it, free models go on."""


class HostError(RegistryHookError):
    """Say what the installed LiteLLM lacks; the proxy must not start without it."""
