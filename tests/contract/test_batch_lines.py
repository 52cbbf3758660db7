"""Batch files: their lines, and what the name in them may call."""

from __future__ import annotations

import io
import json

import pytest

from litellm_registry_hook.adapter import batches
from litellm_registry_hook.adapter.batches import Checked, check_file
from litellm_registry_hook.core.batch import Account, Called, Rules, bad_file, called, read_line, write_line
from litellm_registry_hook.core.consent import Caller
from litellm_registry_hook.core.plan import Ask, index_of, unlisted
from litellm_registry_hook.core.refusal import Refusal
from tests.strategies import NOW, TOKENS, model_entry, registry_of, running_of

BOTH = Ask(Caller("virtual_key", TOKENS[0]), allow_metered=True, now=NOW)
REQUEST_ONLY = Ask(Caller("virtual_key", TOKENS[1]), allow_metered=True, now=NOW)
KEY_ONLY = Ask(Caller("virtual_key", TOKENS[0]), allow_metered=False, now=NOW)


def upstream(model):
    return model.litellm_model.partition("/")[2]


def world(rule="metered"):
    registry = registry_of(
        model_entry("kimi", bases=("http://kimi/v1",)),
        model_entry("paid", metered=True),
        tiers={"large": ["kimi", "paid"]},
        aliases={"big": "large"},
        metered_opt_in=[f"sha256:{TOKENS[0]}"],
        unlisted_models=rule,
    )
    index = index_of(registry, [one for model in registry.models for one in running_of(model)])
    return index, Rules(upstream, lambda name, ask: unlisted(registry, name, ask), rule == "metered")


def account_of(index, *ids, metered=False):
    return Account(tuple(index.by_deployment[one] for one in ids), metered)


def decided(name, ids, ask, *, rule="metered", metered=False):
    index, rules = world(rule)
    found = called(index, account_of(index, *ids, metered=metered), name, ask, rules)
    if isinstance(found, Refusal):
        return found.code
    return found.upstream, found.model.id if found.model else None, found.booked_as


def up(id):
    index, _ = world()
    return upstream(index.registry.by_id[id])


@pytest.mark.parametrize("name", ["kimi", "large", "big"])
def test_a_registry_name_is_the_member_served_on_the_account(name):
    """A free member needs no consent and is not booked."""
    assert decided(name, ["kimi@0"], KEY_ONLY) == (up("kimi"), "kimi", None)


@pytest.mark.parametrize("name", ["paid", "large", "big"])
def test_a_metered_member_wants_both_consents(name):
    """On the paid account the same names are metered, and booked as the model."""
    ids = ["paid@0"]

    assert decided(name, ids, KEY_ONLY, metered=True) == "metered_consent_missing"
    assert decided(name, ids, REQUEST_ONLY, metered=True) == "metered_key_not_opted_in"
    assert decided(name, ids, BOTH, metered=True) == (up("paid"), "paid", "paid")


def test_the_providers_name_of_a_metered_model_counts_on_any_account():
    """Where the address is unknown to the registry the name alone makes it metered, whatever unlisted_models says."""
    for rule in ("metered", "allow", "deny"):
        assert decided(up("paid"), [], KEY_ONLY, rule=rule) == "metered_consent_missing"
        assert decided(up("paid"), [], BOTH, rule=rule) == (up("paid"), "paid", "paid")


def test_a_registry_name_that_the_account_does_not_serve():
    """It is not taken for the provider's own name."""
    assert decided("kimi", ["paid@0"], BOTH, metered=True) == "bad_batch_file"
    assert decided("large", [], BOTH, rule="allow") == "bad_batch_file"


def test_an_unknown_name_is_the_registrys_rule():
    """metered asks for both consents and books the name, allow lets it through, deny does not."""
    assert decided("x", ["kimi@0"], REQUEST_ONLY) == "unlisted_model"
    assert decided("x", ["kimi@0"], BOTH) == ("x", None, "x")
    assert decided("x", ["kimi@0"], KEY_ONLY, rule="allow") == ("x", None, None)
    assert decided("x", ["kimi@0"], BOTH, rule="deny") == "unlisted_model"


