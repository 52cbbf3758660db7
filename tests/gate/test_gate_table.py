"""No metered call without both consents, on any route, by any lever: on proxies without a database."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.gate import table
from tests.gate.table import ROWS, Who
from tests.host.conftest import NAMES
from tests.host.proxy import MASTER, Proxy, write_folder
from tests.host.shapes import config_for, registry_for, token
from tests.upstreams import Upstream

pytestmark = [pytest.mark.host, pytest.mark.pays]


@pytest.fixture(scope="module")
def ups() -> Iterator[dict[str, Upstream]]:
    found = {name: Upstream(name) for name in NAMES}
    for up in found.values():
        up.__enter__()
    yield found
    for up in found.values():
        up.__exit__(None, None, None)


@pytest.fixture(scope="module")
def embedded(ups: dict[str, Upstream], tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Proxy, Who]]:
    """A proxy with embedded keys, made by the command line."""
    folder = tmp_path_factory.mktemp("embedded")
    registry = registry_for(ups)
    proxy = Proxy(write_folder(folder, registry, {}, keys=False))

    def make(alias: str) -> str:
        command = [sys.executable, "-m", "litellm_registry_hook", "keys", "create", "--alias", alias, "--json"]
        made = subprocess.run(command, cwd=folder, env=proxy.env, capture_output=True, text=True, check=True)
        return str(json.loads(made.stdout)["key"])

    who = Who(*(make(alias) for alias in ("plain", "opted", "other", "expired")))
    registry["routing"]["trust_custom_auth"] = False
    table.registry_with_grants(registry, who, token)
    general = {
        "custom_auth": "litellm_registry_hook.user_api_key_auth",
        "custom_auth_run_common_checks": True,
    }
    config = config_for(registry, foreign=table.foreign(ups), general=general, router=table.ROUTER)
    config["litellm_settings"]["enable_post_custom_auth_checks"] = True
    write_folder(folder, registry, config, keys=False)
    with proxy:
        yield proxy, who


@pytest.mark.parametrize("row", ROWS)
def test_embedded_keys(embedded: tuple[Proxy, Who], ups: dict[str, Upstream], row: str) -> None:
    """With embedded keys this way to the paid model wants both consents, for this model, unexpired."""
    proxy, who = embedded

    assert table.found(ROWS[row], proxy, ups, who) == table.wanted(ROWS[row])


@pytest.fixture(scope="module", params=[False, True], ids=["master key", "master key metered"])
def without_keys(
    request: pytest.FixtureRequest, ups: dict[str, Upstream], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Proxy, bool]]:
    """A proxy without any key store."""
    registry = registry_for(ups)
    registry["routing"].update(metered_opt_in=[], trust_custom_auth=False, master_key_metered=request.param)
    config = config_for(registry, foreign=table.foreign(ups), router=table.ROUTER)
    del config["general_settings"]["custom_auth"]
    with Proxy(write_folder(tmp_path_factory.mktemp("master"), registry, config, keys=False)) as proxy:
        yield proxy, request.param


@pytest.mark.parametrize("row", ROWS)
def test_master_key(without_keys: tuple[Proxy, bool], ups: dict[str, Upstream], row: str) -> None:
    """The master key reaches the paid model only with master_key_metered, and only with this request's consent."""
    proxy, metered = without_keys
    who = Who(MASTER, MASTER, MASTER, MASTER)
    wanted = table.wanted(ROWS[row])
    with_consent = wanted["both"] if metered else wanted["request only"]

    found = table.found(ROWS[row], proxy, ups, who)

    assert found == {
        column: wanted["no consent"] if column in {"no consent", "key only"} else with_consent for column in found
    }
