"""Rules about what lies around the proxy: files, the state, keys, the LiteLLM at hand."""

from __future__ import annotations

from collections.abc import Iterator

from litellm_registry_hook.core.compatibility import COMPROMISED, is_known, known_releases
from litellm_registry_hook.core.doctor_case import ENVIRONMENT, Case, Rule, Sign

STATE_VARIABLE = "LITELLM_REGISTRY_STATE"
OTHERS = 0o077
WORLD_WRITABLE = 0o002


def file_writable(case: Case) -> Iterator[Sign]:
    """Find that anybody on this machine can change what the gates obey."""
    for file in case.facts.files:
        if file.mode & WORLD_WRITABLE:
            yield Sign(file.name, "", "anybody on this machine can change this file", f"run: chmod o-w {file.name}")
        elif file.folder_open:
            yield Sign(file.name, "", "anybody on this machine can replace this file", "run chmod o-w on its folder")


def state_open(case: Case) -> Iterator[Sign]:
    """Find that others can read or change keys, revocations and counts."""
    state = case.facts.state
    if state is not None and (state.mode & OTHERS or state.folder_open):
        yield Sign(
            state.name,
            "",
            f"other users can get at the keys, revocations and call counts (mode {state.mode:o})",
            f"run: chmod 600 {state.name}" + (", and chmod o-w on its folder" if state.folder_open else ""),
        )


def state_owner(case: Case) -> Iterator[Sign]:
    """Find that the state belongs to somebody else."""
    state = case.facts.state
    if state is not None and not state.own:
        yield Sign(
            state.name,
            "",
            "the state belongs to another user: what the command line writes here may not be what the proxy reads",
            "run the command line as the proxy's user, or name one file with LITELLM_REGISTRY_STATE",
        )


def state_unusable(case: Case) -> Iterator[Sign]:
    """Find that the state cannot be read, so no metered call is made."""
    if not case.facts.state_problem:
        return
    file, path = case.registry_file, "state"
    if case.facts.state is not None:
        file, path = case.facts.state.name, ""
    elif STATE_VARIABLE in case.facts.names:
        file, path = ENVIRONMENT, STATE_VARIABLE
    yield Sign(
        file,
        path,
        f"the state cannot be used, so metered calls are refused: {case.facts.state_problem}",
        f"mend it, or name another file with {STATE_VARIABLE}",
    )


def no_virtual_keys(case: Case) -> Iterator[Sign]:
    """Find our custom_auth without a key to authenticate."""
    keys = case.facts.keys
    if case.embedded_keys and keys is not None and not any(key.live(case.now) for key in keys):
        yield case.setting(
            "general_settings",
            "custom_auth",
            "virtual keys come from the registry's store, and it has no live key: the admin key is what is left to use",
            "make one: litellm-registry keys create; or remove custom_auth",
        )


def compromised_release(case: Case) -> Iterator[Sign]:
    """Find a LiteLLM release that carried somebody else's code."""
    if case.facts.litellm in COMPROMISED:
        yield Sign(
            ENVIRONMENT,
            "litellm",
            f"LiteLLM {case.facts.litellm} was published by somebody else: it sends secrets away",
            "install another release and change every key that this proxy had",
        )


def untested_release(case: Case) -> Iterator[Sign]:
    """Find a LiteLLM release that the plugin was not checked with."""
    version = case.facts.litellm
    if version and version not in COMPROMISED and not is_known(version):
        yield Sign(
            ENVIRONMENT,
            "litellm",
            f"the plugin was not checked with LiteLLM {version}: it starts only where its gates find what they need",
            f"install a release that is known to work ({known_releases()}), or check this one: docs/compatibility.md",
        )


RULES = (
    Rule("file_writable", "high", file_writable),
    Rule("state_open", "high", state_open),
    Rule("state_owner", "medium", state_owner),
    Rule("state_unusable", "medium", state_unusable),
    Rule("no_virtual_keys", "low", no_virtual_keys),
    Rule("compromised_release", "high", compromised_release),
    Rule("untested_release", "info", untested_release),
)
