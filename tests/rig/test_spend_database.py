"""A budget of what LiteLLM itself records as spent, in a real PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.host.proxy import MASTER, Proxy, write_folder
from tests.host.shapes import config_for, registry_for, token
from tests.host.test_live import code, within
from tests.rig.test_database_keys import CONSENT, OPTED
from tests.upstreams import upstreams

pytestmark = pytest.mark.rig


def test_a_spent_budget_closes_the_model_until_the_month_ends(database: Mapping[str, str], tmp_path: Path) -> None:
    """A call that costs more than the limit is served; once LiteLLM has written it down, the next is refused, and
    status says what was spent; a model without a budget is not touched."""
    names = ("kimi", "mid", "paid", "ollama", "tei")
    with upstreams(*names) as found:
        ups = dict(zip(names, found, strict=True))
        registry = registry_for(ups)
        paid = registry["models"][-1]
        paid["quota"] = {"probe_spend": "month", "limit": 0.5, "interval_s": 10}
        paid["litellm"]["output_cost_per_token"] = 1.0
        registry["routing"] |= {"metered_opt_in": [token(OPTED)], "trust_custom_auth": False}
        config = config_for(registry)
        del config["general_settings"]["custom_auth"]
        env = {**database, "PROXY_BATCH_WRITE_AT": "1"}
        with Proxy(write_folder(tmp_path, registry, config, keys=False), env=env) as proxy:
            assert proxy.post("/key/generate", {"key": OPTED, "key_alias": "spender"}, key=MASTER).status_code == 200
            first = proxy.chat("paid-fallback", key=OPTED, headers=CONSENT)
            assert code(first) == "paid-fallback"

            def used() -> list[float | None]:
                return [one.get("used_pct") for one in proxy.get("/registry/status", key=MASTER).json()["quotas"]]

            assert within(60, lambda: 100.0 in used()), used()
            calls = len(ups["paid"].generating_calls)
            refused = proxy.chat("paid-fallback", key=OPTED, headers=CONSENT)
            assert (refused.status_code, code(refused)) == (429, "quota_exhausted")
            assert "the budget is spent: " in refused.json()["error"]["message"]
            assert 0 < int(refused.headers["retry-after"]) <= 31 * 86400
            assert len(ups["paid"].generating_calls) == calls
            assert code(proxy.chat("large", key=OPTED)) == "kimi"
