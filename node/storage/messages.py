"""Writing messages, and deleting those that are kept no longer. Runs in the thread of the writing connection.

A batch is one transaction: all of it is on the disk when `append` returns, or none of it.
"""

import sqlite3
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from contextlib import suppress
from itertools import chain, compress
from typing import Final, NamedTuple, TypeVar

from node.streams import StreamPart

__all__ = ["Entry", "MessageWriter"]

MAX_REMEMBERED_NUMBERS: Final = 10_000
ROWS_AT_ONCE: Final = 32  # half the cost of one by one; more gain little

_INTO_MESSAGES: Final = "INTO messages (part, timestamp, sequence, chain, stored_at_s, body) VALUES"
_ROW: Final = "(?, ?, ?, ?, ?, ?)"
_INSERT_ALL: Final = f"INSERT {_INTO_MESSAGES} {', '.join([_ROW] * ROWS_AT_ONCE)}"
_INSERT_IF_NEW: Final = f"INSERT OR IGNORE {_INTO_MESSAGES} {_ROW}"
_COUNT: Final = "UPDATE parts SET messages = messages + ?, bytes = bytes + ? WHERE number = ?"
_DELETE: Final = "DELETE FROM messages WHERE number IN ({}) RETURNING part, length(CAST(body AS BLOB))"
_DELETE_OLD: Final = _DELETE.format(
    "SELECT number FROM messages WHERE part = ? AND stored_at_s < ? ORDER BY stored_at_s LIMIT ?"
)
_DELETE_FIRST: Final = _DELETE.format("SELECT number FROM messages ORDER BY number LIMIT ?")
_LATEST: Final = "SELECT stored_at_s FROM messages ORDER BY number DESC LIMIT 1"

Key = TypeVar("Key", bound=Hashable)
Row = tuple[int, int, int, int, int, str]


class Entry(NamedTuple):
    """A message as it is stored."""

    part: StreamPart
    timestamp: int  # ms
    sequence: int
    publisher: str  # in lower case
    chain: str
    body: str


class MessageWriter:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._parts: dict[StreamPart, int] = {}
        self._chains: dict[tuple[int, str, str], int] = {}
        self._latest_s: int = (connection.execute(_LATEST).fetchone() or (0,))[0]

    def append(self, batch: Sequence[Entry], now_s: int) -> list[bool]:
        """Store the batch, durably. For each entry, whether it is new: false where the same was stored before."""
        self._latest_s = max(self._latest_s, now_s)
        try:
            with transaction(self._connection):
                return self._insert(batch)
        except BaseException:
            self.forget_numbers()  # some were given out by the transaction that did not happen
            raise

    def _insert(self, batch: Sequence[Entry]) -> list[bool]:
        rows = [self._row(entry) for entry in batch]
        fresh = [
            is_new
            for start in range(0, len(rows), ROWS_AT_ONCE)
            for is_new in self._insert_rows(rows[start : start + ROWS_AT_ONCE])
        ]
        messages, sizes = Counter[int](), Counter[int]()
        for part, *_, body in compress(rows, fresh):
            messages[part] += 1
            sizes[part] += len(body.encode())
        self._count(messages, sizes)
        return fresh

    def _row(self, entry: Entry) -> Row:
        part = self._part_number(entry.part)
        chain_number = self._chain_number(part, entry.publisher, entry.chain)
        return part, entry.timestamp, entry.sequence, chain_number, self._latest_s, entry.body

    def _insert_rows(self, rows: list[Row]) -> list[bool]:
        """All at once, as they are all new mostly; where they are too few or one is not, one by one."""
        if len(rows) == ROWS_AT_ONCE:
            with suppress(sqlite3.IntegrityError):  # then none of them was inserted
                self._connection.execute(_INSERT_ALL, tuple(chain.from_iterable(rows)))
                return [True] * len(rows)
        return [self._connection.execute(_INSERT_IF_NEW, row).rowcount == 1 for row in rows]

    def delete_old(self, part: int, before_s: int, limit: int) -> int:
        """Delete up to `limit` messages of the partition that were stored before this, the oldest first."""
        return self._delete(_DELETE_OLD, (part, before_s, limit))

    def delete_first(self, limit: int) -> int:
        """Delete those of all messages that were stored first."""
        return self._delete(_DELETE_FIRST, (limit,))

    def _delete(self, sql: str, parameters: tuple[int, ...]) -> int:
        messages, sizes = Counter[int](), Counter[int]()
        with transaction(self._connection):
            for part, size in self._connection.execute(sql, parameters).fetchall():
                messages[part] -= 1
                sizes[part] -= size
            self._count(messages, sizes)
        return -messages.total()

    def _count(self, messages: Counter[int], sizes: Counter[int]) -> None:
        self._connection.executemany(_COUNT, [(messages[part], sizes[part], part) for part in messages])

    def drop_empty_parts(self) -> None:
        """Forget partitions that hold nothing, and their chains."""
        with transaction(self._connection):
            self._connection.execute("DELETE FROM parts WHERE messages = 0")
            self._connection.execute("DELETE FROM chains WHERE part NOT IN (SELECT number FROM parts)")
        self.forget_numbers()

    def forget_numbers(self) -> None:
        self._parts.clear()
        self._chains.clear()

    def _part_number(self, part: StreamPart) -> int:
        if (number := self._parts.get(part)) is None:
            number = self._number_of("parts", ("stream_id", "partition"), part)
            _remember(self._parts, part, number)
        return number

    def _chain_number(self, part: int, publisher: str, chain: str) -> int:
        key = (part, publisher, chain)
        if (number := self._chains.get(key)) is None:
            number = self._number_of("chains", ("part", "publisher", "chain"), key)
            _remember(self._chains, key, number)
        return number

    def _number_of(self, table: str, columns: Sequence[str], values: Iterable[object]) -> int:
        names, marks = ", ".join(columns), ", ".join("?" * len(columns))
        values = tuple(values)
        self._connection.execute(f"INSERT OR IGNORE INTO {table} ({names}) VALUES ({marks})", values)  # noqa: S608
        where = " AND ".join(f"{column} = ?" for column in columns)
        row = self._connection.execute(f"SELECT number FROM {table} WHERE {where}", values).fetchone()  # noqa: S608
        return int(row[0])


class transaction:  # noqa: N801 - used as a statement, like a function
    """BEGIN … COMMIT, or ROLLBACK where the block raises."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self._connection.execute("COMMIT")
        elif self._connection.in_transaction:
            self._connection.execute("ROLLBACK")


def _remember(numbers: dict[Key, int], key: Key, number: int) -> None:
    if len(numbers) >= MAX_REMEMBERED_NUMBERS:
        del numbers[next(iter(numbers))]
    numbers[key] = number
