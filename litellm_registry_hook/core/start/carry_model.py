"""From entries of one model_name to registry models: one for each upstream model, with an endpoint for each address."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from litellm_registry_hook.core.parse import parse
from litellm_registry_hook.core.providers import BILLING, HOME
from litellm_registry_hook.core.registry import OLLAMA_PROVIDERS
from litellm_registry_hook.core.start.carry_choices import Choices
from litellm_registry_hook.core.start.carry_entries import Entry
from litellm_registry_hook.core.start.carry_info import carried_info
from litellm_registry_hook.core.start.carry_mode import MODES, ROLES, catalogue_entry, dimensions_of, mode_of
from litellm_registry_hook.core.start.carry_money import metered_because
from litellm_registry_hook.core.start.carry_secrets import Names, replaced
from litellm_registry_hook.core.start.proposal import ProposedModel

# What only chooses between deployments of one name: the pool's order does that now.
BALANCING: Final = ("order", "weight")
# LiteLLM takes these from litellm_params as well (types/utils.py CustomPricingLiteLLMParams; main.py:5494 base_model).
PRICES: Final = (
    "input_cost_per_token",
    "output_cost_per_token",
    "input_cost_per_second",
    "output_cost_per_second",
    "cache_creation_input_token_cost",
    "cache_read_input_token_cost",
)
_SAID_ELSEWHERE: Final = frozenset(
    {"mode", "id", "order", "weight", "max_input_tokens", "output_vector_size", "dimensions", "managed_by", "db_model",
     "disable_background_health_check", *PRICES}
)  # fmt: skip
# Providers whose name in the price list is the one before the slash of a model string.
_PLAIN: Final = frozenset({"openai", "text-completion-openai", "anthropic", "bedrock", "mistral"})
_BARE: Final = (
    (
        "openai",
        re.compile(r"^(?:gpt-|chatgpt-|o[1-9](?:-|$)|text-embedding-(?:3|ada)|whisper-|tts-|dall-e-|omni-moderation)"),
    ),
    ("anthropic", re.compile(r"^claude-")),
)
_CHATTY: Final = re.compile(
    r"gpt|claude|gemini|gemma|llama|mi[sx]tral|qwen|chat|instruct|deepseek|kimi|command|phi|nova-|grok|sonar"
)
AS_FREE: Final = "as --free said"
SIZE_UNKNOWN: Final = (
    "without gpu_residency.vram_mb it is served only while Ollama has it loaded: litellm-registry calibrate measures it"
)


@dataclass(frozen=True, slots=True)
class Draft:
    """A model before it has its id.

    Attributes:
        group: the model_name it comes from. entries: its entries, the first one's parameters are those of all.
        body: the registry entry without its id. mode: of LiteLLM.
        marks: comments by path. notes: comments above.
        lost: keys of model_info that have no place in the registry.
        explicit_ids: model_info.id as written.

    """

    group: str
    entries: tuple[Entry, ...]
    body: Mapping[str, Any]
    mode: str
    marks: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    explicit_ids: tuple[str, ...] = ()

    @property
    def upstream(self) -> str:
        """`provider/name` as the registry has it."""
        return str(self.body["litellm"]["model"])

    def named(self, model_id: str, context: int | None = None) -> ProposedModel:
        """Return the proposed model under an id."""
        body = dict(self.body)
        if context is not None:
            body["context"] = context
        return ProposedModel({"id": model_id, **body}, self.notes, self.marks)


def drafts_of(
    group: str,
    entries: list[Entry],
    choices: Choices,
    credentials: Mapping[str, Mapping[str, Any]],
    names: Names,
) -> tuple[Draft, ...]:
    """Return the models of a group in the order they are tried: LiteLLM's `order`, then file order."""
    ordered = sorted(entries, key=lambda entry: (entry.order, entry.index))
    parts: list[list[tuple[Entry, dict[str, Any]]]] = []
    for entry in ordered:
        params = _params(entry, choices, credentials, names)
        part = next((part for part in parts if _together(part[0], (entry, params))), None)
        if part is None:
            parts.append([(entry, params)])
        else:
            part.append((entry, params))
    return tuple(_draft(group, part, choices) for part in parts)


def _params(
    entry: Entry, choices: Choices, credentials: Mapping[str, Mapping[str, Any]], names: Names
) -> dict[str, Any]:
    """Return litellm_params as the registry takes them."""
    params = copy.deepcopy(dict(replaced(entry.params, entry, names) if choices.secrets_to_env else entry.params))
    for key in BALANCING:
        params.pop(key, None)
    if isinstance(params.get("base_url"), str):
        # The other spelling, and the one that wins in LiteLLM (main.py:5566).
        params["api_base"] = params.pop("base_url")
    mode, _ = mode_of(entry, choices)
    params["model"] = _model_string(entry, mode, choices)
    for key in PRICES:
        if key in entry.info:
            params.setdefault(key, entry.info[key])
    base_model = entry.info.get("base_model")
    if isinstance(base_model, str) and mode in {"chat", "responses", "completion"}:
        params.setdefault("base_model", base_model)
    credential = credentials.get(str(params.get("litellm_credential_name")), {})
    if "api_base" not in params and isinstance(credential.get("api_base"), str):
        # The gates compare the address that is called with the registry's.
        params["api_base"] = credential["api_base"]
    if params.get("api_base") in (None, ""):
        params.pop("api_base", None)
    return params


