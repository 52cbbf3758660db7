"""`litellm-registry keys` as its users see it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from litellm_registry_hook.cli.keys_cmd import UsedAliasError, new_key, store
from litellm_registry_hook.core.virtual_key import VirtualKey, token_of
from litellm_registry_hook.edges.store import virtual_keys, workers
from litellm_registry_hook.edges.store.database import Database
from litellm_registry_hook.edges.store.sqlite_state import SqliteState

ROOT = Path(__file__).parents[2]
Cli = Callable[..., tuple[int, str, str]]
Make = Callable[..., dict[str, str]]
NOBODY = (
    "warning: no running proxy uses this state; a proxy that runs as another user, or elsewhere, has one of its own "
    "(set LITELLM_REGISTRY_STATE=sqlite:////PATH alike for both)\n"
)


def where(state: Path) -> str:
    return f"state: {state}\n{NOBODY}"


def minute(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def test_create_prints_the_key_once(cli: Cli, state: Path, database: Database) -> None:
    """A new key stands alone on the first line, with how to use it below; where it is kept is on stderr."""
    code, out, err = cli("create", "--alias", "agent:torgash", "--models", "large, embed", "--expires", "2099-01-31")
    key, _, rest = out.partition("\n")

    assert (code, err) == (0, where(state))
    assert re.fullmatch(r"sk-[A-Za-z0-9_-]{43}", key)
    assert rest == (
        "\nalias:    agent:torgash\n"
        "models:   large, embed\n"
        "expires:  2099-01-31 00:00 UTC\n\n"
        "This is the only time that the key is shown: only its hash is kept. Clients send it as\n"
        "`Authorization: Bearer KEY`, or set it as the api_key of their SDK.\n"
    )
    [row] = virtual_keys.every(database)
    assert (row.token, row.alias, row.models) == (token_of(key), "agent:torgash", ("large", "embed"))


def test_create_as_json_is_key_alias_token(cli: Cli, state: Path) -> None:
    """--json prints exactly key, alias and token; the token is the key's sha256."""
    code, out, err = cli("create", "--json", "--alias", "bot")
    made = json.loads(out)

    assert (code, err) == (0, where(state))
    assert made == {"key": made["key"], "alias": "bot", "token": token_of(made["key"])}
    assert re.fullmatch("[0-9a-f]{64}", made["token"])


@pytest.mark.parametrize(
    "models",
    [
        ("--models", "large,embed"),
        ("--models", "large", "--models", "embed"),
        ("--models", "large", "embed"),
        ("--models", "large, embed,large,"),
    ],
)
def test_models_are_named_in_any_usual_way(make: Make, database: Database, models: tuple[str, ...]) -> None:
    """A comma list, the option several times, and several names after it mean the same."""
    make("--alias", "bot", *models)

    assert virtual_keys.every(database)[0].models == ("large", "embed")


def test_a_model_that_the_registry_lacks_is_a_warning(cli: Cli, state: Path) -> None:
    """The key is made, for it may mean a foreign model, and the warning names the nearest name."""
    code, _, err = cli("create", "--alias", "bot", "--models", "kimmi,gpt-4o,embedder,bge-m3")
    foreign = "(a model of litellm-config.yaml that is not in the registry may be meant)"

    assert code == 0
    assert err == (
        f"warning: the registry has no tier, alias or model `kimmi`; did you mean `kimi`? {foreign}\n"
        f"warning: the registry has no tier, alias or model `gpt-4o` {foreign}\n"
    ) + where(state)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Missing option '--alias'."),
        (("--alias", ""), "--alias: letters, digits and ._:/@- (the first a letter or digit), at most 128"),
        (("--alias", "a b"), "--alias: letters, digits and ._:/@- (the first a letter or digit), at most 128"),
        (("--alias", "a\n"), "--alias: letters, digits and ._:/@- (the first a letter or digit), at most 128"),
        (("--alias", "sk-1234567890"), "--alias is a name for people, not a key or a token"),
        (("--alias", "sha256:" + 64 * "0"), "--alias is a name for people, not a key or a token"),
        (("--alias", "a", "large"), "names of models go after --models"),
        (("--alias", "a", "--models", " ,"), "--models names nothing; leave it out for all models"),
        (
            ("--alias", "a", "--models", "all-team-models"),
            "--models: `all-team-models` means something in LiteLLM's teams only; name models",
        ),
        (
            ("--alias", "a", "--expires", "soon"),
            "--expires: that is no moment; write 30m, 12h, 7d, 2w, 18:00 (UTC), 2027-01-31 or 2027-01-31T18:00Z",
        ),
        (
            ("--alias", "a", "--expires", "2020-01-01"),
            "--expires: 2020-01-01 00:00 UTC is not in the future; "
            "write 30m, 12h, 7d, 2w, 18:00 (UTC), 2027-01-31 or 2027-01-31T18:00Z",
        ),
    ],
)
def test_bad_usage_makes_nothing(cli: Cli, state: Path, arguments: tuple[str, ...], message: str) -> None:
    """A mistake is one line with the fix and exit code 2, repeats no key, and makes no state."""
    assert cli("create", *arguments) == (
        2,
        "",
        f"error: {message} (see `litellm-registry keys create --help`)\n",
    )
    assert not state.exists()


