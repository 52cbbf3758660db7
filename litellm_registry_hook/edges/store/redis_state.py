"""The state on a Redis server (or Valkey), for several hosts.

Layout, every name with the prefix `litellm-registry-hook:`

    schema            the version of this layout       version      changes with keys and revocations
    keys              hash: token -> row of the key    revoked_keys hash: token -> when
    aliases           hash: alias -> token of the key that is not revoked
    revocations       hash: "token model" -> when, who
    calls:YYYY-MM-DD  hash: "token model" -> count, kept for eight days
    audit             stream of all records            grants       stream of those of grants and removals
    workers           sorted set: worker by when it was seen
    decisions         list of JSON lines, the newest first
    leases:KIND       hash: key -> lease row      lease_seq    the last row's seq
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Final

from litellm_registry_hook.core.audit import AuditRecord
from litellm_registry_hook.core.decision import KEEP_DAYS, KEEP_DECISIONS, Decision, decision_of, line_of
from litellm_registry_hook.core.virtual_key import VirtualKey
from litellm_registry_hook.edges.store import virtual_keys
from litellm_registry_hook.edges.store.audit import record_of, row_of
from litellm_registry_hook.edges.store.port import AliasTakenError
from litellm_registry_hook.edges.store.redis_ledger import RedisLedger
from litellm_registry_hook.edges.store.redis_server import RedisServer
from litellm_registry_hook.edges.store.revocations import EVERY

KEYS: Final = ("keys", "revoked_keys", "aliases")
# ARGV: token, alias, row, when it was revoked or ''.
ADD_KEY: Final = """
if redis.call('HEXISTS', KEYS[3], ARGV[1]) == 1 then return 0 end
if ARGV[4] ~= '' then redis.call('HSET', KEYS[4], ARGV[1], ARGV[4])
elseif redis.call('HSETNX', KEYS[5], ARGV[2], ARGV[1]) == 0 then return 0 end
redis.call('HSET', KEYS[3], ARGV[1], ARGV[3])
touch()
return 1
"""
# ARGV: token, when; then the successor's token, alias and row, or none.
END_KEY: Final = """
local row = redis.call('HGET', KEYS[3], ARGV[1])
if not row or redis.call('HEXISTS', KEYS[4], ARGV[1]) == 1 then return 0 end
local alias = cjson.decode(row)[2]
if ARGV[3] then
  local holder = redis.call('HGET', KEYS[5], ARGV[4])
  if redis.call('HEXISTS', KEYS[3], ARGV[3]) == 1 or (holder and holder ~= ARGV[1]) then
    return redis.error_reply('ERR another key has the alias or the token of the successor')
  end
end
redis.call('HSET', KEYS[4], ARGV[1], ARGV[2])
if redis.call('HGET', KEYS[5], alias) == ARGV[1] then redis.call('HDEL', KEYS[5], alias) end
if ARGV[3] then
  redis.call('HSET', KEYS[5], ARGV[4], ARGV[3])
  redis.call('HSET', KEYS[3], ARGV[3], ARGV[5])
end
touch()
return 1
"""
EVERY_KEY: Final = "return {redis.call('HVALS', KEYS[3]), redis.call('HGETALL', KEYS[4])}"
# ARGV: value, then the fields.
REVOKE: Final = """
for i = 2, #ARGV do redis.call('HSET', KEYS[3], ARGV[i], ARGV[1]) end
touch()
return 1
"""
# ARGV: "token ", then the fields; without fields all of the token's.
LIFT: Final = """
if ARGV[2] then
  for i = 2, #ARGV do redis.call('HDEL', KEYS[3], ARGV[i]) end
