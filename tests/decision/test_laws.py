"""Laws of the decision, one a test, over random registries, callers and requests."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from litellm_registry_hook.adapter.first_token import DeadStreamError, first_token
from litellm_registry_hook.core.consent import Caller, caller_opted_in
from litellm_registry_hook.core.failure import as_skip, larger_context, try_next
from litellm_registry_hook.core.plan import Ask, Plan, index_of, join, plan, unlisted
from litellm_registry_hook.core.refusal import (
    MAX_SKIPPED_BYTES,
    STATUS,
    Refusal,
    all_refused,
    body_of,
    headers_of,
    skipped_header,
)
from litellm_registry_hook.core.registry import Registry
from litellm_registry_hook.core.routes import classify
from litellm_registry_hook.core.sanitise import (
    AUTH_HEADERS,
    CONSENT_KEY,
    DROPPED,
    FALLBACK_KEYS,
    HEADER_PREFIX,
    RUNNER_OPTIONS,
    drop_levers,
    drop_runner_options,
    take_consent,
    take_fallbacks,
)
from tests import strategies as own


def every_name(index):
    return [*index.pools, *index.by_deployment]


def decided(world, ask):
    """The decision of each name that a client can send."""
    index = index_of(*world)
    return index, [(name, plan(index, name, ask)) for name in every_name(index)]


def allowed(registry, model_id, ask):
    """The rule of both consents, said independently of the code under test."""
    caller, routing = ask.caller, registry.routing
    if not ask.allow_metered:
        return False
    if caller.kind == "master_key":
        return routing.master_key_metered
    if caller.kind == "anonymous" or (caller.kind == "custom_auth" and not routing.trust_custom_auth):
        return False
    if caller.token not in own.TOKENS:
        return False
    for entry in routing.metered_opt_in:
        if isinstance(entry, str):
            named, models, ends = (
                entry == f"sha256:{caller.token}" or (routing.trust_key_alias and entry == caller.alias != ""),
                None,
                None,
            )
        else:
            named = (
                entry.token == f"sha256:{caller.token}"
                if entry.token is not None
                else routing.trust_key_alias and entry.key == caller.alias
            )
            models, ends = entry.models, entry.expires_at
        if named and (models is None or model_id in models) and (ends is None or ask.now < ends):
            return True
    return False


@given(own.worlds(), own.asks)
def test_a_metered_model_is_never_a_target_without_both_consents(world, ask):
    """Whatever is named, and whatever else the registry says, a metered target has consent and an opted-in key."""
    _, plans = decided(world, ask)

    for name, found in plans:
        if isinstance(found, Plan):
            for target in found.targets:
                assert not target.model.metered or allowed(world[0], target.model.id, ask), name


@given(own.worlds(), own.asks)
def test_consent_opens_what_it_should(world, ask):
    """With both consents a metered model that is in the proxy is a target of its own name."""
    index, _ = decided(world, ask)

    for model in world[0].models:
        if model.metered and model.id in index.running and allowed(world[0], model.id, ask):
            assert plan(index, model.id, ask).targets == index.running[model.id]


@given(own.worlds(), own.asks)
def test_without_any_entry_no_key_is_opted_in(world, ask):
    """With the shipped empty metered_opt_in and no trust in the master key, no metered model is ever a target."""
    registry, running = world
    shut = registry.routing.model_copy(update={"metered_opt_in": (), "master_key_metered": False})
    index = index_of(registry.model_copy(update={"routing": shut}), running)

    for name in every_name(index):
        found = plan(index, name, ask)
        assert not isinstance(found, Plan) or not any(one.model.metered for one in found.targets)


@given(own.worlds(), own.asks)
def test_pool_order_is_kept(world, ask):
    """Targets and skipped members stand in the order of the registry's pool."""
    index, plans = decided(world, ask)

    for name, found in plans:
        if name in index.pools and isinstance(found, Plan):
            order = [model.id for model in index.pools[name].members]
            for ids in ([one.model.id for one in found.targets], [one.model for one in found.skipped]):
                assert ids == sorted(ids, key=order.index)