def _model_string(entry: Entry, mode: str, choices: Choices) -> str:
    model = entry.model
    if isinstance(entry.params.get("custom_llm_provider"), str):
        return model
    if model.startswith("ollama/") and mode == "chat":
        return "ollama_chat/" + model.removeprefix("ollama/")
    if model.startswith("ollama_chat/") and mode == "embedding":
        return "ollama/" + model.removeprefix("ollama_chat/")
    if "/" not in model:
        provider = inferred_provider(model, choices)
        return f"{provider}/{model}" if provider else model
    return model


def inferred_provider(model: str, choices: Choices) -> str | None:
    """Return the provider that LiteLLM takes a bare name for; None where that is not certain."""
    known = catalogue_entry(model, choices).get("litellm_provider")
    if isinstance(known, str):
        # `text-embedding-004` is Google's: the price list goes before the look of a name.
        return known if known in _PLAIN else None
    return bare_provider(model)


def bare_provider(model: str) -> str | None:
    """Return the provider that the look of a bare name tells; None where it tells none."""
    return next((provider for provider, pattern in _BARE if pattern.match(model)), None)


def provider_of(params: Mapping[str, Any]) -> str:
    """Return the provider, as Model.provider does."""
    return str(params.get("custom_llm_provider") or str(params["model"]).partition("/")[0])


def _together(one: tuple[Entry, dict[str, Any]], other: tuple[Entry, dict[str, Any]]) -> bool:
    """Say whether two entries are one model at two addresses: they differ in api_base alone."""
    (first, left), (second, right) = one, other
    if left == right:
        return _info_of(first) == _info_of(second)
    if not ("api_base" in left and "api_base" in right):
        return False
    rest = [{key: value for key, value in params.items() if key != "api_base"} for params in (left, right)]
    return rest[0] == rest[1] and _info_of(first) == _info_of(second)


def _info_of(entry: Entry) -> dict[str, Any]:
    return {key: value for key, value in entry.info.items() if key not in {"id", *BALANCING}}


def _draft(group: str, part: list[tuple[Entry, dict[str, Any]]], choices: Choices) -> Draft:
    entry, params = part[0]
    mode, source = mode_of(entry, choices)
    bases = tuple(dict.fromkeys(str(p["api_base"]).rstrip("/") for _, p in part if "api_base" in p))
    written = {str(p["api_base"]).rstrip("/"): p["api_base"] for _, p in reversed(part) if "api_base" in p}
    provider = provider_of(params)
    metered, why = metered_because(provider, str(params["model"]), bases)
    marks: dict[str, str] = {}
    if group in choices.free:
        metered, why = False, AS_FREE
    elif metered and provider not in BILLING and provider not in HOME and not bases:
        why += "; free: --free " + group
    marks["metered"] = why
    role = ROLES.get(mode, mode)
    if source == "guess" and mode == "chat" and provider not in OLLAMA_PROVIDERS and not _surely_chat(params):
        marks["role"] = "nothing says otherwise"
    body: dict[str, Any] = {"role": role}
    body["lifecycle"] = "cost-gated" if metered else "always-on"
    body["metered"] = metered
    if ROLES.get(mode) is None or mode not in {"chat", "embedding", "rerank"}:
        body["mode"] = mode
    if params["model"] != entry.model:
        marks["litellm.model"] = _renamed(entry.model)
    body["litellm"] = params
    if len(bases) > 1:
        params = {key: value for key, value in params.items() if key != "api_base"}
        body["litellm"] = params
    said = {*_SAID_ELSEWHERE, *(("base_model",) if mode in {"chat", "responses", "completion"} else ())}
    info, lost = carried_info(entry, said)
    if info:
        body["model_info"] = info
    if len(bases) > 1:
        body["endpoints"] = [{"api_base": written[base]} for base in bases]
    if mode == "embedding":
        length = dimensions_of(entry, choices)
        if length is not None:
            body["dimensions"] = length
    notes: tuple[str, ...] = ()
    if provider in OLLAMA_PROVIDERS and not metered:
        notes = (SIZE_UNKNOWN,)
    return Draft(
        group,
        tuple(one for one, _ in part),
        body,
        mode,
        marks,
        notes,
        lost,
        tuple(str(one.info["id"]) for one, _ in part if isinstance(one.info.get("id"), str)),
    )


def _surely_chat(params: Mapping[str, Any]) -> bool:
    return _CHATTY.search(str(params["model"]).lower()) is not None


def _renamed(was: str) -> str:
    if was.startswith("ollama/"):
        return f"was {was}, which sends chats to /api/generate, where tools are dropped"
    return f"was {was}: LiteLLM takes it for the same"


def mode_trouble(draft: Draft) -> str:
    """Say why a mode cannot be in a registry; empty where it can."""
    return "" if draft.mode in MODES else f"the registry has no mode {draft.mode!r}"


def trouble(draft: Draft) -> str:
    """Return what the registry's own rules have against a model; empty where they take it."""
    tree = {
        "version": 1,
        "models": [{"id": "m", **copy.deepcopy(dict(draft.body))}],
        "routing": {"tiers": {"t": ["m"]}},
    }
    _, findings = parse(tree)
    errors = [f"{finding.message} ({finding.hint})" for finding in findings if finding.severity == "error"]
    return "; ".join(dict.fromkeys(errors))
