"""Ask quickly, and without loading anything, whether a real server answers at a loopback address."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp

from litellm_registry_hook.demo.ollama_names import key
from litellm_registry_hook.demo.plan import Place

PROBE_S = 1.0
OK = 200


async def why_not_real(session: aiohttp.ClientSession, place: Place) -> str:
    """Return why the real server of a place cannot be used; empty where it can."""
    if place.never:
        return place.never
    if place.form == "ollama":
        return await _ollama(session, place)
    url = place.health_url or f"{place.api_base.rstrip('/')}/{'health' if place.form == 'rerank' else 'models'}"
    status, _ = await _get(session, url)
    return "" if status == OK else _nothing(place.api_base, status)


async def _ollama(session: aiohttp.ClientSession, place: Place) -> str:
    base = place.api_base.rstrip("/")
    status, version = await _get(session, f"{base}/api/version")
    if status != OK or not isinstance(version, dict) or "version" not in version:
        return _nothing(base, status)
    _, tags = await _get(session, f"{base}/api/tags")
    listed = tags.get("models") if isinstance(tags, dict) else None
    names = {key(str(entry.get("name"))) for entry in listed or () if isinstance(entry, dict)}
    name = place.model.litellm_model.partition("/")[2]
    return "" if key(name) in names else f"the Ollama at {base} lacks {name} (ollama pull {name})"


def _nothing(base: str, status: int) -> str:
    return f"nothing answers at {base}" if status == 0 else f"what answers at {base} says {status}"


async def _get(session: aiohttp.ClientSession, url: str) -> tuple[int, Any]:
    """Return (status, JSON or None); status 0 where nothing answers in time."""
    try:
        async with session.get(url, timeout=aiohttp.ClientTimeout(total=PROBE_S)) as answer:
            try:
                return answer.status, await answer.json(content_type=None)
            except ValueError:
                return answer.status, None
    except (aiohttp.ClientError, asyncio.TimeoutError, OSError, ValueError):
        return 0, None


async def look(places: list[Place]) -> list[str]:
    """Return for each place why the real one cannot be used; all are asked at once."""
    # trust_env stays off: a loopback address must not go through a proxy of the environment.
    async with aiohttp.ClientSession() as session:
        return await asyncio.gather(*(why_not_real(session, place) for place in places))