@given(own.documents(), own.asks, st.randoms(use_true_random=False), st.data())
def test_the_order_of_mappings_does_not_matter(document, ask, random, data):
    """Models, tiers and aliases may stand in any order in the file, and deployments in the router: same decisions."""
    registry = Registry.model_validate(document)
    running = data.draw(own.running(registry))
    routing = document["routing"]
    shuffled = {
        **document,
        "models": random.sample(document["models"], len(document["models"])),
        "routing": {
            **routing,
            "tiers": dict(random.sample(sorted(routing["tiers"].items()), len(routing["tiers"]))),
            "aliases": dict(random.sample(sorted(routing["aliases"].items()), len(routing["aliases"]))),
        },
    }
    other = Registry.model_validate(shuffled)
    moved = [replace(one, model=other.by_id[one.model.id]) for one in random.sample(running, len(running))]

    one, two = index_of(registry, running), index_of(other, moved)
    assert {name: shown(plan(one, name, ask)) for name in every_name(one)} == {
        name: shown(plan(two, name, ask)) for name in every_name(two)
    }


def shown(found):
    """A decision without the objects that carry file order."""
    if isinstance(found, Plan):
        return found.name, found.tier, [one.id for one in found.targets], found.skipped, found.order
    return found


@given(own.worlds(), own.asks)
def test_every_member_is_a_target_or_skipped_with_a_reason(world, ask):
    """No member of a pool goes missing, and none is both."""
    index, plans = decided(world, ask)

    for name, found in plans:
        if name not in index.pools:
            continue
        skips = found.skipped if isinstance(found, Plan) else found.candidates
        used = {one.model.id for one in found.targets} if isinstance(found, Plan) else set()
        passed = {skip.model for skip in skips}
        assert used | passed == set(index.pools[name].order)
        assert not used & passed
        assert all(skip.reason and skip.code in STATUS for skip in skips)


@given(own.worlds(), own.asks, st.data())
def test_each_deployment_is_tried_once(world, ask, data):
    """Also with fallbacks that overlap, no deployment stands twice among the targets."""
    index, _ = decided(world, ask)
    plans = fallback_chain(index, ask, data)

    if plans:
        ids = [one.id for one in join(plans).targets]
        assert ids == list(dict.fromkeys(ids))


@given(own.worlds(), own.asks, st.data())
def test_a_plan_holds_only_what_was_named(world, ask, data):
    """Targets come from the pools of the named model and of the client's named fallbacks, and nowhere else."""
    index, _ = decided(world, ask)
    plans = fallback_chain(index, ask, data)

    if plans:
        named = {model for one in plans for model in index.pools[one.name].order}
        whole = join(plans)
        assert {one.model.id for one in whole.targets} | {skip.model for skip in whole.skipped} <= named
        assert set(whole.order) <= named


@given(own.worlds(), own.asks, st.data())
def test_a_chain_of_plans_has_no_metered_target_without_consent(world, ask, data):
    """Fallbacks open no door that the first name has not."""
    index, _ = decided(world, ask)
    plans = fallback_chain(index, ask, data)

    if plans:
        for one in join(plans).targets:
            assert not one.model.metered or allowed(world[0], one.model.id, ask)


def fallback_chain(index, ask, data):
    names = data.draw(st.lists(st.sampled_from(sorted(index.pools)), min_size=1, max_size=4))
    plans = [plan(index, name, ask) for name in names]
    return [one for one in plans if isinstance(one, Plan)] if isinstance(plans[0], Plan) else []


@given(own.worlds(), own.asks)
def test_a_tier_never_substitutes_an_embedding_model(world, ask):
    """No pool has two embedding models among its targets."""
    _, plans = decided(world, ask)

    for _, found in plans:
        if isinstance(found, Plan):
            assert len({one.model.id for one in found.targets if one.model.effective_mode == "embedding"}) <= 1


@given(own.worlds(), own.asks)
def test_a_decision_is_a_plan_with_a_target_or_a_refusal_with_its_members(world, ask):
    """There is no empty plan, and a refused pool lists why, member by member."""
    index, plans = decided(world, ask)

    for name, found in plans:
        if isinstance(found, Plan):
            assert found.targets
        else:
            order = index.pools[name].order if name in index.pools else (index.by_deployment[name].model.id,)
            assert isinstance(found, Refusal)
            assert tuple(skip.model for skip in found.candidates) == order


@given(own.worlds(), own.asks, st.text(max_size=8))
def test_a_foreign_name_is_never_served_by_default(world, ask, name):
    """An unlisted model is served where the registry says allow, or as metered with both consents; deny is deny."""
    registry = world[0]
    rule = registry.routing.unlisted_models
    served = unlisted(registry, name, ask) is None

    assert served is (rule == "allow" or (rule == "metered" and allowed(registry, name, ask)))


