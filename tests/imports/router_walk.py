"""Run by the tests in a process of its own: which groups LiteLLM's Router asks, in order, when every one of them fails.

stdin: {"base": URL, "graphs": [{"names": […], "fallbacks": […], "aliases": {…}, "ask": name}, …]}. stdout: nothing; the
server at URL has seen the calls, with the number of the graph as their message.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys


async def main() -> None:
    import litellm
    from litellm import Router

    litellm.suppress_debug_info = True
    work = json.load(sys.stdin)
    for number, graph in enumerate(work["graphs"]):
        entries = [
            {
                "model_name": name,
                "litellm_params": {
                    "model": f"openai/{name}",
                    "api_key": "x",
                    "api_base": work["base"],
                    "max_retries": 0,
                },
            }
            for name in graph["names"]
        ]
        router = Router(
            model_list=entries, fallbacks=graph["fallbacks"], model_group_alias=graph["aliases"], num_retries=0,
            disable_cooldowns=True,
        )  # fmt: skip
        with contextlib.suppress(Exception):
            await router.acompletion(model=graph["ask"], messages=[{"role": "user", "content": str(number)}])


asyncio.run(main())
