"""The decision: names, pools, order, drift, consent and models that the registry does not know."""

from __future__ import annotations

from datetime import timedelta

import pytest

from litellm_registry_hook.core.consent import Caller
from litellm_registry_hook.core.plan import (
    NOT_IN_PROXY,
    Ask,
    Plan,
    Pool,
    Running,
    index_of,
    join,
    metered_skip,
    plan,
    pools_of,
    unknown,
    unlisted,
)
from litellm_registry_hook.core.refusal import Refusal, Skip
from tests.strategies import NOW, TOKENS, model_entry, registry_of, running_of

OPTED = Caller("virtual_key", TOKENS[0], "agent:one")
PLAIN = Caller("virtual_key", TOKENS[1], "agent:two")
YES = Ask(OPTED, allow_metered=True, now=NOW)
NO_CONSENT = Ask(OPTED, allow_metered=False, now=NOW)
NOT_OPTED = Ask(PLAIN, allow_metered=True, now=NOW)
MISSING = Skip(
    "paid",
    "metered_consent_missing",
    "each call costs money and this request does not allow it; send the header x-registry-allow-metered: true and have "
    "the virtual key opted in",
)
NOT_IN = Skip(
    "paid",
    "metered_key_not_opted_in",
    "each call costs money and this virtual key is not opted in; an operator adds it to routing.metered_opt_in of the "
    "registry",
)


def world(*, without=(), **routing):
    """kimi, local (two endpoints) and paid in `large`; two embedders; an alias each for a tier and a model."""
    registry = registry_of(
        model_entry("kimi", bases=("http://kimi/v1",)),
        model_entry("local", bases=("http://one/v1", "http://two/v1")),
        model_entry("paid", metered=True),
        model_entry("bge", role="embedder", bases=("http://bge",)),
        model_entry("nomic", role="embedder", bases=("http://nomic",)),
        **{
            "tiers": {"large": ["kimi", "local", "paid"], "embed": ["bge", "nomic"], "only-paid": ["paid"]},
            "aliases": {"big": "large", "embedder": "embed", "cheap": "paid"},
            "metered_opt_in": [f"sha256:{TOKENS[0]}"],
            **routing,
        },
    )
    running = [one for model in registry.models for one in running_of(model) if one.id not in without]
    return registry, index_of(registry, running)


def target(index, id):
    return index.by_deployment[id]


def test_a_tier_is_its_pool_in_order_each_endpoint_once():
    """A tier's targets are its members' deployments: pool order outside, endpoint order inside."""
    _, index = world()

    assert plan(index, "large", YES) == Plan(
        "large",
        "large",
        tuple(target(index, id) for id in ("kimi@0", "local@0", "local@1", "paid@0")),
        (),
        ("kimi", "local", "paid"),
    )


def test_a_metered_member_without_consent_is_passed_over_with_its_reason():
    """The rest of the pool serves, and the metered member says which consent is missing."""
    _, index = world()

    assert plan(index, "large", NO_CONSENT) == Plan(
        "large",
        "large",
        tuple(target(index, id) for id in ("kimi@0", "local@0", "local@1")),
        (MISSING,),
        ("kimi", "local", "paid"),
    )


def test_an_alias_is_the_tier_behind_it():
    """An alias plans as its tier does, under its own name."""
    _, index = world()
    tier = plan(index, "large", YES)

    assert plan(index, "big", YES) == Plan("big", "large", tier.targets, tier.skipped, tier.order)


def test_an_alias_of_a_metered_model_asks_for_both_consents():
    """A harmless name changes nothing: the alias's target is judged."""
    _, index = world()

    assert plan(index, "cheap", NO_CONSENT) == Refusal(
        "metered_consent_missing", f"model 'cheap': paid: {MISSING.reason}", 403, None, None, (MISSING,)
    )


def test_a_named_model_has_no_tier_and_no_substitute():
    """A model id is itself alone."""
    _, index = world()

    assert plan(index, "kimi", YES) == Plan("kimi", None, (target(index, "kimi@0"),), (), ("kimi",))


def test_a_deployment_id_is_that_deployment_alone():
    """A deployment named by its id is that endpoint, of its model."""
    _, index = world()

    assert plan(index, "local@1", YES) == Plan("local@1", None, (target(index, "local@1"),), (), ("local",))


