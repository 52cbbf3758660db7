"""`litellm-registry opt-in`: whole outputs, the file, the state, LiteLLM's permissions, exit codes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from litellm_registry_hook.cli.main import main
from litellm_registry_hook.core.virtual_key import VirtualKey, token_of
from litellm_registry_hook.edges.store import audit, calls, revocations, virtual_keys, workers
from litellm_registry_hook.edges.store.database import Database
from tests.opt_in.fake_proxy import ADMIN, FakeProxy

BOT, OPS, GONE = "ab" * 32, "cd" * 32, "ef" * 32
REGISTRY = """\
version: 1
models:
  - {id: paid, role: chat, lifecycle: always-on, metered: true, litellm: {model: openai/gpt-5.2}}
  - {id: pricey, role: chat, lifecycle: always-on, metered: true, litellm: {model: openai/gpt-5.2-pro}}
  - {id: free, role: chat, lifecycle: always-on, metered: false, litellm: {model: openai/x, api_base: "http://127.0.0.1:1"}}
routing:
  tiers: {large: [free, paid]}
  metered_opt_in: []   # nobody
"""
Said = tuple[int, str, str]
MOMENT = re.compile(r"20\d\d-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?( UTC|Z|\+00:00)")


class House:
    """A registry, a state and the command line."""

    def __init__(self, folder: Path, run: Callable[..., Said]) -> None:
        self.file = folder / "model-registry.yaml"
        self.file.write_text(REGISTRY)
        self.database = Database(folder / "state.sqlite")
        self.run = run

    def embedded(self, token: str, alias: str, **more: Any) -> None:
        virtual_keys.add(
            self.database, VirtualKey(token, alias, None, datetime(2026, 1, 1, tzinfo=timezone.utc), **more)
        )

    @property
    def grants(self) -> list[str]:
        return [line.strip() for line in self.file.read_text().splitlines() if line.startswith("    - ")]

    @property
    def trail(self) -> list[tuple[str, ...]]:
        return [(one.kind, one.alias, one.key, one.model, one.who, one.note) for one in audit.read(self.database)]


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[House]:
    for name in ("LITELLM_MASTER_KEY", "LITELLM_REGISTRY_PROXY", "LITELLM_REGISTRY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LITELLM_REGISTRY_STATE", f"sqlite:///{tmp_path / 'state.sqlite'}")
    monkeypatch.setenv("LOGNAME", "torgash")
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Said:
        code = main(["opt-in", *arguments])
        out, err = capsys.readouterr()
        return code, MOMENT.sub("MOMENT", out), err

    one = House(tmp_path, run)
    workers.beat(one.database, "w1", datetime.now(timezone.utc))
    yield one
    one.database.close()


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeProxy]:
    monkeypatch.setenv("LITELLM_MASTER_KEY", ADMIN)
    with FakeProxy() as one:
        yield one


def data(said: Said) -> Any:
    return json.loads(said[1])


def table(text: str) -> list[list[str]]:
    return [re.split(r" {2,}", line) for line in text.splitlines()]


def test_an_embedded_key_is_opted_in_and_out(house: House) -> None:
    """An alias is pinned to its embedded key; the table says what is in force; the trail says who did what and why."""
    house.embedded(BOT, "bot")

    added = house.run("add", "bot", "--model", "paid", "--expires", "7d", "--max-calls", "20", "--note", "a trial")
    checks = [house.run("check", "bot", *more)[:2] for more in ((), ("--model", "paid"), ("--model", "pricey"))]
    entry = house.grants
    removed = house.run("remove", "bot")

    assert added[0] == 0
    assert table(added[1]) == [
        ["KEY", "TOKEN", "MODELS", "SINCE", "UNTIL", "CALLS TODAY", "SOURCE", "NOTE", "MARKS"],
        ["bot", "abababab", "paid", "MOMENT", "MOMENT", "0 of 20", "registry", "a trial", "-"],
    ]
    assert added[2] == f"state: {house.database.path}\n"
    assert [MOMENT.sub("MOMENT", one) for one in entry] == [
        f'- {{key: bot, token: sha256:{BOT}, models: [paid], expires: "MOMENT", max_calls: 20, note: "a trial"}}'
    ]
    assert checks == [
        (0, "bot (abababab): opted in for paid\n"),
        (0, "bot (abababab): opted in for paid\n"),
        (1, "bot (abababab): not opted in for pricey: its grant does not cover that model\n"),
    ]
    assert removed == (0, "bot (abababab): not opted in\n", f"state: {house.database.path}\n")
    assert house.file.read_text() == REGISTRY
    assert house.run("check", "bot")[:2] == (1, "bot (abababab): not opted in for paid, pricey: no grant names it\n")
    assert house.trail == [
        ("granted", "bot", "abababab", "paid", "torgash", "a trial"),
        ("removed", "bot", "abababab", "*", "torgash", ""),
    ]
    assert revocations.every(house.database) == {BOT: frozenset({"*"})}


def test_json(house: House) -> None:
    """With --json stdout holds JSON alone: the grants, the keys and the notes; a check its models and its reason."""
    added = data(house.run("add", f"sha256:{BOT}", "--json"))
    grant = {
        "key": None, "token": f"sha256:{BOT}", "models": None, "since": "MOMENT", "until": None, "note": None,
        "calls_today": {}, "max_calls": None, "source": "registry", "marks": [],
    }  # fmt: skip

    assert added == {"keys": [{"key": None, "token": f"sha256:{BOT}"}], "grants": [grant], "notes": []}
    assert data(house.run("list", "--json")) == [grant]
    assert data(house.run("check", f"sha256:{BOT}", "--model", "paid", "--json")) == {
        "key": None, "token": f"sha256:{BOT}", "opted_in": True, "models": {"paid": True}, "reason": None,
    }  # fmt: skip
    assert data(house.run("remove", f"sha256:{BOT}", "--json")) == {
        "keys": [{"key": None, "token": f"sha256:{BOT}"}], "grants": [], "notes": [],
    }  # fmt: skip
    assert data(house.run("check", f"sha256:{BOT}", "--json")) == {
        "key": None, "token": f"sha256:{BOT}", "opted_in": False, "models": {"paid": False, "pricey": False},
        "reason": "no grant names it",
    }  # fmt: skip


def test_adding_again_is_idempotent_and_joins(house: House) -> None:
    """The same again writes nothing and says so; other models are joined; none means all, with a note."""
    house.embedded(BOT, "bot")
    notes = []
    for more in (
        ("--model", "paid"),
        ("--model", "paid"),
        ("--model", "pricey", "--max-calls", "5"),
        (),
        ("--max-calls", "unlimited"),
    ):
        code, _, err = house.run("add", "bot", *more)
        assert code == 0
        notes.append((house.grants, [line for line in err.splitlines() if line.startswith("note")]))

    entry = f"key: bot, token: sha256:{BOT}"
    assert notes == [
        ([f"- {{{entry}, models: [paid]}}"], []),
        ([f"- {{{entry}, models: [paid]}}"], ["note: it is opted in like that already; nothing was written"]),
        ([f"- {{{entry}, models: [paid, pricey], max_calls: 5}}"], []),
        (
            [f"- {{{entry}, max_calls: 5}}"],
            ["note: it covers every metered model now; name models with --model to grant less"],
        ),
        ([f"- {{{entry}}}"], []),
    ]


def test_a_key_itself_is_hashed_and_never_shown(house: House) -> None:
    """`sk-…` becomes its hash: neither the file, the state nor any output holds it."""
    key = "sk-very-secret-key-000001"

    said = [house.run(*words) for words in (("add", key), ("check", key), ("list", "--json"), ("remove", key))]

    assert [one[0] for one in said] == [0, 0, 0, 0]
    assert said[1][1] == f"{token_of(key)[:8]}: opted in for paid, pricey\n"
    everything = "".join(str(one) for one in said).encode() + house.file.read_bytes()
    everything += b"".join(file.read_bytes() for file in house.database.path.parent.glob("state.sqlite*"))
    assert b"very-secret" not in everything


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("add", "nobody"), "no live key has the alias 'nobody' in the embedded store. Make it with `litellm-registry keys create --alias nobody`, or give its token as sha256:<hex>. For a key in LiteLLM's database name the proxy with --proxy URL."),
        (("remove", "nobody"), "no live key has the alias 'nobody' in the embedded store. Make it with `litellm-registry keys create --alias nobody`, or give its token as sha256:<hex>. For a key in LiteLLM's database name the proxy with --proxy URL."),
        (("add", "old"), "no live key has the alias 'old' in the embedded store. Make it with `litellm-registry keys create --alias old`, or give its token as sha256:<hex>. For a key in LiteLLM's database name the proxy with --proxy URL."),
        (("add", "bot", "--model", "payd"), "the registry has no model 'payd'; did you mean `paid`? (for a model of the proxy alone say `foreign`)"),
        (("add", "bot", "--model", "free"), "free is not metered and needs no grant; metered models: paid, pricey"),
        (("add", "bot", "--model", "x", "--foreign"), "the registry's list holds ids of the registry; a model of the proxy alone needs --permission"),
        (("remove", "bot", "--model", "payd"), "the registry has no model 'payd'; did you mean `paid`? (for a model of the proxy alone say `foreign`)"),
        (("check", "bot", "--model", "payd"), "the registry has no model 'payd'; did you mean `paid`? (for a model of the proxy alone say `foreign`)"),
        (("add", "sha256:xyz"), "that token is no sha256: write sha256: and 64 lower-case hex digits"),
        (("add", BOT), "a bare hash would be taken for an alias: write an alias, sha256:<hex> or sk-…"),
        (("add", " "), "the key is empty: write an alias, sha256:<hex> or sk-…"),
        (("add", "bot", "--max-calls", "0"), "max_calls '0': write the calls a day, 1 or more, or unlimited"),
        (("add", "bot", "--permission"), "permissions are written through the proxy: name it with --proxy URL"),
        (("add", "bot", "--proxy", "http://127.0.0.1:1"), "the proxy http://127.0.0.1:1 needs an admin key: set LITELLM_MASTER_KEY, or name another with --admin-key-env"),
        (("add", "bot", "--unpinned"), "an unpinned alias has no effect without routing.trust_key_alias: true, for anybody may take the alias 'bot' in LiteLLM's database; give the key's token as sha256:<hex>"),
        (("add", "bot", "--unpinned", "--permission"), "--unpinned is for an alias in the registry's list alone"),
    ],
)  # fmt: skip
def test_what_is_refused(house: House, words: tuple[str, ...], said: str) -> None:
    """A wish that cannot be meant is one line on stderr that says what to do, exit 2, and nothing is written."""
    house.embedded(BOT, "bot")
    house.embedded(GONE, "old", expires=datetime(2026, 2, 1, tzinfo=timezone.utc))

    assert house.run(*words) == (2, "", f"error: {said}\n")
    assert house.file.read_text() == REGISTRY
    assert house.trail == []
    assert revocations.every(house.database) == {}


def test_unpinned_alias_where_aliases_are_trusted(house: House) -> None:
    """With trust_key_alias the alias itself can be opted in; the list marks it."""
    house.file.write_text(REGISTRY.replace("routing:\n", "routing:\n  trust_key_alias: true\n"))

    added = house.run("add", "anybody", "--unpinned")

    assert house.grants == ["- {key: anybody}"]
    assert table(added[1])[1] == [
        "anybody",
        "-",
        "every metered model",
        "MOMENT",
        "never",
        "0",
        "registry",
        "-",
        "free alias",
    ]
    assert house.run("check", "anybody")[0] == 0
    assert house.run("remove", "anybody")[:2] == (0, "anybody: not opted in\n")
    assert house.file.read_text().count("[]   # nobody") == 1


def test_free_alias_of_the_list_is_pinned(house: House) -> None:
    """An alias that stands free in the list is pinned when its key is added, and the person is told."""
    house.file.write_text(REGISTRY.replace("[]   # nobody", "[bot, ops]"))
    house.embedded(BOT, "bot")

    _, _, err = house.run("add", "bot")

    assert "  metered_opt_in: [{key: bot, token: sha256:" + BOT + "}, ops]\n" in house.file.read_text()
    assert err.splitlines()[0] == "note: the alias stood there without a token; it is pinned to this key now"


def test_list_marks_what_needs_a_look(house: House) -> None:
    """Expired grants, tokens without a live key and free aliases are marked; capped calls are counted."""
    house.file.write_text(
        REGISTRY.replace(
            "[]   # nobody",
            f"""
    - {{key: bot, token: "sha256:{BOT}", models: [paid], max_calls: 3}}
    - {{key: ops, token: "sha256:{OPS}", expires: "2026-01-01"}}
    - agent:torgash""",
        )
    )
    house.embedded(BOT, "bot")
    for _ in range(2):
        calls.take(house.database, BOT, "paid", datetime.now(timezone.utc).date().isoformat(), 3)

    said = house.run("list")

    assert table(said[1])[1:] == [
        ["bot", "abababab", "paid", "-", "never", "2 of 3", "registry", "-", "-"],
        ["ops", "cdcdcdcd", "every metered model", "-", "MOMENT", "0", "registry", "-", "expired, no live key"],
        ["agent:torgash", "-", "every metered model", "-", "never", "0", "registry", "-", "free alias"],
    ]


def test_nobody(house: House) -> None:
    """An empty list says that metered models are unreachable."""
    assert house.run("list") == (
        0,
        "",
        "nobody is opted in by model-registry.yaml: every metered model is unreachable\n",
    )
    assert data(house.run("list", "--json")) == []


def test_removal_by_alias_ends_former_keys_too(house: House) -> None:
    """A removal by alias ends each grant that carries it; by token only that key's."""
    house.file.write_text(
        REGISTRY.replace(
            "[]   # nobody",
            f'[{{key: bot, token: "sha256:{BOT}"}}, {{key: bot, token: "sha256:{OPS}", models: [paid]}}]',
        )
    )
    whole = house.file.read_text()

    assert house.run("remove", f"sha256:{OPS}")[:2] == (0, "cdcdcdcd: not opted in\n")
    assert f'[{{key: bot, token: "sha256:{BOT}"}}]' in house.file.read_text()
    house.file.write_text(whole)
    assert house.run("remove", "bot")[:2] == (0, "bot (abababab) and bot (cdcdcdcd): not opted in\n")
    assert "metered_opt_in: []\n" in house.file.read_text()
    assert revocations.every(house.database) == {BOT: frozenset("*"), OPS: frozenset("*")}


