"""Which model needs a stand-in, and the registry that points at what was found: pure data.

A subscription, a paid model and whatever is not on this machine always get a stand-in: the demo never calls them.
"""

from __future__ import annotations

import copy
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Literal
from urllib.parse import urlsplit

from litellm_registry_hook.core.registry import Model, Registry

Form = Literal["ollama", "rerank", "openai"]
ENV_PREFIX = "os.environ/"
DUMMY_KEY = "stand-in-needs-no-key"
OPENAI_PROVIDERS = frozenset({"openai", "hosted_vllm"})
RERANK_PROVIDERS = frozenset({"huggingface", "infinity", "jina_ai", "hosted_vllm"})
# What of litellm_params a stand-in's entry keeps. A list of what may stay, so that no credential can slip through.
KEPT_PARAMS = frozenset(
    {
        "temperature",
        "top_p",
        "max_tokens",
        "timeout",
        "stream_timeout",
        "rpm",
        "tpm",
        "weight",
        "order",
        "drop_params",
        "input_cost_per_token",
        "output_cost_per_token",
        "num_ctx",
        "num_batch",
        "num_gpu",
    }
)


@dataclass(frozen=True, slots=True)
class Place:
    """One address of one model.

    Attributes:
        model: the model. index: which of its endpoints.
        form: what protocol it speaks.
        api_base: its address with the environment filled in; empty where it has none.
        health_url: answers 200 while it is up; empty where none is given.
        never: why the real one is never called; empty where it may be, if it answers.

    """

    model: Model
    index: int
    form: Form
    api_base: str
    health_url: str
    never: str


@dataclass(frozen=True, slots=True)
class Found:
    """What answers for a place.

    Attributes:
        place: the place.
        real: whether the real server is used.
        api_base: where it is answered.
        health_url: its health URL; empty for none.
        answers: for people, who answers; `why` the real one is not used, empty where it is.

    """

    place: Place
    real: bool
    api_base: str
    health_url: str
    answers: str
    why: str = ""


def form_of(model: Model) -> Form:
    """Return the protocol that a model is spoken to in."""
    if model.on_ollama:
        return "ollama"
    return "rerank" if model.effective_mode == "rerank" else "openai"


def is_loopback(url: str) -> bool:
    """Say whether a URL's host is this machine's loopback.

    >>> is_loopback("http://127.0.0.1:11434"), is_loopback("http://[::1]:80"), is_loopback("https://api.kimi.com")
    (True, True, False)
    """
    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def never_called(model: Model, api_base: str) -> str:
    """Return why the demo does not call the real server of a place; empty where it may."""
    if model.metered:
        return "paid: the demo never calls it"
    if model.lifecycle == "quota-gated":
        return "a subscription: the demo never calls it"
    if model.lifecycle == "cost-gated":
        return "cost-gated: the demo never calls it"
    if not api_base:
        return "the registry gives no address of its own"
    return "" if is_loopback(api_base) else "not on this machine"


def places_of(registry: Registry, environ: Mapping[str, str]) -> list[Place]:
    """Return every address of every model, in registry order."""
    found = []
    for model in registry.models:
        endpoints: list[tuple[str, str]] = [(place.api_base, place.health_url or "") for place in model.places]
        for index, (written, health_url) in enumerate(endpoints or [("", "")]):
            base = environ.get(written.removeprefix(ENV_PREFIX), "") if written.startswith(ENV_PREFIX) else written
            found.append(Place(model, index, form_of(model), base, health_url, never_called(model, base)))
    return found


def derived(document: Mapping[str, Any], found: Sequence[Found]) -> dict[str, Any]:
    """Return the registry document with the addresses of stand-ins, no credentials of theirs, and canned quota probes.

    Args:
        document: the registry file's content.
        found: what answers for each place of each model.

    """
    result: dict[str, Any] = copy.deepcopy(dict(document))
    result.pop("state", None)
    for entry in result["models"]:
        here = [answer for answer in found if answer.place.model.id == entry["id"]]
        if all(answer.real for answer in here):
            continue
        model = here[0].place.model
        entry["litellm"] = _stand_in_params(model, keep_all=any(answer.real for answer in here))
        if "endpoints" in entry:
            entry["endpoints"] = [_endpoint(old, answer) for old, answer in zip(entry["endpoints"], here, strict=True)]
        else:
            entry["litellm"]["api_base"] = here[0].api_base
        if model.quota is not None:
            entry["quota"] = _quota(model, entry["quota"])
    return result


def environment_names(found: Sequence[Found]) -> list[str]:
    """Return the environment variables that the entries of real servers read."""
    names: set[str] = set()
    for answer in found:
        if answer.real:
            values = [*answer.place.model.litellm.values(), *(place.api_base for place in answer.place.model.places)]
            names |= {value.removeprefix(ENV_PREFIX) for value in values if str(value).startswith(ENV_PREFIX)}
    return sorted(names)


def _stand_in_params(model: Model, *, keep_all: bool) -> dict[str, Any]:
    # An endpoint of the same model that is real and local needs what the registry gives it.
    kept = {
        name: copy.deepcopy(value)
        for name, value in model.litellm.items()
        if name in KEPT_PARAMS or (keep_all and name != "api_base")
    }
    kept["model"] = stand_in_model(model)
    if not keep_all and form_of(model) != "ollama":
        kept["api_key"] = DUMMY_KEY
    return kept


def stand_in_model(model: Model) -> str:
    """Return the model string with a provider that the stand-in can speak to."""
    provider, _, name = model.litellm_model.partition("/")
    if not name:
        provider, name = model.provider, provider
    form = form_of(model)
    if form == "openai" and model.provider not in OPENAI_PROVIDERS:
        return f"openai/{name}"
    if form == "rerank" and model.provider not in RERANK_PROVIDERS:
        return f"huggingface/{name}"
    return f"{provider}/{name}"


def _endpoint(old: Mapping[str, Any], answer: Found) -> dict[str, Any]:
    if answer.real:
        return dict(old)
    new = {**old, "api_base": answer.api_base}
    if "health_url" in new:
        new["health_url"] = answer.health_url
    return new


def _quota(model: Model, old: Mapping[str, Any]) -> dict[str, Any]:
    assert model.quota is not None
    pairs = []
    for index, window in enumerate(model.quota.windows):
        pairs.append(f"{window.field}={12 + 22 * index % 80}")
        if window.resets_at_field is not None:
            pairs.append(f"{window.resets_at_field}=+{7200 * (index + 1)}")
    if model.quota.field is not None and model.quota.limit is not None:
        pairs.append(f"{model.quota.field}={round(model.quota.limit * 0.16, 2)}")
    command = shlex.join([sys.executable, "-m", "litellm_registry_hook.demo.quota", *pairs])
    kept = {name: value for name, value in old.items() if name not in ("probe_file", "probe_url", "env")}
    return {**kept, "probe_command": command}
