"""Order holds when many ask at once."""

from __future__ import annotations

import asyncio
from collections import Counter

import httpx

from tests.host.proxy import PLAIN, Proxy
from tests.upstreams import Upstream


async def ask(url: str, count: int) -> Counter[str]:
    limits = httpx.Limits(max_connections=count)
    async with httpx.AsyncClient(
        base_url=url, headers={"Authorization": f"Bearer {PLAIN}"}, timeout=120, limits=limits
    ) as client:
        body = {"model": "large", "messages": [{"role": "user", "content": "hi"}]}
        answers = await asyncio.gather(*(client.post("/v1/chat/completions", json=body) for _ in range(count)))
    return Counter(f"{one.status_code} {one.headers.get('x-registry-model')}" for one in answers)


async def test_healthy_pool_goes_to_its_first_member(proxy: Proxy, ups: dict[str, Upstream]) -> None:
    """200 concurrent requests to a healthy pool all go to its first member."""
    assert await ask(proxy.url, 200) == {"200 kimi": 200}
    assert [len(ups[name].generating_calls) for name in ("kimi", "mid")] == [200, 0]


async def test_dead_first_member_sends_all_to_the_second(proxy: Proxy, ups: dict[str, Upstream]) -> None:
    """50 concurrent requests whose first member fails are all served by the second, each member asked once a request."""
    ups["kimi"].fail(500)

    assert await ask(proxy.url, 50) == {"200 mid": 50}
    assert [len(ups[name].generating_calls) for name in ("kimi", "mid")] == [50, 50]
