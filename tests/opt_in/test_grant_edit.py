"""Grants are spliced into a registry file in its own style; every other byte stays."""

from __future__ import annotations

import codecs
import difflib
import re
import signal
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path

import pytest

from litellm_registry_hook.core.opt_in import KeyRef, Terms, add, remove
from litellm_registry_hook.core.registry import Registry
from litellm_registry_hook.edges.registry_edit import edit_grants, edited
from litellm_registry_hook.edges.registry_file import check_bytes, load_registry
from litellm_registry_hook.errors import ConfigError, RegistryError

ROOT = Path(__file__).resolve().parents[2]
NOW = datetime(2026, 9, 1, 12, tzinfo=timezone.utc)
TOKEN = "ab" * 32
OTHER = "cd" * 32
BOT = KeyRef(TOKEN, "bot-7")
ENTRY = f"{{key: bot-7, token: sha256:{TOKEN}, models: [paid]}}"

HEAD = """\
# models of the house
version: 1
models:
  - {id: paid, role: chat, lifecycle: always-on, metered: true, litellm: {model: openai/gpt-5.2}}
  - {id: pricey, role: chat, lifecycle: always-on, metered: true, litellm: {model: openai/gpt-5.2-pro}}
"""
TAIL = "gpu_residency_policy:\n  reserve_mb: 0   # none\n"
# name: (the file, the line that adding bot-7 for model paid puts into it)
SHAPES = {
    "empty list": ("routing:\n  tiers: {t: [paid]}\n  metered_opt_in: []\n", f"    - {ENTRY}"),
    "empty list with a comment": (
        "routing:\n  metered_opt_in: []               # shipped empty: nobody pays\n  tiers: {t: [paid]}\n",
        f"    - {ENTRY}",
    ),
    "empty list on its own line": (
        "routing:\n  tiers: {t: [paid]}\n  metered_opt_in:\n    []\n",
        f"    [{ENTRY}]",
    ),
    "brackets with a comment inside": (
        "routing:\n  tiers: {t: [paid]}\n  metered_opt_in: [\n    # nobody yet\n  ]\n",
        f"  metered_opt_in: [{ENTRY}",
    ),
    "strings": (
        "routing:\n  metered_opt_in:\n    - agent:torgash   # since spring\n  tiers: {t: [paid]}\n",
        f"    - {ENTRY}",
    ),
    "strings without indent": (
        "routing:\n  metered_opt_in:\n  - agent:torgash\n  tiers: {t: [paid]}\n",
        f"  - {ENTRY}",
    ),
    "mappings in braces": (
        'routing:\n  metered_opt_in:\n    - {key: ops, models: [pricey], note: "why, indeed"}\n  tiers: {t: [paid]}\n',
        f"    - {ENTRY}",
    ),
    "mappings key by key": (
        "routing:\n  metered_opt_in:\n    - key: ops\n      models:\n        - pricey\n      # the end\n  tiers: {t: [paid]}\n",
        "    - key: bot-7",
    ),
    "a note of several lines": (
        "routing:\n  tiers: {t: [paid]}\n  metered_opt_in:\n    - key: ops\n      note: |\n        one\n        two\n",
        "    - key: bot-7",
    ),
    "brackets on one line": (
        "routing:\n  metered_opt_in: [agent:torgash, {key: ops, models: [pricey]}]\n  tiers: {t: [paid]}\n",
        f"  metered_opt_in: [agent:torgash, {{key: ops, models: [pricey]}}, {ENTRY}]",
    ),
    "brackets over lines": (
        "routing:\n  metered_opt_in: [\n    agent:torgash,  # the agent\n    {key: ops},  # ops\n  ]\n  tiers: {t: [paid]}\n",
        f"    {ENTRY},",
    ),
    "brackets over lines, no last comma": (
        "routing:\n  metered_opt_in: [\n    agent:torgash,\n    {key: ops}  # ops\n  ]\n  tiers: {t: [paid]}\n",
        f"    {ENTRY}",
    ),
    "routing in braces": (
        "routing: {tiers: {t: [paid]}, metered_opt_in: []}\n",
        f"routing: {{tiers: {{t: [paid]}}, metered_opt_in: [{ENTRY}]}}",
    ),
    "an anchored list": (
        "routing:\n  tiers: {t: [paid]}\n  metered_opt_in: &who\n    - agent:torgash\n",
        f"    - {ENTRY}",
    ),
    "blank lines and comments around": (
        "routing:\n\n  # who pays\n  metered_opt_in:\n\n    # the agent\n    - agent:torgash\n\n    # nobody else\n\n  tiers: {t: [paid]}\n",
        f"    - {ENTRY}",
    ),
    "the last line without a line end": (
        "routing:\n  tiers: {t: [paid]}\n  metered_opt_in:\n    - agent:torgash",
        f"    - {ENTRY}",
    ),
    "an empty list at the end without a line end": (
        "routing:\n  tiers: {t: [paid]}\n  metered_opt_in: []",
        f"    - {ENTRY}",
    ),
    "an entry that is an alias": (
        "routing:\n  tiers: {t: [paid]}\n  metered_opt_in:\n    - &ops {key: ops}\n    - {<<: *ops, models: [pricey], key: ops2}\n",
        f"    - {ENTRY}",
    ),
    "a document marker": ("routing:\n  tiers: {t: [paid]}\n  metered_opt_in: []\n...\n", f"    - {ENTRY}"),
}
MISSING = {
    "missing": "routing:\n  tiers: {t: [paid]}   # pools\n  mode: enforce\n",
    "missing in braces": "routing: {tiers: {t: [paid]}}\n",
    "missing before a comment": "routing:\n  tiers:\n    t: [paid]\n\n# the end of routing\n",
}
JSON_HEAD = (
    '{"version": 1, "models": [{"id": "paid", "role": "chat", "lifecycle": "always-on", "metered": true, '
    '"litellm": {"model": "openai/gpt-5.2"}}], "routing": {"tiers": {"t": ["paid"]}'
)
JSON_ENTRY = f'{{"key": "bot-7", "token": "sha256:{TOKEN}", "models": ["paid"]}}'