@pytest.mark.parametrize(("ask", "skip"), [(NO_CONSENT, MISSING), (NOT_OPTED, NOT_IN)])
def test_the_id_of_a_metered_deployment_is_no_way_round_consent(ask, skip):
    """A metered deployment named by its id is refused as its model is."""
    _, index = world()

    assert plan(index, "paid@0", ask) == Refusal(
        skip.code, f"model 'paid@0': paid: {skip.reason}", 403, None, None, (skip,)
    )


@pytest.mark.parametrize(("ask", "skip"), [(NO_CONSENT, MISSING), (NOT_OPTED, NOT_IN)])
def test_a_metered_model_wants_both_keys_of_its_lock(ask, skip):
    """Consent without an opted-in key is refused, and an opted-in key without consent."""
    _, index = world()

    assert plan(index, "paid", ask) == Refusal(skip.code, f"model 'paid': {skip.reason}", 403, None, None, (skip,))


def test_a_pool_of_metered_members_alone_says_so_for_its_tier():
    """A tier whose only member is metered is refused with the tier in the message."""
    _, index = world()

    assert plan(index, "only-paid", NOT_OPTED) == Refusal(
        "metered_key_not_opted_in", f"tier 'only-paid': paid: {NOT_IN.reason}", 403, None, "only-paid", (NOT_IN,)
    )


def test_a_member_that_the_proxy_lacks_is_passed_over():
    """A registry model without a deployment in the router is skipped, and the reason says how to mend it."""
    _, index = world(without={"kimi@0"})

    assert plan(index, "large", YES) == Plan(
        "large",
        "large",
        tuple(target(index, id) for id in ("local@0", "local@1", "paid@0")),
        (Skip("kimi", "model_unavailable", NOT_IN_PROXY),),
        ("kimi", "local", "paid"),
    )


def test_a_named_model_that_the_proxy_lacks_is_unavailable():
    """Drift of a named model is a 503 that names the generator."""
    _, index = world(without={"kimi@0"})
    skip = Skip("kimi", "model_unavailable", NOT_IN_PROXY)

    assert plan(index, "kimi", YES) == Refusal(
        "model_unavailable",
        "model 'kimi': it is not in the proxy's model_list; run generate-litellm-config and restart the proxy",
        503,
        None,
        None,
        (skip,),
    )


def test_consent_is_judged_before_drift():
    """A metered model that is not in the proxy still answers with the missing consent first."""
    _, index = world(without={"paid@0"})

    assert plan(index, "paid", NO_CONSENT).code == "metered_consent_missing"


def test_an_embedding_tier_is_its_first_member():
    """A tier of embedding models never substitutes one for another."""
    _, index = world()

    assert plan(index, "embedder", YES) == Plan("embedder", "embed", (target(index, "bge@0"),), (), ("bge",))


def test_a_mixed_pool_keeps_one_embedding_model():
    """Behind a chat model stands the first embedding model and no other."""
    registry, _ = world(tiers={"mixed": ["kimi", "bge", "nomic"]}, aliases={})
    kimi, bge = registry.by_id["kimi"], registry.by_id["bge"]

    assert pools_of(registry)["mixed"] == Pool("mixed", "mixed", (kimi, bge), ("kimi", "bge"))


def test_deployments_stand_in_the_order_of_the_registrys_endpoints():
    """The router's order does not matter; an address that the registry lacks comes last."""
    registry, _ = world()
    local = registry.by_id["local"]
    stray, first, second = (
        Running(id, local, base)
        for id, base in (("local@9", "http://gone/v1"), ("local@0", "http://one/v1"), ("local@1", "http://two/v1"))
    )

    assert index_of(registry, [stray, second, first]).running == {"local": (first, second, stray)}


def test_a_name_that_the_registry_does_not_know_is_left_to_the_host():
    """An unknown name has no plan and no refusal: the caller asks the host next."""
    _, index = world()

    assert plan(index, "gpt-4o", YES) is None


def test_an_unknown_name_is_told_the_tiers_there_are():
    """The refusal of a name that nobody knows lists the tiers."""
    _, index = world()

    assert unknown(index, "lagre") == Refusal(
        "unknown_model",
        "no tier, alias or model is called 'lagre'; the tiers are: large, embed, only-paid",
        400,
    )