def test_an_unknown_name_at_a_metered_address_always_counts_as_metered():
    """allow does not open a paid account to snapshots and fine-tuned models."""
    assert decided("x", [], KEY_ONLY, rule="allow", metered=True) == "unlisted_model"
    assert decided("x", [], REQUEST_ONLY, rule="allow", metered=True) == "unlisted_model"
    assert decided("x", [], BOTH, rule="allow", metered=True) == ("x", None, "x")
    assert decided("x", [], BOTH, rule="deny", metered=True) == "unlisted_model"


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "line 7 is not a JSON object"),
        (b"[" * 100_000, "line 7 is not a JSON object"),
        (b"\xff", "line 7 is not a JSON object"),
        (b"3", "line 7 is not a JSON object"),
        (b'{"body": {"model": "m", "x": NaN}}', "line 7 is not a JSON object"),
        (b'{"body": []}', "line 7 has no body"),
        (b'{"body": {}}', "line 7 names no model in its body"),
        (b'{"body": {"model": ""}}', "line 7 names no model in its body"),
        (b'{"body": {"model": ["m"]}}', "line 7 names no model in its body"),
    ],
)
def test_a_line_that_is_none_is_refused_with_its_number(raw, said):
    """Whatever is wrong with it, the refusal says where."""
    assert read_line(raw, 7) == bad_file(said)


def test_a_line_is_written_as_it_was_read():
    """Of a doubled key the last one counts, for the gate and for the provider; half a surrogate pair is kept."""
    line = read_line(b'{"body": {"model": "paid", "model": "kimi", "x": "h\\u00e9\\ud800", "y": 1.0}}', 1)

    assert b"paid" not in write_line(line)
    assert json.loads(write_line(line)) == {"body": {"model": "kimi", "x": "hé\ud800", "y": 1.0}}
    assert write_line({"x": "é"}) == '{"x":"é"}\n'.encode()


def decide(name):
    return bad_file("no") if name == "refused" else Called(name, f"{name}-up", None, None)


def lines(*names):
    return b"".join(json.dumps({"body": {"model": name}}).encode() + b"\n" for name in names)


def checked(content):
    return check_file(io.BytesIO(content), decide)


def test_a_file_leaves_with_the_providers_name():
    """Blank lines and a byte order mark do not count and do not leave; a last line needs no end."""
    found = checked(b"\xef\xbb\xbf" + lines("m") + b"\n  \n" + lines("m").rstrip())

    assert isinstance(found, Checked)
    with found.file:
        assert found.file.read() == b'{"body":{"model":"m-up"}}\n' * 2
    assert (found.called.upstream, found.lines) == ("m-up", 2)
    in_memory = check_file(lines("m"), decide)
    in_memory.file.close()
    assert in_memory.lines == 1


def test_a_file_names_one_model():
    """The first line is decided, and another name is refused with its line."""
    assert checked(lines("m", "m", "n")) == bad_file("line 3 names 'n', and the lines before it 'm'; one model a file")
    assert checked(lines("refused", "m")) == bad_file("no")
    assert checked(b"\n") == bad_file("it has no lines")


def test_a_file_has_limits(monkeypatch):
    """Too many lines, too many bytes, and a line too long are refused, and no more of it is read."""
    limits = {"MAX_LINES": 2, "MAX_LINE_BYTES": 1024 * 1024, "MAX_BYTES": 2 * 1024 * 1024}
    for name, value in limits.items():
        monkeypatch.setattr(batches, name, value)
    long = io.BytesIO(lines("m") + b"x" * 3 * 1024 * 1024)

    assert checked(lines("m", "m", "m")) == bad_file("it has more than 2 lines")
    assert check_file(long, decide) == bad_file("line 2 is longer than 1 MB")
    assert long.tell() < 1024 * 1024 + 100
    assert checked(lines("m") + (b" " * 1000 * 1000 + b"\n") * 3) == bad_file("it is larger than 2 MB")