def test_removing_a_model_leaves_the_others(house: House) -> None:
    """A grant for everything that loses a model becomes a list of the others, and the table shows it."""
    house.embedded(BOT, "bot")
    house.run("add", "bot")

    code, out, _ = house.run("remove", "bot", "--model", "paid")

    assert (code, house.grants) == (0, [f"- {{key: bot, token: sha256:{BOT}, models: [pricey]}}"])
    assert table(out)[1][2] == "pricey"
    assert revocations.every(house.database) == {BOT: frozenset({"paid"})}


def test_warning_where_no_proxy_uses_the_state(house: House) -> None:
    """A write says where the state is, and warns when no worker has been seen there for a while."""
    house.database.path.unlink()
    house.database.close()
    workers.beat(house.database, "w1", datetime.now(timezone.utc) - timedelta(minutes=1))

    code, _, err = house.run("add", f"sha256:{BOT}")

    assert code == 0
    assert err.splitlines() == [
        f"state: {house.database.path}",
        "warning: no running proxy uses this state; a proxy that runs as another user, or elsewhere, has one of its own "
        "(set LITELLM_REGISTRY_STATE=sqlite:////PATH alike for both)",
    ]


def test_without_a_state_nobody_is_opted_in(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the audit trail cannot be written, nothing is granted."""
    monkeypatch.setenv("LITELLM_REGISTRY_STATE", "sqlite:////dev/null/state.sqlite")

    code, out, err = house.run("add", f"sha256:{BOT}")

    assert (code, out) == (2, "")
    assert err.startswith("error: state file /dev/null/state.sqlite: ")
    assert house.file.read_text() == REGISTRY


# -- LiteLLM's own keys ------------------------------------------------------------------------------------------------


def test_alias_is_pinned_by_the_proxys_list(house: House, proxy: FakeProxy) -> None:
    """With --proxy an alias is looked up in LiteLLM's /key/list, over all of its pages, and pinned."""
    for token, alias in ((GONE, "x"), (OPS, "y"), (BOT, "bot")):
        proxy.key(token, alias)

    assert house.run("add", "bot", "--proxy", proxy.url)[0] == 0
    assert house.grants == [f"- {{key: bot, token: sha256:{BOT}}}"]
    assert proxy.calls.count("POST /key/update") == 0


def test_ambiguous_alias_is_refused(house: House, proxy: FakeProxy) -> None:
    """An alias that an embedded key and a key of LiteLLM's both have is refused with their tokens."""
    house.embedded(OPS, "bot")
    proxy.key(BOT, "bot")

    for word in ("add", "remove", "check"):
        assert house.run(word, "bot", "--proxy", proxy.url) == (
            2, "", f"error: 2 keys have the alias 'bot'; name the one you mean by its token: sha256:{OPS}, sha256:{BOT}\n",
        )  # fmt: skip
    assert house.file.read_text() == REGISTRY


def test_permission_is_read_modified_and_written(house: House, proxy: FakeProxy) -> None:
    """--permission writes the key's own permissions: the others stay, models join, limits are set, and a removal takes it out."""
    proxy.key(BOT, "bot", get_spend_routes=True)
    steps = [
        ("add", "bot", "--permission", "--model", "paid"),
        ("add", "bot", "--permission", "--model", "pricey", "--max-calls", "9"),
        ("add", "bot", "--permission", "--max-calls", "unlimited"),
        ("add", "bot", "--permission"),
        ("remove", "bot", "--model", "paid"),
        ("remove", "bot"),
        ("remove", "bot"),
    ]
    seen = []
    for words in steps:
        code, _, err = house.run(*words, "--proxy", proxy.url)
        seen.append(
            (code, dict(proxy.rows[BOT]["permissions"]), revocations.every(house.database).get(BOT, frozenset()))
        )
        assert house.file.read_text() == REGISTRY, err

    kept = {"get_spend_routes": True}
    assert seen == [
        (0, {**kept, "metered_opt_in": {"models": ["paid"]}}, frozenset()),
        (0, {**kept, "metered_opt_in": {"models": ["paid", "pricey"], "max_calls": 9}}, frozenset()),
        (0, {**kept, "metered_opt_in": True}, frozenset()),
        (0, {**kept, "metered_opt_in": True}, frozenset()),
        (0, {**kept, "metered_opt_in": {"models": ["pricey"]}}, frozenset({"paid"})),
        (0, kept, frozenset({"paid", "*"})),
        (0, kept, frozenset({"paid", "*"})),
    ]
    assert proxy.calls.count("POST /key/update") == 5


def test_permission_lifts_a_revocation_for_its_models_only(house: House, proxy: FakeProxy) -> None:
    """A new permission for one model does not bring back what a removal of everything ended."""
    proxy.key(BOT, "bot", metered_opt_in=True)
    house.run("remove", "bot", "--proxy", proxy.url)

    house.run("add", "bot", "--permission", "--model", "paid", "--proxy", proxy.url)

    assert revocations.every(house.database) == {BOT: frozenset({"pricey"})}
    assert data(house.run("check", "bot", "--json", "--proxy", proxy.url))["models"] == {"paid": True, "pricey": False}


def test_registry_grant_leaves_a_revoked_permission_revoked(house: House, proxy: FakeProxy) -> None:
    """A grant in the registry for one model does not revive an old permission for everything."""
    proxy.key(BOT, "bot", metered_opt_in=True)
    house.run("remove", f"sha256:{BOT}")

    house.run("add", "bot", "--model", "paid", "--proxy", proxy.url)

    assert data(house.run("check", "bot", "--json", "--proxy", proxy.url))["models"] == {"paid": True, "pricey": False}


def test_list_shows_permissions(house: House, proxy: FakeProxy) -> None:
    """With a proxy the grants in permissions are listed too, with who is revoked and whose key is gone."""
    proxy.key(BOT, "bot", metered_opt_in={"models": ["paid"], "max_calls": 4})
    proxy.key(OPS, "ops", metered_opt_in=True)
    proxy.key(GONE, "plain")
    house.file.write_text(REGISTRY.replace("[]   # nobody", f'[{{key: left, token: "sha256:{"12" * 32}"}}]'))
    house.run("remove", f"sha256:{OPS}")

    rows = data(house.run("list", "--json", "--proxy", proxy.url))

    assert [(one["key"], one["models"], one["max_calls"], one["source"], one["marks"]) for one in rows] == [
        ("left", None, None, "registry", ["no live key"]),
        ("bot", ["paid"], 4, "permission", []),
        ("ops", None, None, "permission", ["revoked"]),
    ]


def test_foreign_model_by_permission(house: House, proxy: FakeProxy) -> None:
    """A model that only the proxy knows is granted by a permission."""
    proxy.key(BOT, "bot")

    assert house.run("add", "bot", "--permission", "--foreign", "--model", "gpt-x", "--proxy", proxy.url)[0] == 0
    assert proxy.rows[BOT]["permissions"] == {"metered_opt_in": {"models": ["gpt-x"]}}


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ((500, {"error": {"message": "boom", "code": "500"}}), "the proxy answered /key/list with 500: boom"),
        ((307, {}), "the proxy answered /key/list with 307: {}"),
        ((200, {"keys": 3}), "the proxy's answer to /key/list has no `keys`"),
        ((401, {}), "the proxy refuses /key/list to this admin key (401): a proxy admin's key is needed"),
    ],
)
def test_proxy_that_fails(house: House, proxy: FakeProxy, broken: tuple[int, Any], said: str) -> None:
    """A proxy that fails, redirects or refuses is named, exit 2, and nothing is written; redirects get no key."""
    proxy.broken = broken

    assert house.run("add", "bot", "--proxy", proxy.url) == (2, "", f"error: {said}\n")
    assert house.file.read_text() == REGISTRY


def test_proxy_without_a_database(house: House, proxy: FakeProxy) -> None:
    """Where LiteLLM has no database, embedded keys are all there is."""
    proxy.broken = (500, {"error": {"message": "Authentication Error, Database not connected", "code": "500"}})
    house.embedded(BOT, "bot")

    assert house.run("add", "bot", "--proxy", proxy.url)[0] == 0
    assert house.run("remove", "bot", "--proxy", proxy.url)[0] == 0
    assert house.run("list", "--proxy", proxy.url)[0] == 0
    assert house.run("add", "bot", "--permission", "--proxy", proxy.url) == (
        2, "", "error: the proxy has no database, so LiteLLM keeps no virtual keys there\n",
    )  # fmt: skip


def test_proxy_that_is_not_there(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy that does not answer is named; a token goes on without its alias."""
    monkeypatch.setenv("LITELLM_MASTER_KEY", ADMIN)

    refused = house.run("add", "bot", "--proxy", "http://127.0.0.1:1")

    assert refused[0] == 2
    assert refused[2].startswith("error: the proxy at http://127.0.0.1:1 does not answer: ")
    assert house.run("add", f"sha256:{BOT}", "--model", "paid")[0] == 0