else
  for _, field in ipairs(redis.call('HKEYS', KEYS[3])) do
    if string.sub(field, 1, #ARGV[1]) == ARGV[1] then redis.call('HDEL', KEYS[3], field) end
  end
end
touch()
return 1
"""
# ARGV: field, limit, seconds to keep, how many.
TAKE_CALL: Final = """
if tonumber(redis.call('HGET', KEYS[3], ARGV[1]) or '0') + tonumber(ARGV[4]) > tonumber(ARGV[2]) then return 0 end
redis.call('HINCRBY', KEYS[3], ARGV[1], ARGV[4])
redis.call('EXPIRE', KEYS[3], ARGV[3])
return 1
"""
# ARGV: the record. KEYS: the streams that get it.
APPEND: Final = """
for i = 3, #KEYS do redis.call('XADD', KEYS[i], '*', 'record', ARGV[1]) end
return 1
"""
# ARGV: how many stay, seconds they stay, then the records, oldest first.
DECIDED: Final = """
for i = 3, #ARGV do redis.call('LPUSH', KEYS[3], ARGV[i]) end
redis.call('LTRIM', KEYS[3], 0, ARGV[1] - 1)
redis.call('EXPIRE', KEYS[3], ARGV[2])
return 1
"""
# ARGV: first and last index.
DECISIONS: Final = "return redis.call('LRANGE', KEYS[3], ARGV[1], ARGV[2])"
PAGE: Final = 500
BEAT: Final = """
redis.call('ZADD', KEYS[3], ARGV[2], ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', '(' .. ARGV[3])
return 1
"""
KEEP_CALLS_SECONDS: Final = 8 * 86_400
# A record carries its writer's clock, the stream the server's; they differ by less.
CLOCKS_DIFFER: Final = timedelta(days=1)
GRANT_KINDS: Final = frozenset({"granted", "removed"})


class RedisState:
    """The State port on Redis; what each method promises stands there. The clock of calls and leases is the server's.

    Attributes:
        file: None. ledger: the lease rows.

    """

    file: Path | None = None

    def __init__(self, url: str) -> None:
        """Name a server; nothing is sent yet.

        Args:
            url: `redis://`, `rediss://` or `unix://`, as redis-py reads it.

        Raises:
            StateError: the URL is of no use, or the redis package is missing.

        """
        self._server = RedisServer(url)
        self.ledger = RedisLedger(self._server)

    @property
    def place(self) -> str:
        """The URL without its password."""
        return self._server.place

    def exists(self) -> bool:
        """Say that the server may be asked."""
        return True

    def version(self) -> str:
        """Return what changes with keys and revocations; empty while the state is."""
        return str(self._server.read("return redis.call('GET', KEYS[2]) or ''", []))

    def close(self) -> None:
        """Close the connections."""
        self._server.close()

    def add_key(self, key: VirtualKey) -> None:
        """Store a new virtual key."""
        revoked = key.revoked.isoformat() if key.revoked else ""
        if not self._server.write(ADD_KEY, KEYS, key.token, key.alias, json.dumps(virtual_keys.row_of(key)), revoked):
            raise AliasTakenError(key.alias)

    def virtual_keys(self) -> list[VirtualKey]:
        """Return all virtual keys."""
        rows, flat = self._server.read(EVERY_KEY, KEYS)
        revoked = dict(zip(flat[::2], flat[1::2], strict=True))
        found = [virtual_keys.key_of(json.loads(row)) for row in rows]
        known = [
            replace(key, revoked=datetime.fromisoformat(revoked[key.token])) if key.token in revoked else key
            for key in found
        ]
        return sorted(known, key=lambda key: (key.created.isoformat(), key.alias))

    def revoke_key(self, token: str, at: datetime) -> bool:
        """End a key."""
        return bool(self._server.write(END_KEY, KEYS, token, at.isoformat()))

    def rotate_key(self, old: str, new: VirtualKey, at: datetime) -> bool:
        """End a key and store its successor."""
        row = json.dumps(virtual_keys.row_of(new))
        return bool(self._server.write(END_KEY, KEYS, old, at.isoformat(), new.token, new.alias, row))

    def revoke_grant(self, token: str, models: Iterable[str] | None, at: datetime, who: str) -> None:
        """Note that a grant is over."""
        fields = [f"{token} {model}" for model in (models or (EVERY,))]
        self._server.write(REVOKE, ["revocations"], json.dumps([at.isoformat(), who]), *fields)

    def lift_revocation(self, token: str, models: Iterable[str] | None) -> None:
        """Take revocations back."""
        fields = [f"{token} {model}" for model in (*models, EVERY)] if models is not None else []
        self._server.write(LIFT, ["revocations"], f"{token} ", *fields)

    def revocations(self) -> dict[str, frozenset[str]]:
        """Return the revoked models by token."""
        found: dict[str, set[str]] = {}
        for field in self._server.read("return redis.call('HKEYS', KEYS[3])", ["revocations"]):
            token, _, model = field.partition(" ")
            found.setdefault(token, set()).add(model)
        return {token: frozenset(models) for token, models in found.items()}

    def take_call(self, token: str, model: str, day: str, limit: int, *, more: int = 1) -> bool:
        """Count more calls unless they go over the limit."""
        field = f"{token} {model}"
        return bool(self._server.write(TAKE_CALL, [f"calls:{day}"], field, limit, KEEP_CALLS_SECONDS, more))

    def calls(self, token: str, model: str, day: str) -> int:
        """Return the calls counted."""
        script = "return redis.call('HGET', KEYS[3], ARGV[1]) or 0"
        return int(self._server.read(script, [f"calls:{day}"], f"{token} {model}"))

    def append_audit(self, record: AuditRecord) -> None:
        """Add a record to the audit trail."""
        streams = ["audit", "grants"] if record.kind in GRANT_KINDS else ["audit"]
        self._server.write(APPEND, streams, json.dumps(row_of(record)))

    def audit(self, since: datetime | None = None) -> list[AuditRecord]:
        """Return the audit trail."""
        if since is None:
            return self._records("audit", "-")
        first = max(0, int((since - CLOCKS_DIFFER).timestamp() * 1000))
        return [one for one in self._records("audit", str(first)) if one.at >= since]

    def grants(self) -> list[AuditRecord]:
        """Return the audit records of grants and removals."""
        return self._records("grants", "-")

    def append_decisions(self, records: Sequence[Decision]) -> None:
        """Keep what was decided on requests."""
        if records:
            lines = [line_of(one) for one in records]
            self._server.write(DECIDED, ["decisions"], KEEP_DECISIONS, KEEP_DAYS * 86_400, *lines)

    def decisions(
        self, request_id: str | None = None, since: datetime | None = None, limit: int | None = None
    ) -> list[Decision]:
        """Return decisions, the newest first; read in pages, so that nobody else waits."""
        first = datetime.now(timezone.utc) - timedelta(days=KEEP_DAYS)
        start = first if since is None else max(since, first)
        found: dict[str, Decision] = {}
        for begin in range(0, KEEP_DECISIONS, PAGE):
            page: list[str] = self._server.read(DECISIONS, ["decisions"], begin, begin + PAGE - 1)
            # One that came meanwhile has moved the others on: the first of a page may be the last of the one before.
            for line in page:
                one = decision_of(line)
                if one.at >= start and request_id in {None, one.request_id}:
                    found[line] = one
            if len(page) < PAGE or (limit is not None and len(found) >= limit):
                break
        return list(found.values())[:limit]

    def beat(self, worker_id: str, now: datetime) -> None:
        """Say that a worker is there."""
        self._server.write(BEAT, ["workers"], worker_id, now.timestamp(), now.timestamp() - 3600)

    def workers_since(self, moment: datetime) -> int:
        """Count the workers seen since a moment."""
        script = "return redis.call('ZCOUNT', KEYS[3], ARGV[1], '+inf')"
        return int(self._server.read(script, ["workers"], moment.timestamp()))

    def _records(self, stream: str, first: str) -> list[AuditRecord]:
        return [record_of(json.loads(one)) for one in self._server.pages(stream, first)]