def test_a_live_alias_is_taken(cli: Cli, make: Make) -> None:
    """A second key for a live alias is an error that says how to end or renew the first."""
    make("--alias", "bot")

    assert cli("create", "--alias", "bot") == (
        2,
        "",
        "error: alias `bot` has a live key; end it first (litellm-registry keys revoke bot), "
        "or give it a new key (litellm-registry keys rotate bot)\n",
    )


def expired(database: Database, alias: str = "bot") -> VirtualKey:
    now = datetime.now(timezone.utc)
    row = VirtualKey(token_of(new_key()), alias, None, now - timedelta(days=2), now - timedelta(days=1))
    virtual_keys.add(database, row)
    return row


def test_an_expired_key_makes_way_for_its_alias(cli: Cli, state: Path, database: Database) -> None:
    """An alias whose key has expired is free; the old row is revoked for good."""
    old = expired(database)

    code, _, err = cli("create", "--json", "--alias", "bot")

    assert (code, err) == (0, "the expired key of `bot` is revoked\n" + where(state))
    assert virtual_keys.by_token(database, old.token).revoked is not None


def test_list_of_a_state_that_is_not_there(cli: Cli, state: Path) -> None:
    """Without a state there are no keys, and listing makes none."""
    assert cli("list") == (0, "", f"no keys in {state}\n")
    assert cli("list", "--json") == (0, "[]\n", "")
    assert not state.parent.exists()


def test_list_shows_who_and_until_when(cli: Cli, make: Make, database: Database) -> None:
    """The table shows live, expired and revoked keys with their short token, never a key."""
    old = expired(database, "old")
    one = make("--alias", "one", "--models", "large,embed", "--expires", "2099-01-31", "--note", "nightly run")
    two = make("--alias", "two")
    cli("revoke", "two")

    code, out, err = cli("list")
    made = minute(datetime.now(timezone.utc))

    assert (code, err) == (0, "")
    assert [re.split(r"  +", line) for line in out.splitlines()] == [
        ["ALIAS", "TOKEN", "MODELS", "CREATED", "EXPIRES", "STATE", "NOTE"],
        ["old", old.token[:8], "all", minute(old.created), minute(old.expires), "expired"],
        ["one", one["token"][:8], "large, embed", made, "2099-01-31 00:00 UTC", "live", "nightly run"],
        ["two", two["token"][:8], "all", made, "never", "revoked"],
    ]


def test_list_as_json(cli: Cli, make: Make, database: Database) -> None:
    """--json has the same for scripts, with whole moments."""
    made = make("--alias", "one", "--models", "large", "--expires", "2099-01-31", "--note", "n")
    [row] = virtual_keys.every(database)

    code, out, err = cli("list", "--json")

    assert (code, err) == (0, "")
    assert json.loads(out) == [
        {
            "alias": "one",
            "token": made["token"][:8],
            "models": ["large"],
            "created": row.created.isoformat(),
            "expires": "2099-01-31T00:00:00+00:00",
            "revoked": None,
            "state": "live",
            "note": "n",
        }
    ]


@pytest.mark.parametrize("name", ["alias", "token", "key"])
def test_revoke_by_any_name(cli: Cli, make: Make, state: Path, name: str) -> None:
    """An alias, a token and the key itself name a key; the second time there is no live one."""
    made = make("--alias", "bot")
    text = {"alias": "bot", "token": f"sha256:{made['token']}", "key": made["key"]}[name]
    said = {"alias": "alias `bot`", "token": f"token {made['token'][:8]}", "key": f"token {made['token'][:8]}"}[name]

    first, second = cli("revoke", text), cli("revoke", text)

    assert first == (0, "`bot` is revoked, in every worker within 2 seconds\n", where(state))
    assert second == (
        1,
        "",
        f"the key with {said} was revoked on {minute(datetime.now(timezone.utc))}\n",
    )


def test_revoke_as_json(cli: Cli, make: Make) -> None:
    """--json says whose key has ended."""
    made = make("--alias", "bot")

    code, out, _ = cli("revoke", "bot", "--json")

    assert (code, json.loads(out)) == (0, {"alias": "bot", "token": made["token"]})