def opted_in(raw: bytes, key: KeyRef = BOT, terms: Terms = Terms(("paid",))) -> bytes:
    return edited(raw, add(registry(raw).routing.metered_opt_in, key, terms, NOW), "f")


def opted_out(raw: bytes, key: KeyRef = BOT) -> bytes:
    edit, _ = remove(registry(raw).routing.metered_opt_in, key, None, ("paid", "pricey"), by_alias=False)
    return edited(raw, edit, "f")


def registry(raw: bytes) -> Registry:
    found, problems = check_bytes(raw)
    assert found is not None, problems
    return found


def difference(before: bytes, after: bytes) -> list[str]:
    lines = difflib.ndiff(before.decode().splitlines(), after.decode().splitlines())
    return [line for line in lines if line[:1] in "+-"]


@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize("bom", [b"", codecs.BOM_UTF8], ids=["", "bom"])
@pytest.mark.parametrize("name", SHAPES)
def test_shape_comes_back_to_the_byte(name: str, bom: bytes, newline: str) -> None:
    """A grant goes in as one line in the list's own style, and its removal gives back every byte."""
    text, line = SHAPES[name]
    tail = "" if not text.endswith("\n") or text.endswith("...\n") else TAIL
    raw = bom + (HEAD + text + tail).replace("\n", newline).encode()

    after = opted_in(raw)

    assert line in after.decode("utf-8-sig").split(newline)
    assert registry(after).routing.metered_opt_in[-1].model_dump(exclude_none=True) == {
        "key": "bot-7", "token": f"sha256:{TOKEN}", "models": ("paid",),
    }  # fmt: skip
    assert opted_out(after) == raw


@pytest.mark.parametrize("name", MISSING)
def test_missing_list_is_made(name: str) -> None:
    """Where there is no list, it is made; a removal leaves it empty and the rest as it was."""
    raw = (HEAD + MISSING[name] + TAIL).encode()

    after = opted_in(raw)
    emptied = opted_out(after)

    assert len(registry(after).routing.metered_opt_in) == 1
    assert registry(emptied).routing.metered_opt_in == ()
    assert emptied.replace(b", metered_opt_in: []", b"").replace(b"  metered_opt_in: []\n", b"") == raw


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (JSON_HEAD + ', "metered_opt_in": []}}', JSON_HEAD + f', "metered_opt_in": [{JSON_ENTRY}]}}}}'),
        (JSON_HEAD + ', "metered_opt_in": ["ops"]}}', JSON_HEAD + f', "metered_opt_in": ["ops", {JSON_ENTRY}]}}}}'),
    ],
    ids=["empty", "one"],
)
def test_json_stays_json(text: str, written: str) -> None:
    """A JSON file gets JSON, and gives it back."""
    after = opted_in(text.encode())

    assert after.decode() == written
    assert opted_out(after) == text.encode()


def test_pretty_json_gets_a_key_a_line() -> None:
    """An indented JSON file gets an indented entry."""
    import json

    raw = json.dumps(json.loads(JSON_HEAD + ', "metered_opt_in": []}}'), indent=2).encode()

    after = opted_in(raw)

    assert difference(raw, after) == [
        '-     "metered_opt_in": []',
        '+     "metered_opt_in": [',
        '+       {',
        '+         "key": "bot-7",',
        f'+         "token": "sha256:{TOKEN}",',
        '+         "models": ["paid"]',
        '+       }]',
    ]  # fmt: skip
    assert opted_out(after) == raw


