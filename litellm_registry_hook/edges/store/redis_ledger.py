"""Lease rows on a Redis server: what several hosts agree on. The server's clock says when a row lapses."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from litellm_registry_hook.core.gpu.ports import Row
from litellm_registry_hook.edges.store.redis_server import RedisServer

# ARGV[1]: the clock where it is not the server's, else ''. Rows are JSON lists of texts, for Lua's numbers lose digits:
# kind, key, owner, data, seq, until. A kind has a hash of its own, which the server drops some time after its last row.
_KEEP: Final = """
local function keep(seconds)
  local wanted = math.floor(seconds * 1000) + 60000
  if redis.call('PTTL', KEYS[3]) < wanted then redis.call('PEXPIRE', KEYS[3], wanted) end
end
"""
_NOW: Final = """
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] + time[2] / 1000000
end
"""
# KEYS: the kind's hash, the last seq. ARGV: clock, kind, key, owner, ttl, data or '', limit or ''.
TAKE: Final = (
    _KEEP
    + _NOW
    + """
local mine, others = nil, 0
local flat = redis.call('HGETALL', KEYS[3])
for i = 1, #flat, 2 do
  local row = cjson.decode(flat[i + 1])
  if tonumber(row[6]) <= now then redis.call('HDEL', KEYS[3], flat[i])
  elseif flat[i] == ARGV[3] then mine = row
  else others = others + 1 end
end
if mine and mine[3] ~= ARGV[4] then return 0 end
if ARGV[7] ~= '' and others >= tonumber(ARGV[7]) then return 0 end
local seq, data = nil, ARGV[6]
if mine then
  seq = mine[5]
  if data == '' then data = mine[4] end
else
  -- The time, so that it rises also after the server has lost everything.
  local time = redis.call('TIME')
  local next = time[1] * 1000000 + time[2]
  local before = tonumber(redis.call('GET', KEYS[4]) or '0')
  if next <= before then next = before + 1 end
  seq = string.format('%.0f', next)
  redis.call('SET', KEYS[4], seq)
  if data == '' then data = '{}' end
end
local ends = string.format('%.6f', now + tonumber(ARGV[5]))
redis.call('HSET', KEYS[3], ARGV[3], cjson.encode({ARGV[2], ARGV[3], ARGV[4], data, seq, ends}))
keep(tonumber(ARGV[5]))
return 1
"""
)
# ARGV: clock, key, owner, ttl.
RENEW: Final = (
    _KEEP
    + _NOW
    + """
local text = redis.call('HGET', KEYS[3], ARGV[2])
if not text then return 0 end
local row = cjson.decode(text)
if row[3] ~= ARGV[3] or tonumber(row[6]) <= now then return 0 end
row[6] = string.format('%.6f', now + tonumber(ARGV[4]))
redis.call('HSET', KEYS[3], ARGV[2], cjson.encode(row))
keep(tonumber(ARGV[4]))
return 1
"""
)
# ARGV: key, owner.
DROP: Final = """
local text = redis.call('HGET', KEYS[3], ARGV[1])
if text and cjson.decode(text)[3] == ARGV[2] then redis.call('HDEL', KEYS[3], ARGV[1]) end
return 1
"""
# KEYS: the hash of each kind. ARGV: clock.
ROWS: Final = (
    _NOW
    + """
local found = {}
for i = 3, #KEYS do
  for _, text in ipairs(redis.call('HVALS', KEYS[i])) do
    if tonumber(cjson.decode(text)[6]) > now then found[#found + 1] = text end
  end
end
return found
"""
)


class RedisLedger:
    """The Ledger port on Redis."""

    def __init__(self, server: RedisServer, clock: Callable[[], float] | None = None) -> None:
        """Use a server.

        Args:
            server: the server.
            clock: seconds since the epoch instead of the server's own clock; for tests.

        """
        self._server = server
        self._clock = clock

    def take(
        self,
        kind: str,
        key: str,
        owner: str,
        ttl_s: float,
        *,
        data: Mapping[str, Any] | None = None,
        limit: int | None = None,
    ) -> bool:
        """Make a row or renew this owner's; see Ledger.take. Data of None leaves those of a renewed row as they are."""
        text = json.dumps(dict(data)) if data is not None else ""
        most = "" if limit is None else limit
        keys = [_hash_of(kind), "lease_seq"]
        return bool(self._server.write(TAKE, keys, self._moment(), kind, key, owner, ttl_s, text, most))

    def renew(self, kind: str, key: str, owner: str, ttl_s: float) -> bool:
        """Move the end of a row; False where this owner does not have it any more."""
        return bool(self._server.write(RENEW, [_hash_of(kind)], self._moment(), key, owner, ttl_s))

    def drop(self, kind: str, key: str, owner: str) -> None:
        """Remove a row of this owner; nothing where there is none."""
        self._server.write(DROP, [_hash_of(kind)], key, owner)

    def rows(self, *kinds: str) -> list[Row]:
        """Return the live rows of these kinds in order of seq, in one look."""
        hashes = [_hash_of(kind) for kind in dict.fromkeys(kinds)]
        found = [json.loads(text) for text in self._server.read(ROWS, hashes, self._moment())]
        rows = [
            Row(kind, key, owner, json.loads(data), int(seq), float(until))
            for kind, key, owner, data, seq, until in found
        ]
        return sorted(rows, key=lambda row: row.seq)

    def now(self) -> float:
        """Return the server's clock, seconds since the epoch."""
        return self._clock() if self._clock is not None else self._server.time()

    def _moment(self) -> float | str:
        return self._clock() if self._clock is not None else ""


def _hash_of(kind: str) -> str:
    return f"leases:{kind}"