@pytest.mark.parametrize("command", ["revoke", "rotate"])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("bot", "alias `bot`"),
        ("sk-nobody-has-this-one", f"token {token_of('sk-nobody-has-this-one')[:8]}"),
        ("sha256:" + 64 * "0", "token 00000000"),
        ("see sk-nobody-has-this-one", "alias `see sk-…`"),
    ],
)
def test_a_key_that_is_not_there_is_a_no(cli: Cli, state: Path, command: str, text: str, said: str) -> None:
    """No such key is exit code 1, and what may be a key is not repeated."""
    assert cli(command, text) == (1, "", f"there is no key with {said}; `litellm-registry keys list` shows all\n")
    assert not state.exists()


@pytest.mark.parametrize("text", ["sha256:12", "sha256:" + 64 * "A"])
def test_half_a_token_is_an_error(cli: Cli, text: str) -> None:
    """A token that cannot be one is bad usage, not a no."""
    assert cli("revoke", text) == (
        2,
        "",
        "error: a token is sha256: and 64 hex digits, lower case; `keys list` shows aliases "
        "(see `litellm-registry keys revoke --help`)\n",
    )


def test_an_expired_key_is_not_live(cli: Cli, database: Database) -> None:
    """Revoking or rotating an expired key is a no that says how to renew it; a new end renews it."""
    old = expired(database)
    no = (
        1,
        "",
        f"the key with alias `bot` expired on {minute(old.expires)}; for a new one: "
        "litellm-registry keys rotate bot --expires WHEN\n",
    )

    assert cli("revoke", "bot") == no
    assert cli("rotate", "bot") == no
    assert cli("rotate", "bot", "--expires", "7d")[0] == 0
    assert [one.live(datetime.now(timezone.utc)) for one in virtual_keys.every(database)] == [False, True]


def test_rotate_keeps_everything_but_the_key(cli: Cli, make: Make, state: Path, database: Database) -> None:
    """The new key has the old one's alias, models, end and note; the old one is revoked in the same step."""
    old = make("--alias", "bot", "--models", "large", "--expires", "2099-01-31", "--note", "n")

    code, out, err = cli("rotate", "bot", "--json")
    new = json.loads(out)
    [first, second] = virtual_keys.every(database)

    assert (code, err) == (0, where(state))
    assert new == {"key": new["key"], "alias": "bot", "token": token_of(new["key"])}
    assert (first.token, first.revoked) == (old["token"], second.created)
    assert (second.token, second.alias, second.models, second.expires, second.note, second.revoked) == (
        new["token"],
        "bot",
        ("large",),
        datetime(2099, 1, 31, tzinfo=timezone.utc),
        "n",
        None,
    )