def test_an_unknown_name_in_a_registry_without_tiers():
    """Without a tier the refusal says none."""
    registry = registry_of(model_entry("kimi"))

    assert unknown(index_of(registry, []), "x").message == "no tier, alias or model is called 'x'; the tiers are: none"


def test_allow_serves_an_unlisted_model():
    """`routing.unlisted_models: allow` lets a foreign model through without any consent."""
    registry, _ = world(unlisted_models="allow")

    assert unlisted(registry, "gpt-4o", NO_CONSENT) is None


def test_deny_refuses_an_unlisted_model_whatever_the_consent():
    """`routing.unlisted_models: deny` says no to both consents."""
    registry, _ = world(unlisted_models="deny")

    assert unlisted(registry, "gpt-4o", YES) == Refusal(
        "unlisted_model",
        "model 'gpt-4o' is not in the registry and routing.unlisted_models is deny; add it to model-registry.yaml",
        403,
    )


def test_metered_serves_an_unlisted_model_with_both_consents():
    """`routing.unlisted_models: metered`, the default, asks for consent as for a metered model."""
    registry, _ = world()

    assert unlisted(registry, "gpt-4o", YES) is None


@pytest.mark.parametrize(("ask", "skip"), [(NO_CONSENT, MISSING), (NOT_OPTED, NOT_IN)])
def test_metered_refuses_an_unlisted_model_without_both_consents(ask, skip):
    """The refusal is unlisted_model and says which consent is missing."""
    registry, _ = world()

    assert unlisted(registry, "gpt-4o", ask) == Refusal(
        "unlisted_model",
        "model 'gpt-4o' is not in the registry, so it counts as metered (routing.unlisted_models: metered): "
        f"{skip.reason}; or add it to model-registry.yaml",
        403,
    )


def test_a_call_without_a_model_is_not_quoted_as_one():
    """A phrase in place of a name reads as a phrase."""
    registry, _ = world(unlisted_models="deny")

    assert unlisted(registry, "a call without a model", YES).message.startswith("a call without a model is not in")


def test_a_grant_for_some_models_does_not_cover_an_unlisted_one():
    """A map entry with `models` opts in for these alone."""
    registry, _ = world(metered_opt_in=[{"token": f"sha256:{TOKENS[0]}", "models": ["paid"]}])

    assert (metered_skip(registry, registry.by_id["paid"], YES), unlisted(registry, "gpt-4o", YES).code) == (
        None,
        "unlisted_model",
    )


def test_a_grant_ends_at_its_moment():
    """A grant is in force before its moment and not at it."""
    registry, index = world(metered_opt_in=[{"token": f"sha256:{TOKENS[0]}", "expires": NOW.isoformat()}])
    before = Ask(OPTED, allow_metered=True, now=NOW - timedelta(microseconds=1))

    assert (plan(index, "paid", before).targets, plan(index, "paid", YES).code) == (
        (target(index, "paid@0"),),
        "metered_key_not_opted_in",
    )


def test_a_free_model_asks_nothing_of_anybody():
    """The consent gate lets a model through that is not metered, anonymous caller or not."""
    registry, _ = world()

    assert metered_skip(registry, registry.by_id["kimi"], Ask(Caller(), allow_metered=False, now=NOW)) is None


def test_client_named_fallbacks_follow_and_nothing_is_tried_twice():
    """Plans are chained in order; a deployment that stands in two of them is tried at its first place."""
    _, index = world()
    whole = join([plan(index, "kimi", NO_CONSENT), plan(index, "large", NO_CONSENT)])

    assert whole == Plan(
        "kimi",
        None,
        tuple(target(index, id) for id in ("kimi@0", "local@0", "local@1")),
        (MISSING,),
        ("kimi", "local", "paid"),
    )


def test_one_plan_is_handed_back_as_it_is():
    """Joining a single plan makes no copy."""
    _, index = world()
    only = plan(index, "large", YES)

    assert join([only]) is only


def test_an_embedding_has_no_fallbacks():
    """What a client names as fallback of an embedding is not tried."""
    _, index = world()

    assert join([plan(index, "embed", YES), plan(index, "nomic", YES)]) == plan(index, "embed", YES)
