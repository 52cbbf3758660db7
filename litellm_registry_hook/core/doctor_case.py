"""What `litellm-registry doctor` looks at, and what one of its rules is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal

from litellm_registry_hook.core.gpu.facts import Snapshot
from litellm_registry_hook.core.problems import Problem
from litellm_registry_hook.core.registry import Registry
from litellm_registry_hook.core.sync import Difference
from litellm_registry_hook.core.sync_settings import CUSTOM_AUTH
from litellm_registry_hook.core.virtual_key import VirtualKey

ENVIRONMENT = "environment"
Severity = Literal["high", "medium", "low", "info"]
_NONE: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Sign:
    """One place where a rule found something.

    Attributes:
        file: name of the file; `environment` for a variable.
        path: where in it, as `general_settings.master_key`; empty for the whole file.
        message: what is so, and what that opens. fix: how to close it.

    """

    file: str
    path: str
    message: str
    fix: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One finding of the doctor.

    Attributes:
        code: stable word, documented in docs/doctor.md.
        severity: `high`: somebody can get past a gate or become admin as things are; `medium`: a gate is weaker than it
            looks, or stands on one leg; `low`: something has no effect or misleads, no door is open; `info`: worth
            knowing and no fault of the registry or the config.
        file, path, message, fix: as in Sign.
        line: first line is 1; 0 where there is none.

    """

    code: str
    severity: Severity
    file: str
    path: str
    message: str
    fix: str
    line: int = 0


@dataclass(frozen=True, slots=True)
class Part:
    """One file of the LiteLLM config: the config itself, or one that it includes.

    Attributes:
        name: what it is called in findings. content: its parsed content.

    """

    name: str
    content: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of model_list that is a mapping.

    Attributes:
        file: where it stands. index: its place there.
        name: model_name; empty where it is no text. params, info: litellm_params and model_info; empty where absent.

    """

    file: str
    index: int
    name: str
    params: Mapping[str, Any]
    info: Mapping[str, Any]

    @property
    def path(self) -> str:
        """Where it stands in its file."""
        return f"model_list[{self.index}]"


@dataclass(frozen=True, slots=True)
class FileState:
    """How a file lies on disk.

    Attributes:
        name: what to call it. mode: permission bits. own: whether it belongs to this user.
        folder_open: whether anybody may replace it: its folder is writable by all and not sticky.

    """

    name: str
    mode: int
    own: bool = True
    folder_open: bool = False


@dataclass(frozen=True, slots=True)
class AdminKey:
    """What is known about the admin key; never the key.

    Attributes:
        file, path: where it comes from. missing: there is none. weak: why it is weak; empty where it is not.

    """

    file: str = ENVIRONMENT
    path: str = "LITELLM_MASTER_KEY"
    missing: bool = False
    weak: str = ""


@dataclass(frozen=True, slots=True)
class Live:
    """What the GPUs and model servers said, read without loading a model.

    Attributes:
        registry: with its addresses resolved. snapshot: one look. at: the moment after it.

    """

    registry: Registry
    snapshot: Snapshot
    at: float


@dataclass(frozen=True, slots=True)
class Facts:
    """What the edges found out; no secret is in it.

    Attributes:
        names: names of environment variables that are set. switched_on: those switches of LiteLLM that are on.
        admin_key: state of the admin key.
        files: registry, config and included files. state: the state file; None where there is none yet.
        state_problem: why the state cannot be used; empty where it can.
        keys: every key of the embedded store; None where the store was not read.
        litellm: version of the LiteLLM beside this package; empty where there is none.
        live: the GPUs and model servers; None where they were not looked at.

    """

    names: frozenset[str] = frozenset()
    switched_on: frozenset[str] = frozenset()
    admin_key: AdminKey = field(default_factory=AdminKey)
    files: tuple[FileState, ...] = ()
    state: FileState | None = None
    state_problem: str = ""
    keys: tuple[VirtualKey, ...] | None = None
    litellm: str = ""
    live: Live | None = None


@dataclass(frozen=True)
class Case:
    """Everything the rules read.

    Attributes:
        registry: the registry. registry_file: its name. registry_warnings: what `validate` warns about.
        parts: the config's files, the config itself first.
        differences: where owned entries and settings differ from what the registry wants. warnings: the generator's.
        facts: see there. now: an aware moment.

    """

    registry: Registry
    registry_file: str
    registry_warnings: tuple[Problem, ...]
    parts: tuple[Part, ...]
    differences: tuple[Difference, ...]
    warnings: tuple[Problem, ...]
    facts: Facts
    now: datetime

    @property
    def config_file(self) -> str:
        """The name of the config."""
        return self.parts[0].name

    def file_of(self, section: str) -> str:
        """Return the file whose section counts: LiteLLM lets an included one take the place of what was before."""
        return next((part.name for part in reversed(self.parts) if section in part.content), self.config_file)

    def section(self, name: str) -> Mapping[str, Any]:
        """Return the section that counts; empty where there is none."""
        found = next((part.content[name] for part in reversed(self.parts) if name in part.content), None)
        return found if isinstance(found, Mapping) else _NONE

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """The entries of all files; LiteLLM joins the lists."""
        found: list[Entry] = []
        for part in self.parts:
            listed = part.content.get("model_list")
            for index, entry in enumerate(listed if isinstance(listed, list) else ()):
                if isinstance(entry, Mapping):
                    name = entry.get("model_name")
                    text = name if isinstance(name, str) else ""
                    found.append(
                        Entry(
                            part.name, index, text, as_map(entry.get("litellm_params")), as_map(entry.get("model_info"))
                        )
                    )
        return tuple(found)

    @property
    def custom_auth(self) -> str:
        """What authenticates callers in LiteLLM's place; empty for LiteLLM itself."""
        return str(self.section("general_settings").get("custom_auth") or "")

    @property
    def embedded_keys(self) -> bool:
        """Whether virtual keys come from our own store."""
        return self.custom_auth == CUSTOM_AUTH

    @cached_property
    def metered(self) -> frozenset[str]:
        """Ids of the metered models."""
        return frozenset(model.id for model in self.registry.models if model.metered)

    def setting(self, section: str, key: str, message: str, fix: str) -> Sign:
        """Make a sign at a setting."""
        return Sign(self.file_of(section), f"{section}.{key}", message, fix)

    def routing(self, key: str, message: str, fix: str) -> Sign:
        """Make a sign at a key of the registry's `routing`."""
        return Sign(self.registry_file, f"routing.{key}", message, fix)


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing that the doctor looks for.

    Attributes:
        code: of what it finds. severity: as in Diagnosis. check: finds it.

    """

    code: str
    severity: Severity
    check: Callable[[Case], Iterator[Sign]]


def as_map(value: Any) -> Mapping[str, Any]:
    """Return a mapping as it is and anything else as an empty one."""
    return value if isinstance(value, Mapping) else _NONE
