"""Writes messages, and deletes expired ones. Runs in the thread of the writing connection.

A batch is one transaction: all of it is on the disk when `append` returns, or none of it.
"""

import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import chain, compress
from typing import Final, Literal, NamedTuple, cast

from node.errors import Refused
from node.limits import NO_HOLDER, Holder, Quota
from node.streams import StreamPart

MAX_CACHED_CHAINS: Final = 10_000
MESSAGE_OVERHEAD_BYTES: Final = 64  # of a message in addition to its text, approximately
ROWS_AT_ONCE: Final = 32  # half the cost of one by one; more gain little

_INTO_MESSAGES: Final = "INTO messages (part, timestamp, sequence, chain, stored_at_s, body) VALUES"
_ROW: Final = "(?, ?, ?, ?, ?, ?)"
_INSERT_ALL: Final = f"INSERT {_INTO_MESSAGES} {', '.join([_ROW] * ROWS_AT_ONCE)}"
_INSERT_IF_NEW: Final = f"INSERT OR IGNORE {_INTO_MESSAGES} {_ROW}"
_COUNT: Final = "UPDATE {} SET messages = messages + ?, bytes = bytes + ? WHERE number = ?"
_COUNT_PARTS, _COUNT_CHAINS = _COUNT.format("parts"), _COUNT.format("chains")
_DELETE: Final = "DELETE FROM messages WHERE number IN ({}) RETURNING part, chain, length(CAST(body AS BLOB))"
_DELETE_OLD: Final = _DELETE.format(
    "SELECT number FROM messages WHERE part = :part AND stored_at_s < :before_s ORDER BY stored_at_s LIMIT :limit"
)
_DELETE_OF_HOLDER: Final = _DELETE.format(
    """
    SELECT number FROM (
        SELECT number, sum(size) OVER (ORDER BY stored_at_s, number ROWS UNBOUNDED PRECEDING) - size AS size_before
        FROM (
            SELECT number, stored_at_s, length(CAST(body AS BLOB)) + :overhead AS size
            FROM messages INDEXED BY messages_by_arrival
            WHERE part = :part AND chain IN (
                SELECT number FROM chains WHERE part = :part AND owner = :owner AND origin = :origin
            )
            ORDER BY stored_at_s LIMIT :limit
        )
    ) WHERE size_before < :max_bytes
    """
)
_DELETE_EMPTY_CHAINS: Final = "DELETE FROM chains WHERE messages <= 0 RETURNING owner, origin"
_LATEST: Final = "SELECT stored_at_s FROM messages ORDER BY number DESC LIMIT 1"
_FIND_CHAIN: Final = """
    SELECT chains.part, chains.number FROM parts JOIN chains ON chains.part = parts.number
    WHERE stream_id = ? AND partition = ? AND publisher = ? AND chain = ?
"""
_MAKE_PART: Final = "INSERT OR IGNORE INTO parts (stream_id, partition) VALUES (?, ?)"
_FIND_PART: Final = "SELECT number FROM parts WHERE stream_id = ? AND partition = ?"
_MAKE_CHAIN: Final = "INSERT INTO chains (part, publisher, chain, owner, origin) VALUES (?, ?, ?, ?, ?)"
_WEIGHT: Final = f"sum(bytes + messages * {MESSAGE_OVERHEAD_BYTES})"
_HEAVIEST: Final = f"""
    SELECT {{column}}, {_WEIGHT}, sum(messages) FROM chains WHERE {{where}} GROUP BY {{column}}
    HAVING {_WEIGHT} > :beyond ORDER BY {_WEIGHT} DESC LIMIT 1
"""  # noqa: S608 - columns of ours

Outcome = int | Refused
"""The result for an entry: its number, 0 for a duplicate, or the reason of its refusal."""

Charge = Literal["origin", "owner"]
Key = tuple[str, int, str, str]  # stream, partition, publisher, chain
ChainNumber = tuple[int, int]  # numbers of the partition and the chain
Row = tuple[int, int, int, int, int, str]