@given(own.registries, own.callers, st.sampled_from(own.IDS), own.moments)
def test_nobody_is_opted_in_by_a_mere_alias(registry, caller, model_id, now):
    """Without trust_key_alias, the alias of a key never matters."""
    plain = registry.model_copy(update={"routing": registry.routing.model_copy(update={"trust_key_alias": False})})

    assert caller_opted_in(plain, caller, model_id, now) == caller_opted_in(
        plain, Caller(caller.kind, caller.token, ""), model_id, now
    )


@given(own.registries, own.asks)
def test_taking_consent_away_never_opens_a_door(registry, ask):
    """Whoever is refused with consent is refused without."""
    index = index_of(registry, [one for model in registry.models for one in own.running_of(model)])
    silent = Ask(ask.caller, allow_metered=False, now=ask.now)

    for name in every_name(index):
        with_it, without = plan(index, name, ask), plan(index, name, silent)
        if isinstance(without, Plan):
            assert {one.id for one in without.targets} <= {one.id for one in with_it.targets}


levers = st.dictionaries(
    st.sampled_from(sorted(DROPPED | RUNNER_OPTIONS | {"model", "fallbacks", CONSENT_KEY, "messages", "top_k"})),
    own.json_values,
    max_size=6,
)
added_headers = st.dictionaries(
    st.sampled_from(
        [*AUTH_HEADERS, *(name.title() for name in AUTH_HEADERS), "X-Registry-Wait", "x-registry-x", "X-Trace"]
    ),
    st.text(max_size=3),
    max_size=5,
)
bodies = st.builds(
    lambda top, extra, buckets, headers: {**top, **extra, **buckets, **headers},
    levers,
    st.fixed_dictionaries({}, optional={"extra_body": levers | own.json_values}),
    st.fixed_dictionaries(
        {},
        optional={
            bucket: st.dictionaries(st.sampled_from([CONSENT_KEY, "user"]), own.json_values) | own.json_values
            for bucket in ("metadata", "litellm_metadata")
        },
    ),
    st.fixed_dictionaries({}, optional={key: added_headers | own.json_values for key in ("headers", "extra_headers")}),
)


@given(bodies)
def test_no_lever_is_left_in_any_body(body):
    """Whatever a client sends, cleaning raises nothing and leaves neither lever nor runner option nor credential."""
    drop_levers(body)
    drop_runner_options(body)

    inner = body.get("extra_body")
    for place in (body, inner if isinstance(inner, dict) else {}):
        assert not (DROPPED | RUNNER_OPTIONS) & place.keys()
    assert not isinstance(inner, dict) or not {"model", "fallbacks", CONSENT_KEY} & inner.keys()
    for key in ("headers", "extra_headers"):
        if isinstance(body.get(key), dict):
            assert not [n for n in body[key] if n.lower() in AUTH_HEADERS or n.lower().startswith(HEADER_PREFIX)]


@given(bodies)
def test_cleaning_twice_is_cleaning_once(body):
    """A clean body is not changed."""
    drop_levers(body)
    drop_runner_options(body)
    once = repr(body)
    drop_levers(body)
    drop_runner_options(body)

    assert repr(body) == once


@given(bodies, st.none() | st.sampled_from(["true", "0", "maybe", ""]))
def test_taking_consent_leaves_no_word_of_it(body, header):
    """Clear or not, nothing called allow_metered is left at the places where it is read."""
    take_consent(body, header)

    places = [body, *(body.get(key) for key in ("metadata", "litellm_metadata", "extra_body"))]
    assert not [place for place in places if isinstance(place, dict) and CONSENT_KEY in place]


@given(bodies, st.none() | st.sampled_from(["true", "0", "maybe", ""]))
def test_consent_is_yes_no_or_a_bad_word(body, header):
    """Reading consent of any body gives a boolean or a bad_consent, and raises nothing."""
    answer = take_consent(body, header)

    assert isinstance(answer, bool) or answer.code == "bad_consent"


@given(st.dictionaries(st.sampled_from([*FALLBACK_KEYS, "model"]), own.json_values), st.sets(st.text("ab", max_size=3)))
def test_only_known_names_come_out_of_fallbacks(body, names):
    """Any fallbacks whatever give known names or a refusal; what is kept is no longer in the body."""
    answer = take_fallbacks(body, names.__contains__)

    if isinstance(answer, Refusal):
        assert answer.code == "bad_fallbacks"
    else:
        assert set(answer) <= names
        assert not set(FALLBACK_KEYS) & body.keys()


