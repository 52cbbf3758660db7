"""Random registries, callers and requests for the property tests: small, with every rule of the decision in reach."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from hypothesis import strategies as st

from litellm_registry_hook.core.consent import Caller
from litellm_registry_hook.core.failure import Failure
from litellm_registry_hook.core.plan import Ask, Running
from litellm_registry_hook.core.refusal import STATUS, Skip
from litellm_registry_hook.core.registry import Model, Registry

NOW = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
TOKENS = ("a" * 64, "b" * 64, "c" * 64)
ALIASES = ("agent:one", "agent:two", "")
IDS = ("alpha", "beta", "gamma", "delta", "omega")
TIERS = ("large", "small", "embed")


def model_entry(
    id: str, *, metered: bool = False, role: str = "chat", bases: tuple[str, ...] = (), **more: Any
) -> dict[str, Any]:
    """One entry of `models`, as in the file."""
    entry = {
        "id": id,
        "role": role,
        "lifecycle": "always-on",
        "metered": metered,
        "litellm": {"model": f"openai/{id}-up"},
        **more,
    }
    if role == "embedder":
        entry["dimensions"] = 4
    return entry | ({"endpoints": [{"api_base": base} for base in bases]} if bases else {})


def registry_of(*models: dict[str, Any], **routing: Any) -> Registry:
    """A registry of these entries; `routing` as in the file."""
    return Registry.model_validate({"version": 1, "models": list(models), "routing": {"tiers": {}, **routing}})


def running_of(model: Model) -> list[Running]:
    """Every deployment of a model, as the generator names them."""
    places = [place.api_base for place in model.places] or [""]
    return [Running(f"{model.id}@{n}", model, base) for n, base in enumerate(places)]


moments = st.sampled_from((NOW - timedelta(days=1), NOW, NOW + timedelta(days=1)))
grants = st.fixed_dictionaries(
    {},
    optional={
        "token": st.sampled_from([f"sha256:{token}" for token in TOKENS]),
        "models": st.lists(st.sampled_from(IDS), max_size=2),
        "expires": moments.map(lambda moment: moment.isoformat()),
    },
).flatmap(lambda entry: st.sampled_from(ALIASES[:2]).map(lambda alias: {"key": alias, **entry}))
opt_ins = st.lists(
    st.one_of(
        st.sampled_from([f"sha256:{token}" for token in TOKENS]),
        st.sampled_from(["agent:one", "agent:two", "anonymous", "", "*"]),
        grants,
    ),
    max_size=4,
)


@st.composite
def entries(draw: st.DrawFn, id: str) -> dict[str, Any]:
    """One model entry."""
    count = draw(st.integers(0, 3))
    return model_entry(
        id,
        metered=draw(st.booleans()),
        role=draw(st.sampled_from(("chat", "chat", "embedder", "reranker"))),
        bases=tuple(f"http://{id}-{n}/v1" for n in range(count)),
        **({"context": draw(st.integers(1, 4)) * 1000} if draw(st.booleans()) else {}),
    )


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """A registry as parsed YAML."""
    ids = draw(st.lists(st.sampled_from(IDS), min_size=1, max_size=5, unique=True))
    tiers = {
        tier: draw(st.lists(st.sampled_from(ids), min_size=1, max_size=5, unique=True))
        for tier in draw(st.lists(st.sampled_from(TIERS), max_size=3, unique=True))
    }
    aliases = {f"alias-{n}": draw(st.sampled_from([*ids, *tiers])) for n in range(draw(st.integers(0, 2)))}
    return {
        "version": 1,
        "models": [draw(entries(id)) for id in ids],
        "routing": {
            "tiers": tiers,
            "aliases": aliases,
            "metered_opt_in": draw(opt_ins),
            "unlisted_models": draw(st.sampled_from(("deny", "metered", "allow"))),
            "master_key_metered": draw(st.booleans()),
            "trust_key_alias": draw(st.booleans()),
            "trust_custom_auth": draw(st.booleans()),
        },
    }


registries = documents().map(Registry.model_validate)


@st.composite
def running(draw: st.DrawFn, registry: Registry) -> list[Running]:
    """Some of the registry's deployments, in any order."""
    every = [one for model in registry.models for one in running_of(model)]
    return draw(st.lists(st.sampled_from(every), unique_by=lambda one: one.id, max_size=len(every)))


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Registry, list[Running]]:
    """A registry and what the router has of it."""
    registry = draw(registries)
    return registry, draw(running(registry))


callers = st.builds(
    Caller,
    kind=st.sampled_from(("virtual_key", "custom_auth", "master_key", "anonymous")),
    token=st.sampled_from((*TOKENS, "", "not-a-hash", "A" * 64)),
    alias=st.sampled_from(ALIASES),
)
asks = st.builds(Ask, caller=callers, allow_metered=st.booleans(), now=moments)
skips = st.builds(
    Skip,
    model=st.text("abcdefgh-@./:", min_size=1, max_size=128),
    code=st.sampled_from(sorted(STATUS)),
    reason=st.text(max_size=20),
    retry_after_s=st.none() | st.floats(0, 1e6),
)
failures = st.builds(
    Failure,
    status=st.sampled_from((0, *range(400, 600))),
    text=st.text(max_size=40),
    retry_after_s=st.none() | st.floats(0, 1e6),
    context_overflow=st.booleans(),
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("abtrue10", max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=3), inner, max_size=3),
    max_leaves=6,
)