@pytest.mark.parametrize(
    "file", sorted((ROOT / "tests/registries/good").iterdir()) + [ROOT / "model-registry.yaml"], ids=lambda p: p.name
)
def test_every_good_registry_takes_a_grant(file: Path) -> None:
    """Each registry of the corpus takes a grant for everything and gives it back to the byte, but for a list that was made."""
    raw = file.read_bytes()
    had = b"metered_opt_in" in raw

    after = opted_in(raw, BOT, Terms())
    back = opted_out(after)

    assert registry(after).routing.metered_opt_in[-1].model_dump(exclude_none=True) == {
        "key": "bot-7",
        "token": f"sha256:{TOKEN}",
    }
    if had:
        assert back == raw
    else:
        made = len(back) - len(raw)
        assert any(
            re.fullmatch(rb'[,\s]*"?metered_opt_in"?: \[\],?\s*', back[at : at + made])
            for at in range(len(raw) + 1)
            if back[:at] + back[at + made :] == raw
        )


@pytest.mark.parametrize(
    ("before", "terms", "after"),
    [
        (
            f'    - {{key: bot-7, token: sha256:{TOKEN}, models: [paid]}}   # the bot\n',
            Terms(("pricey",)),
            f'    - {{key: bot-7, token: sha256:{TOKEN}, models: [paid, pricey]}}   # the bot\n',
        ),
        (
            f'    - key: bot-7   # the bot\n      token: sha256:{TOKEN}\n      # only this one\n      models: [paid]\n      note: |\n        a\n        b\n',
            Terms(("paid",), {"max_calls": 5, "expires": "2027-01-01T00:00:00Z"}),
            f'    - key: bot-7   # the bot\n      token: sha256:{TOKEN}\n      # only this one\n      models: [paid]\n      note: |\n        a\n        b\n'
            '      expires: "2027-01-01T00:00:00Z"\n      max_calls: 5\n',
        ),
        (
            f'    - key: bot-7   # the bot\n      token: sha256:{TOKEN}\n      expires: "2027-01-01"\n      note: x\n',
            Terms(None, {"expires": None, "note": "y: z"}),
            f'    - key: bot-7   # the bot\n      token: sha256:{TOKEN}\n      note: "y: z"\n',
        ),
        ("    - bot-7   # the bot\n", Terms(None), f'    - {{key: bot-7, token: sha256:{TOKEN}}}   # the bot\n'),
        (
            f'    - {{key: bot-7, token: sha256:{TOKEN}, models: [paid], expires: "2026-01-01", note: old}}\n',
            Terms(("pricey",)),
            f'    - {{key: bot-7, token: sha256:{TOKEN}, models: [pricey]}}\n',
        ),
        (
            f'    - key: bot-7\n      token: sha256:{TOKEN}\n      models:\n        - paid   # dear\n',
            Terms(("pricey",)),
            f'    - key: bot-7\n      token: sha256:{TOKEN}\n      models: [paid, pricey]   # dear\n',
        ),
    ],
    ids=["models", "new keys", "keys that go", "an alias is pinned", "an expired one starts anew", "models as a block"],
)  # fmt: skip
def test_entry_is_updated_in_place(before: str, terms: Terms, after: str) -> None:
    """Adding again changes what was said of the entry, in its own style, with its comments."""
    frame = HEAD + "routing:\n  tiers: {t: [paid]}\n  metered_opt_in:\n    - ops\n%s    - last\n"

    assert opted_in((frame % before).encode(), BOT, terms).decode() == frame % after
    assert opted_in((frame % after).encode(), BOT, terms).decode() == frame % after


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "shared: &who [ops]\nrouting:\n  tiers: {t: [paid]}\n  metered_opt_in: *who\n",
            None,
        ),
        (
            "routing:\n  tiers: {t: [paid], u: &same [paid]}\n  <<: {metered_opt_in: [ops]}\n",
            "routing.metered_opt_in comes from a merge key (<<): write the list out in routing",
        ),
    ],
    ids=["shared", "merged"],
)
def test_list_that_others_share_is_left_alone(tmp_path: Path, text: str, said: str | None) -> None:
    """A list that cannot be edited without touching bytes of others is refused, and the file stays."""
    file = tmp_path / "r.yaml"
    file.write_text(HEAD + text)
    raw = file.read_bytes()

    with pytest.raises((ConfigError, RegistryError)) as raised:
        edit_grants(file, lambda found: add(found.routing.metered_opt_in, BOT, Terms(), NOW))

    assert said is None or said in str(raised.value)
    assert file.read_bytes() == raw


