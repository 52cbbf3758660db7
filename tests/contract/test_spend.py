"""What LiteLLM's database says was spent: where it cannot say. With a database: tests/rig/test_spend_database.py."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest
from availability.avail_kit import NOON, gated, one
from strategies import model_entry

from litellm_registry_hook.adapter.host_spend import ask_spend
from litellm_registry_hook.core.availability.probes import Answer, Probe

PROBE = Probe("paid", "paid", "spend", "month", "", (), 60, 10)
BESIDE = Answer(error="LiteLLM's spend can be read in the proxy only")


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop in a thread, as the proxy's."""
    running = asyncio.new_event_loop()
    thread = threading.Thread(target=running.run_forever)
    thread.start()
    yield running
    running.call_soon_threadsafe(running.stop)
    thread.join()
    running.close()


def test_without_a_proxy_or_a_database_the_reading_fails(loop: asyncio.AbstractEventLoop) -> None:
    """Beside a proxy, for another quota, and in a proxy without a database, what was spent is unknown, not zero."""
    quota = {"probe_spend": "month", "limit": 20}
    registry, _ = one(model_entry("paid", metered=True, lifecycle="cost-gated", quota=quota))
    other, _ = one(gated("paid"))

    assert ask_spend(lambda: registry, None, lambda: NOON)(PROBE) == BESIDE
    assert ask_spend(lambda: other, loop, lambda: NOON)(PROBE) == BESIDE
    assert ask_spend(lambda: registry, loop, lambda: NOON)(PROBE) == Answer(
        error="the proxy has no database, so LiteLLM keeps no record of what was spent"
    )