@given(own.failures)
def test_a_fault_of_the_request_is_not_repeated(failure):
    """A 4xx that is neither the upstream's state nor its quota nor an overflow stops the walk."""
    faults = set(range(400, 500)) - {400, 401, 402, 403, 404, 408, 409, 429}

    if failure.status in faults and not failure.context_overflow:
        assert not try_next(failure)


@given(own.failures)
def test_the_upstreams_state_always_leads_on(failure):
    """No answer and every 5xx lead to the next member, whatever the text."""
    if failure.status == 0 or failure.status >= 500:
        assert try_next(failure)


@given(own.registries, own.failures, st.data())
def test_a_failed_member_has_one_line_and_keeps_its_time(registry, failure, data):
    """A failure's skip is model_unavailable, on one line, with the upstream's Retry-After."""
    skip = as_skip(data.draw(st.sampled_from(registry.models)), failure)

    assert (skip.code, skip.retry_after_s, "\n" in skip.reason) == ("model_unavailable", failure.retry_after_s, False)


@given(own.registries)
def test_a_larger_context_is_a_strict_order(registry):
    """No model has a larger context than itself, and no two have each a larger one than the other."""
    for one in registry.models:
        for two in registry.models:
            assert not (larger_context(one, two) and larger_context(two, one))


@given(st.lists(own.skips, min_size=1, max_size=8))
def test_a_refused_pool_takes_code_status_and_time_of_one_member(skips):
    """The answer is one member's own, and no member knows of an earlier time."""
    refusal = all_refused("large", "large", skips)
    times = [skip.retry_after_s for skip in skips if skip.retry_after_s is not None]

    assert (refusal.code, refusal.retry_after_s) in {(skip.code, skip.retry_after_s) for skip in skips}
    assert (refusal.status, refusal.retry_after_s) == (STATUS[refusal.code], min(times, default=None))


@given(st.lists(own.skips, min_size=1, max_size=8), st.sampled_from(["openai", "anthropic", "gemini"]))
def test_every_shape_carries_our_code_and_message(skips, shape):
    """error.code and error.message are ours, and the members are all there."""
    refusal = all_refused("large", "large", skips)
    error = body_of(refusal, shape)["error"]

    assert (error["code"], error["message"], [one["model"] for one in error["candidates"]]) == (
        refusal.code,
        refusal.message,
        [skip.model for skip in skips],
    )


@given(st.lists(own.skips, max_size=60))
def test_the_skipped_header_is_a_prefix_of_whole_entries(skips):
    """At most 2 kB, entries whole and in order."""
    text = skipped_header(skips)
    entries = [f"{skip.model}={skip.code}" for skip in skips]

    assert len(text) <= MAX_SKIPPED_BYTES
    assert text in {", ".join(entries[:n]) for n in range(len(entries) + 1)}


@given(st.floats(0, 1e9))
def test_retry_after_is_never_too_early(seconds):
    """A positive whole number of seconds, not before the known time."""
    value = headers_of(Refusal("gpu_no_headroom", "x", 503, seconds))["retry-after"]

    assert value.isdigit()
    assert int(value) >= max(1, seconds)


@given(st.sampled_from(["GET", "POST", "PUT", "DELETE", "WEBSOCKET", "OPTIONS", "HEAD", "FOO"]), st.text(max_size=30))
def test_an_unheard_of_path_is_closed(method, path):
    """A first segment that is on no list is closed for every method but a preflight."""
    assert classify(method, f"/zz-{path}").kind in (
        {"harmless", "ungoverned"} if method == "OPTIONS" else {"ungoverned"}
    )


sse = st.sampled_from(
    [b"event: message_start\n\n", b"event: ping\n\n", b"event: content_block_delta\n\n", b"event: error\n\n", b"x"]
)


@given(st.lists(sse, max_size=25))
async def test_peeking_loses_nothing(chunks):
    """A stream comes out chunk for chunk, or is dead: an error event came, or it ended before a token."""

    async def stream():
        for chunk in chunks:
            yield chunk

    try:
        out = [chunk async for chunk in await first_token(stream())]
    except DeadStreamError:
        said = [one for one in chunks if one not in {b"event: message_start\n\n", b"event: ping\n\n"}]
        assert not said or b"event: error\n\n" in chunks
    else:
        assert out == chunks
