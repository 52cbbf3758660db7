"""Whatever is done in whatever order, SQLite and Redis answer as twenty lines of Python do."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from litellm_registry_hook.core.gpu.ports import Ledger
from litellm_registry_hook.edges.store.database import Database
from litellm_registry_hook.edges.store.ledger import SqliteLedger
from litellm_registry_hook.edges.store.redis_ledger import RedisLedger
from litellm_registry_hook.edges.store.redis_server import RedisServer

KINDS, KEYS, OWNERS = ("a", "a:b", "ü"), ("", "1", "b:1"), ("x", "y")
START = 1_800_000_000.0
kinds, keys, owners = st.sampled_from(KINDS), st.sampled_from(KEYS), st.sampled_from(OWNERS)
ends = st.sampled_from((0.5, 1, 3, 10))
steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("take"), kinds, keys, owners, ends,
            st.sampled_from((None, {}, {"n": 1}, {"ü": [None, 1.5]})), st.sampled_from((None, 0, 1, 2)),
        ),
        st.tuples(st.just("renew"), kinds, keys, owners, ends),
        st.tuples(st.just("drop"), kinds, keys, owners),
        st.tuples(st.just("wait"), st.sampled_from((0.25, 0.5, 1, 5))),
    ),
    max_size=25,
)  # fmt: skip
numbers = count()


@dataclass
class Plain:
    """The rules in plain Python: rows in order of arrival, [owner, data, until] by (kind, key)."""

    now: float = START
    rows: dict[tuple[str, str], list] = field(default_factory=dict)

    def purge(self) -> None:
        self.rows = {name: row for name, row in self.rows.items() if row[2] > self.now}

    def take(self, kind, key, owner, ttl, data, limit) -> bool:
        self.purge()
        row = self.rows.get((kind, key))
        others = [name for name in self.rows if name[0] == kind and name[1] != key]
        if (row and row[0] != owner) or (limit is not None and len(others) >= limit):
            return False
        self.rows[kind, key] = [owner, data if data is not None else row[1] if row else {}, self.now + ttl]
        return True

    def renew(self, kind, key, owner, ttl) -> bool:
        self.purge()
        row = self.rows.get((kind, key))
        if row is None or row[0] != owner:
            return False
        row[2] = self.now + ttl
        return True

    def drop(self, kind, key, owner) -> None:
        self.purge()
        if (kind, key) in self.rows and self.rows[kind, key][0] == owner:
            del self.rows[kind, key]

    def seen(self) -> list[tuple]:
        self.purge()
        return [(kind, key, *row) for (kind, key), row in self.rows.items()]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=steps)
def test_a_ledger_is_what_the_rules_say(url: str, tmp_path: Path, steps: list[tuple]) -> None:
    """Each answer, and the rows after each step, are those of the rules; seq rises with arrival."""
    plain, run = Plain(), next(numbers)
    ledger: Ledger = (
        SqliteLedger(Database(tmp_path / f"{run}.sqlite"), lambda: plain.now)
        if url.startswith("sqlite")
        else RedisLedger(RedisServer(url), lambda: plain.now)
    )

    def named(kind: str) -> str:
        return f"{run}/{kind}"

    for what, *rest in steps:
        if what == "wait":
            plain.now += rest[0]
        elif what == "take":
            kind, key, owner, ttl, data, limit = rest
            answer = ledger.take(named(kind), key, owner, ttl, data=data, limit=limit)
            assert answer == plain.take(*rest)
        else:
            answer = getattr(ledger, what)(named(rest[0]), *rest[1:])
            assert answer == getattr(plain, what)(*rest)
        rows = ledger.rows(*map(named, KINDS))
        assert [(row.kind.partition("/")[2], row.key, row.owner, row.data, row.until) for row in rows] == plain.seen()
        assert [row.seq for row in rows] == sorted({row.seq for row in rows})
