"""Which model of a tier a program gets, and why not the others."""

import hashlib
from datetime import datetime, timezone
from pathlib import Path

import pytest

from litellm_registry_hook import RegistryError, load_registry
from litellm_registry_hook import resolve as resolve_now
from litellm_registry_hook.core.registry import Model, Registry
from litellm_registry_hook.core.resolve import NothingUsableError, resolve

SHIPPED = Path(__file__).parents[2] / "model-registry.yaml"
KEY = "sk-1234"
TOKEN = "sha256:" + hashlib.sha256(KEY.encode()).hexdigest()
NOW = datetime(2026, 6, 1, 12, tzinfo=timezone.utc)


def registry_with(opt_in: str, tmp_path: Path) -> Registry:
    """Return the shipped registry with other grants."""
    path = tmp_path / "r.yaml"
    path.write_text(SHIPPED.read_text().replace("metered_opt_in: []", f"metered_opt_in: {opt_in}"))
    return load_registry(path)


def not_kimi(model: Model) -> bool:
    """Say that the subscription is used up."""
    return model.id != "kimi"


def test_the_first_of_the_pool_is_taken() -> None:
    """Without anything against it, the first model of the tier is the answer."""
    assert resolve_now(load_registry(SHIPPED), "large").id == "kimi"


def test_an_alias_is_its_tier() -> None:
    """An alias of a tier resolves like the tier."""
    assert resolve_now(load_registry(SHIPPED), "embedder").id == "bge-m3"


def test_an_alias_of_a_model_is_a_pool_of_one(tmp_path: Path) -> None:
    """An alias may point at a model."""
    path = tmp_path / "r.yaml"
    path.write_text(SHIPPED.read_text().replace("aliases: {embedder: embed}", "aliases: {mine: local-small}"))

    assert resolve_now(load_registry(path), "mine").id == "local-small"


def test_nothing_left_names_every_candidate_with_its_reason() -> None:
    """The refusal names the tier, each candidate with why, what would help, and the tiers there are."""
    with pytest.raises(NothingUsableError) as caught:
        resolve_now(load_registry(SHIPPED), "large", probe_check=not_kimi)

    assert str(caught.value) == (
        "nothing in the tier `large` can be used:\n"
        "  kimi: not available now (quota-gated): the probe said no\n"
        "  paid-fallback: metered: this call does not allow metered models (allow_metered); no opted-in key is named "
        "(opted_in_key)\n"
        "only metered models are left: allow_metered and a key in routing.metered_opt_in would reach them\n"
        "tiers: large, small, embed, rerank"
    )


@pytest.mark.parametrize(
    ("tier", "message"),
    [
        ("larg", "the registry has no tier `larg`; did you mean `large`? tiers: large, small, embed, rerank"),
        ("zz", "the registry has no tier `zz`; tiers: large, small, embed, rerank"),
        ("kimi", "`kimi` is a model, not a tier; it is listed by `large`; tiers: large, small, embed, rerank"),
    ],
)
def test_an_unknown_tier_is_named_with_the_tiers_there_are(tier: str, message: str) -> None:
    """A tier that is not there is a RegistryError of its own, which is not a refusal."""
    with pytest.raises(RegistryError) as caught:
        resolve_now(load_registry(SHIPPED), tier)

    assert (str(caught.value), type(caught.value)) == (message, RegistryError)


@pytest.mark.parametrize(
    ("opt_in", "key", "reached"),
    [
        ("[bot]", "bot", True),
        ("[bot]", "other", False),
        ("[bot]", None, False),
        ("[bot]", "", False),
        (f"[{TOKEN}]", KEY, True),
        (f"[{TOKEN}]", TOKEN, True),
        (f"[{TOKEN}]", TOKEN.upper().replace("SHA256", "sha256"), True),
        (f"[{TOKEN}]", "sk-12345", False),
        ("[{key: bot}]", "bot", True),
        ("[{key: bot, models: [paid-fallback]}]", "bot", True),
        ("[{key: bot, models: [kimi]}]", "bot", False),
        (f"[{{key: bot, token: {TOKEN!r}}}]", "bot", True),
        (f"[{{key: bot, token: {TOKEN!r}}}]", KEY, True),
        ('[{key: bot, expires: "2026-06-02"}]', "bot", True),
        ('[{key: bot, expires: "2026-06-01T12:00:00Z"}]', "bot", False),
        ('[{key: bot, expires: "2026-06-01T13:30:00+02:00"}]', "bot", False),
        ('[{key: bot, expires: "2026-06-01T12:00:01"}]', "bot", True),
    ],
)
def test_a_metered_model_wants_both_consents(opt_in: str, key: str | None, reached: bool, tmp_path: Path) -> None:
    """allow_metered and an opted-in key together reach a metered model; either alone never does."""
    registry = registry_with(opt_in, tmp_path)

    def answer(allow: bool) -> str:
        try:
            return resolve(registry, "large", now=NOW, allow_metered=allow, opted_in_key=key, probe_check=not_kimi).id
        except NothingUsableError as refusal:
            return refusal.passed_over[-1][1]

    with_consent, without = answer(True), answer(False)

    assert (with_consent == "paid-fallback") is reached
    assert without.startswith("metered: this call does not allow metered models (allow_metered)")


def test_the_probe_is_never_asked_about_a_refused_model() -> None:
    """A metered model without consent is not even probed."""
    asked: list[str] = []

    def probe(model: Model) -> bool:
        asked.append(model.id)
        return False

    with pytest.raises(NothingUsableError):
        resolve_now(load_registry(SHIPPED), "large", probe_check=probe)

    assert asked == ["kimi"]
