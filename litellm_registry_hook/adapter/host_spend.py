"""What LiteLLM's own database says was spent on a model: the one table that we read there.

Read is LiteLLM_DailyUserSpend, a row a day (UTC), key and model, written every few seconds
(db_spend_update_writer.py:2892). Its unique key holds the provider's model but not the model group, so that two groups
on one provider's model share rows: rows of either name count, and a budget errs to the safe side.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Final

from litellm_registry_hook.adapter.host_keys import database
from litellm_registry_hook.core.availability.period import bounds
from litellm_registry_hook.core.availability.probes import Answer, Probe
from litellm_registry_hook.core.registry import Registry

TIMEOUT_S: Final = 10.0
QUERY: Final = """
SELECT COALESCE(SUM(spend), 0)::float AS spent FROM "LiteLLM_DailyUserSpend"
WHERE date >= $1 AND (model_group = $2 OR (custom_llm_provider = $3 AND model IN ($4, $5)))
"""


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the loop of the proxy that this runs on; None outside of one."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def ask_spend(
    registry: Callable[[], Registry],
    loop: asyncio.AbstractEventLoop | None,
    clock: Callable[[], float],
) -> Callable[[Probe], Answer]:
    """Return a probe of what was spent in the running period; it blocks, and is not for the loop.

    Args:
        registry: gives the registry in force. loop: the proxy's, on which its database answers.
        clock: seconds since the epoch.

    """

    def ask(probe: Probe) -> Answer:
        model = registry().by_id.get(probe.model)
        if loop is None or model is None or model.quota is None or model.quota.probe_spend is None:
            return Answer(error="LiteLLM's spend can be read in the proxy only")
        first, resets_at = bounds(model.quota.probe_spend, clock())
        bare = model.litellm_model.partition("/")[2] or model.litellm_model
        asked = asyncio.run_coroutine_threadsafe(
            _spent(first, model.id, model.provider, bare, model.litellm_model), loop
        )
        try:
            spent = asked.result(TIMEOUT_S)
        except TimeoutError:
            return Answer(error=f"LiteLLM's database did not answer within {TIMEOUT_S:g} s")
        except Exception as error:  # noqa: BLE001  whatever the database does, the reading has failed
            detail = " ".join(str(error).split())[:160]
            return Answer(error=f"LiteLLM's database could not be read ({type(error).__name__})", detail=detail)
        finally:
            asked.cancel()
        if spent is None:
            return Answer(error="the proxy has no database, so LiteLLM keeps no record of what was spent")
        return Answer(json.dumps({"spent": spent, "resets_at": resets_at}))

    return ask


async def _spent(*values: str) -> float | None:
    # Looked up at each call: the proxy connects to its database after the callbacks are loaded.
    prisma = database()
    if prisma is None:
        return None
    rows = await prisma.db.query_raw(QUERY, *values)
    return float(rows[0]["spent"])
