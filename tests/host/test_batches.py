"""Batch files and batches through the real proxy, on stand-ins of OpenAI's Files and Batches API."""

from __future__ import annotations

import base64
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.host.conftest import NAMES
from tests.host.proxy import KEYS, ONLY_SMALL, OPTED, PLAIN, Proxy, write_folder
from tests.host.shapes import config_for, registry_for, token
from tests.upstreams import Upstream

pytestmark = [pytest.mark.host, pytest.mark.pays]
CONSENT = {"x-registry-allow-metered": "true"}
CAPPED = "sk-capped-key-000001"
Ups = dict[str, Upstream]


@pytest.fixture(scope="module")
def running() -> Iterator[Ups]:
    found = {name: Upstream(name) for name in NAMES}
    for up in found.values():
        up.__enter__()
    yield found
    for up in found.values():
        up.__exit__(None, None, None)


@pytest.fixture
def ups(running: Ups) -> Ups:
    for up in running.values():
        up.reset()
    return running


@pytest.fixture(scope="module")
def proxy(running: Ups, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """A proxy with foreign entries beside the registry's, on the same addresses."""
    registry = registry_for(running)
    registry["routing"]["metered_opt_in"].append({"key": "capped", "token": token(CAPPED), "max_calls": 3})
    registry["routing"]["unlisted_models"] = "allow"
    paid, kimi = running["paid"].openai_base, running["kimi"].openai_base
    foreign = [
        {"model_name": "paid-other", "litellm_params": {"model": "openai/x", "api_key": "x", "api_base": paid}},
        {"model_name": "kimi-other", "litellm_params": {"model": "openai/x", "api_key": "x", "api_base": kimi}},
        {"model_name": "cloud", "litellm_params": {"model": "bedrock/x", "aws_region_name": "x", "api_base": paid}},
    ]
    config = config_for(registry, foreign=foreign)
    config["files_settings"] = [{"custom_llm_provider": "openai", "api_key": "account", "api_base": paid}]
    folder = write_folder(tmp_path_factory.mktemp("batches"), registry, config)
    keys = KEYS.replace("KEYS = {", f'KEYS = {{\n    "{CAPPED}": dict(key_alias="capped"),')
    (folder / "test_keys.py").write_text(keys)
    with Proxy(folder) as one:
        yield one


def line(model: Any, number: int = 0) -> dict[str, Any]:
    body = {"model": model, "messages": [{"role": "user", "content": "hé"}]}
    return {"custom_id": f"r{number}", "method": "POST", "url": "/v1/chat/completions", "body": body}


def jsonl(*models: Any) -> bytes:
    return b"".join(json.dumps(line(model, number)).encode() + b"\n" for number, model in enumerate(models))


def upload(
    proxy: Proxy, content: bytes, account: str | None, *, key: str = OPTED, consent: bool = False, **form: str
) -> httpx.Response:
    return httpx.post(
        f"{proxy.url}/v1/files",
        params={"model": account} if account else {},
        files={"file": ("lines.jsonl", content, "application/jsonl")},
        data={"purpose": "batch", **form},
        headers={"Authorization": f"Bearer {key}", **(CONSENT if consent else {})},
        timeout=60,
    )


def create(
    proxy: Proxy, file_id: str, *, key: str = OPTED, consent: bool = False, query: str = "", **more: Any
) -> httpx.Response:
    body = {"input_file_id": file_id, "endpoint": "/v1/chat/completions", "completion_window": "24h", **more}
    return proxy.post(f"/v1/batches{query}", body, key=key, headers=CONSENT if consent else {})


def file_of(proxy: Proxy, *args: Any, **kwargs: Any) -> str:
    response = upload(proxy, *args, **kwargs)
    assert response.status_code == 200, response.text
    return str(response.json()["id"])


def code(response: httpx.Response) -> str:
    return str(response.json()["error"]["code"]) if response.status_code >= 400 else str(response.status_code)


def posts(up: Upstream) -> list[str]:
    return [call.path for call in up.generating_calls]


def lines_at(up: Upstream) -> list[str]:
    """The models that the last file names."""
    return [one["body"]["model"] for one in up.batch_api.lines(list(up.batch_api.files)[-1])]


def trail(proxy: Proxy) -> list[tuple[str, ...]]:
    with sqlite3.connect(proxy.folder / "state.sqlite") as found:
        return found.execute("SELECT kind, alias, model, code, note FROM audit ORDER BY id").fetchall()


def test_a_free_batch_from_file_to_end(proxy: Proxy, ups: Ups) -> None:
    """A free model's batch needs no consent: its lines leave with the provider's name, and all that follows works."""
    file_id = file_of(proxy, jsonl("kimi", "kimi"), "kimi", key=PLAIN)
    made = create(proxy, file_id, key=PLAIN)
    batch_id = made.json()["id"]

    seen = proxy.get(f"/v1/batches/{batch_id}")
    content = proxy.get(f"/v1/files/{file_id}/content")
    listed = proxy.get("/v1/batches?model=kimi")
    ended = proxy.post(f"/v1/batches/{batch_id}/cancel", {})
    file = proxy.get(f"/v1/files/{file_id}")
    files = proxy.get("/v1/files?model=kimi")
    gone = httpx.delete(f"{proxy.url}/v1/files/{file_id}", headers={"Authorization": f"Bearer {PLAIN}"}, timeout=60)

    assert (code(made), made.headers["x-registry-model"]) == ("200", "kimi")
    assert [code(one) for one in (seen, content, listed, ended, file, files, gone)] == ["200"] * 7
    assert [json.loads(one) for one in content.text.splitlines()] == [line("kimi-up"), line("kimi-up", 1)]
    assert [batch["id"] for batch in listed.json()["data"]] == [batch_id]
    assert (seen.json()["status"], ended.json()["status"]) == ("validating", "cancelling")
    assert posts(ups["paid"]) == []


@pytest.mark.parametrize("name", ["kimi", "large", "big", "kimi-up"])
def test_what_a_line_may_be_called(proxy: Proxy, ups: Ups, name: str) -> None:
    """A model id, a tier, an alias, and the provider's own name of a registry model lead to that model."""
    assert code(upload(proxy, jsonl(name), "kimi", key=PLAIN)) == "200"
    assert lines_at(ups["kimi"]) == ["kimi-up"]


@pytest.mark.parametrize("name", ["paid-fallback", "large", "only-paid", "paid-fallback-up"])
@pytest.mark.parametrize("account", ["paid-fallback", "paid-other", None])
def test_a_metered_line_wants_both_consents(proxy: Proxy, ups: Ups, name: str, account: str | None) -> None:
    """However a line names the metered model, and whatever picks the paid account, nothing is uploaded without both."""
    wanted = ("metered_consent_missing", "metered_key_not_opted_in", "metered_consent_missing")
    if account != "paid-fallback" and name != "paid-fallback-up":
        # The same address with another key is another account, on which the registry serves nothing.
        wanted = ("bad_batch_file",) * 3

    found = (
        code(upload(proxy, jsonl(name), account, key=OPTED)),
        code(upload(proxy, jsonl(name), account, key=PLAIN, consent=True)),
        code(upload(proxy, jsonl(name), account, key=PLAIN)),
    )

    assert (found, posts(ups["paid"])) == (wanted, [])


def test_both_consents_upload_and_create(proxy: Proxy, ups: Ups) -> None:
    """With both consents the file and the batch leave once each, and the trail says how many calls it makes."""
    before = len(trail(proxy))
    file_id = file_of(proxy, jsonl("only-paid", "only-paid"), "paid-fallback", consent=True)
    made = create(proxy, file_id, consent=True)

    assert (code(made), made.headers["x-registry-model"]) == ("200", "paid-fallback")
    assert posts(ups["paid"]) == ["/v1/files", "/v1/batches"]
    assert lines_at(ups["paid"]) == ["paid-fallback-up"] * 2
    assert trail(proxy)[before:] == [("called", "opted", "paid-fallback", "", "batch of 2 calls")]
    assert code(proxy.get(f"/v1/batches/{made.json()['id']}")) == "200"
    assert [kind for kind, *_ in trail(proxy)[before:]] == ["called"]


def test_a_batch_is_decided_for_who_creates_it(proxy: Proxy, ups: Ups) -> None:
    """A file that another key uploaded with both consents opens nothing: the batch wants its own."""
    file_id = file_of(proxy, jsonl("paid-fallback"), "paid-fallback", consent=True)
    ups["paid"].reset()

    found = [
        code(create(proxy, file_id, key=OPTED)),
        code(create(proxy, file_id, key=PLAIN, consent=True)),
        code(create(proxy, file_id, key=PLAIN)),
    ]

    assert found == ["metered_consent_missing", "metered_key_not_opted_in", "metered_consent_missing"]
    assert posts(ups["paid"]) == []


def test_each_line_counts_as_a_call_of_the_day(proxy: Proxy, ups: Ups) -> None:
    """A batch takes as many calls of max_calls as it has lines, all or none."""
    two = file_of(proxy, jsonl("paid-fallback", "paid-fallback"), "paid-fallback", key=CAPPED, consent=True)
    one = file_of(proxy, jsonl("paid-fallback"), "paid-fallback", key=CAPPED, consent=True)
    ups["paid"].reset()

    made = [create(proxy, file_id, key=CAPPED, consent=True) for file_id in (two, two, one, one)]

    assert [code(answer) for answer in made] == ["200", "metered_cap_reached", "200", "metered_cap_reached"]
    assert posts(ups["paid"]) == ["/v1/batches"] * 2
    assert "send fewer lines" in made[1].json()["error"]["message"]
    assert int(made[1].headers["retry-after"]) >= 1


@pytest.mark.parametrize(
    ("account", "name"), [("paid-fallback", "paid-fallback-up-2026-01-01"), ("paid-other", "x"), (None, "ft:x")]
)
def test_an_unknown_name_where_a_metered_model_is_served(
    proxy: Proxy, ups: Ups, account: str | None, name: str
) -> None:
    """A snapshot or a fine-tuned model on a paid account counts as metered, also with unlisted_models: allow."""
    refused = [upload(proxy, jsonl(name), account), upload(proxy, jsonl(name), account, key=PLAIN, consent=True)]

    assert [code(one) for one in refused] == ["unlisted_model"] * 2
    assert posts(ups["paid"]) == []
    assert code(upload(proxy, jsonl(name), account, consent=True)) == "200"
    assert lines_at(ups["paid"]) == [name]


def test_an_unknown_name_elsewhere_is_the_registrys_rule(proxy: Proxy, ups: Ups) -> None:
    """Where no metered model is served, routing.unlisted_models decides about a name that the registry does not know."""
    file_id = file_of(proxy, jsonl("free-thing"), "kimi-other", key=PLAIN)

    assert code(create(proxy, file_id, key=PLAIN)) == "200"
    assert lines_at(ups["kimi"]) == ["free-thing"]


def test_a_metered_name_on_a_free_account(proxy: Proxy, ups: Ups) -> None:
    """The provider's name of a metered model wants both consents on whatever account."""
    assert code(upload(proxy, jsonl("paid-fallback-up"), "kimi")) == "metered_consent_missing"
    assert code(upload(proxy, jsonl("small"), "kimi")) == "bad_batch_file"
    assert posts(ups["kimi"]) == []


BAD = {
    "two models": (jsonl("kimi", "paid-fallback"), "line 2 names 'paid-fallback'"),
    "no model": (jsonl("kimi", None), "line 2 names no model"),
    "no body": (jsonl("kimi") + b'\n{"custom_id": "x", "method": "POST", "url": "/", "body": "x"}\n', "line 3 has no body"),
    "no object": (jsonl("kimi") + b"[]\n", "line 2"),
    "no JSON": (jsonl("kimi") + b"{\n", "line 2"),
    "a number that is none": (jsonl("kimi").replace(b'"r0"', b"NaN"), "line 1 is not a JSON object"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_a_file_that_cannot_be_read_is_refused_with_its_line(proxy: Proxy, ups: Ups, what: str) -> None:
    """A line that is no object, names no model or another model than the first refuses the file, with its number."""
    content, said = BAD[what]
    response = upload(proxy, content, "kimi", consent=True)

    assert response.status_code == 400
    assert said in response.text
    assert posts(ups["kimi"]) == posts(ups["paid"]) == []


def test_what_leaves_is_what_was_read(proxy: Proxy, ups: Ups) -> None:
    """A doubled key says one thing only: what the gate has not read does not leave."""
    twice = jsonl("kimi").replace(b'"model": "kimi"', b'"model": "paid-fallback-up", "model": "kimi"')
    hidden = jsonl("kimi").replace(b'"body": {', b'"body": {"model": "paid-fallback-up"}, "body": {')
    for content in (twice, hidden):
        file_of(proxy, content, "kimi", key=PLAIN)
        left = ups["kimi"].batch_api.files[list(ups["kimi"].batch_api.files)[-1]]
        assert b"paid" not in left
        assert json.loads(left) == line("kimi-up")


def test_a_file_that_did_not_come_by_the_gate(proxy: Proxy, ups: Ups) -> None:
    """Nobody knows the lines of a file from elsewhere, of another account, or of another purpose: no batch of it."""
    other = file_of(proxy, jsonl("paid-fallback-up"), "paid-fallback", purpose="user_data")
    free = file_of(proxy, jsonl("kimi"), "kimi")
    raw = base64.urlsafe_b64decode(free.removeprefix("file-") + "==").decode().split(";")[0].removeprefix("litellm:")
    ups["paid"].reset()

    found = [
        create(proxy, "file-elsewhere", consent=True, query="?model=paid-fallback"),
        create(proxy, "file-elsewhere", consent=True, model="paid-fallback"),
        create(proxy, raw, consent=True, model="paid-fallback"),
        create(proxy, other, consent=True),
    ]

    assert [code(one) for one in found] == ["batch_file_unchecked"] * 4
    assert posts(ups["paid"]) == []


def test_a_client_cannot_put_another_file_in_the_place(proxy: Proxy, ups: Ups) -> None:
    """extra_body, which the provider's SDK merges over the request, and extra_headers do not leave."""
    file_id = file_of(proxy, jsonl("kimi"), "kimi", key=PLAIN)
    ups["kimi"].reset()
    made = create(
        proxy, file_id, key=PLAIN, extra_body={"input_file_id": "file-elsewhere"}, extra_headers={"x-thing": "1"}
    )

    assert code(made) == "200"
    [call] = ups["kimi"].generating_calls
    assert call.json["input_file_id"].startswith("file-kimi")
    assert "x-thing" not in call.headers


def test_a_failed_batch_is_not_sent_again(proxy: Proxy, ups: Ups) -> None:
    """A batch whose answer fails is created once: sent again it could bill twice."""
    file_id = file_of(proxy, jsonl("kimi"), "kimi", key=PLAIN)
    ups["kimi"].reset()
    ups["kimi"].fail(500)

    made = create(proxy, file_id, key=PLAIN)
    ups["kimi"].ok()

    assert made.status_code >= 500
    assert posts(ups["kimi"]) == ["/v1/batches"]


def test_what_stays_closed(proxy: Proxy, ups: Ups) -> None:
    """Providers whose lines name no model, managed files, and the routes with a provider in the path."""
    managed = base64.urlsafe_b64encode(
        b"litellm_proxy:application/octet-stream;unified_id,x;target_model_names,paid-fallback"
    ).decode()
    found = [
        upload(proxy, jsonl("x"), "cloud", consent=True),
        create(proxy, managed, consent=True),
        proxy.post("/openai/v1/batches", {"input_file_id": "f"}, key=OPTED, headers=CONSENT),
        proxy.post("/openai/v1/files", {}, key=OPTED, headers=CONSENT),
        proxy.post("/openai/batches", {"input_file_id": "f"}, key=OPTED, headers=CONSENT),
        proxy.post("/openai_passthrough/v1/batches", {"input_file_id": "f"}, key=OPTED, headers=CONSENT),
        proxy.post("/v1/fine_tuning/jobs", {"training_file": "f", "model": "kimi"}, key=OPTED, headers=CONSENT),
    ]

    assert [code(one) for one in found] == ["route_not_governed"] * 7
    assert upload(proxy, jsonl("kimi"), None, consent=True, target_model_names="kimi,paid-fallback").status_code >= 400
    assert {name: posts(up) for name, up in ups.items()} == {name: [] for name in ups}


def test_a_key_with_a_list_of_models(proxy: Proxy, ups: Ups) -> None:
    """A key that lists other models uploads nothing, by the account's model or by the line's."""
    assert upload(proxy, jsonl("kimi"), "kimi", key=ONLY_SMALL).status_code == 403
    assert posts(ups["kimi"]) == []


def test_without_the_state_there_are_no_batches(ups: Ups, tmp_path: Path) -> None:
    """A file cannot be remembered without the state, so no batch of it runs, a free one neither."""
    registry = registry_for(ups)
    folder = write_folder(tmp_path / "stateless", registry, config_for(registry))
    with Proxy(folder, env={"LITELLM_REGISTRY_STATE": f"sqlite:///{folder}/test_keys.py/state.sqlite"}) as stateless:
        file_id = file_of(stateless, jsonl("kimi"), "kimi")
        made = create(stateless, file_id)

    assert (made.status_code, code(made)) == (503, "model_unavailable")
    assert posts(ups["kimi"]) == ["/v1/files"]