class Entry(NamedTuple):
    """A message as it is stored."""

    part: StreamPart
    timestamp: int  # ms
    sequence: int
    publisher: str  # in lower case
    chain: str
    body: str
    holder: Holder = NO_HOLDER  # the user that is charged for it


class MessageWriter:
    def __init__(self, connection: sqlite3.Connection, chain_quota: Quota) -> None:
        self._connection = connection
        self._chain_quota = chain_quota
        self._places: dict[Key, ChainNumber] = {}
        self._latest_s: int = (connection.execute(_LATEST).fetchone() or (0,))[0]
        self._count_chains()

    def append(self, batch: Sequence[Entry], now_s: int) -> list[Outcome]:
        """Store the batch durably, except entries of a new chain beyond the quota."""
        self._latest_s = max(self._latest_s, now_s)
        try:
            with transaction(self._connection):
                return self._insert(batch)
        except BaseException:
            self.clear_cache()  # some are of the transaction that failed
            self._count_chains()
            raise

    def _insert(self, batch: Sequence[Entry]) -> list[Outcome]:
        rows: list[Row] = []
        refused: dict[int, Refused] = {}
        for index, entry in enumerate(batch):
            try:
                rows.append(self._row(entry))
            except Refused as problem:
                refused[index] = problem
        numbers = [
            number
            for start in range(0, len(rows), ROWS_AT_ONCE)
            for number in self._insert_rows(rows[start : start + ROWS_AT_ONCE])
        ]
        totals = _Totals()
        for part, _, _, chain_number, _, body in compress(rows, numbers):
            totals.add(part, chain_number, 1, len(body.encode()))
        self._count(totals)
        outcomes = iter(numbers)
        return [refused[index] if index in refused else next(outcomes) for index in range(len(batch))]

    def _row(self, entry: Entry) -> Row:
        """Raises: `Refused` if a new chain exceeds the quota."""
        key = (*entry.part, entry.publisher, entry.chain)
        place = self._places.get(key) or self._connection.execute(_FIND_CHAIN, key).fetchone()
        if place is None:
            self._chain_quota.check(entry.holder)
            place = self._make_chain(entry)
            self._chain_quota.add(entry.holder)
        if len(self._places) >= MAX_CACHED_CHAINS:
            del self._places[next(iter(self._places))]
        self._places[key] = place
        part, chain_number = place
        return part, entry.timestamp, entry.sequence, chain_number, self._latest_s, entry.body

    def _make_chain(self, entry: Entry) -> ChainNumber:
        self._connection.execute(_MAKE_PART, entry.part)
        (part,) = self._connection.execute(_FIND_PART, entry.part).fetchone()
        row = (part, entry.publisher, entry.chain, *entry.holder)
        return part, cast("int", self._connection.execute(_MAKE_CHAIN, row).lastrowid)

    def _insert_rows(self, rows: list[Row]) -> list[int]:
        """Insert rows. Returns their numbers, 0 for duplicates.

        Usually all are new and are inserted at once; if there is a duplicate, or they are few, one by one.
        """
        if len(rows) == ROWS_AT_ONCE:
            with suppress(sqlite3.IntegrityError):  # a duplicate: none was inserted
                last = self._connection.execute(_INSERT_ALL, tuple(chain.from_iterable(rows))).lastrowid or 0
                return list(range(last - len(rows) + 1, last + 1))
        return [self._insert_if_new(row) for row in rows]

    def _insert_if_new(self, row: Row) -> int:
        inserted = self._connection.execute(_INSERT_IF_NEW, row)
        return inserted.lastrowid or 0 if inserted.rowcount == 1 else 0

    def delete_old(self, part: int, before_s: int, limit: int) -> int:
        """Delete up to `limit` messages of the partition that were stored before this, the oldest first."""
        return self._delete(_DELETE_OLD, {"part": part, "before_s": before_s, "limit": limit})

    def delete_of_heaviest(self, limit: int, *, max_bytes: int, by: Charge = "origin", beyond_bytes: int = 0) -> int:
        """Delete the oldest messages of the heaviest user with more than `beyond_bytes`: at most `limit` messages,
        until `max_bytes` are freed or `beyond_bytes` are left.

        The heaviest origin is chosen, then its heaviest owner (or the other way round), then their largest partition:
        many identities of one machine count together.
        """
        order = ("origin", "owner", "part") if by == "origin" else ("owner", "origin", "part")
        chosen: dict[str, object] = {}
        for column in order:
            found = self._heaviest(column, chosen, beyond_bytes if column == by else 0)
            if found is None:
                return 0
            chosen[column], weight, messages = found
            if column == by:
                max_bytes = min(max_bytes, weight - beyond_bytes)
        limit = min(limit, 1 + 2 * max_bytes * messages // weight)  # reads few messages if they are large
        bounds = {"limit": limit, "max_bytes": max_bytes, "overhead": MESSAGE_OVERHEAD_BYTES}
        return self._delete(_DELETE_OF_HOLDER, {**chosen, **bounds})

    def _heaviest(self, column: str, chosen: Mapping[str, object], beyond_bytes: int) -> tuple[object, int, int] | None:
        """The heaviest value of a column, its weight, and its number of messages."""
        where = " AND ".join(f"{name} = :{name}" for name in chosen) or "messages > 0"
        sql = _HEAVIEST.format(column=column, where=where)
        found = self._connection.execute(sql, {**chosen, "beyond": beyond_bytes}).fetchone()
        return cast("tuple[object, int, int] | None", found)

    def _delete(self, sql: str, parameters: Mapping[str, object]) -> int:
        totals = _Totals()
        with transaction(self._connection):
            for part, chain_number, size in self._connection.execute(sql, parameters).fetchall():
                totals.add(part, chain_number, -1, -size)
            self._count(totals)
            gone = self._delete_empty_chains()
        self._release(gone)
        return -totals.messages.total()

    def _count(self, totals: "_Totals") -> None:
        self._connection.executemany(_COUNT_PARTS, totals.of_parts())
        self._connection.executemany(_COUNT_CHAINS, totals.of_chains())

    def _delete_empty_chains(self) -> list[Holder]:
        return [Holder(*row) for row in self._connection.execute(_DELETE_EMPTY_CHAINS).fetchall()]

    def _release(self, holders: list[Holder]) -> None:
        for holder in holders:
            self._chain_quota.add(holder, -1)
        if holders:
            self.clear_cache()

    def _count_chains(self) -> None:
        rows = self._connection.execute("SELECT owner, origin, count(*) FROM chains GROUP BY owner, origin").fetchall()
        self._chain_quota.clear()
        for owner, origin, count in rows:
            self._chain_quota.add(Holder(owner, origin), count)

    def drop_empty_parts(self) -> None:
        """Delete partitions and chains without messages."""
        with transaction(self._connection):
            self._connection.execute("DELETE FROM parts WHERE messages = 0")
            gone = self._delete_empty_chains()
        self._release(gone)
        self.clear_cache()

    def clear_cache(self) -> None:
        self._places.clear()


class _Totals:
    """Changes of the numbers of messages and bytes, by partition and chain."""

    def __init__(self) -> None:
        self.messages: Counter[tuple[int, int]] = Counter()
        self._sizes: Counter[tuple[int, int]] = Counter()

    def add(self, part: int, chain_number: int, messages: int, size: int) -> None:
        self.messages[part, chain_number] += messages
        self._sizes[part, chain_number] += size

    def of_chains(self) -> list[tuple[int, int, int]]:
        return [(count, self._sizes[key], key[1]) for key, count in self.messages.items()]

    def of_parts(self) -> list[tuple[int, int, int]]:
        messages, sizes = Counter[int](), Counter[int]()
        for (part, chain_number), count in self.messages.items():
            messages[part] += count
            sizes[part] += self._sizes[part, chain_number]
        return [(count, sizes[part], part) for part, count in messages.items()]


class transaction:  # noqa: N801 - used as a statement, like a function
    """BEGIN … COMMIT, or ROLLBACK if the block raises."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self._connection.execute("COMMIT")
        elif self._connection.in_transaction:
            self._connection.execute("ROLLBACK")
