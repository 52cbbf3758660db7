"""What changes while the proxy runs: edits of the registry, caps, the audit trail, a lost state."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from litellm_registry_hook.core.audit import AuditRecord
from litellm_registry_hook.edges.atomic import replace_bytes
from litellm_registry_hook.edges.store import audit
from litellm_registry_hook.edges.store.database import Database
from tests.host.proxy import OPTED, PLAIN, Proxy, write_folder
from tests.host.shapes import config_for, registry_for, token
from tests.upstreams import Upstream

# Two seconds is the promise; a busy machine gets as much again for asking.
PROMISE_SECONDS = 4
CONSENT = {"x-registry-allow-metered": "true"}


def within(seconds: float, check: Callable[[], bool]) -> bool:
    """Ask until it holds; False where it does not in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if check():
            return True
        time.sleep(0.05)
    return False


def write(folder: Path, registry: dict[str, Any]) -> None:
    replace_bytes(folder / "model-registry.yaml", yaml.safe_dump(registry, sort_keys=False).encode())


def code(response: Any) -> str:
    return response.headers["x-registry-model"] if response.status_code < 400 else response.json()["error"]["code"]


def records(folder: Path) -> list[AuditRecord]:
    database = Database(folder / "state.sqlite")
    try:
        return audit.read(database)
    finally:
        database.close()


@pytest.mark.pays
def test_edits_are_in_force_in_every_worker(ups: dict[str, Upstream], tmp_path: Path) -> None:
    """A removed grant, a new tier and a broken edit show within two seconds in both workers, without a restart."""
    registry = registry_for(ups)
    folder = write_folder(tmp_path, registry, config_for(registry))
    with Proxy(folder, workers=2) as proxy:

        def paid() -> set[str]:
            return {code(proxy.chat("paid-fallback", key=OPTED, headers=CONSENT)) for _ in range(8)}

        assert paid() == {"paid-fallback"}

        registry["routing"]["metered_opt_in"] = []
        registry["routing"]["tiers"]["fast"] = ["mid"]
        registry["models"].append({**registry["models"][1], "id": "late"})
        write(folder, registry)
        assert within(PROMISE_SECONDS, lambda: paid() == {"metered_key_not_opted_in"})
        assert (
            proxy.log.count("late: it is not in the proxy's model_list; run generate-litellm-config and restart") == 2
        )
        assert {code(proxy.chat("fast")) for _ in range(8)} == {"mid"}
        assert "fast" in {one["id"] for one in proxy.get("/v1/models").json()["data"]}

        (folder / "model-registry.yaml").write_text("version: 1\nmodels: [{id: broken}]\n")
        assert within(PROMISE_SECONDS, lambda: proxy.log.count("is not in force") == 2)
        assert "missing_key" in proxy.log
        assert {code(proxy.chat("fast")) for _ in range(8)} == {"mid"}

        del registry["routing"]["tiers"]["fast"]
        write(folder, registry)
        assert within(PROMISE_SECONDS, lambda: {code(proxy.chat("fast")) for _ in range(8)} == {"unknown_model"})


@pytest.mark.pays
def test_cap_counts_across_workers(ups: dict[str, Upstream], tmp_path: Path) -> None:
    """A grant of five calls a day lets five of forty concurrent requests through two workers, and then says until when;
    each call and each refusal is in the audit trail once."""
    registry = registry_for(ups)
    registry["routing"]["metered_opt_in"] = [
        {"key": "opted", "token": token(OPTED), "max_calls": 5, "models": ["paid-fallback"]}
    ]
    folder = write_folder(tmp_path, registry, config_for(registry))
    with Proxy(folder, workers=2) as proxy, ThreadPoolExecutor(8) as pool:
        codes = list(pool.map(lambda _: code(proxy.chat("paid-fallback", key=OPTED, headers=CONSENT)), range(40)))
        over = proxy.chat("paid-fallback", key=OPTED, headers=CONSENT)
        free = proxy.chat("large", key=OPTED, headers=CONSENT)

    assert (codes.count("paid-fallback"), codes.count("metered_cap_reached")) == (5, 35)
    assert len(ups["paid"].generating_calls) == 5
    kinds = [one.kind for one in records(folder)]
    assert (kinds.count("called"), kinds.count("refused")) == (5, 36)
    assert over.status_code == 403
    assert over.json()["error"]["message"] == (
        "model 'paid-fallback': this virtual key has made its 5 calls of today (UTC); raise max_calls to allow more"
    )
    assert 1 <= int(over.headers["retry-after"]) <= 86400
    assert code(free) == "kimi"


@pytest.mark.pays
def test_audit_trail(ups: dict[str, Upstream], tmp_path: Path) -> None:
    """Served and refused metered calls are recorded with key, model, tier and request id, and no secret."""
    registry = registry_for(ups)
    registry["models"][-1]["litellm"].update(input_cost_per_token=0.1, output_cost_per_token=0.1)
    folder = write_folder(tmp_path, registry, config_for(registry))
    with Proxy(folder) as proxy:
        ups["kimi"].fail(500)
        ups["mid"].fail(500)
        served = proxy.chat("large", key=OPTED, headers=CONSENT)
        streamed = proxy.chat("large", key=OPTED, headers=CONSENT, stream=True)
        refused = proxy.chat("paid-fallback", key=PLAIN, headers=CONSENT)
        proxy.chat("small", key=PLAIN)
        assert within(5, lambda: [one.kind for one in records(folder)].count("cost") == 2)

    short = token(OPTED).removeprefix("sha256:")[:8]
    called, refusal = (next(one for one in records(folder) if one.kind == kind) for kind in ("called", "refused"))
    assert (called.alias, called.key, called.model, called.tier) == ("opted", short, "paid-fallback", "large")
    assert called.request_id == served.headers["x-litellm-call-id"]
    assert (refusal.alias, refusal.model, refusal.tier, refusal.code) == (
        "plain", "paid-fallback", "", "metered_key_not_opted_in",
    )  # fmt: skip
    assert refused.status_code == 403
    costs = {one.request_id: one.cost for one in records(folder) if one.kind == "cost"}
    # Prices of the test: a tenth of a dollar a token, 8 tokens; the stream's usage is asked for on the client's behalf.
    assert costs == {one.headers["x-litellm-call-id"]: pytest.approx(0.8) for one in (served, streamed)}
    assert '"usage"' not in streamed.text
    state = b"".join(one.read_bytes() for one in folder.glob("state.sqlite*"))
    assert OPTED.encode() not in state and PLAIN.encode() not in state
    assert (folder / "state.sqlite").stat().st_mode & 0o777 == 0o600


def test_without_state_nothing_metered_leaves(ups: dict[str, Upstream], tmp_path: Path) -> None:
    """Where the state cannot be opened free models go on and metered calls are refused with the reason."""
    registry = registry_for(ups)
    folder = write_folder(tmp_path, registry, config_for(registry))
    (folder / "blocked").write_text("a file where a folder should be")
    with Proxy(folder, env={"LITELLM_REGISTRY_STATE": f"sqlite:///{folder}/blocked/state.sqlite"}) as proxy:
        free, paid = proxy.chat("large"), proxy.chat("paid-fallback", key=OPTED, headers=CONSENT)

    assert code(free) == "kimi"
    assert (paid.status_code, paid.json()["error"]["message"]) == (
        503,
        "model 'paid-fallback': the state cannot be used, and no metered call leaves without a record; see the proxy's log",
    )