def test_rotate_says_what_becomes_of_the_opt_in(
    cli: Cli, make: Make, state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Entries pinned to the old key no longer count, with the commands that move them; one by alias goes on."""
    pinned = "sha256:" + make("--alias", "bot")["token"]
    grants = f"""metered_opt_in:
    - {pinned}
    - {{key: bot, token: {pinned}, models: [paid-fallback], expires: "2098-01-01", max_calls: 20, note: "for torgash"}}
    - bot
    - {{key: bot, expires: "2020-01-01"}}
    - other
"""
    registry = tmp_path / "registry.yaml"
    registry.write_text((ROOT / "model-registry.yaml").read_text().replace("metered_opt_in: []\n", grants))
    monkeypatch.setenv("LITELLM_REGISTRY", str(registry))

    code, _, err = cli("rotate", "bot")

    assert code == 0
    assert err == (
        "routing.metered_opt_in[0] is pinned to the old key and no longer lets `bot` in; to move it: "
        f"litellm-registry opt-in add bot and litellm-registry opt-in remove {pinned}\n"
        "routing.metered_opt_in[1] is pinned to the old key and no longer lets `bot` in; to move it: "
        "litellm-registry opt-in add bot --model paid-fallback --expires 2098-01-01 --max-calls 20 "
        f"--note 'for torgash' and litellm-registry opt-in remove {pinned}\n"
        "routing.metered_opt_in[2] lists `bot` by its alias and goes on\n"
        "routing.metered_opt_in[3] lists `bot` by its alias and has expired\n"
    ) + where(state)


def test_no_warning_while_a_proxy_uses_the_state(cli: Cli, state: Path, database: Database) -> None:
    """A worker seen in the last ten seconds is a proxy that uses it."""
    now = datetime.now(timezone.utc)
    workers.beat(database, "old", now - timedelta(seconds=30))
    before = cli("create", "--alias", "a")[2]
    workers.beat(database, "w", now)

    assert (before, cli("revoke", "a")[2]) == (where(state), f"state: {state}\n")


def test_a_broken_registry_stops_no_revocation(
    cli: Cli, make: Make, state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the environment says where the state is, keys are managed without a valid registry."""
    make("--alias", "bot")
    monkeypatch.setenv("LITELLM_REGISTRY", str(tmp_path / "none.yaml"))

    assert cli("revoke", "bot") == (
        0,
        "`bot` is revoked, in every worker within 2 seconds\n",
        "warning: the registry cannot be read (litellm-registry validate says why)\n" + where(state),
    )
    monkeypatch.delenv("LITELLM_REGISTRY_STATE")
    code, out, err = cli("list")
    assert (code, out) == (2, "")
    assert "none.yaml" in err


def test_the_registry_says_where_the_state_is(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: Path
) -> None:
    """Without the environment variable the registry's `state:` counts."""
    elsewhere = tmp_path / "elsewhere.sqlite"
    registry = tmp_path / "registry.yaml"
    registry.write_text((ROOT / "model-registry.yaml").read_text() + f"state: sqlite:///{elsewhere}\n")
    monkeypatch.setenv("LITELLM_REGISTRY", str(registry))
    monkeypatch.delenv("LITELLM_REGISTRY_STATE")

    assert cli("create", "--json", "--alias", "bot")[0] == 0
    assert (elsewhere.exists(), state.exists()) == (True, False)


def test_a_state_that_cannot_be_written_is_an_error(cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The error names the file, and no key is printed."""
    (tmp_path / "file").write_text("x")
    monkeypatch.setenv("LITELLM_REGISTRY_STATE", f"sqlite:///{tmp_path}/file/state.sqlite")

    code, out, err = cli("create", "--alias", "bot")

    assert (code, out) == (2, "")
    assert err.startswith(f"error: state file {tmp_path}/file/state.sqlite: ")


def test_the_state_holds_no_key_and_belongs_to_one_user(cli: Cli, make: Make, state: Path, database: Database) -> None:
    """Only hashes are kept; the files are mode 600 and their new folder 700."""
    keys = [make("--alias", f"bot-{number}")["key"] for number in range(3)]
    _, out, err = cli("rotate", "bot-0")
    keys.append(out.splitlines()[0])
    said = "".join(part for text in (*keys, "bot-1") for part in map(str, cli("revoke", text))) + cli("list")[1] + err
    held = b"".join(path.read_bytes() for path in state.parent.iterdir())

    assert [key for key in keys if key in said or key.encode() in held] == []
    assert {oct(path.stat().st_mode & 0o777) for path in state.parent.iterdir()} == {"0o600"}
    assert oct(state.parent.stat().st_mode & 0o777) == "0o700"


def test_an_open_state_is_closed_to_others(make: Make, state: Path) -> None:
    """A file that somebody made readable is mode 600 again after the next command."""
    make("--alias", "a")
    state.chmod(0o644)
    make("--alias", "b")

    assert oct(state.stat().st_mode & 0o777) == "0o600"


@pytest.mark.parametrize("with_expired", [False, True])
def test_of_fifty_creates_of_one_alias_one_wins(state: Path, with_expired: bool) -> None:
    """Fifty threads with connections of their own make the same alias at once: one key is live."""
    first = Database(state)
    if with_expired:
        expired(first)
    now = datetime.now(timezone.utc)
    start = threading.Barrier(50)
    won: list[str] = []

    def run() -> None:
        own = SqliteState(state)
        row = VirtualKey(token_of(new_key()), "bot", None, now)
        start.wait()
        try:
            store(own, row, now)
            won.append(row.token)
        except UsedAliasError:
            pass
        finally:
            own.close()

    threads = [threading.Thread(target=run) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    live = [one.token for one in virtual_keys.every(first) if one.live(now)]
    first.close()

    assert (len(won), won) == (1, live)


def test_processes_at_once_make_the_state_and_one_key(state: Path) -> None:
    """Four command lines that start together on a new state agree on it, and one gets the alias."""
    command = [Path(sys.executable).parent / "litellm-registry", "keys", "create", "--alias", "bot"]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(4)]
    outs = [one.communicate(timeout=60) for one in running]

    assert sorted(one.returncode for one in running) == [0, 2, 2, 2], outs


def test_the_commands_import_no_litellm(state: Path) -> None:
    """keys starts as fast as the other commands."""
    code = (
        "import sys; from litellm_registry_hook.cli.main import main; "
        "assert main(['keys', 'create', '--alias', 'a']) == 0; assert 'litellm' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)

    assert done.returncode == 0, done.stderr