def test_broken_registry_is_not_edited(tmp_path: Path) -> None:
    """A registry that is not valid is refused with its problems, and stays as it is."""
    file = tmp_path / "r.yaml"
    file.write_text("version: 1\nmodels: []\nrouting: {tierz: {}}\n")

    with pytest.raises(RegistryError, match="did you mean"):
        edit_grants(file, lambda found: add(found.routing.metered_opt_in, BOT, Terms(), NOW))

    assert file.read_text() == "version: 1\nmodels: []\nrouting: {tierz: {}}\n"


def test_hundred_concurrent_adds_lose_none(tmp_path: Path) -> None:
    """A hundred writers at once, four processes of 25 threads, each get their grant in."""
    file = tmp_path / "r.yaml"
    file.write_text(HEAD + "routing:\n  tiers: {t: [paid]}\n  metered_opt_in: []   # nobody\n" + TAIL)
    script = f"""
import sys, threading
from datetime import datetime, timezone
from pathlib import Path
from litellm_registry_hook.core.opt_in import KeyRef, Terms, add
from litellm_registry_hook.edges.registry_edit import edit_grants
now = datetime(2026, 9, 1, tzinfo=timezone.utc)
def one(n):
    key = KeyRef(f"{{n:064x}}", f"key-{{n}}")
    edit_grants(Path({str(file)!r}), lambda found: add(found.routing.metered_opt_in, key, Terms(), now))
threads = [threading.Thread(target=one, args=(int(sys.argv[1]) * 25 + n,)) for n in range(25)]
[t.start() for t in threads]; [t.join() for t in threads]
"""
    running = [subprocess.Popen([sys.executable, "-c", script, str(n)], cwd=ROOT) for n in range(4)]
    assert [one.wait(120) for one in running] == [0] * 4

    grants = load_registry(file).routing.metered_opt_in
    assert sorted(one.key for one in grants) == sorted(f"key-{n}" for n in range(100))
    for n in range(100):
        edit_grants(
            file,
            lambda found, n=n: remove(found.routing.metered_opt_in, KeyRef(f"{n:064x}"), None, (), by_alias=False)[0],
        )
    assert file.read_text() == HEAD + "routing:\n  tiers: {t: [paid]}\n  metered_opt_in: []   # nobody\n" + TAIL


@pytest.mark.parametrize("where", ["pathlib.Path.replace", "os.fsync"])
def test_writer_killed_in_mid_write_harms_nothing(tmp_path: Path, where: str) -> None:
    """A writer that is killed before its rename leaves the old file whole and no lock behind."""
    file = tmp_path / "r.yaml"
    file.write_text(HEAD + "routing:\n  tiers: {t: [paid]}\n  metered_opt_in: []\n")
    raw = file.read_bytes()
    module, name = where.rsplit(".", 1)
    script = f"""
import os, pathlib, signal
from datetime import datetime, timezone
from litellm_registry_hook.core.opt_in import KeyRef, Terms, add
from litellm_registry_hook.edges.registry_edit import edit_grants
setattr({module}, {name!r}, lambda *given: os.kill(os.getpid(), signal.SIGKILL))
now = datetime(2026, 9, 1, tzinfo=timezone.utc)
edit_grants(pathlib.Path({str(file)!r}), lambda found: add(found.routing.metered_opt_in, KeyRef("{TOKEN}"), Terms(), now))
"""
    assert subprocess.run([sys.executable, "-c", script], cwd=ROOT).returncode == -signal.SIGKILL
    assert file.read_bytes() == raw

    edit_grants(file, lambda found: add(found.routing.metered_opt_in, BOT, Terms(), NOW))
    assert [one.key for one in load_registry(file).routing.metered_opt_in] == ["bot-7"]


def test_edit_by_somebody_else_meanwhile_is_kept(tmp_path: Path) -> None:
    """An editor that saves between our reading and our writing keeps its change; ours is made on top."""
    file = tmp_path / "r.yaml"
    file.write_text(HEAD + "routing:\n  tiers: {t: [paid]}\n  metered_opt_in: []\n")
    seen: list[int] = []

    def decide(found: Registry):
        if not seen:
            file.write_text(file.read_text().replace("# models of the house", "# models of this house"))
        seen.append(1)
        return add(found.routing.metered_opt_in, BOT, Terms(), NOW)

    edit_grants(file, decide)

    assert len(seen) == 2
    assert file.read_text().startswith("# models of this house")
    assert [one.key for one in load_registry(file).routing.metered_opt_in] == ["bot-7"]
