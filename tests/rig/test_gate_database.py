"""No metered call without both consents, on any route, by any lever: with virtual keys in LiteLLM's database."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.gate import table
from tests.gate.table import ROWS, Who
from tests.host.conftest import NAMES
from tests.host.proxy import MASTER, Proxy, write_folder
from tests.host.shapes import config_for, registry_for, token
from tests.upstreams import Upstream

pytestmark = pytest.mark.rig
GRANTS: dict[str, Any] = {
    "plain": {},
    "opted": {"metered_opt_in": True},
    "other": {"metered_opt_in": {"models": ["other-paid"]}},
    "expired": {"metered_opt_in": {"expires": "2020-01-01"}},
}


@pytest.fixture(scope="module")
def ups() -> Iterator[dict[str, Upstream]]:
    found = {name: Upstream(name) for name in NAMES}
    for up in found.values():
        up.__enter__()
    yield found
    for up in found.values():
        up.__exit__(None, None, None)


@pytest.fixture(scope="module")
def served(
    database: Mapping[str, str], ups: dict[str, Upstream], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Proxy, Who, Who]]:
    """A proxy, keys that the registry lists, and keys with permissions of their own."""
    listed = Who(*(f"sk-gate-listed-{alias}-0001" for alias in GRANTS))
    permitted = Who(*(f"sk-gate-permitted-{alias}-0001" for alias in GRANTS))
    registry = registry_for(ups)
    registry["routing"]["trust_custom_auth"] = False
    table.registry_with_grants(registry, listed, token)
    config = config_for(registry, foreign=table.foreign(ups), router=table.ROUTER)
    del config["general_settings"]["custom_auth"]
    with Proxy(write_folder(tmp_path_factory.mktemp("gate"), registry, config, keys=False), env=database) as proxy:
        for kind, who in (("listed", listed), ("permitted", permitted)):
            for alias, grant in GRANTS.items():
                body = {"key": getattr(who, alias), "key_alias": f"gate-{kind}-{alias}"}
                if kind == "permitted":
                    body["permissions"] = grant
                made = proxy.post("/key/generate", body, key=MASTER)
                assert made.status_code == 200, made.text
        yield proxy, listed, permitted


@pytest.mark.parametrize("kind", ["listed in the registry", "permissions of the key"])
@pytest.mark.parametrize("row", ROWS)
def test_database_keys(served: tuple[Proxy, Who, Who], ups: dict[str, Upstream], row: str, kind: str) -> None:
    """With keys of LiteLLM's own this way to the paid model wants both consents, for this model, unexpired."""
    proxy, listed, permitted = served
    who = listed if kind.startswith("listed") else permitted

    assert table.found(ROWS[row], proxy, ups, who) == table.wanted(ROWS[row])
